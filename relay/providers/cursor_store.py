"""Where Cursor keeps the conversations of its editor: rows of `globalStorage/state.vscdb`.

`composerData:<id>` tells a conversation and the order of its bubbles, `bubbleId:<id>:<bubble>` each of them;
very old ones hold them inline, and newer ones may keep messages in `agentKv:blob:<hash>`. Which workspace one
belongs to stands in `composerHeaders`, in its bubbles, or in the workspace's own database. As read in
public sources for Cursor 2.x, not seen written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from attrs import frozen

from relay.core.intel import Depth
from relay.providers import shapes
from relay.providers.cursor_rows import rows_of, value_of
from relay.providers.json_texts import object_in
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, InEditor, Machine, StoreFiles
from relay.providers.vscode_places import user_folders, workspace_folder

if TYPE_CHECKING:
    from relay.providers.cursor_conversation import CursorConversation

_LIST = """
    SELECT substr(key, 14), CASE WHEN json_valid(text) THEN json_extract(text, '$.lastUpdatedAt') END,
           CASE WHEN json_valid(text) THEN json_extract(text, '$.createdAt') END,
           CASE WHEN json_valid(text) THEN json_extract(text, '$.name') END, length(text)
    FROM (SELECT key, CAST(value AS TEXT) AS text FROM cursorDiskKV
          WHERE key >= 'composerData:' AND key < 'composerData;' AND value IS NOT NULL)
"""
_FRESH = 3600.0
"""Seconds: in a conversation that changed so shortly before its database, a bubble may have changed alone."""


@frozen
class _Row:
    """A conversation as its row tells it; times in seconds since 1970."""

    name: str
    updated: float
    title: str
    size: int


class CursorStore(InEditor):
    """See the module. The last listing is remembered for as long as the database does not change."""

    name = "cursor"
    provider = ""
    display_name = "Cursor"

    def __init__(self) -> None:
        self._listings: dict[str, tuple[str, tuple[_Row, ...], dict[str, str]]] = {}
        self._workspaces: dict[str, tuple[str, tuple[str, ...]]] = {}

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """The <User> folders of Cursor."""
        return user_folders(machine, ("Cursor",))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each conversation; one query, and none while the database has not changed."""
        path = f"{home}/globalStorage/state.vscdb"
        entries = [entry for end in ("", "-wal") if (entry := files.entry(path + end))]
        if not entries or max(entry.mtime for entry in entries) < since:
            return
        stamp = stamp_of(entries)
        remembered = self._listings.get(home)
        if remembered is None or remembered[0] != stamp:
            with files.database(path) as database:
                remembered = (stamp, tuple(_listed(database)), _headers(database))
            self._listings[home] = remembered
        _, rows, workspaces = remembered
        # A row that is damaged tells no time: its bubbles may have been written just now.
        rows = tuple(row for row in rows if row.updated >= since or not row.updated)
        folders = self._folders(files, home, workspaces, since) if rows else {}
        written = max(entry.mtime for entry in entries)
        for row in rows:
            own = f"{row.updated}:{row.size}"
            yield Found(
                store=self.name,
                home=home,
                native_id=row.name,
                paths=(path,),
                key=row.name,
                touched=row.updated or written,
                stamp=f"{own}:{stamp}" if written - row.updated < _FRESH else own,
                size=row.size,
                hint={"cwd": folders.get(row.name, ""), "title": row.title},
            )

    def _folders(
        self, files: StoreFiles, home: str, workspaces: Mapping[str, str], since: float
    ) -> dict[str, str]:
        """Conversation -> the folder of its workspace, as far as that was open lately."""
        folders: dict[str, str] = {}
        for entry in files.glob(home, "workspaceStorage/*/state.vscdb"):
            wal = files.entry(entry.path + "-wal")
            entries = [entry, *((wal,) if wal else ())]
            if max(each.mtime for each in entries) < since:
                continue
            storage = str(PurePath(entry.path).parent)
            folder = workspace_folder(files, storage)
            for name in self._composers(files, entries) if folder else ():
                folders.setdefault(name, folder)
        for name, workspace in workspaces.items():
            if PurePath(workspace).name == workspace and name not in folders:
                folders[name] = workspace_folder(files, f"{home}/workspaceStorage/{workspace}")
        return folders

    def _composers(self, files: StoreFiles, entries: list[FileEntry]) -> tuple[str, ...]:
        path, stamp = entries[0].path, stamp_of(entries)
        known = self._workspaces.get(path)
        if known is None or known[0] != stamp:
            with files.database(path) as database:
                told = object_in(value_of(database, "ItemTable", "composer.composerData"))
            named = shapes.items(told, "allComposers")
            known = (stamp, tuple(shapes.text(each, "composerId") for each in named))
            self._workspaces[path] = known
        return known[1]

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CursorConversation:
        """See `SessionStore`."""
        from relay.providers.cursor_conversation import CursorConversation

        return CursorConversation(files, found, depth)


def _listed(database: sqlite3.Connection | None) -> Iterator[_Row]:
    for name, updated, created, title, size in rows_of(database, _LIST):
        told = {"updated": updated, "created": created}
        times = [shapes.number(told, key) or 0 for key in told]
        yield _Row(str(name), max(times) / 1000, title if isinstance(title, str) else "", int(size or 0))


def _headers(database: sqlite3.Connection | None) -> dict[str, str]:
    """Conversation -> workspace id, where the database has such a table."""
    rows = rows_of(database, "SELECT composerId, workspaceId FROM composerHeaders")
    return {str(name): workspace for name, workspace in rows if isinstance(workspace, str)}
