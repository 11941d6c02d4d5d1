"""One task of Cline's or Roo Code's extension, lifted from what its window showed: `ui_messages.json`.

Each message is said (`say`) or asked (`ask`), with text that may itself be JSON. What the user answered is
not told, but newer releases mark what was let run: Roo Code an edit (`isAnswered`), Cline a command that
ended (`commandCompleted`). The user's words behind a question say neither yes nor no: either answer can have
some. Shapes as read in public sources of Cline 3.49 and Roo Code 3.36, not seen written. Used by
`relay.providers.cline_store` and `relay.providers.roo_store`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from attrs import define

from relay.core.events import (
    PlanUpdated,
    TokenUsage,
    ToolKind,
    TurnEnded,
    TurnOutcome,
    UsageReported,
)
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of, path_of
from relay.providers.cline_outcomes import Outcomes
from relay.providers.documents import checklist, error_of, refused, spoke
from relay.providers.json_texts import Record, epoch_ms, object_in
from relay.providers.wordings import wording_of

_PROVIDERS = {"anthropic": "claude", "claude-code": "claude", "openai-native": "openai", "vertex": "gemini"}
"""The extensions' names of providers that have another one here."""
_STATUS = re.compile(r"\s*([45]\d\d)\b")
_EXIT = re.compile(r"exit(?:ed with)? (?:code|status):? (\d{1,5})\b", re.IGNORECASE)
_OUTPUT = 8_192
_UNASKED = ("resume_task", "resume_completed_task", "")
"""Asked when a task is opened again: what was asked before that was never answered."""
_MARKS = {"tool": "isAnswered", "command": "commandCompleted"}
_SUMMARIES = ("summarizetask", "condense")


@define
class _Pending:
    """A tool or command that was shown, until what comes after it shows that it was run."""

    tool: str
    given: Record
    at: datetime | None
    name: str
    output: str = ""
    unmarked: bool = False
    """It was asked, and lacks the mark that others before it have which were let run."""


