"""One session of OpenCode, lifted from its messages and their parts, from a database or from files.

Shapes as OpenCode 1.18.33 writes them; those of older files, of a summary and of a revert are as read in
public sources, not seen. Rows are read one after the other, so a long session is never held in whole.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import PurePath
from typing import Any

import orjson
from attrs import define, field

from relay.core.events import AgentText, Channel, ErrorSignal
from relay.core.failures import as_failed, classify
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, plan_in
from relay.providers.opencode_rows import rows, table_columns
from relay.providers.opencode_skim import ENDS, QUIET_PART, QUIET_TOOLS, OpenCodeSkim
from relay.providers.skimming import Spending
from relay.providers.store_protocol import Found, StoreFiles
from relay.providers.wordings import wording_of

_WORDING = wording_of("opencode")
_RUNNING = ("running", "pending", "")
_MOST_CHILDREN = 200
_MOST_FILES = 200
_MOST_BYTES = 32 * 1024 * 1024
_LARGE = 8_192
"""Characters of a part from which on a list leaves out what a tool printed."""


_QUIET: Mapping[str, Any] = {"type": "tool"}
_TOOL = '{"type":"tool","tool":"'
_LISTED_PART = (
    "CAST(CASE "
    f"WHEN substr(p.data, 1, {len(_TOOL)}) = '{_TOOL}' AND "
    f"substr(p.data, {len(_TOOL) + 1}, instr(substr(p.data, {len(_TOOL) + 1}, 40), '\"') - 1) IN "
    f"({', '.join(map(repr, QUIET_TOOLS))}) THEN '{QUIET_PART.decode()}' "
    f"WHEN length(p.data) > {_LARGE} AND json_valid(p.data) "
    "THEN json_remove(p.data, '$.state.output', '$.state.metadata') ELSE p.data END AS BLOB)"
)
"""For a list a part without what a tool printed, and nothing but a word of tools that do not matter."""


@define
class _Message:
    name: str
    data: Mapping[str, Any]
    parts: list[Mapping[str, Any]] = field(factory=list)


class OpenCodeSession(ABC):
    """One session; read anew each time."""

    def __init__(self, files: StoreFiles, found: Found, depth: Depth) -> None:
        self.files, self.found, self.depth = files, found, depth

    def read(self) -> Lift:
        """See `Transcript`."""
        found = self.found
        lift = Lift(
            store=found.store,
            home=found.home,
            native_id=found.native_id,
            path=found.paths[0],
            depth=self.depth,
        )
        self.lift_into(lift)
        return lift

    @abstractmethod
    def lift_into(self, lift: Lift) -> None:
        """Read the session into the lift."""


class OpenCodeRows(OpenCodeSession):
    """In a database, whose columns may be those of another release."""

    def lift_into(self, lift: Lift) -> None:
        """See `OpenCodeSession`."""
        key, spent = self.found.key, Spending()
        with self.files.database(self.found.paths[0]) as database:
            if database is None:
                return
            try:
                _session_row(lift, database, key)
                reverted = _reverted(database, key)
                skim = None if lift.thorough or reverted else OpenCodeSkim(lift, spent)
                for message in _messages(lift, database, key, skim):
                    _fold(lift, message, spent, taken_back=bool(reverted) and message.name >= reverted)
                for child in _children(database, key):
                    for message in _messages(lift, database, child):
                        _fold(lift, message, spent, side=True)
            except sqlite3.Error:
                # A torn page: what was read by then is kept.
                lift.skip("malformed")
            lift.totals(spent.usage)
            query = "SELECT content, status FROM todo WHERE session_id = ? ORDER BY position"
            todos = tuple({"content": text, "status": status} for text, status in rows(database, query, key))
        plan = plan_in(todos)
        if plan.items:
            lift.take(plan)


class OpenCodeFiles(OpenCodeSession):
    """In files below `storage/`; those of subagents' sessions are not looked for."""

    def lift_into(self, lift: Lift) -> None:
        """See `OpenCodeSession`."""
        found, spent = self.found, Spending()
        told = self._object(lift, found.paths[0])
        times = shapes.mapping(told, "time")
        lift.named(
            cwd=shapes.text(told, "directory"),
            title=shapes.text(told, "title"),
            version=shapes.text(told, "version"),
            parent=shapes.text(told, "parentID"),
        )
        lift.at(_instant(times.get("created")))
        lift.at(_instant(times.get("updated")))
        reverted = shapes.text(shapes.mapping(told, "revert"), "messageID")
        for path in self._sorted(f"storage/message/{found.native_id}/*.json"):
            name = PurePath(path).stem
            message = _Message(name=name, data=self._object(lift, path))
            parts = self._sorted(f"storage/part/{name}/*.json") if _is_plain(name) else []
            message.parts = [self._object(lift, part) for part in parts]
            _fold(lift, message, spent, taken_back=bool(reverted) and name >= reverted)
        lift.totals(spent.usage)
        stored = self.files.read(f"{found.home}/storage/todo/{found.native_id}.json", _MOST_BYTES)
        if stored:
            plan = plan_in(shapes.items(shapes.record(b'{"todos":' + stored + b"}"), "todos"))
            if plan.items:
                lift.take(plan)

    def _sorted(self, pattern: str) -> list[str]:
        # Ids begin with the time, so names are in order.
        return sorted(entry.path for entry in self.files.glob(self.found.home, pattern))

    def _object(self, lift: Lift, path: str) -> Mapping[str, Any]:
        data = self.files.read(path, _MOST_BYTES)
        if data is None:
            lift.skip("oversize")
            return {}
        lift.bytes_read += len(data)
        return _json(lift, data)


