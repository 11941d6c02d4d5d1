"""Where OpenCode keeps its sessions: `opencode.db`, an SQLite database in its data folder.

As OpenCode 1.18.33 writes it: tables session, message, part and todo, with JSON in `data`. Read from a copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import orjson

from relay.core.events import AgentText, Channel, ErrorSignal, PlanItem, PlanUpdated, TokenUsage
from relay.core.failures import as_failed, classify
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, status_of
from relay.providers.homes import data_home, unique
from relay.providers.store_protocol import Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import stamp_of
from relay.providers.wordings import wording_of

_WORDING = wording_of("opencode")
_DATABASE = "opencode.db"
_MOST_PARTS = 200_000
_NOT_SESSIONS = (
    "auth",
    "models",
    "upgrade",
    "uninstall",
    "stats",
    "export",
    "import",
    "session",
    "--version",
    "mcp",
)


class OpenCodeStore:
    """See the module."""

    name = "opencode"
    provider = ""
    display_name = "OpenCode"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """`opencode` in the data folder, and the accounts' own."""
        return unique(machine, f"{data_home(machine)}/opencode", *machine.accounts.get("opencode", ()))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each session that was touched; one query."""
        path = f"{home}/{_DATABASE}"
        entries = [entry for end in ("", "-wal") if (entry := files.entry(path + end))]
        if not entries or max(entry.mtime for entry in entries) < since:
            return
        with files.database(path) as database:
            for row in _rows(database, "SELECT id, time_updated, directory, title FROM session"):
                touched = _seconds(row[1])
                if touched >= since and row[0]:
                    yield Found(
                        store=self.name,
                        home=home,
                        native_id=str(row[0]),
                        paths=(path,),
                        key=str(row[0]),
                        touched=touched,
                        stamp=f"{row[1]}:{stamp_of(entries[:1])}",
                        size=sum(entry.size for entry in entries),
                        hint={"cwd": str(row[2] or ""), "title": str(row[3] or "")},
                    )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> OpenCodeSession:
        """See `SessionStore`."""
        return OpenCodeSession(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """`opencode`."""
        words = process.argv
        if not any(PurePath(word).name in ("opencode", "opencode.exe") for word in words[:2]):
            return False
        return not any(word in _NOT_SESSIONS for word in words[1:3])

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Anywhere."""
        return ("opencode", "--session", native_id)


class OpenCodeSession:
    """One session of the database; read anew each time."""

    def __init__(self, files: StoreFiles, found: Found, depth: Depth) -> None:
        self._files, self._found, self._depth = files, found, depth

    def read(self) -> Lift:
        """See `Transcript`."""
        found = self._found
        lift = Lift(
            store=found.store,
            home=found.home,
            native_id=found.native_id,
            path=found.paths[0],
            depth=self._depth,
        )
        with self._files.database(found.paths[0]) as database:
            if database is not None:
                _session(lift, database, found.key)
        return lift


def _session(lift: Lift, database: sqlite3.Connection, key: str) -> None:
    columns = ("directory", "title", "version", "parent_id", "model", "time_created", "time_updated")
    row = next(iter(_rows(database, "SELECT * FROM session WHERE id = ?", key, named=True)), None)
    if row is None:
        return
    told = {name: row[name] if name in row.keys() else None for name in columns}  # noqa: SIM118  (a Row)
    model = shapes.record(str(told["model"] or "").encode("utf-8", "replace")) or {}
    lift.named(
        cwd=str(told["directory"] or ""),
        title=str(told["title"] or ""),
        version=str(told["version"] or ""),
        parent=str(told["parent_id"] or ""),
        model=shapes.text(model, "id"),
    )
    lift.at(_instant(told["time_created"]))
    lift.at(_instant(told["time_updated"]))
    parts: dict[str, list[Mapping[str, Any]]] = {}
    wanted = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY time_created, id"
    for name, data in _rows(database, wanted, key):
        parts.setdefault(str(name), []).append(_json(lift, data))
    fresh = cached = output = 0
    cost = 0.0
    rows = _rows(database, "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", key)
    for name, data in rows:
        message = _json(lift, data)
        spent = shapes.mapping(message, "tokens")
        kept = shapes.mapping(spent, "cache")
        fresh += shapes.integer(spent, "input") + shapes.integer(kept, "write")
        cached += shapes.integer(kept, "read")
        output += shapes.integer(spent, "output") + shapes.integer(spent, "reasoning")
        cost += float(shapes.number(message, "cost") or 0)
        _message(lift, message, parts.get(str(name), []))
    lift.totals(TokenUsage(input=fresh, cached_input=cached, output=output), cost or None)
    todos = _rows(database, "SELECT content, status FROM todo WHERE session_id = ? ORDER BY position", key)
    items = tuple(PlanItem(text=str(text), status=status_of(str(status))) for text, status in todos if text)
    if items:
        lift.take(PlanUpdated(items=items))


