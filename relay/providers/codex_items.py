"""Codex's thread items as events: tool calls, their results, and what the agent said.

Used by both dialogues of Codex. The app-server names fields in camelCase, `codex exec --json` in
snake_case; `camel` brings the second to the shape of the first. Item types as of codex-cli 0.171.0
(`codex app-server generate-json-schema`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import orjson

from relay.core.events import (
    AgentEvent,
    AgentText,
    AgentThinking,
    Notice,
    PlanItem,
    PlanUpdated,
    TaskStatus,
    ToolCall,
    ToolKind,
    ToolResult,
    UserText,
)
from relay.providers.shapes import clip, items, mapping, number, one_line, text

_TOOLS = {
    "commandExecution": ("shell", ToolKind.SHELL),
    "fileChange": ("apply_patch", ToolKind.EDIT),
    "mcpToolCall": ("mcp", ToolKind.MCP),
    "dynamicToolCall": ("tool", ToolKind.OTHER),
    "webSearch": ("web_search", ToolKind.WEB),
    "imageView": ("view_image", ToolKind.READ),
    "imageGeneration": ("image_generation", ToolKind.OTHER),
    "collabAgentToolCall": ("agent", ToolKind.SUBAGENT),
    "collabToolCall": ("agent", ToolKind.SUBAGENT),
    "sleep": ("sleep", ToolKind.OTHER),
}
_NOTES = {
    "contextCompaction": "Codex compacted the conversation",
    "enteredReviewMode": "Codex entered review mode",
    "exitedReviewMode": "Codex left review mode",
}
_SHELLS = {"bash", "sh", "zsh", "dash", "fish"}
_STEP_STATUS = {"inProgress": TaskStatus.IN_PROGRESS, "completed": TaskStatus.COMPLETED}


def camel(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of `codex exec` with the type and field names of the app-server."""
    renamed = {_camel(key): value for key, value in item.items() if isinstance(key, str)}
    renamed["type"] = _camel(text(item, "type"))
    return renamed


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def is_tool(item: Mapping[str, Any]) -> bool:
    """The item is a tool call, opened and closed."""
    return text(item, "type") in _TOOLS


def call_of(item: Mapping[str, Any], parent: str = "") -> ToolCall:
    """The tool call that an item of a tool type (`is_tool`) stands for."""
    item_type = text(item, "type")
    tool, kind = _TOOLS[item_type]
    paths: tuple[str, ...] = ()
    command = detail = ""
    if item_type == "commandExecution":
        command = unwrap(text(item, "command"))
        detail = one_line(command)
    elif item_type == "fileChange":
        paths = changed_paths(item)
        detail = one_line(", ".join(paths))
    elif item_type in ("mcpToolCall", "dynamicToolCall"):
        owner = text(item, "server") or text(item, "namespace")
        tool = ".".join(part for part in (owner, text(item, "tool")) if part) or tool
        detail = one_line(_json(item.get("arguments")))
    elif item_type == "webSearch":
        action = mapping(item, "action")
        detail = one_line(text(item, "query") or text(action, "query") or text(action, "url"))
    elif item_type == "imageView":
        paths = tuple(path for path in (text(item, "path"),) if path)
        detail = one_line(text(item, "path"))
    elif kind is ToolKind.SUBAGENT:
        tool = text(item, "tool") or tool
        detail = one_line(text(item, "prompt"))
    return ToolCall(
        call_id=text(item, "id"),
        tool=tool,
        tool_kind=kind,
        paths=paths,
        command=command,
        detail=detail,
        parent=parent,
    )


def result_of(item: Mapping[str, Any]) -> ToolResult:
    """How the tool call of a completed item ended."""
    status = text(item, "status")
    code = number(item, "exitCode")
    failed = status not in ("completed", "") or item.get("success") is False or bool(item.get("error"))
    return ToolResult(
        call_id=text(item, "id"),
        ok=not failed and not code,
        exit_code=None if code is None else int(code),
        output=clip(_output(item)),
        denied=status == "declined",
    )


def spoken(item: Mapping[str, Any]) -> tuple[AgentEvent, ...] | None:
    """What a completed item that is no tool call says; None for an item of an unknown type."""
    item_type = text(item, "type")
    if item_type in ("agentMessage", "plan"):
        said = text(item, "text")
        return (AgentText(text=said),) if said.strip() else ()
    if item_type == "reasoning":
        thought = text(item, "text") or _join(item, "summary") or _join(item, "content")
        return (AgentThinking(text=thought),) if thought.strip() else ()
    if item_type == "userMessage":
        return (UserText(text=_join(item, "content")),)
    if item_type == "hookPrompt":
        return (UserText(text=_join(item, "fragments"), synthetic=True),)
    if item_type == "todoList":
        return (todo(item),)
    if item_type == "error":
        return (Notice(text=text(item, "message"), level="warning"),)
    if item_type in _NOTES:
        return (Notice(text=_NOTES[item_type]),)
    return None


def todo(item: Mapping[str, Any]) -> PlanUpdated:
    """The plan of a `codex exec` todo_list item, which tells done from not done only."""
    return PlanUpdated(
        items=tuple(
            PlanItem(
                text=text(entry, "text"),
                status=TaskStatus.COMPLETED if entry.get("completed") is True else TaskStatus.PENDING,
            )
            for entry in items(item, "items")
            if isinstance(entry, Mapping)
        )
    )


def plan_of(params: Mapping[str, Any]) -> PlanUpdated:
    """The plan of the app-server's turn/plan/updated."""
    return PlanUpdated(
        items=tuple(
            PlanItem(
                text=text(entry, "step"),
                status=_STEP_STATUS.get(text(entry, "status"), TaskStatus.PENDING),
            )
            for entry in items(params, "plan")
            if isinstance(entry, Mapping)
        )
    )


def changed_paths(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Every file that a fileChange item writes, the targets of moves among them, each once."""
    found: dict[str, None] = {}
    for change in items(item, "changes"):
        for path in (text(change, "path"), text(mapping(change, "kind"), "move_path")):
            if path:
                found[path] = None
    return tuple(found)


def unwrap(command: str) -> str:
    """The script inside the `/bin/bash -lc '...'` that Codex puts around each command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return command


def _output(item: Mapping[str, Any]) -> str:
    error = text(mapping(item, "error"), "message")
    return (
        text(item, "aggregatedOutput")
        or _join(mapping(item, "result"), "content")
        or _join(item, "contentItems")
        or error
    )


def _join(data: Mapping[str, Any], key: str) -> str:
    """The texts of a list whose entries are strings or objects with a text."""
    parts = (part if isinstance(part, str) else text(part, "text") for part in items(data, key))
    return "\n".join(part for part in parts if part)


def _json(value: object) -> str:
    return "" if value is None else orjson.dumps(value).decode()