def _session_row(lift: Lift, database: sqlite3.Connection, key: str) -> None:
    wanted = ("directory", "title", "version", "parent_id", "model", "time_created", "time_updated")
    there = table_columns(database, "session")
    chosen = ", ".join(name if name in there else "NULL" for name in wanted)
    for row in rows(database, f"SELECT {chosen} FROM session WHERE id = ?", key):
        told = dict(zip(wanted, row, strict=True))
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


def _reverted(database: sqlite3.Connection, key: str) -> str:
    """The message from which on the user took everything back, files too; ""."""
    for (value,) in rows(database, "SELECT revert FROM session WHERE id = ?", key):
        return shapes.text(shapes.record(str(value or "").encode("utf-8", "replace")), "messageID")
    return ""


def _children(database: sqlite3.Connection, key: str) -> list[str]:
    """The sessions in which subagents worked, theirs included."""
    found: list[str] = []
    waiting = [key]
    while waiting and len(found) < _MOST_CHILDREN:
        for (name,) in rows(database, "SELECT id FROM session WHERE parent_id = ?", waiting.pop()):
            if str(name) != key and str(name) not in found:
                found.append(str(name))
                waiting.append(str(name))
    return found


def _messages(
    lift: Lift, database: sqlite3.Connection, key: str, skim: OpenCodeSkim | None = None
) -> Iterator[_Message]:
    """The messages of a session, but for those that the skim takes."""
    query = _query(database, thorough=lift.thorough)
    # Ids and data as bytes: a function is called for every text.
    for name, group in groupby(database.execute(query, (key,)) if query else (), key=itemgetter(0)):
        grouped = list(group)
        data, parts = grouped[0][1], [row[2] for row in grouped if row[2] is not None]
        lift.bytes_read += sum(map(len, parts))
        lift.bytes_read += len(data or b"")
        if skim is not None:
            if skim.take(data or b"", parts):
                continue
            skim.settle()
        yield _Message(
            name=str(name or b"", "utf-8", "replace"),
            data=_json(lift, data),
            parts=[_QUIET if part == QUIET_PART else _json(lift, part) for part in parts],
        )
    if skim is not None:
        skim.settle()


def _query(database: sqlite3.Connection, *, thorough: bool) -> str:
    """Id and data of a session's messages and the data of their parts; "" where there is no such table."""
    there = table_columns(database, "message")
    if not {"id", "session_id", "data"} <= there:
        return ""
    chosen = "CAST(m.id AS BLOB), CAST(m.data AS BLOB)"
    order = "m.time_created, m.id" if "time_created" in there else "m.id"
    if not {"id", "message_id", "data"} <= table_columns(database, "part"):
        return f"SELECT {chosen}, NULL FROM message m WHERE m.session_id = ? ORDER BY {order}"
    part = "CAST(p.data AS BLOB)" if thorough else _LISTED_PART
    return (
        f"SELECT {chosen}, {part} FROM message m LEFT JOIN part p ON p.message_id = m.id "
        f"WHERE m.session_id = ? ORDER BY {order}, p.id"
    )


