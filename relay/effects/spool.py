"""The run folder: the files through which a child and the daemon know of each other.

`.relay/sessions/<sid>/run-<n>/` holds one child's life:

    argv.json   how it was started (names of variables, never values)
    pid.json    the shim: pid, start, session
    cli         pid of the CLI itself, written by the shim
    holder      pid of the process that holds the FIFO open, written by the shim
    out, err    what the child printed
    exit        its status, put there by rename when it has ended
    offset      how far it has been read: a hint, not synced to the disk
    writes      keys of the lines that were sent to it, one a line

Everything is for the user alone (0700, 0600), and no link is followed: the folder lies in a repository.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from relay.effects.processes import Identity
from relay.errors import ConflictError, NewerFormatError, StoreError
from relay.store.atomic import store_error, write_all

__all__ = ["Offsets", "RunFolder", "RunRecord", "store_error", "storing"]

FORMAT = 1
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_MADE_AT_START = ("out", "err", "writes", "cli", "holder")
# The status is written into bytes that exist already, so that a full disk cannot lose it.
_ROOM_FOR_STATUS = b" " * 15 + b"\n"


@frozen(kw_only=True)
class RunRecord:
    """How a run was started.

    Args:
        argv: the program, resolved, and its arguments.
        env: names of the variables that were set for it.
        unset: names and prefixes of the variables that were taken away.
        cwd: the folder it works in.
        marker: what it carries in `RELAY_RUN`.
        fifo: path of its stdin, or "".
        started: when (aware).
    """

    argv: tuple[str, ...]
    env: tuple[str, ...]
    unset: tuple[str, ...]
    cwd: str
    marker: str
    fifo: str
    started: datetime


@frozen(kw_only=True)
class Offsets:
    """How far a run has been read.

    Args:
        out: offset in `out`.
        err: offset in `err`.
        sealed: the files are rewritten, or about to be; offsets and places no longer hold.
        redacted: the rewriting is complete.
    """

    out: int = 0
    err: int = 0
    sealed: bool = False
    redacted: bool = False


@contextmanager
def storing(doing: str) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError."""
    try:
        yield
    except OSError as error:
        raise store_error(error, doing) from error


