"""The hash-chained audit log of one repository: appended to in batches, repaired after a crash.

Owned by the journal's effect, which calls it from one thread at a time. docs/formats.md describes the file.
A second writer is kept out by a lock; readers need none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from relay.core.audit import NO_HASH, AuditLine, read_line, seal, stamp
from relay.errors import ConflictError, IntegrityError, NewerFormatError, StoreError
from relay.store.atomic import OPS, FileOps, store_error, sync_folder, write_all
from relay.store.audit_anchor import Anchor, anchor_for, read_anchor, write_anchor
from relay.store.audit_scan import lines, scan
from relay.store.lock import try_lock

FORMAT = 1
STARTED = "audit_started"
"""The first entry: {"version": 1}, and "previous" when a log that was anchored here is gone."""
REPAIRED = "audit_repaired"
"""Behind a torn end: {"bytes": how many were cut off, "cut": the first of them as text}."""

_KEPT = 4096
_MAX_CUT = 64 * 1024 * 1024
_VERIFY = "`relay audit verify` names the line"
Entry = tuple[str, Mapping[str, Any]]


class AuditLog:
    """The open log; `count` entries, the last with hash `head`.

    Attributes:
        repaired: bytes of a torn end that opening cut off.
        lost: entries of an anchored log that was gone, so that opening began a new one.
    """

    def __init__(self, path: Path, anchor_path: Path, key: bytes, fd: int, ops: FileOps) -> None:
        self.path = path
        self.anchor_path = anchor_path
        self.count = 0
        self.head = NO_HASH
        self.size = 0
        self.repaired = 0
        self.lost = 0
        self._key = key
        self._fd: int | None = fd
        self._ops = ops
        self._torn = False
        self._synced = anchor_for(path, count=0, head=NO_HASH, size=0)
        self._sealed: Anchor | None = None

    @classmethod
    def open(
        cls, path: Path, anchor_path: Path, *, key: bytes, now: datetime, ops: FileOps = OPS
    ) -> AuditLog:
        """Open the log or begin it; cut off a torn end and say so in an entry; check it against the anchor.

        Only what was appended since the anchor is read.

        Args:
            key: the signing key.
            now: for the entries that opening may write (aware).

        Raises:
            IntegrityError: the log is not what Relay wrote: cut, edited, or its anchor is false.
            ConflictError: another process has it open.
            NewerFormatError: a newer Relay began it.
            StoreError, DiskFullError: it cannot be read or written.
        """
        anchor = read_anchor(anchor_path, path, key, ops=ops)
        try:
            fd = _open(path, ops)
        except OSError as error:
            raise store_error(error, f"open the audit log {path}") from error
        log = cls(path, anchor_path, key, fd, ops)
        try:
            log._own()
            log._recover(anchor, now)
        except OSError as error:
            log.close()
            raise store_error(error, f"open the audit log {path}") from error
        except BaseException:
            log.close()
            raise
        return log

    def append(
        self, entries: Sequence[Entry], *, ts: datetime | Sequence[datetime], sync: bool = False
    ) -> str:
        """Append entries, all or none.

        Args:
            entries: (event, data) each; data without a canonical form is stored as `storable` has it.
            ts: when they happened (aware): one instant for all, or one each.
            sync: return only when they, and all before them, are on the disk.

        Returns:
            The hash of the last entry.

        Raises:
            DiskFullError, StoreError: they could not be written; the log is as it was before.
            IntegrityError: something else changed the file while it was open.
        """
        fd = self._ready()
        stamps = [stamp(ts)] * len(entries) if isinstance(ts, datetime) else [stamp(at) for at in ts]
        head, batch = self.head, []
        for (event, data), at in zip(entries, stamps, strict=True):
            head, line = seal(head, event, data, at)
            batch.append(line)
        blob = b"".join(batch)
        try:
            write_all(fd, blob, self._ops)
            if sync and self._synced.size < self.size + len(blob):
                self._ops.fdatasync(fd)
        except BaseException as error:
            # What of it reached the file must not stay: the caller will append it again.
            self._undo(fd)
            if isinstance(error, OSError):
                raise store_error(error, f"append to the audit log {self.path}") from error
            raise
        self.head, self.count, self.size = head, self.count + len(entries), self.size + len(blob)
        if sync:
            self._synced = self._here()
        return head

    def sync(self) -> str:
        """Bring all entries to the disk; gives the head. Raises as `append`."""
        return self.append((), ts=(), sync=True)

    def seal_anchor(self) -> None:
        """Note outside the repository how far the log is on the disk; nothing to do when that is noted.

        Raises:
            DiskFullError, StoreError: the anchor could not be written; the one before stays, and is true.
        """
        if self._sealed != self._synced:
            write_anchor(self.anchor_path, self._synced, self._key, ops=self._ops)
            self._sealed = self._synced

    def close(self) -> None:
        """Close the file; what was appended without `sync` is left to the operating system."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                self._ops.close(fd)

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _here(self) -> Anchor:
        return anchor_for(self.path, count=self.count, head=self.head, size=self.size)

    def _ready(self) -> int:
        if self._fd is None:
            raise StoreError(f"the audit log {self.path} is closed")
        try:
            if self._torn:
                self._ops.truncate(self._fd, self.size)
                self._torn = False
            facts = self._ops.fstat(self._fd)
            try:
                same = os.path.samestat(facts, self._ops.lstat(self.path))
            except (FileNotFoundError, NotADirectoryError):
                same = False
        except OSError as error:
            raise store_error(error, f"append to the audit log {self.path}") from error
        if not same:
            raise IntegrityError(
                f"the audit log {self.path} was removed or replaced while Relay had it open",
                hint="opened again, Relay begins a new log and notes in it what is gone",
            )
        if facts.st_size != self.size:
            raise IntegrityError(
                f"the audit log {self.path} was changed by something else:"
                f" {facts.st_size} bytes instead of {self.size}",
                hint=_VERIFY,
            )
        return self._fd

    def _undo(self, fd: int) -> None:
        try:
            self._ops.truncate(fd, self.size)
        except OSError:
            self._torn = True

    def _own(self) -> None:
        fd = self._fd
        assert fd is not None
        facts = self._ops.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise StoreError(f"{self.path} is not a regular file", hint="move it away; Relay makes it anew")
        if facts.st_nlink != 1:
            raise StoreError(
                f"{self.path} has another name as well (a hard link), so writing to it changes that file too",
                hint=f"put a copy in its place: cp {self.path} copy && mv copy {self.path}",
            )
        if not try_lock(fd):
            raise ConflictError(
                f"another process writes the audit log {self.path}",
                hint="end the other Relay daemon that works in this repository",
            )
        self._ops.fchmod(fd, 0o600)
        self.size = facts.st_size

    def _recover(self, anchor: Anchor | None, now: datetime) -> None:
        fd = self._fd
        assert fd is not None
        if self._never_begun(fd):
            self._begin(fd, anchor, now)
            return
        first = _first_entry(fd, self._ops)
        if first is not None and first.event == STARTED:
            version = first.data.get("version")
            if type(version) is int and version > FORMAT:
                raise NewerFormatError(
                    f"the audit log {self.path} was begun by a newer Relay (version {version})",
                    hint="update this Relay; the file is left as it is",
                )
            if anchor is not None and first.data.get("previous") == _previous(anchor):
                # The crash came between beginning this log and anchoring it.
                self.lost, anchor = anchor.count, None
        end, self.size = self.size, 0
        if anchor is not None:
            self._meet(fd, end, anchor)
        found = scan(fd, start=self.size, count=self.count, head=self.head, ops=self._ops)
        self.count, self.head, self.size = found.count, found.head, found.size
        if found.fault is not None:
            if not found.fault.torn or end - found.size > _MAX_CUT or found.count == 0:
                raise IntegrityError(
                    f"the audit log {self.path} is damaged: line {found.fault.line} {found.fault.reason}",
                    hint=_MEND,
                )
            self.append([(REPAIRED, self._cut(fd, end))], ts=now, sync=True)
        self.sync()
        self.seal_anchor()

    def _never_begun(self, fd: int) -> bool:
        # Empty, or the crash came while the first line was written.
        return self.size == 0 or (self.size <= _KEPT and b"\n" not in self._ops.pread(fd, self.size, 0))

    def _begin(self, fd: int, anchor: Anchor | None, now: datetime) -> None:
        data: dict[str, Any] = {"version": FORMAT}
        if anchor is not None and anchor.count:
            data["previous"] = _previous(anchor)
            self.lost = anchor.count
        end, self.size = self.size, 0
        begun = [(STARTED, data)]
        if end:
            begun.append((REPAIRED, self._cut(fd, end)))
        self.append(begun, ts=now, sync=True)
        sync_folder(self.path.parent, self._ops)
        self.seal_anchor()

    def _meet(self, fd: int, size: int, anchor: Anchor) -> None:
        # Positions this log at the anchor: what lies before it is not read again.
        if size < anchor.size:
            raise IntegrityError(
                f"the end of the audit log {self.path} was cut off: it held {anchor.count} entries"
                f" ({anchor.size} bytes) and holds {size} bytes now",
                hint=_MEND,
            )
        last = _entry_ending_at(fd, anchor.size, self._ops) if anchor.count else None
        if anchor.count and (last is None or last.hash != anchor.head):
            raise IntegrityError(
                f"the audit log {self.path} is not the one that was anchored:"
                f" entry {anchor.count} is another one",
                hint=_MEND,
            )
        self.count, self.head, self.size = anchor.count, anchor.head, anchor.size
        self._synced = self._sealed = anchor

    def _cut(self, fd: int, end: int) -> dict[str, Any]:
        kept = self._ops.pread(fd, _KEPT, self.size)
        self.repaired = end - self.size
        self._ops.truncate(fd, self.size)
        return {"bytes": self.repaired, "cut": kept.decode("utf-8", "replace")}


_MEND = f"{_VERIFY}; moved away, it is kept, and Relay begins a new log that notes what is gone"


def _previous(anchor: Anchor) -> dict[str, Any]:
    return {"count": anchor.count, "head": anchor.head}


def _open(path: Path, ops: FileOps) -> int:
    flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    return ops.open(path, flags | os.O_CREAT)


def _first_entry(fd: int, ops: FileOps) -> AuditLine | None:
    for _, raw in lines(fd, 0, 65536, ops=ops):
        entry = read_line(raw.rstrip(b"\n"))
        return entry if isinstance(entry, AuditLine) else None
    return None


def _entry_ending_at(fd: int, end: int, ops: FileOps) -> AuditLine | None:
    step = 65536
    while True:
        start = max(0, end - step)
        piece = ops.pread(fd, end - start, start)
        if not piece.endswith(b"\n"):
            return None
        begin = piece.rfind(b"\n", 0, -1)
        if begin >= 0 or start == 0:
            entry = read_line(piece[begin + 1 : -1])
            return entry if isinstance(entry, AuditLine) else None
        step *= 8
