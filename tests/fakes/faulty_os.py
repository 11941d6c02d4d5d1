"""The calls that change files, of which one fails or is the last: for everything that writes, wherever it is.

`failing` takes the place of the functions of `os` and `open` in this process while it is in force, and counts
only calls that concern one folder.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
BY_PATH = ("mkdir", "mkfifo", "rename", "replace", "link", "symlink", "unlink", "rmdir", "chmod")
BY_HANDLE = ("write", "fsync", "fdatasync", "ftruncate", "fchmod", "sendfile", "copy_file_range")


class Killed(BaseException):
    """The process ends here: nothing more is done, no clean-up either."""


@define
class Faults:
    """See the module.

    Args:
        folder: only calls on what lies here count.
        at: number of the call that fails, from 0; None for none.
        code: its errno.
        for_good: every later call of its kind fails as well, as on a disk that stays full.
        short: a write takes at most one byte.
        half: a failing write takes half of its bytes first.
        kill: not an error, but the end of the process: every later call ends it as well.
    """

    folder: str
    at: int | None = None
    code: int = errno.EIO
    for_good: bool = False
    short: bool = False
    half: bool = False
    kill: bool = False
    calls: list[str] = field(factory=list)
    failed: str = ""

    def step(self, name: str, what: object) -> None:
        """Count a call; raises when it is the one that fails."""
        if not self._ours(what):
            return
        number = len(self.calls)
        self.calls.append(name)
        if self.kill and self.at is not None and number >= self.at:
            self.failed = self.failed or name
            raise Killed
        if number == self.at or (self.for_good and name == self.failed):
            self.failed = name
            raise OSError(self.code, os.strerror(self.code), str(what))

    def _ours(self, what: object) -> bool:
        if isinstance(what, int):
            try:
                path = str(Path(f"/proc/self/fd/{what}").readlink())
            except OSError:
                return False
        else:
            path = os.fsdecode(what)  # type: ignore[arg-type]
        return not path.startswith("/") or path.startswith(self.folder)


class _Raw(io.FileIO):
    """A file whose writes are counted, beneath the buffer that `open` puts on it."""

    faults: Faults

    def write(self, data: Any, /) -> int:
        return os.write(self.fileno(), data)


@contextmanager
def failing(faults: Faults) -> Iterator[Faults]:
    """Have the calls fail as told."""
    real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in (*BY_PATH, *BY_HANDLE, "open")}
    real_open = io.open

    def by_path(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            faults.step(name, args[0])
            return real[name](*args, **kwargs)

        return call

    def by_handle(name: str) -> Callable[..., Any]:
        def call(handle: int, *args: Any, **kwargs: Any) -> Any:
            faults.step(name, handle)
            return real[name](handle, *args, **kwargs)

        return call

    def write(handle: int, data: Any) -> int:
        try:
            faults.step("write", handle)
        except (OSError, Killed):
            if faults.half and not (faults.kill and len(faults.calls) - 1 != faults.at):
                real["write"](handle, bytes(data)[: len(data) // 2])
            raise
        ours = faults.short and faults._ours(handle)
        return int(real["write"](handle, bytes(data)[:1] if ours else data))

    def open_handle(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & WRITING:
            faults.step("open", path)
        return int(real["open"](path, flags, *args, **kwargs))

    def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int) or "b" not in mode:
            return real_open(file, mode, *args, **kwargs)
        faults.step("open", file)
        return io.BufferedWriter(_Raw(file, mode.replace("b", "")))

    patched = {name: by_path(name) for name in BY_PATH} | {name: by_handle(name) for name in BY_HANDLE}
    patched |= {"write": write, "open": open_handle}
    try:
        for name, call in patched.items():
            setattr(os, name, call)
        io.open = builtins.open = open_file
        yield faults
    finally:
        for name, call in real.items():
            setattr(os, name, call)
        io.open = builtins.open = real_open


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path, a FIFO as empty."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_dir():
            found[path.relative_to(folder).as_posix()] = path.read_bytes() if path.is_file() else b""
    return found
