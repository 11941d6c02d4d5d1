"""Judges the end of an audit log, in a moment however long it is. Called by `relay doctor`.

The whole is judged by `relay.store.audit_verify`, which reads all of it (27 MB a second).
"""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from relay.core.audit import NO_HASH, AuditLine, BadLine, read_line
from relay.errors import IntegrityError
from relay.store.atomic import OPS, FileOps
from relay.store.audit_anchor import read_anchor
from relay.store.audit_read import opened
from relay.store.audit_scan import MAX_LINE, lines, scan
from relay.store.audit_verify import AuditVerdict, verify

WINDOW = 8 * 1024 * 1024
"""Bytes before the anchor that are read, with all that follow it."""
_WHOLE = "`relay audit verify` looks at all of it"


def verify_end(
    path: Path, anchor_path: Path, key: bytes | None, *, window: int = WINDOW, ops: FileOps = OPS
) -> AuditVerdict:
    """Check the last entries: each of them, their chain, and that the anchored one is among them.

    A log that is not longer than the window is checked as a whole. `entries` counts what was checked.

    Raises:
        NewerFormatError: a newer Relay wrote the anchor, or a short log.
        StoreError: the log cannot be read.
    """
    with opened(path, ops=ops) as fd:
        size = 0 if fd is None else ops.fstat(fd).st_size
        if fd is not None and size > window:
            try:
                anchor = read_anchor(anchor_path, path, key, ops=ops)
            except IntegrityError as error:
                return AuditVerdict(ok=False, entries=0, head=NO_HASH, reason=error.message, hint=error.hint)
            begin = max(0, min(size, anchor.size if anchor else size) - window)
            return _judge_from(fd, begin, anchor.head if anchor and anchor.count else "", ops)
    return verify(path, anchor_path, key, ops=ops)


def _judge_from(fd: int, begin: int, anchored: str, ops: FileOps) -> AuditVerdict:
    bad = AuditVerdict(ok=False, entries=0, head=NO_HASH, hint=_WHOLE)
    # The line that the offset falls into is not looked at; the one behind it says what it follows on.
    first = next((place for place in lines(fd, begin, ops=ops) if place[0] > begin or begin == 0), None)
    if first is None:
        return evolve(bad, reason="its end is one line without an end")
    start, raw = first
    entry = read_line(raw.rstrip(b"\n"))
    if isinstance(entry, BadLine):
        return evolve(bad, reason=f"the line at byte {start} {entry.reason}")
    hashes: set[str] = set()

    def see(line: AuditLine) -> None:
        hashes.add(line.hash)

    found = scan(fd, start=start, head=entry.prev_hash, seen=see, ops=ops)
    at_end = ops.fstat(fd).st_size
    fault = found.fault
    if fault is not None and not (fault.ends and found.count > 0 and at_end - found.size <= MAX_LINE):
        return evolve(bad, reason=f"the line at byte {fault.offset} {fault.reason}", entries=found.count)
    if anchored and anchored not in hashes:
        return evolve(bad, reason="the entry that was anchored is not there", entries=found.count)
    return AuditVerdict(ok=True, entries=found.count, head=found.head)
