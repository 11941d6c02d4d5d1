"""File calls that fail when told to, for tests that break one step of a write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relay.store.atomic import FileOps

COUNTED = ("open", "write", "pread", "fsync", "fdatasync", "fstat", "lstat", "fchmod", "truncate", "rename",
           "link", "unlink", "close")  # fmt: skip


class FailingOps(FileOps):
    """Real calls, of which one (or, with `for_good`, all of its kind from then on) fails.

    Args:
        fail_at: number of the call that fails, from 0; None for none.
        code: the errno.
        short: writes take one byte at a time.
        half: a failing write takes half of its bytes first.
        only: only these calls are counted.
    """

    def __init__(
        self,
        fail_at: int | None = None,
        code: int = errno.EIO,
        *,
        short: bool = False,
        half: bool = False,
        for_good: bool = False,
        only: tuple[str, ...] = COUNTED,
    ) -> None:
        self.fail_at = fail_at
        self.code = code
        self.short = short
        self.half = half
        self.for_good = for_good
        self.only = only
        self.calls: list[str] = []
        self.failed = ""
        self.open_files: set[int] = set()

    def _step(self, name: str) -> None:
        if name not in self.only:
            return
        number = len(self.calls)
        self.calls.append(name)
        again = self.for_good and name == self.failed
        if number == self.fail_at or again:
            self.failed = name
            raise OSError(self.code, os.strerror(self.code))

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._step("open")
        fd = super().open(path, flags, mode)
        self.open_files.add(fd)
        return fd

    def close(self, fd: int) -> None:
        # A close that fails has closed the file all the same.
        super().close(fd)
        self.open_files.discard(fd)
        self._step("close")

    def write(self, fd: int, data: memoryview) -> int:
        try:
            self._step("write")
        except OSError:
            if self.half:
                super().write(fd, data[: len(data) // 2])
            raise
        return super().write(fd, data[:1] if self.short else data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._step("pread")
        return super().pread(fd, size, offset)

    def fsync(self, fd: int) -> None:
        self._step("fsync")

    def fdatasync(self, fd: int) -> None:
        self._step("fdatasync")

    def fstat(self, fd: int) -> os.stat_result:
        self._step("fstat")
        return super().fstat(fd)

    def lstat(self, path: Path) -> os.stat_result:
        self._step("lstat")
        return super().lstat(path)

    def fchmod(self, fd: int, mode: int) -> None:
        self._step("fchmod")
        super().fchmod(fd, mode)

    def truncate(self, fd: int, size: int) -> None:
        self._step("truncate")
        super().truncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename")
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._step("link")
        super().link(old, new)

    def unlink(self, path: Path) -> None:
        self._step("unlink")
        super().unlink(path)


def every_failure(attempt: Callable[[FailingOps], Any], **settings: Any) -> list[str]:
    """Run `attempt` once for each call it makes, with that call failing.

    `attempt` prepares, acts and asserts; it is handed the calls to use. Gives the calls that failed.
    """
    failed = []
    for number in range(1000):
        ops = FailingOps(number, **settings)
        attempt(ops)
        assert not ops.open_files, f"left open after {ops.failed}"
        if not ops.failed:
            return failed
        failed.append(ops.failed)
    raise AssertionError("no end of calls")
