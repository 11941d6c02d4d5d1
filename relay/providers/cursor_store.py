"""Where Cursor keeps the conversations of its editor: rows of `globalStorage/state.vscdb`.

`composerData:<id>` tells a conversation and the order of its bubbles, `bubbleId:<id>:<bubble>` each of them;
very old ones hold them inline, and newer ones may keep messages in `agentKv:blob:<hash>`. Which workspace one
belongs to stands in `composerHeaders`, in its bubbles, or in the workspace's own database. The newest summary
of a conversation stands beside its bubbles, which all stay. As read in public sources for Cursor 2.x, not
seen written.
"""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from attrs import frozen

from relay.core.events import PlanUpdated
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.acts import plan_in
from relay.providers.cursor_chat import Todos, is_message, lift_bubble, lift_end, lift_messages, wire_fields
from relay.providers.documents import DocumentTranscript, Record, epoch_ms, object_in
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import stamp_of
from relay.providers.vscode_places import path_of, user_folders, workspace_folder

_LIST = """
    SELECT substr(key, 14), CASE WHEN json_valid(text) THEN json_extract(text, '$.lastUpdatedAt') END,
           CASE WHEN json_valid(text) THEN json_extract(text, '$.createdAt') END,
           CASE WHEN json_valid(text) THEN json_extract(text, '$.name') END, length(text)
    FROM (SELECT key, CAST(value AS TEXT) AS text FROM cursorDiskKV
          WHERE key >= 'composerData:' AND key < 'composerData;' AND value IS NOT NULL)
"""
_FRESH = 3600.0
"""Seconds: in a conversation that changed so shortly before its database, a bubble may have changed alone."""
_MOST_BUBBLES = 50_000


@frozen
class _Row:
    """A conversation as its row tells it; times in seconds since 1970."""

    name: str
    updated: float
    title: str
    size: int


