"""One daemon a user: the operating system's lock on a file.

The lock is the truth, and ends with the process that holds it, however that ends. What the file
says (pid, port) is a hint for people, and may be missing or wrong. Called at the daemon's start.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from relay.errors import ConflictError, StoreError
from relay.store.atomic import OPS, FileOps, store_error, write_all

_HINT_BYTES = 4096


class DaemonLock:
    """The lock, held until `close` or the end of the process."""

    def __init__(self, path: Path, fd: int, ops: FileOps) -> None:
        self.path = path
        self._fd: int | None = fd
        self._ops = ops

    @classmethod
    def acquire(cls, path: Path, *, started: str = "", ops: FileOps = OPS) -> DaemonLock:
        """Take the lock and note this process in the file.

        Args:
            started: when the daemon started, for people.

        Raises:
            ConflictError: a daemon holds it; the hint says which.
            StoreError: the file cannot be used.
        """
        while True:
            lock = cls._take(path, ops)
            if lock is not None:
                # Only a hint: a full disk does not keep the daemon from starting.
                with suppress(StoreError):
                    lock.note({"pid": os.getpid(), "port": None, "started": started})
                return lock

    def note(self, facts: Mapping[str, Any]) -> None:
        """Put {pid, port, started} into the file. Raises StoreError; the lock is held all the same."""
        if self._fd is None:
            raise StoreError(f"the lock {self.path} is not held any more")
        try:
            self._ops.truncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            write_all(self._fd, orjson.dumps(dict(facts)) + b"\n", self._ops)
        except OSError as error:
            raise store_error(error, f"write {self.path}") from error

    def close(self) -> None:
        """Release the lock. The file stays: to remove it would let two daemons lock two files."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                self._ops.truncate(fd, 0)
            with suppress(OSError):
                self._ops.close(fd)

    def __enter__(self) -> DaemonLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @classmethod
    def _take(cls, path: Path, ops: FileOps) -> DaemonLock | None:
        try:
            fd = ops.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise store_error(error, f"open the lock {path}") from error
        try:
            facts = ops.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise StoreError(f"{path} is not a regular file", hint="move it away; Relay makes it anew")
            if not try_lock(fd):
                raise _already_running(ops.pread(fd, _HINT_BYTES, 0))
            # Somebody may have removed or replaced the file between opening and locking it.
            with suppress(FileNotFoundError):
                if os.path.samestat(facts, ops.lstat(path)):
                    ops.fchmod(fd, 0o600)
                    return cls(path, fd, ops)
        except OSError as error:
            ops.close(fd)
            raise store_error(error, f"lock {path}") from error
        except BaseException:
            ops.close(fd)
            raise
        ops.close(fd)
        return None


def try_lock(fd: int) -> bool:
    """Lock an open file for this process alone, without waiting; False when another holds it.

    Raises OSError when the file system knows no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _already_running(content: bytes) -> ConflictError:
    facts: Any = None
    with suppress(ValueError):
        facts = orjson.loads(content)
    known = facts if isinstance(facts, dict) else {}
    told = [f"{key} {known[key]}" for key in ("pid", "port") if type(known.get(key)) is int]
    if isinstance(known.get("started"), str) and known["started"]:
        told.append(f"since {known['started']:.40}")
    which = f"the other one: {', '.join(told)}; " if told else ""
    return ConflictError(
        "already running: another Relay daemon of this user holds the lock",
        hint=f"{which}use it, or end it with `relay daemon stop`",
    )
