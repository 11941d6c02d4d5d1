"""One session of GitHub Copilot CLI, lifted from its events, its plan's database and `workspace.yaml`.

As Copilot CLI 1.0.102 writes them; the event of a compaction is as read in public sources, not seen. For a
list most events are not parsed (`relay.providers.copilot_skim`).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
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
    ToolKind,
)
from relay.core.failures import as_failed, classify
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import OpenCalls, kind_of, status_of
from relay.providers.copilot_skim import BEGINNING, CopilotSkim
from relay.providers.skimming import is_single
from relay.providers.store_protocol import StoreFiles
from relay.providers.transcript import LineTranscript
from relay.providers.wordings import wording_of

_WORDING = wording_of("copilot")
_END = re.compile(
    rb'"id":"([^"\\]{1,100})","timestamp":"([0-9TZ:.+-]{10,40})","parentId":(?:null|"[^"\\]{0,100}")\}$'
)
_TAIL = 400
_IDLE = (
    b'{"type":"system.message"',
    b'{"type":"assistant.turn_',
    b'{"type":"permission.',
    b'{"type":"hook.',
)
_SAID = re.compile(r"^([a-z_]{1,40}): *(\S.*?) *$", re.MULTILINE)
_DENIED = ("denied", "rejected")
_MOST_TODOS = 1_000


class CopilotTranscript(LineTranscript):
    """See the module."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._seen: set[int] = set()
        self._calls = OpenCalls()
        self._skimmed = CopilotSkim(self.lift, self._seen)

    def take_block(self, data: bytes) -> None:
        """See `LineTranscript`."""
        if self.lift.thorough:
            super().take_block(data)
            return
        self._skimmed.take_block(data, self.take_line)

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        if is_single(line, BEGINNING) and self._is_skimmed(line):
            return
        record = self.parsed(line)
        if record is None or self._is_repeated(shapes.text(record, "id")):
            return
        lift, data, at = self.lift, shapes.mapping(record, "data"), shapes.iso(record, "timestamp")
        lift.at(at)
        match shapes.text(record, "type"):
            case "session.start" | "session.resume":
                self._started(data)
            case "session.context_changed" | "session.model_change":
                lift.named(branch=shapes.text(data, "branch"), model=shapes.text(data, "newModel"))
            case "user.message" if not shapes.text(data, "parentToolCallId"):
                lift.said(typed(shapes.text(data, "content")), at)
            case "assistant.message":
                self._said(data, at)
            case "session.usage_record":
                self._spent(shapes.mapping(data, "usage"), at)
            case "tool.execution_start":
                self._began(data, at)
            case "tool.execution_complete":
                self._ended(data, at)
            case "session.error" | "session.warning" if shapes.text(data, "errorType"):
                self._failed(data, at)
            case "session.compaction_complete":
                self._settle_text()
                lift.compacted(shapes.text(data, "summaryContent") or shapes.text(data, "summary"), at)
            case "session.shutdown":
                self._left(data)
            case "abort":
                lift.turn_open = True
            case "":
                lift.skip("unknown")
            case _:
                pass

    def finish(self) -> None:
        """See `LineTranscript`."""
        self._settle_text()
        self._skimmed.span.tell(self.lift)
        self.lift.totals(self._skimmed.spent.usage)
        folder = PurePath(self.found.paths[0]).parent
        said = self.files.read(str(folder / "workspace.yaml"), 64 * 1024) or b""
        told = dict(_SAID.findall(said.decode("utf-8", "replace")))
        self.lift.named(
            cwd="" if self.lift.cwd else told.get("cwd", ""),
            branch="" if self.lift.branch else told.get("branch", ""),
            title=told.get("name", "").strip("\"'"),
        )
        plan = _todos(self.files, str(folder / "session.db"))
        if plan:
            self.lift.take(PlanUpdated(items=plan))

    def _is_skimmed(self, line: bytes) -> bool:
        """Take an event without parsing it that never tells more than that it happened."""
        if not line.startswith(_IDLE):
            return False
        end = _END.search(line, max(0, len(line) - _TAIL))
        if end is None:
            return False
        if not self._is_repeated(end[1].decode("utf-8", "replace")):
            self.lift.at(shapes.iso({"at": end[2].decode()}, "at"))
        return True

    def _settle_text(self) -> None:
        """Parse what the agent said last, if that was only skimmed."""
        if line := self._skimmed.last_text():
            self.lift.last_message = shapes.text(shapes.mapping(self.parsed(line), "data"), "content")

    def _is_repeated(self, name: str) -> bool:
        if not name:
            return False
        number = hash(name.encode("utf-8", "replace"))
        if number in self._seen:
            self.lift.skip("duplicate")
            return True
        self._seen.add(number)
        return False

    def _started(self, data: Mapping[str, Any]) -> None:
        context = shapes.mapping(data, "context")
        self.lift.named(
            cwd=shapes.text(context, "cwd"),
            branch=shapes.text(context, "branch"),
            model=shapes.text(data, "selectedModel"),
            version=shapes.text(data, "copilotVersion"),
        )

    def _said(self, data: Mapping[str, Any], at: datetime | None) -> None:
        side = bool(shapes.text(data, "parentToolCallId"))
        self.lift.named(model="" if side else shapes.text(data, "model"))
        said = shapes.text(data, "content")
        if said.strip():
            self._settle_text()
            self.lift.take(AgentText(text=said), at, side=side)
        if not side:
            self.lift.turn_open = bool(shapes.items(data, "toolRequests"))

    def _spent(self, usage: Mapping[str, Any], at: datetime | None) -> None:
        spent = _usage(usage)
        self.lift.at(at)
        self._skimmed.spent.add(spent.input, spent.cached_input, spent.output)
        if shapes.text(usage, "initiator") != "sub-agent":
            self.lift.context(spent.total, shapes.integer(usage, "maxPromptTokens"))

    def _began(self, data: Mapping[str, Any], at: datetime | None) -> None:
        name, given = shapes.text(data, "toolName"), shapes.mapping(data, "arguments")
        self.lift.server(shapes.text(data, "mcpServerName"))
        if name == "skill":
            self.lift.skill(shapes.text(given, "skill") or shapes.text(given, "name"))
        call_id = shapes.text(data, "toolCallId")
        self._skimmed.parsed.add(call_id.encode("utf-8", "replace"))
        self._calls.begin(
            self.lift,
            tool=name,
            call_id=call_id,
            given=given,
            at=at,
            side=bool(shapes.text(data, "parentToolCallId")),
        )

    def _ended(self, data: Mapping[str, Any], at: datetime | None) -> None:
        lift = self.lift
        result, error = shapes.mapping(data, "result"), shapes.mapping(data, "error")
        code = shapes.number(shapes.mapping(data, "shellExecution"), "exitCode")
        ok = data.get("success") is not False
        call_id = shapes.text(data, "toolCallId")
        known = call_id.encode("utf-8", "replace")
        self._skimmed.parsed.discard(known)
        if self._skimmed.ended(known, ok):
            lift.turn_open = True
            return
        name = self._calls.end(
            lift,
            call_id=call_id,
            tool=shapes.text(data, "toolName"),
            at=at,
            ok=ok,
            output=shapes.text(result, "content") or shapes.text(error, "message"),
            exit_code=int(code) if code is not None else None,
            denied=shapes.text(error, "code") in _DENIED,
        )
        # Also a shell's command, and a call whose beginning is lost, may have changed files.
        if ok and (lift.thorough or kind_of(name) is not ToolKind.EDIT):
            for edit in shapes.items(data, "fileEdits"):
                if path := shapes.text(edit, "path"):
                    lift.changed(path)
        if not shapes.text(data, "parentToolCallId"):
            lift.turn_open = True

    def _left(self, data: Mapping[str, Any]) -> None:
        """The account at the end of a run, over all runs: it makes up for records that are lost."""
        metrics = shapes.mapping(data, "modelMetrics")
        told = [_usage(shapes.mapping(shapes.mapping(metrics, model), "usage")) for model in metrics]
        whole = TokenUsage(
            input=sum(each.input for each in told),
            cached_input=sum(each.cached_input for each in told),
            output=sum(each.output for each in told),
        )
        self._skimmed.spent.at_least(whole)
        for path in shapes.items(shapes.mapping(data, "codeChanges"), "filesModified"):
            if isinstance(path, str) and path:
                self.lift.changed(path)

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


def _usage(told: Mapping[str, Any]) -> TokenUsage:
    cached = max(0, shapes.integer(told, "cacheReadTokens"))
    return TokenUsage(
        input=max(0, shapes.integer(told, "inputTokens") - cached),
        cached_input=cached,
        output=max(0, shapes.integer(told, "outputTokens")),
    )


def _todos(files: StoreFiles, path: str) -> tuple[PlanItem, ...]:
    if files.entry(path) is None:
        return ()
    with files.database(path) as database:
        if database is None:
            return ()
        try:
            rows = database.execute("SELECT title, status FROM todos ORDER BY rowid").fetchmany(_MOST_TODOS)
        except sqlite3.Error:
            return ()
    return tuple(PlanItem(text=str(title), status=status_of(str(status))) for title, status in rows if title)
