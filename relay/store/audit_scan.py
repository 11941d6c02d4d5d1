"""Walks an audit log line by line: the part that opening and verifying have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from relay.core.audit import NO_HASH, AuditLine, BadLine, read_line
from relay.store.atomic import OPS, FileOps

MAX_LINE = 128 * 1024 * 1024
"""Bytes. A file without newlines must not fill the memory."""

_PIECE = 1 << 20


@frozen(kw_only=True)
class Fault:
    """The first line that is not as it must be.

    Args:
        line: its number in the file, from 1.
        offset: where it begins.
        reason: for people, following on "line 7 ".
        torn: it has not even the form of a line, as after a crash; the line itself was not edited.
        ends: it is the last of the file and its newline is missing.
    """

    line: int
    offset: int
    reason: str
    torn: bool
    ends: bool = False


@frozen(kw_only=True)
class Scan:
    """The good part of a log, from its start to the first fault.

    Args:
        count: entries.
        head: hash of the last one, NO_HASH when there is none.
        size: bytes.
        fault: what stands behind the good part, if anything.
        reached: the head had the wanted hash when the count was the wanted one.
    """

    count: int
    head: str
    size: int
    fault: Fault | None
    reached: bool


def lines(
    fd: int, start: int = 0, end: int | None = None, *, ops: FileOps = OPS
) -> Iterator[tuple[int, bytes]]:
    """Each line with its newline and the offset where it begins; the last may lack the newline.

    Only 0x0A ends a line. A line beyond MAX_LINE is given cut, as the last one. Raises OSError.

    Args:
        start: offset of the first line.
        end: read no further than this offset.
    """
    offset, rest = start, bytearray()
    while True:
        ask = _PIECE if end is None else min(_PIECE, end - offset - len(rest))
        piece = ops.pread(fd, ask, offset + len(rest)) if ask > 0 else b""
        if not piece or len(rest) > MAX_LINE:
            break
        if b"\n" not in piece:
            rest += piece
            continue
        whole, _, tail = piece.rpartition(b"\n")
        for line in (bytes(rest) + whole).split(b"\n"):
            yield offset, line + b"\n"
            offset += len(line) + 1
        rest = bytearray(tail)
    if rest:
        yield offset, bytes(rest)


def scan(
    fd: int,
    *,
    start: int = 0,
    count: int = 0,
    head: str = NO_HASH,
    want: tuple[int, str] | None = None,
    seen: Callable[[AuditLine], None] | None = None,
    ops: FileOps = OPS,
) -> Scan:
    """Check the chain from `start` on, where `count` entries with this `head` lie before.

    Args:
        want: a count and the hash that the entry of that number must have.
        seen: called with each good entry.

    Raises:
        OSError: the file cannot be read.
    """
    last: AuditLine | None = None
    size, reached = start, want is not None and want == (count, head)
    walk = lines(fd, start, ops=ops)
    for offset, raw in walk:
        number = count + 1
        entry = read_line(raw[:-1]) if raw.endswith(b"\n") else _unfinished()
        if isinstance(entry, BadLine):
            fault = Fault(
                line=number, offset=offset, reason=entry.reason, torn=entry.torn, ends=raw[-1:] != b"\n"
            )
            return Scan(count=count, head=head, size=size, fault=fault, reached=reached)
        if entry.prev_hash != head:
            following = next(walk, (0, b""))[1]
            fault = _broken_link(number, offset, entry, head, last, read_line(following.rstrip(b"\n")))
            return Scan(count=count, head=head, size=size, fault=fault, reached=reached)
        last = entry
        count, head, size = number, entry.hash, offset + len(raw)
        if want == (count, head):
            reached = True
        if seen is not None:
            seen(entry)
    return Scan(count=count, head=head, size=size, fault=None, reached=reached)


def _unfinished() -> BadLine:
    return BadLine(reason="is incomplete", torn=True)


def _broken_link(
    number: int,
    offset: int,
    entry: AuditLine,
    head: str,
    last: AuditLine | None,
    after: AuditLine | BadLine,
) -> Fault:
    if last and entry.hash == last.hash:
        return Fault(line=number, offset=offset, reason="repeats the line before it", torn=False)
    if last and entry.prev_hash == last.prev_hash:
        return Fault(
            line=number - 1,
            offset=offset,
            reason=f"was inserted: line {number} follows on the line before it",
            torn=False,
        )
    if isinstance(after, AuditLine) and after.prev_hash == head:
        return Fault(line=number, offset=offset, reason="was inserted here or moved here", torn=False)
    if number == 1:
        return Fault(
            line=1, offset=offset, reason="is not the first one: lines before it are gone", torn=False
        )
    return Fault(
        line=number,
        offset=offset,
        reason="does not follow on the line before it: lines between them are gone, or it was moved here",
        torn=False,
    )
