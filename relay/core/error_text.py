"""The text of an error made ready for matching, and where in it an error may begin to speak.

Words count as an error only at the head of a line, behind nothing but decoration, a time stamp, a level
or a prefix that announces an error: an agent that quotes a banner in a sentence, or prints code that
holds one, is thereby told apart.
"""

from __future__ import annotations

import re

from attrs import frozen

LONGEST = 32_768
MOST_LINES = 400

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2060\ufeff\u00ad\x00-\x08\x0e-\x1b\x7f\ud800-\udfff]")
_STRAIGHT = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})

_DECORATION = re.compile(
    r"[^\w\[{(<>\"'`#|+\-]{0,12}"
    r"(?:\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,18}(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?[ :]{1,3})?"
    r"(?:\[?(?:ERROR|WARN|WARNING|FATAL|INFO)\b\]?[: ]{1,3})?"
    r"(?:[a-z_]\w{0,40}(?:::\w{1,40}){1,8}: )?"
)
_ANNOUNCED = re.compile(
    r"(?P<api>\[?(?:API|HTTP|Backend|Provider|LLM provider|Connect|Upstream request|Model call)"
    r" (?:error|failed)\b(?=[:(\]]| [(\[0-9])"
    r"|unexpected status [0-9]{3}\b|[45][0-9]{2} (?=\{|you)|HTTP [45][0-9]{2}\b"
    r"|(?:Retrying (?:in|after) [^:]{1,40}|Attempt [0-9]{1,3}(?: of [0-9]{1,3})?) ?(?:failed\b|: )"
    r"|litellm\.\w{1,40}:|request rejected \([0-9]{3}\))"
    r"|\[?_?(?:[A-Za-z][\w.]{0,60})?(?:Error|Exception|ERROR|error)(?: from provider| code)?"
    r"(?: ?\([^()]{0,60}\))?(?:\]|:| (?=\())"
    r"|(?:Internal|Fatal|Unhandled|Unexpected|Stream|Request|Execution|Query) (?:error|failed)\b[^:]{0,30}:",
    re.IGNORECASE,
)

# On stderr a line that begins with the word announces an error too: "Error when talking to ...".
_ANNOUNCED_ON_STDERR = re.compile(r"_?(?:[A-Za-z][\w.]{0,60})?(?:Error|Exception|ERROR)\b", re.ASCII)


@frozen(kw_only=True)
class Flat:
    """A text with single spaces, straight quotes and no control characters.

    Args:
        text: the whole on one line.
        heads: where the lines began, in order.
    """

    text: str
    heads: tuple[int, ...]


@frozen(kw_only=True)
class Head:
    """A place where an error may begin to speak.

    Args:
        start: behind the decoration: the first character of the prefix or the words.
        words: behind the prefix.
        announced: a prefix says that an error follows.
        api: the prefix is one of an API client, not of any program.
    """

    start: int
    words: int
    announced: bool
    api: bool


def flatten(text: str, *, tail: bool = False) -> Flat:
    """Make a text ready for matching.

    Args:
        text: as printed, of any length; a long one is cut.
        tail: cut a long text's beginning rather than its end.
    """
    cut = text[-LONGEST:] if tail else text[:LONGEST]
    clean = _INVISIBLE.sub("", _ESCAPES.sub("", cut)).translate(_STRAIGHT)
    pieces, heads, length = [], [], 0
    for line in clean.replace("\r", "\n").split("\n"):
        words = " ".join(line.split())
        if words:
            heads.append(length)
            pieces.append(words)
            length += len(words) + 1
    return Flat(text=" ".join(pieces), heads=tuple(heads))


def heads_of(flat: Flat, *, every_line: bool) -> tuple[Head, ...]:
    """The places where an error may begin: the first line's, or every line's with the last one first."""
    starts = flat.heads[-MOST_LINES:][::-1] if every_line else flat.heads[:1]
    return tuple(_head(flat.text, start, on_stderr=every_line) for start in starts)


def _head(text: str, line_start: int, *, on_stderr: bool) -> Head:
    skipped = _DECORATION.match(text, line_start)
    start = skipped.end() if skipped else line_start
    prefix = _ANNOUNCED.match(text, start)
    if prefix is None:
        announced = on_stderr and _ANNOUNCED_ON_STDERR.match(text, start) is not None
        announced = announced or re.search(r"ERROR|FATAL", text[line_start:start]) is not None
        return Head(start=start, words=start, announced=announced, api=False)
    return Head(start=start, words=prefix.end(), announced=True, api=prefix["api"] is not None)
