"""One rollout of Codex, lifted: prompts, items, plan, tokens, limits.

Record shapes as codex-cli 0.171.0 writes them ("paginated" history: `item_completed`) and as older releases
did (`user_message`, `agent_message`, `exec_command_end`, `patch_apply_end`). Unknown ones are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from relay.core.events import (
    AgentText,
    Channel,
    ErrorSignal,
    PlanItem,
    PlanUpdated,
    QuotaReported,
    TaskStatus,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from relay.core.failures import as_failed, classify
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.codex_facts import error_code, last_reset, status_in, usage_of, windows_of
from relay.providers.codex_items import unwrap
from relay.providers.transcript import LineTranscript
from relay.providers.wordings import wording_of

_WORDING = wording_of("codex")
_STATUS = {
    "pending": TaskStatus.PENDING,
    "in_progress": TaskStatus.IN_PROGRESS,
    "inProgress": TaskStatus.IN_PROGRESS,
    "completed": TaskStatus.COMPLETED,
}
_TELLING = re.compile(
    rb'"type"\s*:\s*"(?:session_meta|turn_context|compacted|UserMessage|AgentMessage|FileChange|'
    rb"CommandExecution|McpToolCall|ContextCompaction|user_message|agent_message|exec_command_begin|"
    rb"exec_command_end|patch_apply_begin|patch_apply_end|mcp_tool_call_begin|mcp_tool_call_end|token_count|"
    rb'task_started|task_complete|turn_aborted|thread_rolled_back|error)"'
)
_LIST_LEAVES_OUT = (b'"CommandExecution"', b'"exec_command_end"', b'"exec_command_begin"')
_PLAN = b"update_plan"
_IN_SCRIPT = re.compile(r"tools\.update_plan\(\s*(\{.*?\})\s*\)", re.DOTALL)
_EXITED = re.compile(r"(?:Process exited with code|Exit code:) (-?\d+)|\"exit_code\":\s*(-?\d+)")
_STAMP = re.compile(rb'"timestamp"\s*:\s*"([^"\\]{10,40})"')
_CODES = {
    "usage_limit_exceeded": "usageLimitExceeded",
    "response_too_many_failed_attempts": "responseTooManyFailedAttempts",
    "rate_limit_exceeded": "rateLimitExceeded",
    "server_overloaded": "serverOverloaded",
    "internal_server_error": "internalServerError",
    "context_window_exceeded": "contextWindowExceeded",
    "http_connection_failed": "httpConnectionFailed",
    "response_stream_disconnected": "responseStreamDisconnected",
    "response_stream_connection_failed": "responseStreamConnectionFailed",
    "model_not_found": "modelNotFound",
    "bad_request": "badRequest",
    "unauthorized": "unauthorized",
    "cyber_policy": "cyberPolicy",
    "sandbox_error": "sandboxError",
}
"""The rollout's names of errors -> the app-server's."""


class CodexRollout(LineTranscript):
    """See the module."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._windows: Mapping[str, Any] = {}
        self._modern = False
        self._latest = b""
        self._seen: set[int] = set()

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        plan = _PLAN in line and (b'"function_call"' in line or b'"custom_tool_call"' in line)
        telling = plan or _TELLING.search(line) is not None or (self.lift.thorough and b'"call_id"' in line)
        if telling and not self.lift.thorough and any(each in line for each in _LIST_LEAVES_OUT):
            telling = line[-1:] != b"}"
        if not telling and line[:1] == b"{" and line[-1:] == b"}" and b"\0" not in line:
            self._note_time(line)
            return
        record = self.parsed(line)
        if record is None:
            return
        self._note_time(line)
        at = shapes.iso(record, "timestamp")
        payload = shapes.mapping(record, "payload")
        match shapes.text(record, "type"):
            case "session_meta":
                self._meta(payload)
            case "turn_context":
                self.lift.named(model=shapes.text(payload, "model"))
                self.lift.named(cwd=shapes.text(payload, "cwd"))
            case "compacted":
                self.lift.compacted(shapes.text(payload, "message"), at)
            case "response_item":
                self._response(payload, at)
            case "event_msg":
                self._event(payload, at)
            case _:
                pass

    def finish(self) -> None:
        """See `LineTranscript`."""
        self.lift.at(_instant(self._latest))

    def _note_time(self, line: bytes) -> None:
        found = _STAMP.search(line, 0, 200) or _STAMP.search(line)
        if found is None:
            return
        if not self._latest:
            self.lift.at(_instant(found[1]))
        self._latest = max(self._latest, found[1])

    def _meta(self, payload: Mapping[str, Any]) -> None:
        git, source = shapes.mapping(payload, "git"), payload.get("source")
        parent = shapes.text(payload, "parent_thread_id")
        if isinstance(source, Mapping):
            spawned = shapes.mapping(shapes.mapping(source, "subagent"), "thread_spawn")
            parent = parent or shapes.text(spawned, "parent_thread_id")
        self.lift.named(
            cwd=shapes.text(payload, "cwd"),
            branch=shapes.text(git, "branch"),
            version=shapes.text(payload, "cli_version"),
            forked_from=shapes.text(payload, "forked_from_id"),
            parent=parent,
        )

    def _response(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """Model items: the plan, and commands that are under way; all else comes as an event too."""
        name = shapes.text(payload, "name")
        if name == "update_plan":
            given = shapes.record(shapes.text(payload, "arguments").encode("utf-8", "replace"))
            self._plan(given or {}, at)
        elif name in ("exec_command", "shell", "local_shell") and self.lift.thorough:
            self._opened(payload, at)
        elif shapes.text(payload, "type").endswith("call_output"):
            self._closed(payload, at)
        elif name == "exec":
            for found in _IN_SCRIPT.finditer(shapes.text(payload, "input")):
                self._plan(shapes.record(found[1].encode("utf-8", "replace")) or {}, at)

    def _opened(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """A command that may never come to its end."""
        given = shapes.record(shapes.text(payload, "arguments").encode("utf-8", "replace")) or {}
        words = [word for word in shapes.items(given, "command") if isinstance(word, str)]
        command = shapes.text(given, "cmd") or (words[-1] if words else shapes.text(given, "command"))
        call = ToolCall(
            call_id=shapes.text(payload, "call_id"),
            tool="shell",
            tool_kind=ToolKind.SHELL,
            command=command,
            detail=command[:200],
        )
        self.lift.take(call, at)

    def _closed(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """The output of a command that no event told the end of."""
        call_id = shapes.text(payload, "call_id")
        if f"1:{call_id}" not in self.lift.facts.open_calls:
            return
        output = shapes.text(payload, "output")
        found = _EXITED.search(output)
        code = int(found[1] or found[2]) if found else None
        result = ToolResult(call_id=call_id, ok=not code, exit_code=code, output=shapes.clip(output))
        self.lift.take(result, at)

    def _plan(self, given: Mapping[str, Any], at: datetime | None) -> None:
        items = tuple(
            PlanItem(
                text=shapes.text(entry, "step"),
                status=_STATUS.get(shapes.text(entry, "status"), TaskStatus.PENDING),
            )
            for entry in shapes.items(given, "plan")
        )
        if items:
            self.lift.take(PlanUpdated(items=items), at)

    def _event(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        lift = self.lift
        match shapes.text(payload, "type"):
            case "item_completed":
                self._modern = True
                self._item(shapes.mapping(payload, "item"), at)
            case "user_message" if not self._modern:
                self._said(shapes.text(payload, "message"), at)
            case "agent_message" if not self._modern:
                lift.take(AgentText(text=shapes.text(payload, "message")), at)
            case "exec_command_end" if not self._modern:
                self._ran(payload, shapes.text(payload, "call_id"), at)
            case "patch_apply_begin" if not self._modern:
                self._patched(payload, shapes.text(payload, "call_id"), at)
            case "patch_apply_end" if not self._modern:
                call_id = shapes.text(payload, "call_id")
                if shapes.mapping(payload, "changes"):
                    self._patched(payload, call_id, at)
                ok = payload.get("success") is not False
                lift.take(ToolResult(call_id=call_id, ok=ok, output=_streams(payload)), at)
            case "mcp_tool_call_end" if not self._modern:
                lift.server(shapes.text(shapes.mapping(payload, "invocation"), "server"))
            case "token_count":
                self._counted(payload, at)
            case "task_started":
                lift.context(0, shapes.integer(payload, "model_context_window"))
                lift.take(TurnStarted(turn_id=shapes.text(payload, "turn_id")), at)
            case "task_complete":
                self._completed(payload, at)
            case "turn_aborted":
                lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)
            case "error":
                self._failed(payload, at)
            case _:
                pass

    def _said(self, text: str, at: datetime | None) -> None:
        words = typed(text)
        if words and not words.startswith(("# AGENTS.md instructions", "<")):
            self.lift.said(words, at)

    def _item(self, item: Mapping[str, Any], at: datetime | None) -> None:
        lift, item_id = self.lift, shapes.text(item, "id")
        number = hash((shapes.text(item, "type"), item_id))
        if item_id and number in self._seen:
            lift.skip("duplicate")
            return
        self._seen.add(number)
        match shapes.text(item, "type"):
            case "UserMessage":
                self._said(_joined(item), at)
            case "AgentMessage":
                lift.take(AgentText(text=_joined(item)), at)
            case "CommandExecution":
                self._ran(item, item_id, at)
            case "FileChange":
                self._patched(item, item_id, at)
                ok = shapes.text(item, "status") in ("completed", "")
                denied = shapes.text(item, "status") == "declined"
                result = ToolResult(call_id=item_id, ok=ok, output=_streams(item), denied=denied)
                lift.take(result, at)
            case "McpToolCall":
                lift.server(shapes.text(item, "server"))
                self._called(item, item_id, at)
            case "ContextCompaction":
                lift.compacted("", at)
            case _:
                pass

    def _called(self, item: Mapping[str, Any], call_id: str, at: datetime | None) -> None:
        name = ".".join(filter(None, (shapes.text(item, "server"), shapes.text(item, "tool"))))
        arguments = item.get("arguments")
        detail = shapes.one_line(orjson.dumps(arguments).decode()) if arguments is not None else ""
        self.lift.take(ToolCall(call_id=call_id, tool=name, tool_kind=ToolKind.MCP, detail=detail), at)
        ok = shapes.text(item, "status") in ("completed", "") and not item.get("error")
        words = shapes.text(shapes.mapping(item, "error"), "message")
        self.lift.take(ToolResult(call_id=call_id, ok=ok, output=words), at)

    def _ran(self, item: Mapping[str, Any], call_id: str, at: datetime | None) -> None:
        if not self.lift.thorough:
            return
        words = [word for word in shapes.items(item, "command") if isinstance(word, str)]
        command = words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else " ".join(words)
        command = command or unwrap(shapes.text(item, "command"))
        code = shapes.number(item, "exit_code")
        status = shapes.text(item, "status")
        reads = [shapes.mapping({"p": each}, "p") for each in shapes.items(item, "parsed_cmd")]
        paths = tuple(
            shapes.text(each, "path") or shapes.text(each, "name")
            for each in reads
            if shapes.text(each, "type") == "read"
        )
        for path in filter(None, paths):
            self.lift.read(path)
        call = ToolCall(
            call_id=call_id, tool="shell", tool_kind=ToolKind.SHELL, command=command, detail=command[:200]
        )
        self.lift.take(call, at)
        ok = not code and status not in ("failed", "declined")
        result = ToolResult(
            call_id=call_id,
            ok=ok,
            exit_code=None if code is None else int(code),
            output=shapes.clip(shapes.text(item, "aggregated_output") or _streams(item)),
            denied=status == "declined",
        )
        self.lift.take(result, at)

    def _patched(self, item: Mapping[str, Any], call_id: str, at: datetime | None) -> None:
        paths: dict[str, None] = {}
        for path, change in shapes.mapping(item, "changes").items():
            if isinstance(path, str):
                paths[path] = None
            moved = shapes.text(change, "move_path") or shapes.text(
                shapes.mapping(change, "update"), "move_path"
            )
            if moved:
                paths[moved] = None
        call = ToolCall(call_id=call_id, tool="apply_patch", tool_kind=ToolKind.EDIT, paths=tuple(paths))
        self.lift.take(call, at)

    def _counted(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        info = shapes.mapping(payload, "info")
        if total := shapes.mapping(info, "total_token_usage"):
            self.lift.totals(usage_of(total))
            last = usage_of(shapes.mapping(info, "last_token_usage"))
            self.lift.context(last.total, shapes.integer(info, "model_context_window"))
        limits = shapes.mapping(payload, "rate_limits")
        if limits:
            self._windows = _snapshot(limits)
            windows = windows_of(self._windows)
            if any(window.rejected for window in windows):
                self.lift.take(QuotaReported(windows=windows), at)

    def _completed(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        error = shapes.mapping(payload, "error")
        if error:
            self._failed(error, at)
        else:
            self.lift.take(TurnEnded(outcome=TurnOutcome.COMPLETED), at)

    def _failed(self, error: Mapping[str, Any], at: datetime | None) -> None:
        info = error.get("codex_error_info")
        code = error_code(info)
        words = shapes.text(error, "message")
        status = shapes.number(shapes.mapping(info, code or ""), "http_status_code")
        known = _CODES.get(code or "", code)
        limited = known in ("usageLimitExceeded", "rateLimitExceeded", "responseTooManyFailedAttempts")
        windows = tuple(w for w in windows_of(self._windows) if (w.fraction_used or 0) >= 1)
        signal = ErrorSignal(
            channel=Channel.TRANSCRIPT,
            text=words,
            code=known,
            http_status=int(status) if status else status_in(words),
            resets_at=last_reset(windows) if limited and windows else None,
        )
        now = at or datetime.fromtimestamp(0, UTC)
        verdict = as_failed(classify(signal, _WORDING, now=now, zone=UTC, printed_at=at))
        self.lift.failed(signal, verdict, at)


def _snapshot(limits: Mapping[str, Any]) -> dict[str, Any]:
    """The rollout's snake_case of a rate limit snapshot, in the app-server's camelCase."""
    told: dict[str, Any] = {"limitId": shapes.text(limits, "limit_id")}
    for slot in ("primary", "secondary"):
        window = shapes.mapping(limits, slot)
        if window:
            told[slot] = {
                "usedPercent": window.get("used_percent"),
                "windowDurationMins": window.get("window_minutes"),
                "resetsAt": window.get("resets_at"),
            }
    return told


def _joined(item: Mapping[str, Any]) -> str:
    pieces = [shapes.text(piece, "text") for piece in shapes.items(item, "content")]
    return "\n".join(piece for piece in pieces if piece) or shapes.text(item, "text")


def _streams(item: Mapping[str, Any]) -> str:
    return shapes.clip("\n".join(filter(None, (shapes.text(item, "stdout"), shapes.text(item, "stderr")))))


def _instant(stamp: bytes) -> datetime | None:
    return shapes.iso({"at": stamp.decode("ascii", "replace")}, "at") if stamp else None
