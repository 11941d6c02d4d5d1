"""Redacts a text that comes in pieces, as one would redact the whole of it.

Owns what must be held back. Called by the `relay redact` filter and by whoever rewrites an agent's output.
A line is passed on as soon as its end is seen; of an unfinished line, everything up to the last blank or
`",` that no secret can reach across; a private key block only when its end is known.
"""

from __future__ import annotations

import re

from relay.core.redact import DEFAULT, Redactor
from relay.core.redact_pem import BLOCK_MAX, read_block

HOLD_MAX = 2 * BLOCK_MAX
"""Characters held back at most. A longer run without any break is judged in pieces of this size."""

_TAIL = 8192
_REACH = 160
_BEGIN = "-----BEGIN"
# Names after which a secret may follow behind a blank, at most _REACH characters further on.
_OPENERS = re.compile("token|secret|passw|credential|authorization|key|cursor|-----begin")
_BREAKS = ("\n", " ", "\t", '",')


class StreamRedactor:
    """A redactor for one stream of text; feed it in pieces of any size, then close it.

    Args:
        redactor: the rules to use.
    """

    def __init__(self, redactor: Redactor = DEFAULT) -> None:
        self._redactor = redactor
        self._held: list[str] = []
        self._size = 0
        self.counts: dict[str, int] = {}
        """How many secrets were replaced so far, by kind."""

    def feed(self, text: str) -> str:
        """Take the next piece; returns what is certain by now, redacted. May be empty."""
        self._held.append(text)
        self._size += len(text)
        # Only the second half of a break may have come.
        if not any(mark[-1] in text for mark in _BREAKS) and self._size <= HOLD_MAX:
            return ""
        held = "".join(self._held)
        cut = _safe_cut(held)
        if len(held) - cut > HOLD_MAX:
            cut = self._forced_cut(held)
        self._held = [held[cut:]]
        self._size = len(held) - cut
        return self._redact(held[:cut])

    def close(self) -> str:
        """The rest, redacted. The redactor can be used for another stream afterwards; counts go on."""
        held = "".join(self._held)
        self._held = []
        self._size = 0
        return self._redact(held)

    def _redact(self, text: str) -> str:
        done = self._redactor.redact(text)
        for kind, number in done.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + number
        return done.text

    def _forced_cut(self, held: str) -> int:
        cut = len(held) - _TAIL
        for start, end in self._redactor.spans(held):
            if start < cut < end:
                return start or end
        return cut


def _safe_cut(text: str) -> int:
    """How much of `text` can be judged whatever follows."""
    line = text.rfind("\n") + 1
    cut = _cut_in_line(text, line)
    blocks: list[tuple[int, int]] = []
    start = text.find(_BEGIN, 0, cut)
    while start >= 0:
        block = read_block(text, start)
        if block is not None:
            blocks.append((start, block.end))
            if block.open or block.end > cut:
                cut = text.rfind("\n", 0, start) + 1
                break
        start = text.find(_BEGIN, start + 1, cut)
    # The line where a held block begins may be the last one of a block before it.
    while blocks:
        start, end = blocks.pop()
        if start < cut < end:
            cut = text.rfind("\n", 0, start) + 1
    return cut


def _cut_in_line(text: str, line: int) -> int:
    """The last place in the unfinished line that starts at `line` across which no rule can match."""
    end = len(text)
    while True:
        place = max(text.rfind(" ", line, end), text.rfind("\t", line, end))
        comma = text.rfind('",', line, end)
        cut = max(place + 1, comma + 2 if comma >= 0 else 0)
        if cut <= line:
            return line
        first = max(line, cut - _REACH)
        opener = _OPENERS.search(text[first:cut].lower())
        if opener is None:
            return cut
        end = first + opener.start()
