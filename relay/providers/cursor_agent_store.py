"""Where cursor-agent, Cursor's command line, keeps its chats: `chats/<workspace>/<id>/store.db` in ~/.cursor.

One database a chat: `meta` holds hex-encoded JSON that names the root, and `blobs` the messages; the root is
a protobuf message whose field 1 lists them in order. A `meta.json` beside it, in newer versions, tells
the folder. As read in public sources, not seen written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.homes import in_home, unique
from relay.providers.json_texts import Record, object_in
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import Found, Machine, NoRegistry, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.cursor_agent_chat import CursorAgentChat

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
_SMALL = 256 * 1024


class CursorAgentStore(NoRegistry):
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
            told = told_beside(files, path)
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
        from relay.providers.cursor_agent_chat import CursorAgentChat

        return CursorAgentChat(files, found, depth)

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


def told_beside(files: StoreFiles, database: PurePath) -> Record:
    """What the file beside a chat's database tells of it, in newer versions."""
    return object_in(files.read(f"{database.parent}/meta.json", _SMALL) or b"")


def _hash(folder: str) -> str:
    return hashlib.md5(folder.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