@frozen
class RunFolder:
    """One run's folder; a value, it holds nothing open.

    Args:
        path: the folder, absolute.
    """

    path: Path

    def file(self, name: str) -> Path:
        """Path of one of its files."""
        return self.path / name

    def open(self, name: str, flags: int) -> int:
        """Open one of its files, never through a link; the caller closes. Raises OSError."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW | _CLOEXEC)
        try:
            return os.open(name, flags | _NOFOLLOW | _CLOEXEC, 0o600, dir_fd=folder)
        finally:
            os.close(folder)

    def create(self, record: RunRecord) -> None:
        """Make the folder and the files that a start needs.

        Raises:
            ConflictError: the folder exists.
            StoreError: it cannot be made; nothing is left.
        """
        with storing(f"make the run folder {self.path}"):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self.path.mkdir(mode=0o700)
            except FileExistsError as error:
                raise ConflictError(
                    f"this run was started before: {self.path}", hint="start the next run instead"
                ) from error
        try:
            with storing(f"write to the run folder {self.path}"):
                self.path.chmod(0o700)
                self._put("argv.json", _dump({"version": FORMAT, **attrs.asdict(record)}))
                self._put("exit.part", _ROOM_FOR_STATUS)
                for name in _MADE_AT_START:
                    self._put(name, b"")
        except StoreError:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder, of a start that failed."""
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in self.path.iterdir():
                path.unlink(missing_ok=True)
            self.path.rmdir()

    def record(self) -> RunRecord | None:
        """How the run was started; None when that is not on record."""
        data = self._json("argv.json")
        if data is None:
            return None
        if data.get("version", 0) > FORMAT:
            raise NewerFormatError(f"{self.file('argv.json')} was written by a newer Relay")
        try:
            return RunRecord(
                argv=tuple(data["argv"]),
                env=tuple(data["env"]),
                unset=tuple(data["unset"]),
                cwd=data["cwd"],
                marker=data["marker"],
                fifo=data["fifo"],
                started=datetime.fromisoformat(data["started"]),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def note_shim(self, shim: Identity, created: float) -> None:
        """Put the shim on record; `created` (epoch seconds) is for people."""
        with storing(f"write {self.file('pid.json')}"):
            self._replace(
                "pid.json",
                _dump({"version": FORMAT, "pid": shim.pid, "start": shim.start, "created": created,
                       "session": shim.pid}),
            )  # fmt: skip

    def shim(self) -> Identity | None:
        """The shim, the leader of the run's session; None when it is not on record."""
        data = self._json("pid.json")
        pid, start = (data or {}).get("pid"), (data or {}).get("start")
        if not isinstance(pid, int) or not isinstance(start, str):
            return None
        return Identity(pid=pid, start=start)

    def cli_pid(self) -> int | None:
        """Pid of the CLI itself, once it has been started; whether it is alive still is another question."""
        return _whole_number(self.read("cli"))

    def holder_pid(self) -> int | None:
        """Pid of the process that holds the FIFO open for writing, once there is one."""
        return _whole_number(self.read("holder"))

    def ended(self) -> bool:
        """The exit status is there."""
        return os.path.lexists(f"{self.path}/exit")

    def ended_at(self) -> float | None:
        """When the exit status was written (epoch seconds)."""
        try:
            return self.file("exit").lstat().st_mtime
        except OSError:
            return None

    def status(self) -> int | None:
        """The exit status, 128+n for signal n; None when it is not there."""
        return _whole_number(self.read("exit"))

    def size(self, stream: str) -> int:
        """Bytes in `out` or `err`."""
        try:
            return self.file(stream).lstat().st_size
        except OSError:
            return 0

    def offsets(self) -> Offsets:
        """How far the run has been read; from the start, when that is not on record."""
        data = self._json("offset") or {}
        numbers = [n if isinstance(n, int) and n >= 0 else 0 for n in (data.get("out"), data.get("err"))]
        sealed, redacted = data.get("sealed") is True, data.get("redacted") is True
        return Offsets(out=numbers[0], err=numbers[1], sealed=sealed, redacted=redacted)

    def note_offsets(self, offsets: Offsets) -> None:
        """Put on record how far the run has been read."""
        with storing(f"write {self.file('offset')}"):
            self._replace("offset", _dump(attrs.asdict(offsets)))

    def sent_keys(self) -> frozenset[str]:
        """Keys of the lines that were sent to the child."""
        *whole, _torn = self.read("writes").split(b"\n")
        return frozenset(line.decode("utf-8", "replace") for line in whole)

    def note_sent(self, key: str) -> None:
        """Put on record that the line of this key was sent."""
        with storing(f"write {self.file('writes')}"):
            handle = self.open("writes", os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                size = os.fstat(handle).st_size
                # Half a key, as a kill leaves it, would spoil this one.
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                line = key.replace("\n", " ").encode("utf-8", "replace") + b"\n"
                try:
                    write_all(handle, b"\n" + line if torn else line)
                except OSError:
                    with suppress(OSError):
                        os.ftruncate(handle, size)
                    raise
            finally:
                os.close(handle)

    def read(self, name: str) -> bytes:
        """The content of one of its small files; empty when it cannot be read."""
        try:
            handle = self.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            # As a number: fdopen leaves it open when it is a folder's, and refuses that one.
            try:
                with os.fdopen(handle, "rb", closefd=False) as file:
                    return file.read()
            finally:
                os.close(handle)
        except OSError:
            return b""

    def rewrite(self, name: str, fill: Callable[[int], None], *, sync: bool = True) -> None:
        """Replace one of its files: `fill` writes the new one, which is synced before it takes the name.

        Args:
            sync: False leaves the syncing out, for what is only a hint.

        Raises OSError; the old file is left as it was then.
        """
        part = f"{name}.part"
        with suppress(FileNotFoundError):
            self.file(part).unlink()
        handle = self.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                fill(handle)
                if sync:
                    os.fsync(handle)
            finally:
                os.close(handle)
            self.file(part).replace(self.file(name))
        except BaseException:
            with suppress(OSError):
                self.file(part).unlink()
            raise

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            data = json.loads(self.read(name))
        except ValueError:
            return None
        return data if isinstance(data, dict) else None

    def _put(self, name: str, data: bytes) -> None:
        handle = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_all(handle, data)
        finally:
            os.close(handle)

    def _replace(self, name: str, data: bytes) -> None:
        self.rewrite(name, lambda handle: write_all(handle, data), sync=False)


def _whole_number(data: bytes) -> int | None:
    # Without its newline the number may be half written.
    text = data.strip()
    return int(text) if b"\n" in data and text.isdigit() else None


def _dump(data: dict[str, Any]) -> bytes:
    return json.dumps(data, default=_plain).encode() + b"\n"


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON form for {type(value).__name__}")
