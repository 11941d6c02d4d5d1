"""The two-way dialogue with `claude -p --input-format stream-json`: one JSON object a line, either way.

One instance a run, made by the Claude provider and driven by the adapter actor. Seen with Claude Code
2.1.332 and, in its output, 2.1.197:

* nothing is printed before the first message, except answers to control requests; so `initialize` is
  asked first, and the prompt, which may be long, follows its answer;
* every message carries a `uuid` made from the run and the write's key: the CLI drops one that it has seen,
  and tells by it when a message is queued, begun and done;
* a message in mid-turn joins the turn at its next step (one result for both), or waits for its end;
* an interrupt leaves waiting messages in place, and they would begin a turn at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    AgentTextDelta,
    AgentThinking,
    Notice,
    QuotaReported,
    RawOutput,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UnknownRecord,
    UserText,
)
from relay.providers.claude_facts import error_of, is_rejected, outcome_of, retry_of, usage_of, windows_of
from relay.providers.claude_plan import Plan
from relay.providers.claude_tools import asked, call_of, kind_of, permission, result_of
from relay.providers.protocol import LaunchRequest, Reading, Write
from relay.providers.shapes import items, mapping, number, record, text

INITIALIZE, PROMPT = "initialize", "prompt"
ENDED_WITH_TURN = "ended with the turn"

_SYNTHETIC = "<synthetic>"
_OWN_WORDS = ("[Request interrupted by user", "<local-command-")
"""How texts begin that the CLI writes in the user's name without saying so."""

_SILENT = {"auth_status", "keep_alive", "prompt_suggestion", "tool_progress", "tool_use_summary"}
_SILENT_SYSTEM = {
    "background_tasks_changed",
    "commands_changed",
    "control_request_progress",
    "files_persisted",
    "hook_progress",
    "hook_response",
    "hook_started",
    "post_turn_summary",
    "session_state_changed",
    "session_title_changed",
    "status",
    "stop_hook_summary",
    "task_notification",
    "task_progress",
    "task_started",
    "task_updated",
    "thinking_tokens",
    "turn_duration",
}
"""Records that carry nothing an event stands for."""

_NOTICES = {
    "compact_boundary": "the conversation was compacted",
    "informational": "",
    "local_command_output": "",
    "model_fallback": "another model took over",
    "model_refusal_fallback": "the model refused; another one took over",
    "model_refusal_no_fallback": "the model refused, and no other one took over",
    "notification": "",
    "session_writes_lost": "Claude Code could not write its transcript",
}
"""System records for people, with words for those that bring none."""