def _fold(
    lift: Lift, message: _Message, spent: Spending, *, side: bool = False, taken_back: bool = False
) -> None:
    """What a message says and did.

    Args:
        side: in a subagent's session.
        taken_back: the user reverted it; only what it cost has happened.
    """
    data = message.data
    times = shapes.mapping(data, "time")
    at = _instant(times.get("completed") or times.get("created"))
    lift.at(at)
    if shapes.text(data, "role") == "user":
        if not side and not taken_back:
            lift.said(_unquoted(typed("\n".join(_texts(message.parts)))), at)
            _patched(lift, message.parts)
        return
    _spent(lift, data, spent, side=side)
    if taken_back:
        return
    if not side:
        lift.named(model=shapes.text(data, "modelID"))
    if data.get("summary") is True and not side:
        lift.compacted("\n".join(_texts(message.parts)), at)
    for part in message.parts:
        match shapes.text(part, "type"):
            case "text" if shapes.text(part, "text").strip() and data.get("summary") is not True:
                lift.take(AgentText(text=shapes.text(part, "text")), at, side=side)
            case "tool":
                _tool(lift, part, at, side)
            case _:
                pass
    _patched(lift, message.parts)
    if side:
        return
    error = shapes.mapping(data, "error")
    if error:
        _failed(lift, error, at)
    elif data.get("summary") is not True:
        finish = shapes.text(data, "finish")
        # Older releases do not say why a message ended.
        ended = finish in ENDS if finish else bool(times.get("completed")) and _only_said(message.parts)
        lift.turn_open = not ended


def _only_said(parts: Iterable[object]) -> bool:
    kinds = {shapes.text(part, "type") for part in parts}
    return "text" in kinds and "tool" not in kinds


def _texts(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The texts that were typed or said; not those that OpenCode put beside them."""
    for part in parts:
        if shapes.text(part, "type") == "text" and True not in (part.get("synthetic"), part.get("ignored")):
            yield shapes.text(part, "text")


def _patched(lift: Lift, parts: Iterable[Mapping[str, Any]]) -> None:
    """Files that a step changed, by whatever it ran."""
    for part in parts:
        if shapes.text(part, "type") == "patch":
            for path in shapes.items(part, "files")[:_MOST_FILES]:
                if isinstance(path, str) and path:
                    lift.changed(path)


def _spent(lift: Lift, data: Mapping[str, Any], spent: Spending, *, side: bool) -> None:
    told = shapes.mapping(data, "tokens")
    kept = shapes.mapping(told, "cache")
    fresh = max(0, shapes.integer(told, "input")) + max(0, shapes.integer(kept, "write"))
    cached = max(0, shapes.integer(kept, "read"))
    output = max(0, shapes.integer(told, "output")) + max(0, shapes.integer(told, "reasoning"))
    spent.add(fresh, cached, output)
    if cost := shapes.number(data, "cost"):
        lift.cost_usd = (lift.cost_usd or 0.0) + float(cost)
    if not side:
        lift.context(shapes.integer(told, "total") or fresh + cached + output)


def _tool(lift: Lift, part: Mapping[str, Any], at: datetime | None, side: bool) -> None:
    state = shapes.mapping(part, "state")
    status, error = shapes.text(state, "status"), shapes.text(state, "error")
    given = shapes.mapping(state, "input")
    code = shapes.number(shapes.mapping(state, "metadata"), "exit")
    name, output = shapes.text(part, "tool"), shapes.text(state, "output") or error
    ok = None if status in _RUNNING else status == "completed"
    if name == "invalid":
        # A call of a tool that is not there; this one only reports it.
        name, ok, output = shapes.text(given, "tool") or name, False, shapes.text(given, "error") or output
    if name == "skill":
        lift.skill(shapes.text(given, "name"))
    act(
        lift,
        tool=name,
        call_id=shapes.text(part, "callID"),
        given=given,
        at=at,
        ok=ok,
        output=output,
        exit_code=int(code) if code is not None else None,
        denied="rejected permission" in error,
        side=side,
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


def _json(lift: Lift, data: object) -> Mapping[str, Any]:
    raw = data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")
    found = shapes.record(raw)
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


def _is_plain(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalnum()


def _instant(value: object) -> datetime | None:
    milliseconds = shapes.number({"at": value}, "at")
    return shapes.instant({"at": milliseconds / 1000}, "at") if milliseconds else None
