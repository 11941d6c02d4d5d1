"""Reads entries out of an audit log, forwards or from its end, while it may be appended to.

Used by the API, the terminal and a restarting daemon. What is no entry (a torn end) is passed over here:
judging the log is `relay.store.audit_verify`'s part.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

from relay.errors import StoreError
from relay.store.atomic import OPS, FileOps, store_error
from relay.store.audit_scan import lines

_BLOCK = 256 * 1024


@frozen(kw_only=True)
class AuditEntry:
    """An entry that was read, unchecked.

    Args:
        end: offset behind its line; reading goes on from there.
        ts: when it happened, UTC.
        event: what happened.
        data: about it.
        hash: the line's.
    """

    end: int
    ts: str
    event: str
    data: dict[str, Any]
    hash: str

    @property
    def session(self) -> str:
        """The session it belongs to, or ""."""
        value = self.data.get("session")
        return value if isinstance(value, str) else ""

    @property
    def seq(self) -> int:
        """Its number in the user's stream of events; 0 for the log's own entries."""
        value = self.data.get("seq")
        return value if type(value) is int else 0


@contextmanager
def opened(path: Path, *, ops: FileOps = OPS) -> Iterator[int | None]:
    """The log, open for reading; None when there is none.

    Raises:
        StoreError: it is a link or no regular file, or reading it in the block failed.
    """
    fd: int | None = None
    try:
        fd = ops.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(ops.fstat(fd).st_mode):
            raise StoreError(f"{path} is not a regular file", hint="move it away; Relay makes it anew")
        yield fd
    except FileNotFoundError:
        if fd is not None:
            raise
        yield None
    except OSError as error:
        raise store_error(error, f"read the audit log {path}") from error
    finally:
        if fd is not None:
            with suppress(OSError):
                ops.close(fd)


def entries(
    path: Path, *, after: int = 0, session: str = "", start: int = 0, ops: FileOps = OPS
) -> Iterator[AuditEntry]:
    """Entries in order, read as they are asked for; none when there is no log.

    Args:
        after: only those with a greater `seq`; finding them costs as much as there are of them.
        session: only those of this session.
        start: offset to begin at, an earlier entry's `end`.

    Raises:
        StoreError: the log cannot be read.
    """
    with opened(path, ops=ops) as fd:
        if fd is None:
            return
        if after:
            start = max(start, _end_of(fd, after, ops))
        for offset, raw in lines(fd, start, ops=ops):
            entry = _entry(raw, offset + len(raw), session)
            if entry is not None and (not after or entry.seq > after):
                yield entry


def backwards(path: Path, *, session: str = "", ops: FileOps = OPS) -> Iterator[AuditEntry]:
    """Entries from the last to the first, read as they are asked for. Arguments and errors as `entries`."""
    with opened(path, ops=ops) as fd:
        if fd is not None:
            yield from _backwards(fd, session, ops)


def tail(path: Path, n: int, *, session: str = "", ops: FileOps = OPS) -> tuple[AuditEntry, ...]:
    """The last `n` entries, in order. Arguments and errors as `entries`."""
    return tuple(islice(backwards(path, session=session, ops=ops), n))[::-1]


def _end_of(fd: int, seq: int, ops: FileOps) -> int:
    # Numbers grow along the file, and a client that comes back lacks only its end.
    return next((entry.end for entry in _backwards(fd, "", ops) if 0 < entry.seq <= seq), 0)


def _backwards(fd: int, session: str, ops: FileOps) -> Iterator[AuditEntry]:
    begin, rest = ops.fstat(fd).st_size, b""
    whole = False
    while begin > 0:
        end, begin = begin, max(0, begin - _BLOCK)
        block = ops.pread(fd, end - begin, begin) + rest
        if b"\n" not in block[: end - begin] and begin > 0:
            rest = block
            continue
        first, *others = block.split(b"\n") if begin > 0 else (b"", *block.split(b"\n"))
        offset = begin + len(block)
        for piece in reversed(others):
            # The piece behind the last newline of the file is torn, or empty.
            if whole:
                entry = _entry(piece + b"\n", offset + 1, session)
                if entry is not None:
                    yield entry
            whole = True
            offset -= len(piece) + 1
        rest = first


def _entry(raw: bytes, end: int, session: str) -> AuditEntry | None:
    # Reading a line costs ten times as much as looking for the session in it.
    if not raw.endswith(b"\n") or (session and b'"session":"%b"' % session.encode() not in raw):
        return None
    try:
        value = orjson.loads(raw)
        data = value["data"]
        entry = AuditEntry(end=end, ts=value["ts"], event=value["event"], data=data, hash=value["hash"])
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(data, dict):
        return None
    return entry if not session or entry.session == session else None
