"""A transcript that was copied out of its store: read as if it lay in one.

Which CLI wrote it is told by who can read it. The file is shown to each store at the place where the store
would keep it, in a home folder that does not exist, and there is nothing else in that folder.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePosixPath

from attrs import evolve, frozen

from relay.core.intel import Depth, SessionIntel
from relay.core.lift import Lift
from relay.providers.store_protocol import FileEntry, StoreBlock, StoreFiles, StoreLine
from relay.providers.stores import store_named

_PLACES = {
    "claude": "projects/lone/{id}.jsonl",
    "codex": "sessions/1970/01/01/rollout-1970-01-01T00-00-00-{id}.jsonl",
    "gemini": "tmp/lone/chats/session-1970-01-01T00-00-{short}{suffix}",
    "qwen": "projects/lone/chats/{id}.jsonl",
    "copilot": "session-state/{id}/events.jsonl",
}
"""Where the stores keep a session that is one file and tells its folder."""
_ID = re.compile(rb'"(?:sessionId|session_id|id)" ?: ?"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"')
_HEAD_LINES = 20


@frozen(kw_only=True)
class _OneFile:
    """`StoreFiles` of a home folder that holds one file, which lies elsewhere."""

    files: StoreFiles
    real: str
    shown: str

    def glob(self, home: str, pattern: str) -> Iterable[FileEntry]:
        inside = PurePosixPath(self.shown).relative_to(home)
        fits = len(inside.parts) == len(PurePosixPath(pattern).parts) and inside.match(pattern)
        entry = self.entry(self.shown) if fits else None
        return (entry,) if entry else ()

    def entry(self, path: str) -> FileEntry | None:
        entry = self.files.entry(self.real) if path == self.shown else None
        return evolve(entry, path=self.shown) if entry else None

    def read(self, path: str, most: int = 8 * 1024 * 1024) -> bytes | None:
        return self.files.read(self.real, most) if path == self.shown else None

    def head(self, path: str, most: int) -> bytes:
        return self.files.head(self.real, most) if path == self.shown else b""

    def lines(self, path: str, start: int = 0) -> Iterable[StoreLine]:
        return self.files.lines(self.real, start) if path == self.shown else ()

    def blocks(self, path: str, start: int = 0) -> Iterable[StoreBlock]:
        return self.files.blocks(self.real, start) if path == self.shown else ()

    def database(self, path: str) -> AbstractContextManager[sqlite3.Connection | None]:
        return nullcontext(None)


def recognise(files: StoreFiles, path: str) -> SessionIntel | None:
    """The session in a file, as the store that understands most of it reads it; None when none does.

    Its `home` is "": it lies in no store.

    Args:
        path: absolute.
    """
    read = (read_lone(files, store, path, Depth.LIST) for store in _PLACES)
    sessions = [lift.intel() for lift in read if lift is not None]
    best = max(sessions, key=lambda intel: intel.message_count, default=None)
    return best if best is not None and best.first_prompt else None


def read_lone(files: StoreFiles, store: str, path: str, depth: Depth) -> Lift | None:
    """Read a file as a session of that store; None when it is none.

    Raises:
        KeyError: sessions of the store are no single files.
    """
    native_id = _id_in(files, path)
    if not native_id:
        return None
    place = _PLACES[store].format(id=native_id, short=native_id[:8], suffix=PurePosixPath(path).suffix)
    only = _OneFile(files=files, real=path, shown=f"{path}/{place}")
    reader = store_named(store)
    for found in reader.find(only, path, 0.0):
        lift = reader.open(only, found, depth).read()
        lift.home, lift.path = "", path
        return lift
    return None


def _id_in(files: StoreFiles, path: str) -> str:
    """The session's id, which every CLI writes into one of the first records."""
    for number, line in enumerate(files.lines(path)):
        found = _ID.search(line.data, 0, 64 * 1024)
        if found:
            return found[1].decode()
        if number >= _HEAD_LINES:
            break
    return ""
