"""One transcript of Claude Code, lifted: prompts, tool calls, plan, tokens, limits.

Record shapes as Claude Code 2.1.332 and 2.1.197 write them; unknown types are passed over. For a list
(`Depth.LIST`) most rows are not parsed (`relay.providers.claude_skim`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import orjson
from attrs import evolve

from relay.core.events import (
    AgentText,
    Channel,
    ErrorSignal,
    PlanItem,
    PlanUpdated,
    TaskStatus,
    ToolKind,
    TurnEnded,
    TurnOutcome,
)
from relay.core.failures import as_failed, classify
from relay.core.intel import Depth
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.claude_skim import BEGINNING, NOWHERE, ClaudeSkim, place_in
from relay.providers.claude_tools import call_of, result_of
from relay.providers.claude_usage import MessageUsage, context_of
from relay.providers.skimming import STAMP, is_single, is_tidy, string_in
from relay.providers.store_protocol import Found, StoreFiles
from relay.providers.transcript import LineTranscript
from relay.providers.wordings import wording_of

_WORDING = wording_of("claude")
_STATUS = {
    "pending": TaskStatus.PENDING,
    "in_progress": TaskStatus.IN_PROGRESS,
    "completed": TaskStatus.COMPLETED,
}
_TYPE = re.compile(rb'"type"\s*:\s*"(user|assistant|system|summary|cost-state|custom-title|ai-title)"')
_TIMESTAMP = b'"timestamp":"'
_STAMP = re.compile(STAMP)
_NOT_THE_MODEL = "<synthetic>"
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_MOST_TOKENS = 10**15
_INTERRUPTED = "[Request interrupted by user"
_NO_TO_TOOL = "User rejected tool use"
"""Told of a tool that the user did not let run, and of one that was stopped while it ran."""
_STOPPED = "the user refused it, or stopped it while it ran"


class ClaudeTranscript(LineTranscript):
    """See the module."""

    def __init__(self, files: StoreFiles, found: Found, depth: Depth) -> None:
        self._main = found.paths[0] if found.paths else ""
        super().__init__(files, found, depth)

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._seen: set[int] = set()
        self._usage = MessageUsage()
        self._place = NOWHERE
        self._tasks: dict[str, PlanItem] = {}
        self._shell: set[str] = set()
        self._creating: dict[str, str] = {}
        self._skimmed = ClaudeSkim(self.lift, self._seen, self._usage, self._creating)

    def take_block(self, data: bytes) -> None:
        """See `LineTranscript`."""
        if self.lift.thorough:
            super().take_block(data)
            return
        lines = data.split(b"\n")
        take, tidy = self._skimmed.take, is_tidy(data, lines, BEGINNING)
        for line in lines:
            if not (tidy or is_single(line, BEGINNING)) or not take(line):
                self.take_line(line)

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        if _TYPE.search(line) is None:
            start = line.rfind(_TIMESTAMP)
            self._note_time(line[start + len(_TIMESTAMP) :].partition(b'"')[0] if start >= 0 else b"")
            if line[:1] != b"{" or line[-1:] != b"}" or b"\0" in line:
                self._perhaps_behind(line)
            return
        record = self.parsed(line)
        if record is None:
            return
        self._place = place_in(line) if is_single(line, BEGINNING) else NOWHERE
        self._note_time(shapes.text(record, "timestamp").encode("ascii", "replace"))
        if self._is_repeated(record):
            return
        match shapes.text(record, "type"):
            case "user":
                self._user(record)
            case "assistant":
                self._assistant(record)
            case "system":
                self._system(record)
            case "summary":
                self.lift.named(title=shapes.text(record, "summary"))
            case "custom-title" | "ai-title":
                self.lift.named(title=shapes.text(record, "customTitle") or shapes.text(record, "aiTitle"))
            case "cost-state":
                cost = shapes.number(record, "totalCostUSD")
                self.lift.cost_usd = float(cost) if cost is not None else self.lift.cost_usd
            case _:
                pass

    def _perhaps_behind(self, line: bytes) -> None:
        """A line of no known type that is damaged; a whole record may stand behind the damage."""
        found = self.parsed(line)
        if found is not None and shapes.text(found, "type") in ("user", "assistant"):
            self.take(orjson.dumps(found))

    def finish(self) -> None:
        """See `LineTranscript`."""
        self._settle_text()
        self._skimmed.settle_context()
        self.lift.totals(self._usage.total())
        self._skimmed.span.tell(self.lift)
        if self._tasks:
            self._plan(tuple(self._tasks.values()))
        else:
            self._stored_tasks()

    def _settle_text(self) -> None:
        """Parse what the agent said last, if that was only skimmed."""
        if line := self._skimmed.last_text():
            self.lift.last_message = _words(shapes.mapping(self.parsed(line), "message"))

    def _note_time(self, stamp: bytes) -> None:
        if _STAMP.fullmatch(stamp):
            self._skimmed.span.note(stamp)
        elif stamp:
            self.lift.at(shapes.iso({"at": stamp.decode("ascii", "replace")}, "at"))

    def _is_repeated(self, record: Mapping[str, Any]) -> bool:
        uuid = shapes.text(record, "uuid")
        if not uuid:
            return False
        number = hash(uuid.encode("utf-8", "replace"))
        if number in self._seen:
            self.lift.skip("duplicate")
            return True
        self._seen.add(number)
        return False

    def _user(self, record: Mapping[str, Any]) -> None:
        lift, at = self.lift, shapes.iso(record, "timestamp")
        side = record.get("isSidechain") is True
        self._named(record, side)
        message = shapes.mapping(record, "message")
        results = [b for b in shapes.items(message, "content") if shapes.text(b, "type") == "tool_result"]
        for block in results:
            call_id = shapes.text(block, "tool_use_id")
            camel = {"tool_use_result": record.get("toolUseResult")} if "toolUseResult" in record else {}
            denied = shapes.text(shapes.mapping(record, "permissionDecision"), "decision") == "reject"
            result = result_of({**record, **camel}, block, shell=call_id in self._shell, denied=denied)
            if not result.denied and record.get("toolUseResult") == _NO_TO_TOOL:
                result = evolve(result, output=_STOPPED)
            if call_id in self._creating and result.ok:
                self._created(call_id, record)
            if lift.thorough:
                lift.take(result, at, side=side)
            elif (path := self._skimmed.edits.pop(call_id.encode("utf-8", "replace"), None)) and result.ok:
                lift.changed(string_in(path) or "")
            self._turn(True, side)
        if results or side:
            return
        said = _words(message)
        if record.get("isCompactSummary") is True:
            self._settle_text()
            lift.compacted(said, at)
        elif said.startswith(_INTERRUPTED):
            lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)
        elif record.get("isMeta") is not True and not shapes.mapping(record, "toolUseResult"):
            lift.said(typed(said), at)

    def _assistant(self, record: Mapping[str, Any]) -> None:
        lift, at = self.lift, shapes.iso(record, "timestamp")
        side = record.get("isSidechain") is True
        self._named(record, side)
        message = shapes.mapping(record, "message")
        model = shapes.text(message, "model")
        if record.get("isApiErrorMessage") is True or model == _NOT_THE_MODEL:
            if not side:
                self._failed(record, _words(message), at)
            return
        if not side:
            lift.named(model=model)
        self._count(message, side)
        for block in shapes.items(message, "content"):
            match shapes.text(block, "type"):
                case "text":
                    self._settle_text()
                    lift.take(AgentText(text=shapes.text(block, "text")), at, side=side)
                case "tool_use":
                    self._called(block, at, side)
                case _:
                    pass
        self._turn(shapes.text(message, "stop_reason") not in ("end_turn", "stop_sequence", "refusal"), side)

    def _turn(self, still_open: bool, side: bool) -> None:
        if not side:
            self.lift.turn_open = still_open

    def _called(self, block: Mapping[str, Any], at: datetime | None, side: bool) -> None:
        call = call_of(block, "")
        lift = self.lift
        given = shapes.mapping(block, "input")
        if call.tool_kind is ToolKind.SHELL:
            self._shell.add(call.call_id)
        elif call.tool_kind is ToolKind.MCP:
            lift.server(call.tool.split("__")[1] if call.tool.count("__") >= 2 else "")
        elif call.tool_kind is ToolKind.SUBAGENT and not side:
            lift.subagents += 1
        elif call.tool == "Skill":
            lift.skill(shapes.text(given, "skill") or shapes.text(given, "command"))
        if call.tool_kind is ToolKind.PLAN:
            if not side:
                self._planned(call.tool, call.call_id, given, at)
            return
        if lift.thorough:
            lift.take(call, at, side=side)
        elif call.tool_kind is ToolKind.EDIT and call.paths:
            self._skimmed.edits[call.call_id.encode("utf-8", "replace")] = orjson.dumps(call.paths[0])

    def _planned(self, tool: str, call_id: str, given: Mapping[str, Any], at: datetime | None) -> None:
        match tool:
            case "TodoWrite":
                items = tuple(
                    PlanItem(text=shapes.text(todo, "content"), status=_status(shapes.text(todo, "status")))
                    for todo in shapes.items(given, "todos")
                )
                self._tasks.clear()
                self.lift.take(PlanUpdated(items=items), at)
            case "TaskCreate":
                self._creating[call_id] = shapes.text(given, "subject")
            case "TaskUpdate":
                self._updated(given)
            case _:
                pass

    def _created(self, call_id: str, record: Mapping[str, Any]) -> None:
        """The result of TaskCreate tells the task's number."""
        subject = self._creating.pop(call_id)
        task = shapes.mapping(shapes.mapping(record, "toolUseResult"), "task")
        number = shapes.text(task, "id") or str(len(self._tasks) + 1)
        if subject:
            self._tasks[number] = PlanItem(text=subject)

    def _updated(self, given: Mapping[str, Any]) -> None:
        number, status = shapes.text(given, "taskId"), shapes.text(given, "status")
        if status == "deleted":
            self._tasks.pop(number, None)
            return
        known = self._tasks.get(number)
        subject = shapes.text(given, "subject") or (known.text if known else "")
        if subject:
            before = known.status if known else TaskStatus.PENDING
            self._tasks[number] = PlanItem(text=subject, status=_status(status) if status else before)

    def _stored_tasks(self) -> None:
        """`tasks/<session>/<n>.json`, where the transcript itself tells of none."""
        if self.lift.facts.plan or PurePath(self.found.native_id).name != self.found.native_id:
            return
        tasks: list[tuple[int, PlanItem]] = []
        for entry in self.files.glob(self.found.home, f"tasks/{self.found.native_id}/*.json"):
            told = shapes.record(self.files.read(entry.path, 1 << 20) or b"")
            number = PurePath(entry.path).stem
            if told and shapes.text(told, "subject") and number.isascii() and number.isdigit():
                item = PlanItem(
                    text=shapes.text(told, "subject"), status=_status(shapes.text(told, "status"))
                )
                tasks.append((int(number), item))
        if tasks:
            self._plan(tuple(item for _, item in sorted(tasks, key=lambda pair: pair[0])))

    def _plan(self, items: tuple[PlanItem, ...]) -> None:
        self.lift.take(PlanUpdated(items=items))

    def _named(self, record: Mapping[str, Any], side: bool) -> None:
        lift = self.lift
        if side:
            return
        self._skimmed.place = self._place
        lift.named(
            cwd=shapes.text(record, "cwd"),
            branch=shapes.text(record, "gitBranch"),
            version=shapes.text(record, "version"),
            forked_from=shapes.text(shapes.mapping(record, "forkedFrom"), "sessionId"),
        )

    def _count(self, message: Mapping[str, Any], side: bool) -> None:
        """Every row of a message repeats its usage; the last one tells all of it."""
        spent = shapes.mapping(message, "usage")
        if not spent:
            return
        counts = b"%d,%d,%d,%d" % tuple(
            min(max(0, shapes.integer(spent, name)), _MOST_TOKENS) for name in _COUNTED
        )
        self._usage.note(shapes.text(message, "id").encode("utf-8", "replace"), counts)
        if not side:
            self._skimmed.settle_context()
            self.lift.context(context_of(counts))

    def _system(self, record: Mapping[str, Any]) -> None:
        match shapes.text(record, "subtype"):
            case "turn_duration":
                self._turn(False, record.get("isSidechain") is True)
            case _:
                pass

    def _failed(self, record: Mapping[str, Any], words: str, at: datetime | None) -> None:
        limits = shapes.mapping(record, "quotaLimits")
        resets = shapes.number(limits, "resetsAt")
        status = shapes.number(record, "apiErrorStatus")
        error = ErrorSignal(
            channel=Channel.TRANSCRIPT,
            text=words,
            code=shapes.text(record, "apiError") or shapes.text(record, "error") or None,
            http_status=int(status) if status else None,
            resets_at=_epoch(resets) if resets else None,
        )
        now = at or datetime.fromtimestamp(0, UTC)
        verdict = as_failed(classify(error, _WORDING, now=now, zone=UTC, printed_at=at))
        self.lift.failed(error, verdict, at)


def _words(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content is a string or a list of blocks."""
    pieces = [
        shapes.text(block, "text")
        for block in shapes.items(message, "content")
        if shapes.text(block, "type") == "text"
    ]
    return shapes.text(message, "content") or "\n".join(piece for piece in pieces if piece)


def _status(word: str) -> TaskStatus:
    return _STATUS.get(word, TaskStatus.PENDING)


def _epoch(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
