"""Tokens that a Claude Code transcript tells of, message by message.

Used by `relay.providers.claude_transcript` and `relay.providers.claude_skim`.
"""

from __future__ import annotations

from itertools import islice

import orjson

from relay.core.events import TokenUsage

_OPEN = 256
"""Messages whose rows may still come; the usage of older ones is final."""

Counts = bytes
"""Four numbers with commas between them: input, made for the cache, read from it, output."""


class MessageUsage:
    """Adds up what messages cost. Every row of a message tells its usage; the last one tells all of it.

    Numbers stay text until there are many of them: most rows of a list are never told apart from others.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, Counts] = {}
        self._settled = (0, 0, 0, 0)

    def note(self, message: bytes, counts: Counts) -> None:
        """A row of the message with that id tells these counts."""
        self._open[message] = counts
        if len(self._open) > 2 * _OPEN:
            old = list(islice(self._open, _OPEN))
            self._settled = _sum(self._settled, [self._open.pop(name) for name in old])

    def total(self) -> TokenUsage:
        """All of it so far."""
        fresh, made, cached, output = _sum(self._settled, list(self._open.values()))
        return TokenUsage(input=fresh + made, cached_input=cached, output=output)


def context_of(counts: Counts) -> int:
    """Tokens in the context after a request that cost so much."""
    return sum(orjson.loads(b"[%b]" % counts))


def _sum(before: tuple[int, int, int, int], counts: list[Counts]) -> tuple[int, int, int, int]:
    numbers: list[int] = orjson.loads(b"[%b]" % b",".join(counts))
    fresh, made, cached, output = (sum(numbers[start::4]) for start in range(4))
    return before[0] + fresh, before[1] + made, before[2] + cached, before[3] + output