class ClaudeDialogue:
    """The state of one conversation with Claude Code; see `relay.providers.protocol.Dialogue`."""

    def __init__(self, request: LaunchRequest) -> None:
        self._request = request
        self._ready = False
        self._native_id = ""
        self._turn_open = False
        self._awaited = False
        self._queued: dict[str, None] = {}
        self._open_calls: dict[str, ToolCall] = {}
        self._closed_calls: set[str] = set()
        self._denied_calls: set[str] = set()
        self._asked: dict[str, Mapping[str, Any]] = {}
        self._plan = Plan()
        self._limit: Mapping[str, Any] = {}
        self._error: Mapping[str, Any] = {}
        self._last_text = ""
        # A resumed session's total goes on from what earlier runs have cost.
        self._cost: float | None = None if request.native_id else 0.0

    @property
    def turn_open(self) -> bool:
        """The agent is working on a message."""
        return self._turn_open

    def open(self) -> tuple[Write, ...]:
        """The handshake; the prompt follows its answer."""
        return (_control(INITIALIZE, {"subtype": "initialize"}),)

    def read(self, line: bytes, stream: str) -> Reading:
        """Take one line: a record of the CLI, or plain text of its stderr or its launcher."""
        message = record(line) if stream == "out" else None
        if message is None:
            said = line.decode("utf-8", "replace")
            return Reading(events=(RawOutput(stream=stream, text=said),) if said.strip() else ())
        kind = text(message, "type")
        if kind == "control_request":
            return self._on_request(message, text(message, "request_id"), mapping(message, "request"))
        if kind == "control_response":
            return self._on_response(mapping(message, "response"))
        return Reading(events=self._on_record(message, kind))

    def say(self, text: str, key: str) -> tuple[Write, ...] | None:
        """A message of the user, in mid-turn too. None before the prompt is on its way."""
        return (self._message(key, text),) if self._ready else None

    def interrupt(self, key: str) -> tuple[Write, ...]:
        """Ask the CLI to stop its turn and to drop what waits; empty when there is neither."""
        if not (self._turn_open or self._awaited or self._queued):
            return ()
        drops = (
            _control(f"{key}:{message}", {"subtype": "cancel_async_message", "message_uuid": message})
            for message in self._queued
        )
        return (*drops, _control(key, {"subtype": "interrupt"}))

    def answer(self, request_id: str, allowed: bool, note: str) -> tuple[Write, ...]:
        """Answer a permission request; empty when none of that id is open."""
        request = self._asked.get(request_id)
        if request is None:
            return ()
        return (_reply(f"answer:{request_id}", request_id, permission(request, allowed, note)),)

    # Control messages

    def _on_response(self, response: Mapping[str, Any]) -> Reading:
        failed = text(response, "subtype") == "error"
        words = f"Claude Code refused {text(response, 'request_id')}: {text(response, 'error')}"
        events = (Notice(text=words, level="warning"),) if failed else ()
        if text(response, "request_id") != INITIALIZE or self._ready:
            return Reading(events=events)
        # Refused or not, the CLI is up and takes messages.
        self._ready = self._awaited = True
        return Reading(events=events, writes=(self._message(PROMPT, self._request.prompt),))

    def _on_request(self, message: Mapping[str, Any], request_id: str, request: Mapping[str, Any]) -> Reading:
        if text(request, "subtype") != "can_use_tool" or not request_id:
            refusal = f"Relay does not answer {text(request, 'subtype')}"
            body = {"subtype": "error", "request_id": request_id, "error": refusal}
            unknown = UnknownRecord(record_type=f"control_request/{text(request, 'subtype')}", record=message)
            answer = _line(f"refuse:{request_id}", {"type": "control_response", "response": body})
            return Reading(events=(unknown,), writes=(answer,))
        if self._request.allow == "all" and kind_of(text(request, "tool_name")) is not ToolKind.ASK:
            return Reading(writes=(_reply(f"allow:{request_id}", request_id, permission(request, True, "")),))
        self._asked[request_id] = request
        return Reading(events=(asked(request_id, request),))

    # Records

    def _on_record(self, message: Mapping[str, Any], kind: str) -> tuple[AgentEvent, ...]:
        match kind:
            case "assistant":
                return self._on_assistant(message, mapping(message, "message"))
            case "user":
                return self._on_user(message, mapping(message, "message"))
            case "system":
                return self._on_system(message, text(message, "subtype"))
            case "result":
                return self._on_result(message)
            case "rate_limit_event":
                return self._on_quota(mapping(message, "rate_limit_info"))
            case "stream_event":
                return _delta(message)
            case "command_lifecycle":
                return self._on_lifecycle(text(message, "command_uuid"), text(message, "state"))
            case "control_cancel_request":
                self._asked.pop(text(message, "request_id"), None)
                return ()
        return () if kind in _SILENT else (UnknownRecord(record_type=kind, record=message),)

    def _on_system(self, message: Mapping[str, Any], subtype: str) -> tuple[AgentEvent, ...]:
        if subtype == "init":
            return self._on_init(message)
        if subtype == "api_retry":
            return (retry_of(message),)
        if subtype == "permission_denied":
            self._denied_calls.add(text(message, "tool_use_id"))
            return ()
        if subtype in _NOTICES:
            words = text(message, "content") or text(message, "message") or _NOTICES[subtype]
            level = "warning" if "refusal" in subtype or "lost" in subtype else text(message, "level")
            return (Notice(text=words, level=level or "info"),) if words else ()
        if subtype in _SILENT_SYSTEM:
            return ()
        return (UnknownRecord(record_type=f"system/{subtype}", record=message),)

    def _on_init(self, message: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        events: list[AgentEvent] = []
        native_id = text(message, "session_id")
        if native_id != self._native_id:
            self._native_id = native_id
            started = AgentStarted(
                native_id=native_id,
                model=text(message, "model"),
                cwd=text(message, "cwd"),
                version=text(message, "claude_code_version"),
            )
            events.append(started)
        self._awaited = False
        if not self._turn_open:
            self._turn_open, self._error, self._last_text = True, {}, ""
            events.append(TurnStarted())
        return tuple(events)

    def _on_lifecycle(self, message: str, state: str) -> tuple[AgentEvent, ...]:
        if state == "queued":
            self._queued[message] = None
        else:
            self._queued.pop(message, None)
        return ()

    def _on_quota(self, info: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        self._limit = info if is_rejected(info) else {}
        windows = windows_of(info)
        return (QuotaReported(windows=windows),) if windows else ()

    def _on_assistant(self, message: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        parent = text(message, "parent_tool_use_id")
        if text(message, "error") or message.get("is_api_error_message") is True:
            # The words of an error are not the agent's; they go with the turn's end.
            if not parent:
                self._error = message
            return ()
        spoken: tuple[Any, ...] = items(said, "content")
        if text(said, "content"):
            spoken = ({"type": "text", "text": text(said, "content")},)
        events: list[AgentEvent] = []
        for block in spoken:
            events += self._on_block(message, block, parent, synthetic=text(said, "model") == _SYNTHETIC)
        return tuple(events)

    def _on_block(
        self, message: Mapping[str, Any], block: object, parent: str, *, synthetic: bool
    ) -> tuple[AgentEvent, ...]:
        kind = text(block, "type")
        if kind.endswith("tool_use") and isinstance(block, Mapping):
            return self._on_call(block, parent)
        if kind.endswith("tool_result") and isinstance(block, Mapping):
            return self._on_tool_result(message, block)
        if kind in ("text", "thinking", "redacted_thinking"):
            words = text(block, kind)
            # What a subagent says is for the agent: its report comes as its call's result.
            if parent or not words.strip():
                return ()
            if kind == "thinking":
                return (AgentThinking(text=words),)
            if synthetic:
                return (Notice(text=words),)
            self._last_text = words
            return (AgentText(text=words),)
        return (UnknownRecord(record_type=f"assistant/{kind}", record=message),)

    def _on_call(self, block: Mapping[str, Any], parent: str) -> tuple[AgentEvent, ...]:
        call: ToolCall = call_of(block, parent)
        if not call.call_id or call.call_id in self._open_calls or call.call_id in self._closed_calls:
            return ()
        self._open_calls[call.call_id] = call
        if not parent:
            self._plan.opened(call.call_id, call.tool, mapping(block, "input"))
        return (call,)

    def _on_tool_result(self, message: Mapping[str, Any], block: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        call_id = text(block, "tool_use_id")
        if not call_id or call_id in self._closed_calls:
            return ()
        self._closed_calls.add(call_id)
        call = self._open_calls.pop(call_id, None)
        shell = call is not None and call.tool_kind is ToolKind.SHELL
        result = result_of(message, block, shell=shell, denied=call_id in self._denied_calls)
        plan = self._plan.closed(call_id, result.ok, mapping(message, "tool_use_result"))
        return (result,) if plan is None else (result, plan)

    def _on_user(self, message: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        spoken: tuple[Any, ...] = items(said, "content")
        if text(said, "content"):
            spoken = ({"type": "text", "text": text(said, "content")},)
        own = message.get("isSynthetic") is True or message.get("isMeta") is True
        events: list[AgentEvent] = []
        for block in spoken:
            words = text(block, "text")
            if text(block, "type").endswith("tool_result") and isinstance(block, Mapping):
                events += self._on_tool_result(message, block)
            elif words.strip() and not text(message, "parent_tool_use_id"):
                events.append(UserText(text=words, synthetic=own or words.startswith(_OWN_WORDS)))
        return tuple(events)

    def _on_result(self, result: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        usage = usage_of(result, self._cost)
        outcome = outcome_of(result)
        left = self._close_calls(outcome)
        failed = outcome is TurnOutcome.FAILED
        answer = text(result, "result") if outcome is TurnOutcome.COMPLETED else ""
        ended = TurnEnded(
            outcome=outcome,
            text=answer or self._last_text,
            error=error_of(result, self._error, self._limit) if failed else None,
        )
        total = number(result, "total_cost_usd")
        self._cost = self._cost if total is None else float(total)
        self._asked.clear()
        self._turn_open = self._awaited = False
        self._error, self._last_text = {}, ""
        return (*left, usage, ended) if usage else (*left, ended)

    def _close_calls(self, outcome: TurnOutcome) -> tuple[ToolResult, ...]:
        # A subagent whose own call is closed works in the background, past the end of a turn.
        cut = [
            call.call_id
            for call in self._open_calls.values()
            if outcome is not TurnOutcome.COMPLETED or call.parent not in self._closed_calls
        ]
        for call_id in cut:
            del self._open_calls[call_id]
        self._closed_calls.update(cut)
        return tuple(ToolResult(call_id=call_id, ok=False, output=ENDED_WITH_TURN) for call_id in cut)

    def _message(self, key: str, words: str) -> Write:
        name = f"relay:{self._request.session_id}:{self._request.run}:{key}"
        body = {"role": "user", "content": words}
        return _line(
            key, {"type": "user", "message": body, "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, name))}
        )


def _delta(message: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
    """A piece of text, when the user asked for partial messages; a subagent's is left out."""
    delta = mapping(mapping(message, "event"), "delta")
    piece = text(delta, "text") if text(delta, "type") == "text_delta" else ""
    return (AgentTextDelta(text=piece),) if piece and not text(message, "parent_tool_use_id") else ()


def _control(key: str, request: Mapping[str, Any]) -> Write:
    return _line(key, {"type": "control_request", "request_id": key, "request": request})


def _reply(key: str, request_id: str, response: Mapping[str, Any]) -> Write:
    body = {"subtype": "success", "request_id": request_id, "response": response}
    return _line(key, {"type": "control_response", "response": body})


def _line(key: str, message: Mapping[str, Any]) -> Write:
    return Write(key=key, line=orjson.dumps(message).decode())
