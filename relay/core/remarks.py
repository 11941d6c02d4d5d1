"""What can be taken from prose: decisions, constraints and the announced next step.

Conservative on purpose: a missed decision costs a question, an invented one misleads the next agent.
Code blocks, quotes, tables and questions are passed over. Used by `relay.core.facts` on every message
of an agent and of the user; linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from relay.core.quoting import one_line

MAX_TEXT = 300
"""Most characters of one remark."""

_SCAN = 64 * 1024
_LONGEST_LINE = 1000
_DECISION_HINTS = ("decid", "decision", "chose", "going with", "go with", "instead of", "rather than")
_CONSTRAINT_HINTS = ("constraint", "must not", "must never")
_NEXT_HINTS = ("next", "remain", "to do", "todo", "to-do")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BULLET = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_MARKUP = re.compile(r"\*\*|__|^#{1,6}\s+")
_DECISION = re.compile(r"(?:(?:key|design|main)\s+)?decisions?(?:\s+made)?\s*[:\u2014]\s*(.*)", re.IGNORECASE)
_DECIDED = re.compile(
    r"(?:(?:I|We)(?:['\u2019]ve| have)?|So I|So we)\s+(?:decided\s+(?:to|on|against|that|not)\b|chose\b|"
    r"(?:am|are)\s+going with\b).+|Decided\s*(?::|to\b|on\b|against\b).+|"
    r"(?:I|We)(?:['\u2019]ll|\s+will)\s+(?:go\s+with\b|use\b.{1,120}\b(?:instead\s+of|rather\s+than)\b).+",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(r"(?:(?:hard|key)\s+)?constraints?\s*[:\u2014]\s*(.*)", re.IGNORECASE)
_MUST_NOT = re.compile(r"\bmust (?:not|never)\b", re.IGNORECASE)
_USER_RULE = re.compile(
    r"\b(?:do\s+not|don['\u2019]?t|must(?:n['\u2019]t)?|avoid|make\s+sure|ensure)\b|"
    r"(?<!\bI )(?<!\bwe )(?<!\bit )\b(?:never|always)\b|(?<!\bthe )(?<!\bif )\bonly\b|"
    r"\b(?:should|may)(?:n['\u2019]t|\s+not)\b|\b(?:has|have)\s+to\s+(?:stay|be|keep|remain)\b|"
    r"\bno\s+(?:new|more|other|further|additional|extra|breaking|external|third[- ]party)\b|"
    r"\bwithout\s+(?:changing|breaking|touching|adding|using|altering|modifying|removing|losing)\b|"
    r"\b(?:keep|leave)\b.{1,120}\b(?:alone|untouched|unchanged|intact|compatible|stable|the\s+same|"
    r"as\s+(?:it|they)\s+(?:is|are))\b|"
    r"\b(?:stay|remain)s?\b.{1,60}\b(?:compatible|supported|unchanged|the\s+same)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"(?:none|nothing|n/?a|tbd|pending|unknown|not\s+yet\b.*|no(?:\s+(?:new|further|other|more|special|open|known))?"
    r"(?:\s+(?:decisions?|constraints?|limits?|next\s+steps?|steps?|actions?|one))?"
    r"(?:\s+(?:yet|so\s+far|left|made|needed|required|remain(?:s|ing)?))?)(?:\s+(?:yet|so\s+far))?[.!]?",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[^a-z\s])")
_NEXT = re.compile(
    r"(?:next(?:\s+(?:steps?|action|up))?|what\s+remains|remaining(?:\s+(?:steps?|tasks?|work))?|"
    r"(?:still\s+|left\s+)?to[- ]?do)\s*(?:[:\u2014]|\s-\s)\s*(.*)|"
    r"next,?\s+(?:I(?:['\u2019]ll|\s+will|\s+would)|we(?:['\u2019]ll|\s+will))\s+(.+)",
    re.IGNORECASE,
)


def decisions_in(text: str) -> tuple[str, ...]:
    """The decisions that an agent's message states, in order, each on one line.

    Lines such as "Decision: ..." or "I decided to ...", and the bullets under a "Decisions:" heading.
    """
    return tuple(_collect(text, _DECISION_HINTS, _DECISION, _DECIDED))


def constraints_in(text: str) -> tuple[str, ...]:
    """The constraints that an agent's message states: "Constraint: ...", and what "must not" be."""
    return tuple(_collect(text, _CONSTRAINT_HINTS, _CONSTRAINT, _MUST_NOT))


def rules_in(text: str) -> tuple[str, ...]:
    """The sentences of a user's message that bind: do not, must, never, always, only."""
    found: dict[str, None] = {}
    for line, _ in _lines(text):
        for sentence in _SENTENCE.split(line):
            if _USER_RULE.search(sentence) and not sentence.endswith("?"):
                found[one_line(sentence, MAX_TEXT)] = None
    return tuple(found)


def announced_next(text: str) -> str:
    """What a message says comes next ("Next: ...", "Next steps:" and its first bullet), or ""."""
    awaiting = False
    found = ""
    if not _hinted(text, _NEXT_HINTS):
        return ""
    for line, bullet in _lines(text):
        if awaiting:
            awaiting = False
            if bullet:
                found = line
                continue
        match = _NEXT.match(line)
        if match:
            said = (match[1] or match[2] or "").strip()
            awaiting = not said
            if said and not _NOTHING.fullmatch(said):
                found = said
    return one_line(found, MAX_TEXT)


def _collect(
    text: str, hints: tuple[str, ...], heading: re.Pattern[str], sentence: re.Pattern[str]
) -> Iterator[str]:
    # Most messages state nothing: a plain look at the whole, far cheaper than a pattern, is all they cost.
    if not _hinted(text, hints):
        return
    listing = False
    for line, bullet in _lines(text):
        if listing and bullet and not heading.match(line):
            yield one_line(line, MAX_TEXT)
            continue
        listing = False
        if not _hinted(line, hints):
            continue
        match = heading.match(line)
        if match:
            said = match[1].strip()
            listing = not said
            if said and not _NOTHING.fullmatch(said) and not said.endswith("?"):
                yield one_line(said, MAX_TEXT)
            continue
        for part in _SENTENCE.split(line):
            hit = sentence.match(part) if sentence is _DECIDED else sentence.search(part)
            if hit and not part.endswith("?"):
                yield one_line(part, MAX_TEXT)


def _hinted(text: str, hints: tuple[str, ...]) -> bool:
    low = text[:_SCAN].lower()
    return any(hint in low for hint in hints)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Lines of prose without their markup, and whether each was a bullet."""
    fenced = False
    for raw in text[:_SCAN].split("\n"):
        if _FENCE.match(raw):
            fenced = not fenced
            continue
        if fenced or not raw.strip() or raw.lstrip()[0] in ">|":
            continue
        bullet = _BULLET.match(raw)
        if bullet is None and raw.startswith(("    ", "\t")):
            continue
        line = _MARKUP.sub("", raw[bullet.end() if bullet else 0 :].strip()[:_LONGEST_LINE]).strip()
        for number, remark in enumerate(_remarks(line)):
            yield remark, bullet is not None and not number


def _remarks(line: str) -> Iterator[str]:
    """The line, cut where a heading begins within it: "The tests pass. Next: the documentation."."""
    begun = 0
    for gap in _SENTENCE.finditer(line):
        if any(heading.match(line, gap.end()) for heading in (_NEXT, _DECISION, _CONSTRAINT)):
            yield line[begun : gap.start()]
            begun = gap.end()
    if line[begun:]:
        yield line[begun:]