def _message(lift: Lift, message: Mapping[str, Any], parts: list[Mapping[str, Any]]) -> None:
    times = shapes.mapping(message, "time")
    at = _instant(shapes.number(times, "completed") or shapes.number(times, "created"))
    words = "\n".join(
        shapes.text(part, "text")
        for part in parts
        if shapes.text(part, "type") == "text" and part.get("synthetic") is not True
    )
    if shapes.text(message, "role") == "user":
        lift.said(_unquoted(typed(words)), at)
        return
    lift.named(model=shapes.text(message, "modelID"))
    for part in parts:
        match shapes.text(part, "type"):
            case "text" if shapes.text(part, "text").strip():
                lift.take(AgentText(text=shapes.text(part, "text")), at)
            case "tool":
                _tool(lift, part, at)
            case "compaction":
                lift.compacted("", at)
            case _:
                pass
    spent = shapes.mapping(message, "tokens")
    kept = shapes.mapping(spent, "cache")
    lift.context(
        shapes.integer(spent, "total")
        or shapes.integer(spent, "input") + shapes.integer(kept, "read") + shapes.integer(spent, "output")
    )
    error = shapes.mapping(message, "error")
    if error:
        _failed(lift, error, at)
    else:
        lift.turn_open = shapes.text(message, "finish") not in ("stop", "length", "content-filter")


def _tool(lift: Lift, part: Mapping[str, Any], at: datetime | None) -> None:
    state = shapes.mapping(part, "state")
    status = shapes.text(state, "status")
    code = shapes.number(shapes.mapping(state, "metadata"), "exit")
    act(
        lift,
        tool=shapes.text(part, "tool"),
        call_id=shapes.text(part, "callID"),
        given=shapes.mapping(state, "input"),
        at=at,
        ok=None if status in ("running", "pending") else status == "completed",
        output=shapes.text(state, "output") or shapes.text(state, "error"),
        exit_code=int(code) if code is not None else None,
        denied="rejected permission" in shapes.text(state, "error"),
    )


def _failed(lift: Lift, error: Mapping[str, Any], at: datetime | None) -> None:
    data = shapes.mapping(error, "data")
    name = shapes.text(error, "name")
    status = shapes.number(data, "statusCode")
    if name == "MessageAbortedError":
        lift.turn_open = True
        return
    signal = ErrorSignal(
        channel=Channel.TRANSCRIPT,
        text=shapes.text(data, "message") or name,
        code=name or None,
        http_status=int(status) if status else None,
    )
    now = at or datetime.fromtimestamp(0, UTC)
    verdict = as_failed(classify(signal, _WORDING, now=now, zone=UTC, printed_at=at))
    lift.failed(signal, verdict, at)


def _rows(database: sqlite3.Connection | None, query: str, *values: str, named: bool = False) -> list[Any]:
    """What a query gives; nothing where a table or column is missing, as in other versions."""
    if database is None:
        return []
    database.row_factory = sqlite3.Row if named else None
    try:
        return database.execute(query, values).fetchmany(_MOST_PARTS)
    except sqlite3.Error:
        return []


def _json(lift: Lift, data: object) -> Mapping[str, Any]:
    found = shapes.record(str(data).encode("utf-8", "replace")) if data is not None else None
    if found is None:
        lift.skip("malformed")
    return found or {}


def _unquoted(text: str) -> str:
    """A prompt given on the command line is stored in double quotes when it holds a space (1.18.33)."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            inner = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text[1:-1]
        return inner if isinstance(inner, str) else text
    return text


def _seconds(value: object) -> float:
    return float(value) / 1000 if isinstance(value, int | float) else 0.0


def _instant(value: object) -> datetime | None:
    return shapes.instant({"at": _seconds(value)}, "at")
