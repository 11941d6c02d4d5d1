"""Where GitHub Copilot CLI keeps its sessions: `session-state/<id>/events.jsonl` in ~/.copilot.

As Copilot CLI 1.0.102 writes them; beside it `workspace.yaml` and, once the agent made a plan, `session.db`
with a table of todos.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from relay.core.events import (
    AgentText,
    Channel,
    ErrorSignal,
    PlanItem,
    PlanUpdated,
    TokenUsage,
    UsageReported,
)
from relay.core.failures import as_failed, classify
from relay.core.intel import Depth
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of, status_of
from relay.providers.homes import account_homes
from relay.providers.store_protocol import Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import LineTranscript, stamp_of
from relay.providers.wordings import wording_of

_WORDING = wording_of("copilot")
_NOT_SESSIONS = ("login", "logout", "help", "update", "version", "--version", "mcp", "plugin")


class CopilotStore:
    """See the module."""

    name = "copilot"
    provider = ""
    display_name = "Copilot CLI"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """$COPILOT_HOME, ~/.copilot, and the accounts' own."""
        return account_homes(machine, "copilot", "COPILOT_HOME", (".copilot",))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each folder with events."""
        for entry in files.glob(home, "session-state/*/events.jsonl"):
            folder = PurePath(entry.path).parent
            beside = [files.entry(str(folder / name)) for name in ("session.db", "session.db-wal")]
            entries = (entry, *(each for each in beside if each is not None))
            if entry.size and entry.mtime >= since:
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=folder.name,
                    paths=(entry.path,),
                    touched=entry.mtime,
                    stamp=stamp_of(entries),
                    size=entry.size,
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CopilotTranscript:
        """See `SessionStore`."""
        return CopilotTranscript(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """Node running `copilot`, or its native program."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if (
            program.startswith("node")
            and rest
            and PurePath(rest[0]).name in ("copilot", "index.js", "npm-loader.js")
        ):
            return "copilot" in rest[0] and not (len(rest) > 1 and rest[1] in _NOT_SESSIONS)
        return program in ("copilot", "copilot.exe") and not (rest and rest[0] in _NOT_SESSIONS)

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Anywhere."""
        return ("copilot", "--resume", native_id)


class CopilotTranscript(LineTranscript):
    """The events of one session, read in lines."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._seen: set[int] = set()
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        record = self.parsed(line)
        if record is None:
            return
        number = hash(shapes.text(record, "id"))
        if shapes.text(record, "id") and number in self._seen:
            self.lift.skip("duplicate")
            return
        self._seen.add(number)
        lift, data, at = self.lift, shapes.mapping(record, "data"), shapes.iso(record, "timestamp")
        lift.at(at)
        match shapes.text(record, "type"):
            case "session.start" | "session.resume":
                self._started(data)
            case "session.context_changed" | "session.model_change":
                lift.named(branch=shapes.text(data, "branch"), model=shapes.text(data, "newModel"))
            case "user.message":
                lift.said(typed(shapes.text(data, "content")), at)
            case "assistant.message":
                self._said(data, at)
            case "session.usage_record":
                self._spent(shapes.mapping(data, "usage"), at)
            case "tool.execution_start":
                self._calls[shapes.text(data, "toolCallId")] = (
                    shapes.text(data, "toolName"),
                    shapes.mapping(data, "arguments"),
                )
                self._act(data, at, None)
            case "tool.execution_complete":
                self._act(data, at, data.get("success") is not False)
                lift.turn_open = True
            case "session.error" | "session.warning" if shapes.text(data, "errorType"):
                self._failed(data, at)
            case "session.compaction_complete":
                lift.compacted(shapes.text(data, "summaryContent") or shapes.text(data, "summary"), at)
            case "abort":
                lift.turn_open = True
            case _:
                pass

    def finish(self) -> None:
        """See `LineTranscript`."""
        folder = PurePath(self.found.paths[0]).parent
        plan = _todos(self.files, str(folder / "session.db"))
        if plan:
            self.lift.take(PlanUpdated(items=plan))

    def _started(self, data: Mapping[str, Any]) -> None:
        context = shapes.mapping(data, "context")
        self.lift.named(
            cwd=shapes.text(context, "cwd"),
            branch=shapes.text(context, "branch"),
            model=shapes.text(data, "selectedModel"),
            version=shapes.text(data, "copilotVersion"),
        )

    def _said(self, data: Mapping[str, Any], at: datetime | None) -> None:
        self.lift.named(model=shapes.text(data, "model"))
        side = bool(shapes.text(data, "parentToolCallId"))
        said = shapes.text(data, "content")
        if said.strip():
            self.lift.take(AgentText(text=said), at, side=side)
        if not side:
            self.lift.turn_open = bool(shapes.items(data, "toolRequests"))

    def _spent(self, usage: Mapping[str, Any], at: datetime | None) -> None:
        cached = shapes.integer(usage, "cacheReadTokens")
        fresh = max(0, shapes.integer(usage, "inputTokens") - cached)
        output = shapes.integer(usage, "outputTokens")
        spent = TokenUsage(input=fresh, cached_input=cached, output=output)
        self.lift.take(UsageReported(usage=spent), at)
        self.lift.context(spent.total, shapes.integer(usage, "maxPromptTokens"))

    def _act(self, data: Mapping[str, Any], at: datetime | None, ok: bool | None) -> None:
        call_id = shapes.text(data, "toolCallId")
        name, given = self._calls.get(call_id, (shapes.text(data, "toolName"), {}))
        result, error = shapes.mapping(data, "result"), shapes.mapping(data, "error")
        code = shapes.number(shapes.mapping(data, "shellExecution"), "exitCode")
        edited = [shapes.text(edit, "path") for edit in shapes.items(data, "fileEdits")]
        if ok and edited and kind_of(name) != "edit":
            for path in filter(None, edited):
                self.lift.changed(path)
        server = shapes.text(data, "mcpServerName")
        if server:
            self.lift.server(server)
        act(
            self.lift,
            tool=name,
            call_id=call_id,
            given=given,
            at=at,
            ok=ok,
            output=shapes.text(result, "content") or shapes.text(error, "message"),
            exit_code=int(code) if code is not None else None,
            denied=shapes.text(error, "code") == "denied",
        )

    def _failed(self, data: Mapping[str, Any], at: datetime | None) -> None:
        status = shapes.number(data, "statusCode")
        error = ErrorSignal(
            channel=Channel.TRANSCRIPT,
            text=shapes.text(data, "message"),
            code=shapes.text(data, "errorType") or None,
            http_status=int(status) if status else None,
        )
        now = at or datetime.fromtimestamp(0, UTC)
        verdict = as_failed(classify(error, _WORDING, now=now, zone=UTC, printed_at=at))
        self.lift.failed(error, verdict, at)


def _todos(files: StoreFiles, path: str) -> tuple[PlanItem, ...]:
    if files.entry(path) is None:
        return ()
    with files.database(path) as database:
        if database is None:
            return ()
        try:
            rows = database.execute("SELECT title, status FROM todos ORDER BY rowid").fetchmany(1000)
        except sqlite3.Error:
            return ()
    return tuple(PlanItem(text=str(title), status=status_of(str(status))) for title, status in rows if title)
