"""Where cursor-agent, Cursor's command line, keeps its chats: `chats/<workspace>/<id>/store.db` in ~/.cursor.

One database a chat: `meta` holds hex-encoded JSON that names the root, and `blobs` the messages; the root is
a protobuf message whose field 1 lists them in order. A `meta.json` beside it, in newer versions, tells
the folder. As read in public sources, not seen written.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.cursor_chat import is_message, lift_messages, wire_fields
from relay.providers.documents import DocumentTranscript, Record, epoch_ms, object_in
from relay.providers.homes import in_home, unique
from relay.providers.store_protocol import Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import stamp_of
from relay.providers.vscode_places import path_of

_NOT_SESSIONS = (
    "login",
    "logout",
    "status",
    "whoami",
    "update",
    "upgrade",
    "mcp",
    "ls",
    "about",
    "models",
    "help",
    "install-shell-integration",
    "uninstall-shell-integration",
    "create-chat",
    "worker-server",
    "--version",
    "--help",
)
_WORKSPACE = 9
"""Number of the root's field that names the folder."""
_SMALL = 256 * 1024


class CursorAgentStore:
    """See the module. Folders that Relay knows are remembered: older chats name theirs by a hash alone."""

    name = "cursor-agent"
    provider = ""
    display_name = "Cursor CLI"

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """`~/.cursor`, where it keeps its chats, and $CURSOR_DATA_DIR."""
        for folder in machine.folders:
            self._known[_hash(folder)] = folder
        return unique(machine, machine.env.get("CURSOR_DATA_DIR", ""), in_home(machine, ".cursor"))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each chat."""
        for entry in files.glob(home, "chats/*/*/store.db"):
            path = PurePath(entry.path)
            beside = [files.entry(f"{path}-wal"), files.entry(f"{path.parent}/meta.json")]
            entries = [entry, *(each for each in beside if each)]
            touched = max(each.mtime for each in entries)
            if touched < since:
                continue
            told = object_in(files.read(f"{path.parent}/meta.json", _SMALL) or b"")
            cwd = shapes.text(told, "cwd")
            yield Found(
                store=self.name,
                home=home,
                native_id=path.parent.name,
                paths=(entry.path,),
                touched=touched,
                stamp=stamp_of(entries),
                size=sum(each.size for each in entries),
                hint={
                    "cwd": normal(cwd) if cwd else self._known.get(path.parts[-3], ""),
                    "title": shapes.text(told, "title"),
                },
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CursorAgentChat:
        """See `SessionStore`."""
        return CursorAgentChat(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """`cursor-agent`, or Node running it; not its commands that end at once."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if program.startswith("node"):
            scripts = [number for number, word in enumerate(rest[:4]) if "/cursor-agent/" in word]
            if not scripts or not rest[scripts[0]].endswith((".js", ".mjs")):
                return False
            rest = rest[scripts[0] + 1 :]
        elif program not in ("cursor-agent", "cursor-agent.exe") and process.name != "cursor-agent":
            return False
        return not rest or rest[0] not in _NOT_SESSIONS

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the chat's own folder."""
        return ("cursor-agent", "--resume", native_id)


class CursorAgentChat(DocumentTranscript):
    """One chat; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        path = self.found.paths[0]
        sidecar = object_in(self.files.read(f"{PurePath(path).parent}/meta.json", _SMALL) or b"")
        lift.at(epoch_ms(sidecar, "createdAtMs"))
        with self.files.database(path) as database:
            if database is None:
                lift.skip("malformed")
                return
            meta = _meta(database)
            root = _blob(database, shapes.text(meta, "latestRootBlobId"))
            for number, value in wire_fields(root):
                if number == _WORKSPACE and not lift.cwd:
                    told = value.decode("utf-8", "replace")
                    lift.named(cwd=path_of(told) or (normal(told) if told.startswith("/") else ""))
            lift.named(title=shapes.text(meta, "name"))
            lift.at(epoch_ms(meta, "createdAt"))
            lift_messages(lift, _messages(lift, database, root))
            lift.named(
                model=shapes.text(meta, "lastUsedModel"),
                parent=shapes.text(shapes.mapping(meta, "subagentInfo"), "parentAgentId"),
            )
        lift.at(epoch_ms(sidecar, "updatedAtMs") or shapes.instant({"at": self.found.touched}, "at"))


def _messages(lift: Lift, database: sqlite3.Connection, root: bytes) -> Iterator[Record]:
    for number, value in wire_fields(root):
        if number != 1 or len(value) != 32:
            continue
        data = _blob(database, value.hex())
        lift.bytes_read += len(data)
        message = object_in(data)
        if is_message(message):
            yield message
        else:
            lift.skip("malformed" if data else "unknown")


def _meta(database: sqlite3.Connection) -> Mapping[str, object]:
    value = _one(database, "SELECT value FROM meta WHERE key = '0'")
    try:
        return object_in(bytes.fromhex(value.decode("ascii", "replace")))
    except ValueError:
        return object_in(value)


def _blob(database: sqlite3.Connection, name: str) -> bytes:
    return _one(database, "SELECT data FROM blobs WHERE id = ?", name)


def _one(database: sqlite3.Connection, query: str, *values: str) -> bytes:
    try:
        row = database.execute(query, values).fetchone()
    except sqlite3.Error:
        return b""
    value = row[0] if row else None
    return value.encode("utf-8", "replace") if isinstance(value, str) else value or b""


def _hash(folder: str) -> str:
    return hashlib.md5(folder.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
