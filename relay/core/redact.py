"""Scrubs secrets out of texts, JSON-like values and events.

Owns the search and the replacement; the shapes are in `relay.core.redact_rules`. The adapter actor calls
it on every event before anything else sees it, and every writer of foreign text calls it once more.

A secret becomes `[REDACTED:<kind>]`; the text around it is kept to the character, and a valid JSON line
stays one. Redacting twice gives the same as redacting once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import attrs
from attrs import field, frozen

from relay.core.redact_rule import Rule
from relay.core.redact_rules import RULES
from relay.core.redact_walk import collect, rebuild

T = TypeVar("T")

MARKER = re.compile(r"\[REDACTED:[a-z0-9_]{1,40}\]")
"""What a secret was replaced by."""

_MARKER_START = "[REDACTED:"
_SHORTEST = 9
_PASSES_MAX = 8
_RUN_AHEAD = "(?=[0-9A-Za-z_-]{10})"
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}")


@frozen(kw_only=True)
class Redacted:
    """A text without its secrets.

    Args:
        text: the scrubbed text.
        counts: how many were replaced, by kind; empty for a clean text.
    """

    text: str
    counts: Mapping[str, int] = field(factory=dict)


@frozen(kw_only=True)
class _Gate:
    """The anchors of one pivot in one expression; capture group n means the rules `choices[n - 1]`.

    The groups are empty and stand behind the anchors: a branch that begins with a literal is given up
    after one comparison.
    """

    search: re.Pattern[str]
    folded: bool
    choices: tuple[tuple[int, ...], ...]


def _gates(rules: tuple[Rule, ...]) -> tuple[_Gate, ...]:
    pivots: dict[tuple[bool, str], list[int]] = {}
    for number, rule in enumerate(rules):
        pivots.setdefault((rule.folded, rule.pivot), []).append(number)
    gates = []
    for (folded, pivot), numbers in pivots.items():
        anchors: dict[tuple[bool, str], list[int]] = {}
        for number in sorted(numbers, key=lambda number: not rules[number].near):
            anchors.setdefault((not rules[number].near, rules[number].anchor), []).append(number)
        near = _pairs(rules[number].near for number in numbers)
        running = "|".join(f"(?:{anchor})()" for plain, anchor in anchors if not plain)
        branches = [f"(?<=(?:{near}){re.escape(pivot)}){_RUN_AHEAD}(?:{running})"] if running else []
        branches += [f"(?:{anchor})()" for plain, anchor in anchors if plain]
        gates.append(
            _Gate(
                search=re.compile(f"{re.escape(pivot)}(?:{'|'.join(branches)})"),
                folded=folded,
                choices=tuple(tuple(chosen) for chosen in anchors.values()),
            )
        )
    return tuple(gates)


def _pairs(pairs: Iterable[str]) -> str:
    """An expression for any of these two-character texts that fails after one comparison a first letter."""
    seconds: dict[str, str] = {}
    for pair in sorted({pair for pair in pairs if pair}):
        seconds[pair[0]] = seconds.get(pair[0], "") + pair[1]
    return "|".join(f"{re.escape(first)}[{re.escape(second)}]" for first, second in seconds.items())


def _fold(text: str) -> str:
    # The one letter whose lower case is longer, which would shift every index behind it.
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()


@frozen(kw_only=True)
class Redactor:
    """Replaces what its rules match. Immutable; one serves the whole process.

    Args:
        rules: the table; where two rules match the same text the earlier one names it.
    """

    rules: tuple[Rule, ...] = RULES
    _search: tuple[_Gate, ...] = field(
        init=False,
        repr=False,
        eq=False,
        default=attrs.Factory(lambda self: _gates(self.rules), takes_self=True),
    )

    def redact(self, text: str) -> Redacted:
        """`text` without secrets, and how many of which kind it held."""
        counts: dict[str, int] = {}
        # A replacement can uncover another secret (one that touched it); almost always one pass is left.
        for _ in range(_PASSES_MAX):
            spans = self._spans(text)
            if not spans:
                break
            pieces: list[str] = []
            last = 0
            for start, end, number in spans:
                kind = self.rules[number].kind
                counts[kind] = counts.get(kind, 0) + 1
                pieces += (text[last:start], _MARKER_START, kind, "]")
                last = end
            pieces.append(text[last:])
            text = "".join(pieces)
        return Redacted(text=text, counts=counts)

    def is_clean(self, text: str) -> bool:
        """True when `redact(text)` would change nothing."""
        return not self._spans(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets of `text` stand: start and end of each, in order, not overlapping."""
        return [(start, end) for start, end, _ in self._spans(text)]

    def redact_value(self, value: T) -> tuple[T, dict[str, int]]:
        """A JSON-like value (strings in lists, tuples, mappings), scrubbed, and the counts by kind.

        A string under a telling key ({"password": ...}) is judged together with its key. Values of other
        types pass as they are; whatever holds no secret is returned as the same object.
        """
        counts: dict[str, int] = {}
        return self._value(value, counts), counts

    def redact_event(self, event: T) -> tuple[T, dict[str, int]]:
        """An attrs value (an AgentEvent), scrubbed in every field at any depth, and the counts by kind.

        The same object is returned when nothing changed, after one search over all its texts.
        """
        counts: dict[str, int] = {}
        return self._value(event, counts), counts

    def _value(self, value: Any, counts: dict[str, int]) -> Any:
        texts: list[str] = []
        collect(value, texts)
        # No rule reaches over a line break but for key blocks, whose BEGIN line is seen all the same.
        if not texts or not self._noticed("\n".join(texts)):
            return value
        return rebuild(
            value, lambda text: self._counted(text, counts), lambda k, v: self._named(k, v, counts)
        )

    def _counted(self, text: str, counts: dict[str, int]) -> str:
        done = self.redact(text)
        for kind, number in done.counts.items():
            counts[kind] = counts.get(kind, 0) + number
        return done.text

    def _named(self, key: str, text: str, counts: dict[str, int]) -> str:
        found: dict[str, int] = {}
        lead = f'{key}="'
        probe = self._counted(lead + text, found)
        if not probe.startswith(lead):
            return self._counted(text, counts)
        for kind, number in found.items():
            counts[kind] = counts.get(kind, 0) + number
        return probe[len(lead) :]

    def _hits(self, text: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Every noticed place: index of the pivot, and the rules to try there."""
        if len(text) < _SHORTEST:
            return
        lowered: str | None = None
        for gate in self._search:
            if gate.folded:
                lowered = _fold(text) if lowered is None else lowered
            for hit in gate.search.finditer(lowered if gate.folded and lowered is not None else text):
                yield hit.start(), gate.choices[(hit.lastindex or 1) - 1]

    def _noticed(self, text: str) -> bool:
        """Like `any(self._hits(text))`, without a generator: this is all that a clean event costs."""
        lowered = _fold(text)
        for gate in self._search:  # noqa: SIM110  (as above)
            if gate.search.search(lowered if gate.folded else text):
                return True
        return False

    def _spans(self, text: str) -> list[tuple[int, int, int]]:
        """Spans to replace, in order and apart: start, end, number of the rule that names it."""
        found: list[tuple[int, int, int]] = []
        behind: dict[int, int] = {}
        for at, numbers in self._hits(text):
            for number in numbers:
                if at < behind.get(number, 0):
                    continue
                span = self.rules[number].locate(text, at)
                if span is None:
                    continue
                behind[number] = span[1]
                if span[0] == span[1]:
                    continue
                found.append((_past_escape(text, span[0]), span[1], number))
                break
        if not found:
            return found
        if _MARKER_START in text:
            found = _outside_markers(text, found)
        return _merged(found)


def _past_escape(text: str, start: int) -> int:
    """`start`, or the index behind the \\uXXXX escape that it would cut in two."""
    near = text.rfind("\\u", max(0, start - 5), start)
    if near >= 0:
        escape = _UNICODE_ESCAPE.match(text, near)
        if escape is not None and escape.end() > start:
            return escape.end()
    return start


def _outside_markers(text: str, spans: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    markers = [found.span() for found in MARKER.finditer(text)]
    kept = []
    place = 0
    for span in sorted(spans):
        while place < len(markers) and markers[place][1] <= span[0]:
            place += 1
        if place == len(markers) or markers[place][0] >= span[1]:
            kept.append(span)
    return kept


def _merged(spans: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    spans.sort()
    merged = spans[:1]
    for start, end, number in spans[1:]:
        first, last, named = merged[-1]
        if start < last:
            merged[-1] = (first, max(last, end), min(named, number))
        else:
            merged.append((start, end, number))
    return merged


DEFAULT = Redactor()
"""The redactor of every shape Relay knows."""
