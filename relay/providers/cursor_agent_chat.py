"""One chat of cursor-agent, lifted from its database.

As read in public sources, not seen written. Opened by `relay.providers.cursor_agent_store`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from relay.core.lift import Lift
from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.cursor_agent_store import told_beside
from relay.providers.cursor_chat import is_message, lift_messages, wire_fields
from relay.providers.documents import DocumentTranscript
from relay.providers.json_texts import Record, epoch_ms, object_in
from relay.providers.vscode_places import path_of

_WORKSPACE = 9
"""Number of the root's field that names the folder."""


class CursorAgentChat(DocumentTranscript):
    """One chat; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        path = self.found.paths[0]
        sidecar = told_beside(self.files, PurePath(path))
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
