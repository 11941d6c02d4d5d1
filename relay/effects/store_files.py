"""The disk as the stores of agents' own sessions may see it: read-only, bounded, and never by a lock.

Implements `relay.providers.store_protocol.StoreFiles`; used in threads by detection and adoption.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from relay.core.framing import LINE_LIMIT
from relay.effects.store_walk import entry_of, files_below
from relay.providers.store_protocol import FileEntry, StoreBlock, StoreLine

CHUNK = 128 * 1024
DATABASE_LIMIT = 4 * 1024**3
"""Bytes of a database that are copied; a larger one is left alone."""
_COPY = 4 * 1024 * 1024
_STILL = 2_000_000_000
"""Nanoseconds; so long after a write the next one is told by the file's time."""
_COPY_NAME = "copy.db"
State = tuple[tuple[int, int], ...]
"""Size and time of a database and of its WAL."""


class DiskFiles:
    """See the module. Links are followed only where they stay inside the folder that is searched."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[State, Path]] | None = None
        self._folder: Path | None = None
        self._written: set[str] = set()

    @contextmanager
    def keeping_copies(self) -> Iterator[None]:
        """Meanwhile a database is copied once, however often it is opened, until it changes.

        A database that holds many sessions is opened for each of them. One that nobody works on is not
        even copied: should somebody begin to write to it while it is open, closing it raises OSError, and
        from then on it is copied. For one thread at a time.
        """
        with tempfile.TemporaryDirectory(prefix="relay-store-", ignore_cleanup_errors=True) as folder:
            self._kept, self._folder = {}, Path(folder)
            try:
                yield
            finally:
                self._kept = self._folder = None

    def glob(self, home: str, pattern: str) -> Iterator[FileEntry]:
        """See `StoreFiles`."""
        return files_below(home, pattern)

    def entry(self, path: str) -> FileEntry | None:
        """See `StoreFiles`."""
        try:
            found = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):
            return None
        return entry_of(path, found)

    def read(self, path: str, most: int = 8 * 1024 * 1024) -> bytes | None:
        """See `StoreFiles`."""
        descriptor = _open(path)
        if descriptor is None:
            return None
        with open(descriptor, "rb") as file:  # noqa: PTH123
            try:
                data = file.read(most + 1)
            except OSError:
                return None
        return data if len(data) <= most else None

    def head(self, path: str, most: int) -> bytes:
        """See `StoreFiles`."""
        descriptor = _open(path)
        if descriptor is None:
            return b""
        with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
            try:
                return file.read(most) or b""
            except OSError:
                return b""

    def lines(self, path: str, start: int = 0) -> Iterator[StoreLine]:
        """See `StoreFiles`."""
        return _lines(self.blocks(path, start))

    def blocks(self, path: str, start: int = 0) -> Iterator[StoreBlock]:
        """See `StoreFiles`."""
        descriptor = _open(path)
        if descriptor is None:
            return
        with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
            try:
                file.seek(start)
                yield from _blocks(file.read, start)
            except OSError:
                return

    @contextmanager
    def database(self, path: str) -> Iterator[sqlite3.Connection | None]:
        """See `StoreFiles`."""
        if self._kept is not None and self._folder is not None:
            state = _state(path)
            still = _open_still(path, state) if state and path not in self._written else None
            with _closing(still or self._kept_copy(path, self._kept, self._folder)) as connection:
                yield connection
            if still and _state(path) != state:
                self._written.add(path)
                raise OSError(f"{path} was written to while it was read")
            return
        with (
            tempfile.TemporaryDirectory(prefix="relay-store-", ignore_cleanup_errors=True) as folder,
            _closing(_connect(path, Path(folder))) as connection,
        ):
            yield connection

    def _kept_copy(
        self, path: str, kept: dict[str, tuple[State, Path]], folder: Path
    ) -> sqlite3.Connection | None:
        state = _state(path)
        known = kept.get(path)
        if state is not None and known is not None and known[0] == state:
            return _open_copy(known[1])
        own = folder / str(len(kept) if known is None else known[1].parent.name)
        own.mkdir(mode=0o700, exist_ok=True)
        connection = _connect(path, own)
        if state is not None and connection is not None and _state(path) == state:
            kept[path] = state, own / _COPY_NAME
        return connection


@contextmanager
def _closing(connection: sqlite3.Connection | None) -> Iterator[sqlite3.Connection | None]:
    try:
        yield connection
    finally:
        if connection is not None:
            connection.close()


def _open(path: str) -> int | None:
    # O_NONBLOCK: a FIFO put in a transcript's place must not hold anybody up.
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _blocks(read: Callable[[int], bytes | None], start: int) -> Iterator[StoreBlock]:
    at = start
    held: list[bytes] = []
    size = 0
    while chunk := read(CHUNK):
        last = chunk.rfind(b"\n")
        if last < 0:
            size += len(chunk)
            held = [*held, chunk] if size <= LINE_LIMIT else []
            continue
        first = chunk.find(b"\n") if size else 0
        if size + first > LINE_LIMIT:
            at += size + first + 1
            yield StoreBlock(b"", at, cut=True)
            held, size = [], 0
            chunk, last = chunk[first + 1 :], last - first - 1
        if last >= 0:
            at += size + last + 1
            yield StoreBlock(b"".join([*held, chunk[:last]]) if held else chunk[:last], at)
        rest = chunk[last + 1 :]
        held, size = ([rest], len(rest)) if rest else ([], 0)
    if size:
        cut = size > LINE_LIMIT
        yield StoreBlock(b"" if cut else b"".join(held), at + size, cut=cut, ended=False)


def _lines(blocks: Iterable[StoreBlock]) -> Iterator[StoreLine]:
    for block in blocks:
        if block.cut or not block.ended:
            yield StoreLine(block.data, block.end, cut=block.cut, ended=block.ended)
            continue
        at = block.end - len(block.data) - 1
        for data in block.data.split(b"\n"):
            at += len(data) + 1
            yield StoreLine(data[:-1] if data.endswith(b"\r") else data, at)


def _connect(path: str, folder: Path) -> sqlite3.Connection | None:
    """A connection to a copy, so that neither a lock nor a -shm file appears beside somebody's database."""
    copy = folder / _COPY_NAME
    for _ in range(3):
        before = _state(path)
        if before is None or before[0][0] > DATABASE_LIMIT or not _copy(path, copy):
            return None
        for end in ("-wal",):
            with suppress(OSError):
                copy.with_name(copy.name + end).unlink()
            _copy(path + end, copy.with_name(copy.name + end))
        if _state(path) == before:
            break
        # It was written to meanwhile: the WAL may not fit the file. Try again, and take the last one.
    return _open_copy(copy)


