"""What a module that reads a CLI's own sessions implements, and what it may use to look at the disk.

A `SessionStore` knows where a CLI keeps its sessions, how to list them cheaply and how to read one. It
touches the disk through `StoreFiles` alone, which reads only, bounds what it reads and never follows a
path that a transcript names. The engine in `relay.effects` calls it; `relay.providers.stores` lists all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from attrs import field, frozen

if TYPE_CHECKING:
    from relay.core.intel import Depth
    from relay.core.lift import Lift


VARIABLES = (
    "APPDATA",
    "CLAUDE_CONFIG_DIR",
    "CLINE_DIR",
    "CODEX_HOME",
    "CONTINUE_GLOBAL_DIR",
    "COPILOT_HOME",
    "CURSOR_DATA_DIR",
    "GEMINI_CLI_HOME",
    "QWEN_HOME",
    "VSCODE_PORTABLE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
"""Of the environment: those that say where a store lies."""


@frozen(kw_only=True)
class Machine:
    """Where stores are looked for.

    Args:
        env: the environment (CLAUDE_CONFIG_DIR, XDG_DATA_HOME, APPDATA, ...).
        home: the user's home folder, absolute.
        platform: as `sys.platform`: "linux", "darwin" or "win32".
        accounts: by provider, the folders of the accounts that Relay knows, absolute.
        folders: repositories and working folders that are known, for stores that lie in them.
    """

    env: Mapping[str, str]
    home: str
    platform: str = "linux"
    accounts: Mapping[str, tuple[str, ...]] = field(factory=dict)
    folders: tuple[str, ...] = ()


@frozen(kw_only=True)
class FileEntry:
    """A regular file as the directory tells it.

    Args:
        mtime: seconds since 1970.
        identity: device and inode; another number is another file.
    """

    path: str
    size: int
    mtime: float
    identity: tuple[int, int] = (0, 0)


@frozen(kw_only=True)
class Found:
    """A session that lies in a store, as far as listing tells.

    Args:
        store, home, native_id: as in `SessionIntel`. native_id may be "" until the session is read.
        paths: its own files in the order in which they are read; a database's path where it has none.
        key: its place in a file or database that holds several; else "".
        touched: seconds since 1970 when it last changed (of the newest of its files, or as the store says).
        stamp: changes whenever what `open` would read has changed: sizes, times and identities of its
            files, or a row's own time and version. Equal stamps mean that a remembered reading holds.
        size: bytes of its files.
        hint: what the listing tells already (cwd, title, model, ...) by `SessionIntel` names.
    """

    store: str
    home: str
    native_id: str
    paths: tuple[str, ...]
    key: str = ""
    touched: float = 0.0
    stamp: str = ""
    size: int = 0
    hint: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class Live:
    """A running process that a store's own registry names.

    Args:
        native_id: the session it works on, or "".
        started: the process's start as the registry tells it, in clock ticks since boot; 0: untold.
        busy: it says that it is in the middle of a turn; None: it does not say.
    """

    pid: int
    native_id: str = ""
    cwd: str = ""
    started: int = 0
    busy: bool | None = None


@frozen(kw_only=True)
class RunningProcess:
    """A process of this user: what a store needs to know its own CLI."""

    pid: int
    name: str
    argv: tuple[str, ...]
    exe: str = ""
    cwd: str = ""
    started_at: datetime | None = None
    env: Mapping[str, str] = field(factory=dict)


class StoreLine(NamedTuple):
    """One line of a file: its bytes without the line end, and the offset behind it.

    `cut`: it was longer than 32 MiB, and `data` is empty. `ended`: a newline ends it; the last may lack one.
    """

    data: bytes
    end: int
    cut: bool = False
    ended: bool = True


class StoreBlock(NamedTuple):
    """Whole lines of a file, with line ends between but not behind them, and the offset behind the last.

    `cut`: a single line that was longer than 32 MiB, and `data` is empty. `ended`: a newline ends the last
    line; one that lacks it makes a block of its own.
    """

    data: bytes
    end: int
    cut: bool = False
    ended: bool = True


class StoreFiles(Protocol):
    """Reads, and nothing else. A file that vanished is no entry, no lines and no bytes, never an error."""

    def glob(self, home: str, pattern: str) -> Iterable[FileEntry]:
        """Regular files below `home` that match, in no order. Links that lead out of it are passed over.

        Args:
            pattern: as `pathlib.Path.glob`, relative.
        """

    def entry(self, path: str) -> FileEntry | None:
        """The file, or None when there is none or it is not a regular file."""

    def read(self, path: str, most: int = 8 * 1024 * 1024) -> bytes | None:
        """A small file in whole; None when it is absent or larger than `most`."""

    def head(self, path: str, most: int) -> bytes:
        """The first bytes of a file, `most` of them; none when it is absent."""

    def lines(self, path: str, start: int = 0) -> Iterable[StoreLine]:
        """Lines from a byte offset that is a line's beginning, or the end of one without its newline."""

    def blocks(self, path: str, start: int = 0) -> Iterable[StoreBlock]:
        """The same lines, many at a time."""

    def database(self, path: str) -> AbstractContextManager[sqlite3.Connection | None]:
        """A read-only connection to an SQLite file that nobody works on, or to a private copy of it, its WAL
        included; None when it is absent or no database. Nobody's lock is taken. Text is decoded with
        replacement.

        Raises:
            OSError: at the end: it was written to while it was read, so that what was read may not fit.
        """


class Transcript(Protocol):
    """One session, opened."""

    def read(self) -> Lift:
        """Read what is new since the last call, all of it at the first; what is known by now.

        The same `Lift` may be returned again, further on, or a new one when the session was rewritten.
        """


class SessionStore(Protocol):
    """Where one kind of agent keeps its sessions. Stateless."""

    name: str
    """Unique among stores: "claude", "codex", "copilot-chat"."""
    provider: str
    """The provider that resumes its sessions natively, as Relay names it; "" when Relay has none."""
    display_name: str

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """The folders where its sessions lie, absolute, whether they exist or not; each once."""

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """Its sessions that changed since then (seconds since 1970), cheaply: by names and directory
        entries, or one query. No session is read."""

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> Transcript:
        """A session that `find` gave; nothing is read yet."""

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """What the store's own registry says is running; stale entries included. Empty where it has none."""

    def runs(self, process: RunningProcess) -> bool:
        """The process is this CLI at work on sessions (not a helper, hub, or language server of its)."""

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """The CLI's own command to resume a session, for people; empty where it has none."""


class NoRegistry:
    """A store of an agent that writes down nowhere which of its processes works on what."""

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """Nothing."""
        return ()


class InEditor(NoRegistry):
    """A store of an agent that works inside an editor, and whose sessions are opened there only."""

    def runs(self, process: RunningProcess) -> bool:
        """Never: an editor is open whether an agent works in it or not."""
        return False

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Nothing: no command opens one."""
        return ()
