"""The one-way dialogue of `codex exec --json`: one turn a process, nothing can be said to it.

One instance a run, made by the Codex provider when the request's arguments begin with "exec". What this
output does not tell: error codes, quota, model and working folder. Seen with codex-cli 0.171.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    Channel,
    ErrorSignal,
    Notice,
    RawOutput,
    Retrying,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UnknownRecord,
    UsageReported,
)
from relay.providers.codex_facts import attempts_in, status_in, usage_of
from relay.providers.codex_items import call_of, camel, is_tool, result_of, spoken, todo
from relay.providers.protocol import LaunchRequest, Reading, Write
from relay.providers.shapes import mapping, record, text


class ExecDialogue:
    """What one `codex exec --json` says; see `relay.providers.protocol.Dialogue`."""

    def __init__(self, request: LaunchRequest) -> None:
        self._request = request
        self._turn_open = False
        self._acted = False
        self._last_text = ""
        self._open_calls: dict[str, None] = {}

    @property
    def turn_open(self) -> bool:
        """The agent is working on its message."""
        return self._turn_open

    def open(self) -> tuple[Write, ...]:
        """Nothing: the prompt is an argument."""
        return ()

    def say(self, text: str, key: str) -> tuple[Write, ...] | None:
        """None: this CLI takes no second message."""
        return None

    def interrupt(self, key: str) -> tuple[Write, ...]:
        """Nothing: only a signal stops it."""
        return ()

    def answer(self, request_id: str, allowed: bool, note: str) -> tuple[Write, ...]:
        """Nothing: it never asks."""
        return ()

    def read(self, line: bytes, stream: str) -> Reading:
        """Take one line of its output."""
        message = record(line) if stream == "out" else None
        if message is None:
            said = line.decode("utf-8", "replace")
            return Reading(events=(RawOutput(stream=stream, text=said),) if said.strip() else ())
        return Reading(events=self._on_record(message, text(message, "type")))

    def _on_record(self, message: Mapping[str, Any], record_type: str) -> tuple[AgentEvent, ...]:
        if record_type == "thread.started":
            return (AgentStarted(native_id=text(message, "thread_id"), cwd=self._request.cwd),)
        if record_type == "turn.started":
            self._turn_open, self._acted, self._last_text = True, False, ""
            return (TurnStarted(),)
        if record_type in ("item.started", "item.updated", "item.completed"):
            return self._on_item(message, record_type, camel(mapping(message, "item")))
        if record_type == "turn.completed":
            return (*self._usage(mapping(message, "usage")), *self._on_completed())
        if record_type == "turn.failed":
            return self._end_turn(TurnOutcome.FAILED, _signal(text(mapping(message, "error"), "message")))
        if record_type == "error":
            return self._on_error(text(message, "message"))
        return (UnknownRecord(record_type=record_type, record=message),)

    def _on_item(
        self, message: Mapping[str, Any], record_type: str, item: Mapping[str, Any]
    ) -> tuple[AgentEvent, ...]:
        if text(item, "type") == "todoList":
            # The same list comes again, unchanged, when the turn ends.
            return (todo(item),) if record_type != "item.completed" else ()
        if is_tool(item):
            return self._on_tool(item, record_type == "item.completed")
        if record_type != "item.completed":
            return ()
        events = spoken(item)
        if events is None:
            return (UnknownRecord(record_type=f"item/{text(item, 'type')}", record=message),)
        for event in events:
            if isinstance(event, AgentText):
                self._acted, self._last_text = True, event.text
        return events

    def _on_tool(self, item: Mapping[str, Any], completed: bool) -> tuple[AgentEvent, ...]:
        self._acted = True
        item_id = text(item, "id")
        events: list[AgentEvent] = []
        if item_id not in self._open_calls:
            self._open_calls[item_id] = None
            events.append(call_of(item))
        if completed:
            del self._open_calls[item_id]
            events.append(result_of(item))
        return tuple(events)

    def _usage(self, counts: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        # The counts are those of the whole thread: after a resume they hold earlier runs, which were
        # reported then, and nothing here tells them apart.
        usage = usage_of(counts)
        return (UsageReported(usage=usage),) if usage.total and self._request.native_id is None else ()

    def _on_error(self, message: str) -> tuple[AgentEvent, ...]:
        if message.startswith("Reconnecting"):
            attempt, most = attempts_in(message) or (1, None)
            return (Retrying(attempt=attempt, max_attempts=most, error=_signal(message)),)
        if self._turn_open:
            # turn.failed follows and says the same.
            return ()
        return (Notice(text=message, level="error"),)

    def _on_completed(self) -> tuple[AgentEvent, ...]:
        if self._acted:
            return self._end_turn(TurnOutcome.COMPLETED, None)
        # A refusal by the model's provider shows as a turn in which nothing happened at all.
        nothing = ErrorSignal(
            channel=Channel.EVENT, text="the turn ended without an answer", code="refusal_suspected"
        )
        return self._end_turn(TurnOutcome.FAILED, nothing)

    def _end_turn(self, outcome: TurnOutcome, error: ErrorSignal | None) -> tuple[AgentEvent, ...]:
        left = tuple(ToolResult(call_id=call_id, ok=False) for call_id in self._open_calls)
        self._open_calls.clear()
        self._turn_open = False
        return (*left, TurnEnded(outcome=outcome, text=self._last_text, error=error))


def _signal(message: str) -> ErrorSignal:
    return ErrorSignal(channel=Channel.EVENT, text=message, http_status=status_in(message))
