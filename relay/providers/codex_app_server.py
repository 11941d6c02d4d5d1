"""The two-way dialogue with `codex app-server`: JSON-RPC, one message a line, without the version field.

One instance a run, made by the Codex provider and driven by the adapter actor. Requests of ours have
their write's key as id, so that an answer says by itself what it answers: nothing has to be remembered
for the state to be rebuilt from the output alone. Requests of the server have ids that count from 0.
Seen with codex-cli 0.171.0, which accepts string ids and lets `turn/start` join a turn that is under
way; that, unlike `turn/steer`, cannot lose a message to a turn that ends in the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    AgentTextDelta,
    Channel,
    ErrorSignal,
    Notice,
    QuotaReported,
    QuotaWindow,
    RawOutput,
    Retrying,
    TokenUsage,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UnknownRecord,
    UsageReported,
)
from relay.providers.codex_facts import attempts_in, error_code, error_of, less, usage_of, windows_of
from relay.providers.codex_items import call_of, changed_paths, is_tool, plan_of, result_of, spoken
from relay.providers.codex_requests import answered, asked
from relay.providers.protocol import LaunchRequest, Reading, Write
from relay.providers.shapes import items, mapping, record, text
from relay.version import VERSION

INITIALIZE, THREAD, TURN = "initialize", "thread", "turn:1"
_INTERRUPT = "interrupt:"

_ALLOW = {
    "ask": ("untrusted", "workspace-write"),
    "edits": ("untrusted", "workspace-write"),
    "all": ("never", "danger-full-access"),
}
_UNWANTED = (
    "turn/diff/updated",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/reasoning/textDelta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/summaryPartAdded",
    "remoteControl/status/changed",
)
"""Notifications that Relay asks the server not to send: they repeat what comes whole later."""

_SILENT = {
    *_UNWANTED,
    "account/updated",
    "app/list/updated",
    "fs/changed",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "skills/changed",
    "thread/compacted",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
}
"""Notifications that carry nothing an event stands for."""

_NOTICES = {
    "configWarning": "summary",
    "deprecationNotice": "summary",
    "warning": "message",
    "guardianWarning": "message",
}


class AppServerDialogue:
    """The state of one conversation with `codex app-server`; see `relay.providers.protocol.Dialogue`."""

    def __init__(self, request: LaunchRequest) -> None:
        self._request = request
        self._version = ""
        self._thread = ""
        self._turn = ""
        self._turn_open = False
        self._open_calls: dict[str, None] = {}
        self._cut_calls: set[str] = set()
        self._paths: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, tuple[Any, str, Mapping[str, Any]]] = {}
        self._parents: dict[str, str] = {}
        self._totals: dict[str, TokenUsage] = {}
        self._windows: dict[str, QuotaWindow] = {}
        self._attempt = 0
        self._acted = False
        self._last_text = ""
        self._error: Mapping[str, Any] = {}

    @property
    def turn_open(self) -> bool:
        """The agent is working on a message."""
        return self._turn_open

    def open(self) -> tuple[Write, ...]:
        """The handshake's first request; the others follow from what the server answers."""
        client = {"name": "relay", "title": "Relay", "version": VERSION}
        params = {"clientInfo": client, "capabilities": {"optOutNotificationMethods": list(_UNWANTED)}}
        return (_request(INITIALIZE, "initialize", params),)

    def read(self, line: bytes, stream: str) -> Reading:
        """Take one line: a notification, an answer to a request of ours, or a request of the server."""
        message = record(line) if stream == "out" else None
        if message is None:
            said = line.decode("utf-8", "replace")
            return Reading(events=(RawOutput(stream=stream, text=said),) if said.strip() else ())
        method = text(message, "method")
        if method and message.get("id") is not None:
            return self._on_request(message, method)
        if method:
            return Reading(events=self._on_notification(message, method, mapping(message, "params")))
        if "error" in message:
            return Reading(events=self._on_refusal(text(message, "id"), mapping(message, "error")))
        if "result" in message:
            return self._on_result(text(message, "id"), mapping(message, "result"))
        return Reading(events=(UnknownRecord(record_type=text(message, "type"), record=message),))

    def say(self, text: str, key: str) -> tuple[Write, ...] | None:
        """A message of the user: joins the turn under way, or starts one. None before there is a thread."""
        return (self._start_turn(key, text),) if self._thread else None

    def interrupt(self, key: str) -> tuple[Write, ...]:
        """Ask the server to stop the turn; empty when none is known to run."""
        if not (self._turn_open and self._turn):
            return ()
        params = {"threadId": self._thread, "turnId": self._turn}
        return (_request(key, "turn/interrupt", params, request_id=_INTERRUPT + key),)

    def answer(self, request_id: str, allowed: bool, note: str) -> tuple[Write, ...]:
        """Answer a request of the server; empty when it has none of that id open."""
        if request_id not in self._asked:
            return ()
        raw_id, method, params = self._asked[request_id]
        return (_reply(raw_id, "result", answered(method, params, allowed, note)),)

    # Answers to requests of ours

    def _on_result(self, key: str, result: Mapping[str, Any]) -> Reading:
        if key == INITIALIZE:
            # "relay/0.171.0 (Debian 12.0.0; x86_64) ...": the server's version after our own name.
            self._version = text(result, "userAgent").partition("/")[2].partition(" ")[0]
            return Reading(writes=(_line("initialized", {"method": "initialized"}), self._ask_thread()))
        if key == THREAD:
            return self._on_thread(result)
        turn = text(mapping(result, "turn"), "id")
        if turn and not self._turn:
            self._turn = turn
        return Reading()

    def _ask_thread(self) -> Write:
        policy, sandbox = _ALLOW.get(self._request.allow, _ALLOW["ask"])
        params = {"cwd": self._request.cwd, "approvalPolicy": policy, "sandbox": sandbox}
        if self._request.model:
            params["model"] = self._request.model
        if self._request.native_id is None:
            return _request(THREAD, "thread/start", params)
        return _request(
            THREAD, "thread/resume", {"threadId": self._request.native_id, "excludeTurns": True, **params}
        )

    def _on_thread(self, result: Mapping[str, Any]) -> Reading:
        thread = mapping(result, "thread")
        self._thread = text(thread, "id")
        started = AgentStarted(
            native_id=self._thread,
            model=text(result, "model") or text(thread, "model"),
            cwd=text(result, "cwd") or text(thread, "cwd"),
            version=self._version or text(thread, "cliVersion"),
        )
        if not self._request.prompt:
            return Reading(events=(started,))
        self._turn_open = True
        return Reading(events=(started,), writes=(self._start_turn(TURN, self._request.prompt),))

    def _start_turn(self, key: str, message: str) -> Write:
        # A lone half of a surrogate pair cannot be written as JSON.
        content = [{"type": "text", "text": message.encode("utf-8", "replace").decode()}]
        return _request(key, "turn/start", {"threadId": self._thread, "input": content})

    def _on_refusal(self, key: str, error: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        """An error in answer to a request of ours."""
        message = text(error, "message")
        if key in (INITIALIZE, THREAD) or not (self._turn or key.startswith(_INTERRUPT)):
            code = error_code(mapping(error, "data").get("codexErrorInfo"))
            signal = ErrorSignal(channel=Channel.EVENT, text=message, code=code or self._refused(key))
            return self._end_turn(TurnOutcome.FAILED, signal)
        return (Notice(text=message, level="warning"),)

    def _refused(self, key: str) -> str:
        if key == THREAD and self._request.native_id is not None:
            return "resume_failed"
        return "start_failed"

    # Requests of the server

    def _on_request(self, message: Mapping[str, Any], method: str) -> Reading:
        raw_id, params = message["id"], mapping(message, "params")
        question = asked(str(raw_id), method, params, self._paths)
        if question is not None:
            self._asked[str(raw_id)] = (raw_id, method, params)
            return Reading(events=(question,))
        refusal = {"code": -32601, "message": f"Relay does not answer {method}"}
        unknown = UnknownRecord(record_type=method, record=message)
        return Reading(events=(unknown,), writes=(_reply(raw_id, "error", refusal),))

    # Notifications

    def _on_notification(
        self, message: Mapping[str, Any], method: str, params: Mapping[str, Any]
    ) -> tuple[AgentEvent, ...]:
        thread = text(params, "threadId")
        foreign = bool(thread and self._thread and thread != self._thread)
        if method in ("item/started", "item/completed"):
            return self._on_item(message, method, params, thread if foreign else "")
        if method == "thread/tokenUsage/updated":
            return self._on_usage(thread, mapping(params, "tokenUsage"))
        if method == "account/rateLimits/updated":
            windows = windows_of(mapping(params, "rateLimits"))
            self._windows.update((window.name, window) for window in windows)
            return (QuotaReported(windows=windows),) if windows else ()
        if method in _NOTICES:
            return (Notice(text=text(params, _NOTICES[method]), level="warning"),)
        if method == "serverRequest/resolved":
            self._asked.pop(str(params.get("requestId")), None)
            return ()
        if method == "mcpServer/startupStatus/updated":
            return _server_status(params)
        if method in _SILENT:
            return ()
        if foreign:
            # A subagent's thread: its turns are not the session's, its calls are (see _on_item).
            return ()
        if method == "item/agentMessage/delta":
            return (AgentTextDelta(text=text(params, "delta")),)
        if method == "turn/plan/updated":
            return (plan_of(params),)
        if method == "turn/started":
            return self._begin_turn(text(mapping(params, "turn"), "id"))
        if method == "turn/completed":
            return self._on_turn_completed(mapping(params, "turn"))
        if method == "error":
            return self._on_error(params)
        if method == "model/rerouted":
            return (Notice(text=f"Codex switched the model to {text(params, 'toModel')}", level="warning"),)
        return (UnknownRecord(record_type=method, record=message),)

    def _on_item(
        self, message: Mapping[str, Any], method: str, params: Mapping[str, Any], foreign: str
    ) -> tuple[AgentEvent, ...]:
        item = mapping(params, "item")
        item_id = text(item, "id")
        completed = method == "item/completed"
        if is_tool(item):
            return self._on_tool(item, item_id, completed, foreign)
        if not completed or foreign:
            return ()
        events = spoken(item)
        if events is None:
            return (UnknownRecord(record_type=f"item/{text(item, 'type')}", record=message),)
        for event in events:
            if isinstance(event, AgentText):
                self._acted, self._last_text = True, event.text
        return events

    def _on_tool(
        self, item: Mapping[str, Any], item_id: str, completed: bool, foreign: str
    ) -> tuple[AgentEvent, ...]:
        self._acted = True
        if paths := changed_paths(item):
            self._paths[item_id] = paths
        for receiver in items(item, "receiverThreadIds"):
            self._parents[str(receiver)] = item_id
        if item_id in self._cut_calls:
            return ()
        events: list[AgentEvent] = []
        if item_id not in self._open_calls:
            self._open_calls[item_id] = None
            events.append(call_of(item, parent=self._parents.get(foreign, foreign)))
        if completed:
            del self._open_calls[item_id]
            events.append(result_of(item))
        return tuple(events)

    def _on_usage(self, thread: str, usage: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        total = usage_of(mapping(usage, "total"))
        before = self._totals.get(thread)
        self._totals[thread] = total
        if before is None:
            # The total of a resumed thread counts earlier runs; it is told again when the thread is
            # loaded, before any turn of this run, and that spent nothing.
            resumed = thread == self._request.native_id
            if resumed and not self._turn:
                return ()
            spent = usage_of(mapping(usage, "last")) if resumed else total
        else:
            spent = less(total, before)
        return (UsageReported(usage=spent),) if spent.total else ()

    def _on_error(self, params: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        error = mapping(params, "error")
        if params.get("willRetry") is True:
            self._attempt += 1
            attempt, most = attempts_in(text(error, "message")) or (self._attempt, None)
            return (Retrying(attempt=attempt, max_attempts=most, error=self._signal(error)),)
        if self._turn_open:
            # turn/completed follows and says the same.
            self._error = error
            return ()
        return (Notice(text=text(error, "message"), level="error"),)

    def _signal(self, error: Mapping[str, Any]) -> ErrorSignal:
        return error_of(error, tuple(w for w in self._windows.values() if "/" not in w.name))

    # Turns

    def _begin_turn(self, turn: str) -> tuple[AgentEvent, ...]:
        self._turn, self._turn_open = turn, True
        self._attempt, self._acted, self._last_text, self._error = 0, False, "", {}
        return (TurnStarted(turn_id=turn),)

    def _on_turn_completed(self, turn: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
        status = text(turn, "status")
        error = mapping(turn, "error") or self._error
        if status == "interrupted":
            return self._end_turn(TurnOutcome.INTERRUPTED, None)
        if status == "failed" or error:
            return self._end_turn(TurnOutcome.FAILED, self._signal(error))
        if not self._acted:
            # A refusal by the model's provider shows as a turn in which nothing happened at all.
            nothing = ErrorSignal(
                channel=Channel.EVENT, text="the turn ended without an answer", code="refusal_suspected"
            )
            return self._end_turn(TurnOutcome.FAILED, nothing)
        return self._end_turn(TurnOutcome.COMPLETED, None)

    def _end_turn(self, outcome: TurnOutcome, error: ErrorSignal | None) -> tuple[AgentEvent, ...]:
        left = tuple(ToolResult(call_id=call_id, ok=False) for call_id in self._open_calls)
        ended = TurnEnded(outcome=outcome, text=self._last_text, error=error)
        self._turn, self._turn_open = "", False
        self._cut_calls.update(self._open_calls)
        self._open_calls.clear()
        self._asked.clear()
        self._error = {}
        return (*left, ended)


def _request(key: str, method: str, params: Mapping[str, Any], request_id: str = "") -> Write:
    return _line(key, {"id": request_id or key, "method": method, "params": params})


def _server_status(params: Mapping[str, Any]) -> tuple[AgentEvent, ...]:
    if text(params, "status") != "failed":
        return ()
    words = f"MCP server {text(params, 'name')} did not start: {text(params, 'error')}"
    return (Notice(text=words, level="warning"),)


def _reply(raw_id: Any, field: str, value: Mapping[str, Any]) -> Write:
    return _line(f"answer:{raw_id}", {"id": raw_id, field: value})


def _line(key: str, message: Mapping[str, Any]) -> Write:
    return Write(key=key, line=orjson.dumps(message).decode())