class TaskLift:
    """Takes over the messages of one task, in order.

    Args:
        outcomes: what the model was told of its tools, beyond what was shown.
        alone: there are no messages to the model, which say what was denied.
    """

    def __init__(self, lift: Lift, outcomes: Outcomes | None = None, *, alone: bool = False) -> None:
        self._lift = lift
        self._alone = alone
        self._marking: set[str] = set()
        self._outcomes = outcomes or Outcomes()
        self._pending: _Pending | None = None
        self._provider = ""
        self._begun = False
        self._unshown = 0

    def take_all(self, messages: Iterable[Record]) -> None:
        """All of them; one that is told twice counts once."""
        seen: set[int] = set()
        for number, message in enumerate(messages):
            told = hash((message.get("ts"), shapes.text(message, "text"), _kind(message)))
            if told in seen:
                self._lift.skip("duplicate")
                continue
            seen.add(told)
            if message.get("partial") is not True:
                self._take(message, str(number))
        self._settle(run=False)
        for path, outcome in self._outcomes.left():
            self._not_edited(path, outcome.output, None, denied=outcome.denied)

    def _take(self, message: Record, name: str) -> None:
        at = epoch_ms(message, "ts")
        self._lift.at(at)
        model = shapes.mapping(message, "modelInfo")
        self._provider = shapes.text(model, "providerId") or self._provider
        self._lift.named(model=shapes.text(model, "modelId"))
        kind, text = _kind(message), shapes.text(message, "text")
        if kind == "command_output":
            if self._pending is not None:
                self._pending.output = (self._pending.output + text)[-_OUTPUT:]
            return
        if kind not in ("reasoning", "checkpoint_created", "api_req_finished"):
            self._settle(run=kind not in _UNASKED)
        if shapes.text(message, "type") == "ask":
            self._asked(kind, text, at, name)
            if self._pending is not None:
                self._pending.unmarked = self._alone and self._lacks_mark(kind, message)
        else:
            self._said(kind, text, message, at, name)

    def _lacks_mark(self, kind: str, message: Record) -> bool:
        if message.get(_MARKS.get(kind, "")) is True:
            self._marking.add(kind)
            return False
        return kind in self._marking

    def _asked(self, kind: str, text: str, at: datetime | None, name: str) -> None:
        lift = self._lift
        match kind:
            case "tool" | "command" | "use_mcp_server" | "condense":
                self._shown(kind, text, at, name)
            case "followup" | "plan_mode_respond" | "act_mode_respond":
                told = object_in(text)
                spoke(lift, shapes.text(told, "question") or shapes.text(told, "response") or text, at)
                if kind == "plan_mode_respond":
                    lift.turn_open = False
            case "completion_result":
                spoke(lift, text, at)
                lift.turn_open = False
            case "api_req_failed":
                self._refused(text, at)
            case "resume_task":
                lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)
            case _:
                pass

    def _said(self, kind: str, text: str, message: Record, at: datetime | None, name: str) -> None:
        lift = self._lift
        match kind:
            case "text" | "task" if not self._begun:
                self._begun = True
                lift.said(typed(text), at)
            case "text" | "completion_result":
                spoke(lift, text, at)
                if kind == "completion_result":
                    lift.turn_open = False
            case "user_feedback":
                self._begun = True
                lift.said(typed(text), at)
            case "tool" | "command" | "use_mcp_server":
                self._shown(kind, text, at, name)
            case "api_req_started":
                self._requested(object_in(text), at)
            case "task_progress":
                items = checklist(text)
                if items:
                    lift.take(PlanUpdated(items=items), at)
            case "diff_error" if "\n" not in text.strip():
                self._not_edited(text.strip(), "the change does not fit the file", at)
            case "condense_context":
                lift.compacted(shapes.text(shapes.mapping(message, "contextCondense"), "summary"), at)
            case _:
                pass

    def _shown(self, kind: str, text: str, at: datetime | None, name: str) -> None:
        if kind == "command":
            self._pending = _Pending("execute_command", {"command": text}, at, name)
            return
        told = object_in(text)
        if kind == "use_mcp_server":
            given = {"server_name": shapes.text(told, "serverName")}
            self._pending = _Pending("use_mcp_tool", given, at, name)
            return
        tool = shapes.text(told, "tool")
        if tool.lower() in _SUMMARIES or kind == "condense":
            self._lift.compacted(shapes.text(told, "content") or ("" if told else text), at)
        elif kind_of(tool) is ToolKind.PLAN:
            act(self._lift, tool=tool, call_id=name, given=told, at=at, ok=True)
        elif tool:
            self._pending = _Pending(tool, told, at, name)

    def _settle(self, *, run: bool) -> None:
        """What was shown has been run or denied, or is still waiting."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        ended = run or bool(pending.output)
        found = _EXIT.search(pending.output)
        code = int(found[1]) if found else None
        denied = pending.unmarked and ended and not pending.output
        if pending.tool == "execute_command":
            told = self._outcomes.command(shapes.text(pending.given, "command"))
            if told is not None:
                denied = told.denied and not pending.output
                pending.output = pending.output or told.output
                code = told.exit_code if code is None else code
        batch = [each for each in shapes.items(pending.given, "batchFiles") if shapes.text(each, "path")]
        for number, given in enumerate(batch or [pending.given]):
            if ended and kind_of(pending.tool) is ToolKind.EDIT and not pending.unmarked:
                denied = self._denied(path_of(given), pending.at)
            act(
                self._lift,
                tool=pending.tool,
                call_id=f"{pending.name}:{number}",
                given=given,
                at=pending.at,
                ok=not code and not denied if ended else None,
                output=pending.output,
                exit_code=code,
                denied=denied,
            )

    def _denied(self, path: str, at: datetime | None) -> bool:
        """The user did not let the edit that was shown be made; those before it failed unseen."""
        for outcome in self._outcomes.edits(path):
            if outcome.denied:
                return True
            if not outcome.ok:
                self._not_edited(path, outcome.output, at)
        return False

    def _not_edited(self, path: str, why: str, at: datetime | None, *, denied: bool = False) -> None:
        """An edit that failed, which the window does not show as a tool."""
        if path and self._lift.thorough:
            self._unshown += 1
            act(
                self._lift,
                tool="apply_diff",
                call_id=f"unshown:{self._unshown}",
                given={"path": path},
                at=at,
                ok=False,
                output=why,
                denied=denied,
            )

    def _requested(self, told: Record, at: datetime | None) -> None:
        """A request to the model: its tokens are filled in when it has ended."""
        lift = self._lift
        fresh, made, cached, output = (
            max(0, shapes.integer(told, key))
            for key in ("tokensIn", "cacheWrites", "cacheReads", "tokensOut")
        )
        cost = shapes.number(told, "cost")
        if fresh or made or cached or output:
            usage = TokenUsage(input=fresh + made, cached_input=cached, output=output)
            lift.take(UsageReported(usage=usage, cost_usd=float(cost) if cost is not None else None), at)
            lift.context(fresh + made + cached + output)
        failed = shapes.text(told, "streamingFailedMessage")
        lift.turn_open = True
        if failed:
            self._refused(failed, at)
        elif shapes.text(told, "cancelReason"):
            lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)

    def _refused(self, text: str, at: datetime | None) -> None:
        status = _STATUS.match(text)
        error = error_of(text, status=int(status[1]) if status else 0)
        refused(self._lift, error, wording_of(_PROVIDERS.get(self._provider, self._provider)), at)


def lift_metadata(lift: Lift, told: Record) -> None:
    """Take over `task_metadata.json`: the files that were read and changed, the model and the version."""
    for file in shapes.items(told, "files_in_context"):
        path = shapes.text(file, "path")
        if not path:
            continue
        source = shapes.text(file, "record_source")
        if source in ("cline_edited", "roo_edited") or any(
            shapes.number(file, key) for key in ("cline_edit_date", "roo_edit_date")
        ):
            lift.changed(path)
        if source in ("read_tool", "file_mentioned"):
            lift.read(path)
    for used in shapes.items(told, "model_usage")[-1:]:
        lift.named(model=shapes.text(used, "model_id"))
    for place in shapes.items(told, "environment_history")[-1:]:
        lift.named(version=shapes.text(place, "cline_version"))


def is_shown(value: object) -> bool:
    """The object is a message of a task's window."""
    return shapes.text(value, "type") in ("say", "ask")


def _kind(message: Record) -> str:
    return shapes.text(message, shapes.text(message, "type"))
