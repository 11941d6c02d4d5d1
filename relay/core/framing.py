"""Bytes of a stream, cut into lines. Pure; used by whoever follows a child's output or reads a transcript.

Only byte 0x0A ends a line: characters such as U+2028 that `str.splitlines` would cut at stand inside JSON
records. Lines are handed on as bytes, so that a character split over two reads is decoded whole.
"""

from __future__ import annotations

from attrs import frozen

LINE_LIMIT = 32 * 1024 * 1024
"""Bytes of a line that are kept (agents print whole pictures in one record)."""


@frozen(kw_only=True)
class Line:
    """One line of a stream.

    Args:
        data: its bytes without the newline, nor the carriage return before it.
        end: offset in the stream behind its newline (or behind its last byte, at the end of the stream).
        cut: it was longer than the limit; `data` is its beginning.
    """

    data: bytes
    end: int
    cut: bool = False


class LineFramer:
    """Cuts a stream into lines, whatever the pieces it comes in.

    Holds at most one line, up to the limit: the rest of a longer one is counted and dropped.

    Args:
        limit: bytes of a line that are kept.
        base: offset in the stream of the first byte that will be fed.
    """

    def __init__(self, limit: int = LINE_LIMIT, base: int = 0) -> None:
        self._limit = limit
        self._at = base
        self._held = bytearray()
        self._dropped = False

    @property
    def pending(self) -> int:
        """Bytes held of the line that has not ended yet."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes of the stream; returns the lines that they complete."""
        pieces = data.split(b"\n")
        rest = pieces.pop()
        lines = []
        for piece in pieces:
            self._at += len(piece) + 1
            if self._held or self._dropped or len(piece) > self._limit:
                self._hold(piece)
                lines.append(self._take())
            else:
                lines.append(Line(data=piece.removesuffix(b"\r"), end=self._at))
        if rest:
            self._at += len(rest)
            self._hold(rest)
        return lines

    def close(self) -> Line | None:
        """The stream has ended: its last line, if that has no newline."""
        return self._take() if self._held or self._dropped else None

    def _hold(self, piece: bytes) -> None:
        room = self._limit - len(self._held)
        if len(piece) > room:
            self._dropped = True
            piece = piece[:room]
        self._held += piece

    def _take(self) -> Line:
        data, cut = bytes(self._held), self._dropped
        self._held = bytearray()
        self._dropped = False
        return Line(data=data if cut else data.removesuffix(b"\r"), end=self._at, cut=cut)
