"""Where VS Code keeps the chat sessions of GitHub Copilot: `chatSessions` in the storage of a workspace.

A session is a `.json` document or, since about VS Code 1.108, a `.jsonl` log of changes; those of windows
without a folder lie in `globalStorage/emptyWindowChatSessions`. Older releases kept all of a workspace's
sessions in its `state.vscdb`. As read in public sources, not seen written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from relay.core.intel import Depth
from relay.providers import shapes
from relay.providers.json_texts import json_of
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, InEditor, Machine, StoreFiles
from relay.providers.vscode_places import user_folders, workspace_folder

if TYPE_CHECKING:
    from relay.providers.copilot_chat_session import CopilotChatSession

_PATTERNS = (
    "workspaceStorage/*/chatSessions/*.json",
    "workspaceStorage/*/chatSessions/*.jsonl",
    "globalStorage/emptyWindowChatSessions/*.json",
    "globalStorage/emptyWindowChatSessions/*.jsonl",
)
_OLD_KEY = "interactive.sessions"
_SMALL_DATABASE = 64 * 1024 * 1024


class CopilotChatStore(InEditor):
    """See the module."""

    name = "copilot-chat"
    provider = ""
    display_name = "GitHub Copilot Chat"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """The <User> folder of every editor of the family."""
        return user_folders(machine)

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each file, and for each session of an old database that has no file."""
        sessions: dict[str, FileEntry] = {}
        storages: set[str] = set()
        for pattern in _PATTERNS:
            for entry in files.glob(home, pattern):
                path = PurePath(entry.path)
                storages.add(str(path.parent.parent))
                if entry.size and not path.name.startswith("."):
                    # A session that was moved from the one format to the other is left in both.
                    before = sessions.get(str(path.with_suffix("")))
                    if before is None or before.mtime <= entry.mtime:
                        sessions[str(path.with_suffix(""))] = entry
        for entry in sessions.values():
            if entry.mtime < since:
                continue
            path = PurePath(entry.path)
            yield Found(
                store=self.name,
                home=home,
                native_id=path.stem,
                paths=(entry.path,),
                touched=entry.mtime,
                stamp=stamp_of((entry,)),
                size=entry.size,
                hint={"cwd": workspace_folder(files, str(path.parent.parent))},
            )
        for entry in files.glob(home, "workspaceStorage/*/state.vscdb"):
            if str(PurePath(entry.path).parent) not in storages:
                yield from self._in_database(files, home, entry, since)

    def _in_database(self, files: StoreFiles, home: str, entry: FileEntry, since: float) -> Iterable[Found]:
        entries = [entry, *filter(None, (files.entry(entry.path + "-wal"),))]
        if max(each.mtime for each in entries) < since or not _names_old_key(files, entries):
            return
        with files.database(entry.path) as database:
            sessions = old_sessions(database)
        for session in sessions:
            touched = (shapes.number(session, "lastMessageDate") or 0) / 1000
            name = shapes.text(session, "sessionId")
            if name and (touched >= since or not touched):
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=name,
                    paths=(entry.path,),
                    key=name,
                    touched=touched or entry.mtime,
                    stamp=f"{touched}:{len(shapes.items(session, 'requests'))}:{stamp_of(entries)}",
                    size=sum(each.size for each in entries),
                    hint={"cwd": workspace_folder(files, str(PurePath(entry.path).parent))},
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CopilotChatSession:
        """See `SessionStore`."""
        from relay.providers.copilot_chat_session import CopilotChatSession

        return CopilotChatSession(files, found, depth)


def _names_old_key(files: StoreFiles, entries: Iterable[FileEntry]) -> bool:
    """Cheaper than a copy: most databases hold no such key any more."""
    word = _OLD_KEY.encode()
    return any(word in (files.read(entry.path, _SMALL_DATABASE) or b"") for entry in entries)


def old_sessions(database: sqlite3.Connection | None) -> list[Mapping[str, Any]]:
    """The sessions that an old database holds under its one key."""
    if database is None:
        return []
    try:
        row = database.execute("SELECT value FROM ItemTable WHERE key = ?", (_OLD_KEY,)).fetchone()
    except sqlite3.Error:
        return []
    value = json_of(row[0]) if row and isinstance(row[0], str | bytes) else None
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
