"""Judges an audit log: whether it is what Relay wrote, and if not, at which line it first is not.

Called by `relay audit verify` and the API. Reads the log in a stream and changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from attrs import evolve, frozen

from relay.core.audit import NO_HASH, AuditLine
from relay.errors import IntegrityError, NewerFormatError, StoreError
from relay.store.atomic import OPS, FileOps
from relay.store.audit import FORMAT, REPAIRED, STARTED
from relay.store.audit_anchor import Anchor, read_anchor
from relay.store.audit_read import opened
from relay.store.audit_scan import MAX_LINE, Fault, Scan, scan

_KEEP = "keep a copy of the log; moved away, Relay begins a new one that notes what is gone"
_NEXT_START = "Relay cuts it off at its next start and says so in an entry"


@frozen(kw_only=True)
class AuditVerdict:
    """What was found.

    Args:
        ok: every entry is in order, and none that was anchored is missing.
        entries: how many are in order, from the first on.
        head: hash of the last of them.
        first_bad_line: number of the first line that is not, from 1; None when it is not about a line.
        reason: what is wrong, for people; "" when nothing is.
        hint: what to do about it.
        notes: what is worth knowing although nothing is wrong: repairs, an end torn by a crash.
    """

    ok: bool
    entries: int
    head: str
    first_bad_line: int | None = None
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()


def verify(path: Path, anchor_path: Path, key: bytes | None, *, ops: FileOps = OPS) -> AuditVerdict:
    """Check every line, the chain and the anchor.

    Args:
        key: the signing key; None leaves the anchor's signature unchecked, which a note says.

    Raises:
        NewerFormatError: a newer Relay wrote the log or its anchor.
        StoreError: the log cannot be read.
    """
    # Read first: what is appended in the meantime can only be more than it says.
    anchor, complaint = _anchor(anchor_path, path, key, ops)
    history = _History()
    with opened(path, ops=ops) as fd:
        if fd is None:
            return complaint or _no_log(path, anchor)
        want = None if anchor is None else (anchor.count, anchor.head)
        found = scan(fd, want=want, seen=history.see, ops=ops)
        at_end = ops.fstat(fd).st_size
    verdict = _judge(path, found, anchor, history, at_end)
    if verdict.ok and complaint is not None:
        verdict = evolve(complaint, entries=verdict.entries, head=verdict.head)
    notes = [*history.notes(), *verdict.notes]
    if anchor is None and complaint is None:
        notes.append("no anchor: that its end was not cut off cannot be shown")
    elif key is None:
        notes.append("no signing key: the anchor's signature was not checked")
    return evolve(verdict, notes=tuple(notes))


class _History:
    """What the log says of itself."""

    def __init__(self) -> None:
        self.first: AuditLine | None = None
        self.repairs = 0
        self.cut = 0

    def see(self, entry: AuditLine) -> None:
        if self.first is None:
            self.first = entry
            version = entry.data.get("version") if entry.event == STARTED else None
            if type(version) is int and version > FORMAT:
                raise NewerFormatError(
                    f"the audit log was written by a newer Relay (version {version})",
                    hint="verify it with that version",
                )
        if entry.event == REPAIRED:
            self.repairs += 1
            size = entry.data.get("bytes")
            self.cut += size if type(size) is int else 0

    def previous(self) -> dict[str, object] | None:
        if self.first is None or self.first.event != STARTED:
            return None
        value = self.first.data.get("previous")
        return value if isinstance(value, dict) else None

    def notes(self) -> list[str]:
        notes = []
        before = self.previous()
        if before is not None and self.first is not None:
            notes.append(
                f"begun anew at {self.first.ts}: an earlier log of {before.get('count')} entries was gone"
            )
        if self.repairs:
            notes.append(f"torn ends cut off after a crash: {self.repairs}, {self.cut} bytes in all")
        return notes


def _anchor(
    anchor_path: Path, path: Path, key: bytes | None, ops: FileOps
) -> tuple[Anchor | None, AuditVerdict | None]:
    try:
        return read_anchor(anchor_path, path, key, ops=ops), None
    except NewerFormatError:
        raise
    except (IntegrityError, StoreError) as error:
        bad = AuditVerdict(ok=False, entries=0, head=NO_HASH, reason=error.message, hint=error.hint)
        return None, bad


def _no_log(path: Path, anchor: Anchor | None) -> AuditVerdict:
    if anchor is None or not anchor.count:
        return AuditVerdict(ok=True, entries=0, head=NO_HASH, notes=("there is no audit log yet",))
    return AuditVerdict(
        ok=False,
        entries=0,
        head=NO_HASH,
        reason=f"{path} is missing: it held {anchor.count} entries",
        hint="put back a copy of it; else Relay begins a new one that notes what is gone",
    )


def _judge(path: Path, found: Scan, anchor: Anchor | None, history: _History, at_end: int) -> AuditVerdict:
    good = AuditVerdict(ok=True, entries=found.count, head=found.head)
    fault = found.fault
    torn_end = fault is not None and fault.ends and found.count > 0 and at_end - found.size <= MAX_LINE
    if fault is not None and not torn_end:
        return _bad_line(good, fault, anchor, at_end)
    if torn_end:
        good = evolve(
            good,
            notes=(
                f"line {found.count + 1} is torn, {at_end - found.size} bytes without an end:"
                f" it is being written, or a crash came between; {_NEXT_START}",
            ),
        )
    if anchor is None or found.reached:
        if found.count == 0 and anchor is None:
            return evolve(
                good,
                ok=False,
                reason=f"{path} is empty: not even its first entry is there",
                hint="harmless when Relay never ran in this repository; it begins the log at its next start",
            )
        return good
    if history.previous() == {"count": anchor.count, "head": anchor.head}:
        return evolve(
            good,
            ok=False,
            reason=f"the log of {anchor.count} entries that was anchored is gone; this one took its place",
            hint="put back a copy of the old one, or start Relay, which takes note of the loss",
        )
    if found.count < anchor.count:
        what = f"{found.count} entries are left of {anchor.count}" if found.count else "it is empty"
        return evolve(
            good,
            ok=False,
            first_bad_line=found.count + 1,
            reason=f"the end of the log was cut off: {what}",
            hint=f"put back a copy of it, or {_KEEP}",
        )
    return evolve(
        good,
        ok=False,
        first_bad_line=anchor.count,
        reason=f"line {anchor.count} is not the entry that was anchored: the log was written anew",
        hint=_KEEP,
    )


def _bad_line(good: AuditVerdict, fault: Fault, anchor: Anchor | None, at_end: int) -> AuditVerdict:
    hint = _KEEP
    if fault.torn and good.entries and good.entries >= (anchor.count if anchor else 0):
        hint = f"a crash may have left it; {_NEXT_START} ({at_end - fault.offset} bytes)"
    return evolve(
        good,
        ok=False,
        entries=fault.line - 1,
        first_bad_line=fault.line,
        reason=f"line {fault.line} {fault.reason}",
        hint=hint,
    )
