"""Claude Code's tool calls, tool results and permission requests, as Relay's events.

Pure functions used by the dialogue. Tool names and record shapes as printed by Claude Code 2.1.332 and
2.1.197 (which has no `tool_result_meta`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from relay.core.events import PermissionAsked, ToolCall, ToolKind, ToolResult
from relay.providers.shapes import clip, items, mapping, one_line, text

_KINDS = {
    "Read": ToolKind.READ,
    "NotebookRead": ToolKind.READ,
    "LS": ToolKind.READ,
    "ReadMcpResourceTool": ToolKind.MCP,
    "ListMcpResourcesTool": ToolKind.MCP,
    "Edit": ToolKind.EDIT,
    "MultiEdit": ToolKind.EDIT,
    "Write": ToolKind.EDIT,
    "NotebookEdit": ToolKind.EDIT,
    "Bash": ToolKind.SHELL,
    "PowerShell": ToolKind.SHELL,
    "Monitor": ToolKind.SHELL,
    "Grep": ToolKind.SEARCH,
    "Glob": ToolKind.SEARCH,
    "ToolSearch": ToolKind.SEARCH,
    "WebFetch": ToolKind.WEB,
    "WebSearch": ToolKind.WEB,
    "TodoWrite": ToolKind.PLAN,
    "TaskCreate": ToolKind.PLAN,
    "TaskUpdate": ToolKind.PLAN,
    "TaskList": ToolKind.PLAN,
    "TaskGet": ToolKind.PLAN,
    "EnterPlanMode": ToolKind.PLAN,
    "ExitPlanMode": ToolKind.PLAN,
    "AskUserQuestion": ToolKind.ASK,
    "Task": ToolKind.SUBAGENT,
    "Agent": ToolKind.SUBAGENT,
    "Workflow": ToolKind.SUBAGENT,
}

_PATH_KEYS = ("file_path", "notebook_path", "path")
_DETAIL_KEYS = ("description", "pattern", "query", "url", "skill", "subject", "plan", "prompt")
_EXIT_CODE = re.compile(r"\s*(?:Error: )?Exit code (\d{1,3})(?!\d)")


def kind_of(tool: str) -> ToolKind:
    """What a tool of that name does; OTHER for a name that is not known."""
    return ToolKind.MCP if tool.startswith("mcp__") else _KINDS.get(tool, ToolKind.OTHER)


def call_of(block: Mapping[str, Any], parent: str) -> ToolCall:
    """The call that a `tool_use` block opens.

    Args:
        block: the content block of an assistant message.
        parent: call id of the subagent's call that it belongs to, or "".
    """
    tool, given = text(block, "name"), mapping(block, "input")
    kind = kind_of(tool)
    paths = paths_of(given)
    command = text(given, "command") if kind is ToolKind.SHELL else ""
    return ToolCall(
        call_id=text(block, "id"),
        tool=tool,
        tool_kind=kind,
        paths=paths,
        command=command,
        detail=_detail(given) or one_line(command or ", ".join(paths)),
        parent=parent,
    )


def result_of(
    record: Mapping[str, Any], block: Mapping[str, Any], *, shell: bool, denied: bool
) -> ToolResult:
    """The result that a `tool_result` block of a user record closes a call with.

    Args:
        record: the whole record, which tells more than the block does.
        block: the content block.
        shell: the call ran a command, so that its output begins with the exit code when that is not 0.
        denied: the CLI said before that permission for the call was refused.
    """
    call_id, output = text(block, "tool_use_id"), output_of(block)
    ok = block.get("is_error") is not True
    return ToolResult(
        call_id=call_id,
        ok=ok,
        exit_code=_exit_code(record, output, ok) if shell else None,
        output=clip(output),
        denied=not ok and (denied or _was_rejected(record, call_id)),
    )


def output_of(block: Mapping[str, Any]) -> str:
    """The text of a `tool_result` block, whose content is a string or a list of blocks."""
    pieces = [text(piece, "text") for piece in items(block, "content")]
    return text(block, "content") or "\n".join(piece for piece in pieces if piece)


def paths_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that a tool's input names."""
    return tuple(text(given, key) for key in _PATH_KEYS if text(given, key))


def asked(request_id: str, request: Mapping[str, Any]) -> PermissionAsked:
    """The question that a `can_use_tool` request puts to the user."""
    tool, given = text(request, "tool_name"), mapping(request, "input")
    kind = kind_of(tool)
    questions = items(given, "questions") if kind is ToolKind.ASK else ()
    reason = text(request, "decision_reason") or text(request, "description")
    return PermissionAsked(
        request_id=request_id,
        tool=tool,
        tool_kind=kind,
        call_id=text(request, "tool_use_id"),
        paths=paths_of(given),
        command=text(given, "command") if kind is ToolKind.SHELL else "",
        detail=one_line(reason) or _detail(given),
        question="\n".join(text(question, "question") for question in questions),
        options=tuple(
            text(option, "label") for question in questions for option in items(question, "options")
        ),
    )


def permission(request: Mapping[str, Any], allowed: bool, note: str) -> Mapping[str, Any]:
    """The answer to a `can_use_tool` request.

    Args:
        request: the request.
        allowed: let the tool run, with the input it was asked for.
        note: for a question its answer; for a refusal what the agent is told.
    """
    if not allowed:
        return {"behavior": "deny", "message": note or "The user did not allow this."}
    given = mapping(request, "input")
    if kind_of(text(request, "tool_name")) is ToolKind.ASK:
        return {"behavior": "allow", "updatedInput": {**given, "answers": _answers(given, note)}}
    return {"behavior": "allow", "updatedInput": given}


def _answers(given: Mapping[str, Any], note: str) -> Mapping[str, str]:
    """The note as the answer to every question, or line by line when it has one line for each."""
    questions = [text(question, "question") for question in items(given, "questions")]
    lines = [line.strip() for line in note.split("\n") if line.strip()]
    each = lines if len(lines) == len(questions) else [note] * len(questions)
    return dict(zip(questions, each, strict=True))


def _detail(given: Mapping[str, Any]) -> str:
    return next((one_line(text(given, key)) for key in _DETAIL_KEYS if text(given, key)), "")


def _exit_code(record: Mapping[str, Any], output: str, ok: bool) -> int | None:
    if not ok:
        found = _EXIT_CODE.match(output)
        return int(found[1]) if found else None
    result = mapping(record, "tool_use_result")
    # A command in the background has not ended; one whose status the CLI explains ("no matches") was not 0.
    unclear = ("backgroundTaskId", "returnCodeInterpretation", "interrupted")
    return None if not result or any(result.get(key) for key in unclear) else 0


def _was_rejected(record: Mapping[str, Any], call_id: str) -> bool:
    # An interrupted tool has a `non_execution_kind` as well, but no decision: it did run.
    return any(
        text(entry, "id") == call_id and text(mapping(entry, "permission_decision"), "decision") == "reject"
        for entry in items(record, "tool_result_meta")
    )