def _open_still(path: str, state: State) -> sqlite3.Connection | None:
    """The file itself, if nobody has written to it of late: without a lock, and as if on a read-only disk.

    What stands in a WAL or a journal would be passed over, so there must be neither.
    """
    (size, changed), (waiting, _) = state
    busy = waiting or os.path.lexists(path + "-journal") or abs(time.time_ns() - changed) < _STILL
    if busy or size > DATABASE_LIMIT or not Path(path).is_file():
        return None
    return _opened(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1")


def _open_copy(copy: Path) -> sqlite3.Connection | None:
    return _opened(copy.as_uri())


def _opened(uri: str) -> sqlite3.Connection | None:
    try:
        connection = sqlite3.connect(uri, isolation_level=None, uri=True)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.execute("PRAGMA query_only = 1")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        return None
    return connection


def _state(path: str) -> State | None:
    states = []
    for end in ("", "-wal"):
        try:
            found = os.stat(path + end)  # noqa: PTH116
        except (OSError, ValueError):
            if not end:
                return None
            states.append((0, 0))
        else:
            states.append((found.st_size, found.st_mtime_ns))
    return tuple(states)


def _copy(path: str, target: Path) -> bool:
    descriptor = _open(path)
    if descriptor is None:
        return False
    with open(descriptor, "rb", buffering=0) as source:  # noqa: PTH123
        try:
            with target.open("wb", buffering=0) as file:
                os.fchmod(file.fileno(), 0o600)
                while piece := source.read(_COPY):
                    file.write(piece)
        except OSError:
            return False
    return True