class CursorStore:
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
                told = object_in(_value(database, "ItemTable", "composer.composerData"))
            named = shapes.items(told, "allComposers")
            known = (stamp, tuple(shapes.text(each, "composerId") for each in named))
            self._workspaces[path] = known
        return known[1]

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CursorConversation:
        """See `SessionStore`."""
        return CursorConversation(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """Never: an editor is open whether an agent works in it or not."""
        return False

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """It is resumed in its editor only."""
        return ()


class CursorConversation(DocumentTranscript):
    """One conversation; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        with self.files.database(self.found.paths[0]) as database:
            value = _value(database, "cursorDiskKV", f"composerData:{self.found.key}")
            lift.bytes_read = len(value)
            told = object_in(value)
            if value and not told:
                lift.skip("malformed")
            _lift_conversation(lift, told, database)


def _lift_conversation(lift: Lift, told: Record, database: sqlite3.Connection | None) -> None:
    parent = shapes.text(shapes.mapping(told, "subagentInfo"), "parentComposerId")
    model = shapes.text(shapes.mapping(told, "modelConfig"), "modelName")
    lift.named(title=shapes.text(told, "name"), branch=shapes.text(told, "createdOnBranch"), parent=parent)
    begun, ended = epoch_ms(told, "createdAt"), epoch_ms(told, "lastUpdatedAt")
    lift.at(begun)
    todos = Todos()
    count = 0
    summary, covered = _summary(told)
    for bubble in _bubbles(lift, told, database):
        if summary and shapes.text(bubble, "bubbleId") not in covered:
            lift.compacted(summary)
            summary = ""
        if not lift.cwd:
            uris = shapes.items(bubble, "workspaceUris")
            lift.named(cwd=path_of(uris[0]) if uris else "")
        lift_bubble(lift, bubble, todos)
        count += 1
    if summary:
        lift.compacted(summary)
    if not count:
        lift_messages(lift, _messages(told, database))
    lift.at(ended)
    lift.named(model="" if model == "default" else model)
    if shapes.items(told, "todos"):
        lift.take(PlanUpdated(items=plan_in(shapes.items(told, "todos")).items), ended)
    for uri in shapes.mapping(told, "originalFileStates"):
        if path := path_of(uri):
            lift.changed(path)
    for file in shapes.items(told, "newlyCreatedFiles"):
        if path := path_of(shapes.mapping(file, "uri")):
            lift.changed(path)
    lift.context(shapes.integer(told, "contextTokensUsed"), shapes.integer(told, "contextTokenLimit"))
    lift.subagents = max(lift.subagents, len(shapes.items(told, "subComposerIds")))
    spent = [shapes.number(each, "costInCents") for each in shapes.mapping(told, "usageData").values()]
    if any(spent):
        lift.cost_usd = sum(cents or 0 for cents in spent) / 100
    lift_end(lift, shapes.text(told, "status"), ended)


def _summary(told: Record) -> tuple[str, frozenset[str]]:
    """The newest summary, and the bubbles that stand before it.

    What was said last stays the last thing said, also where the summary takes it in: one is made of a whole
    conversation too, for another one that refers to it.
    """
    latest = shapes.mapping(told, "latestConversationSummary")
    inner = shapes.mapping(latest, "summary")
    summary = shapes.text(inner, "summary") or shapes.text(latest, "summary")
    if not summary.strip():
        return "", frozenset()
    last = shapes.text(inner, "truncationLastBubbleIdInclusive") or shapes.text(latest, "lastBubbleId")
    headers = shapes.items(told, "fullConversationHeadersOnly") or shapes.items(told, "conversation")
    names = [shapes.text(header, "bubbleId") for header in headers]
    for number, header in enumerate(headers):
        if last and last in (names[number], shapes.text(header, "serverBubbleId")):
            return summary, frozenset(names[: min(number + 1, len(names) - 1)])
    return summary, frozenset()


def _bubbles(lift: Lift, told: Record, database: sqlite3.Connection | None) -> Iterator[Record]:
    """The bubbles in their order; those that are missing or empty are passed over."""
    seen: set[str] = set()
    inline = shapes.mapping(told, "conversationMap")
    for header in shapes.items(told, "fullConversationHeadersOnly")[:_MOST_BUBBLES]:
        name = shapes.text(header, "bubbleId")
        if not name or name in seen:
            lift.skip("duplicate" if name else "unknown")
            continue
        seen.add(name)
        key = f"bubbleId:{shapes.text(told, 'composerId') or lift.native_id}:{name}"
        value = _value(database, "cursorDiskKV", key)
        lift.bytes_read += len(value)
        bubble = object_in(value) or shapes.mapping(inline, name)
        if value and not bubble:
            lift.skip("malformed")
        elif bubble:
            yield bubble
    if not seen:
        yield from _strays(lift, database)
    for bubble in shapes.items(told, "conversation")[:_MOST_BUBBLES]:
        if isinstance(bubble, Mapping) and shapes.text(bubble, "bubbleId") not in seen:
            yield bubble


def _strays(lift: Lift, database: sqlite3.Connection | None) -> list[Record]:
    """All bubbles of a conversation that does not tell their order, by their times."""
    query = "SELECT value FROM cursorDiskKV WHERE key >= ? AND key < ? LIMIT ?"
    keys = f"bubbleId:{lift.native_id}:", f"bubbleId:{lift.native_id};", _MOST_BUBBLES
    bubbles = [
        object_in(value) for (value,) in _rows(database, query, *keys) if isinstance(value, str | bytes)
    ]
    return sorted(filter(None, bubbles), key=lambda bubble: shapes.text(bubble, "createdAt"))


def _messages(told: Record, database: sqlite3.Connection | None) -> Iterator[Record]:
    """The messages that the conversation's state names, from the agent's own blobs."""
    state = shapes.text(told, "conversationState").removeprefix("~")
    try:
        data = base64.b64decode(state + "=" * (-len(state) % 4))
    except (binascii.Error, ValueError):
        return
    for number, name in wire_fields(data):
        if number == 1 and len(name) == 32:
            message = object_in(_value(database, "cursorDiskKV", f"agentKv:blob:{name.hex()}"))
            if is_message(message):
                yield message


def _value(database: sqlite3.Connection | None, table: str, key: str) -> bytes:
    """The value of a key; nothing when it is NULL, or there is no such row or table."""
    rows = _rows(database, f"SELECT value FROM {table} WHERE key = ?", key)
    value = rows[0][0] if rows else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else b""


def _listed(database: sqlite3.Connection | None) -> Iterator[_Row]:
    for name, updated, created, title, size in _rows(database, _LIST):
        told = {"updated": updated, "created": created}
        times = [shapes.number(told, key) or 0 for key in told]
        yield _Row(str(name), max(times) / 1000, title if isinstance(title, str) else "", int(size or 0))


def _headers(database: sqlite3.Connection | None) -> dict[str, str]:
    """Conversation -> workspace id, where the database has such a table."""
    rows = _rows(database, "SELECT composerId, workspaceId FROM composerHeaders")
    return {str(name): workspace for name, workspace in rows if isinstance(workspace, str)}


def _rows(database: sqlite3.Connection | None, query: str, *values: str | int) -> list[Any]:
    """What a query gives; nothing where a table or column is missing, as in other versions."""
    if database is None:
        return []
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.Error:
        return []
