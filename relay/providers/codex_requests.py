"""What the Codex app-server asks its client, and how Relay's answer is worded.

Method names and answers as of codex-cli 0.171.0; the last two of the approvals are those of older servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.core.events import PermissionAsked, ToolKind
from relay.providers.codex_items import unwrap
from relay.providers.shapes import items, mapping, one_line, text

COMMAND = "item/commandExecution/requestApproval"
PATCH = "item/fileChange/requestApproval"
QUESTION = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"
PERMISSIONS = "item/permissions/requestApproval"
OLD_COMMAND = "execCommandApproval"
OLD_PATCH = "applyPatchApproval"


def asked(
    request_id: str, method: str, params: Mapping[str, Any], paths: Mapping[str, tuple[str, ...]]
) -> PermissionAsked | None:
    """The question a server request puts to the user; None when Relay does not know the method.

    Args:
        request_id: the request's id as text.
        method: its method.
        params: its parameters.
        paths: files of the file changes seen so far, by item id: the request itself names none.
    """
    call_id = text(params, "itemId") or text(params, "callId")
    reason = one_line(text(params, "reason"))
    if method in (COMMAND, OLD_COMMAND):
        words = [word for word in items(params, "command") if isinstance(word, str)]
        command = unwrap(text(params, "command")) or " ".join(words)
        host = text(mapping(params, "networkApprovalContext"), "host")
        return PermissionAsked(
            request_id=request_id,
            tool="network" if host else "shell",
            tool_kind=ToolKind.WEB if host else ToolKind.SHELL,
            call_id=call_id,
            command=command,
            detail=reason or (f"network access to {host}" if host else one_line(command)),
        )
    if method in (PATCH, OLD_PATCH):
        root = text(params, "grantRoot")
        files = paths.get(call_id) or tuple(mapping(params, "fileChanges"))
        return PermissionAsked(
            request_id=request_id,
            tool="apply_patch",
            tool_kind=ToolKind.EDIT,
            call_id=call_id,
            paths=(*files, root) if root else files,
            detail=reason or one_line(", ".join(files)),
        )
    if method == QUESTION:
        questions = items(params, "questions")
        return PermissionAsked(
            request_id=request_id,
            tool="request_user_input",
            tool_kind=ToolKind.ASK,
            call_id=call_id,
            question="\n".join(text(question, "question") for question in questions),
            options=tuple(
                text(option, "label") for question in questions for option in items(question, "options")
            ),
        )
    if method == ELICITATION:
        return _elicitation(request_id, params)
    if method == PERMISSIONS:
        wanted = mapping(params, "permissions")
        return PermissionAsked(
            request_id=request_id,
            tool="request_permissions",
            tool_kind=ToolKind.OTHER,
            call_id=call_id,
            paths=_writable(wanted),
            detail=reason or "more permissions for this turn",
        )
    return None


def answered(method: str, params: Mapping[str, Any], allowed: bool, note: str) -> Mapping[str, Any]:
    """The result that answers a request of `method` (one for which `asked` gave a question)."""
    if method in (OLD_COMMAND, OLD_PATCH):
        return {"decision": "approved" if allowed else "denied"}
    if method == QUESTION:
        reply = [note] if allowed and note else []
        return {"answers": {text(q, "id"): {"answers": reply} for q in items(params, "questions")}}
    if method == ELICITATION:
        if not allowed:
            return {"action": "decline", "content": None}
        fields = mapping(mapping(params, "requestedSchema"), "properties")
        content = None if text(params, "mode") == "url" else dict.fromkeys(fields, note)
        return {"action": "accept", "content": content}
    if method == PERMISSIONS:
        return {"permissions": mapping(params, "permissions") if allowed else {}, "scope": "turn"}
    return {"decision": "accept" if allowed else "decline"}


def _elicitation(request_id: str, params: Mapping[str, Any]) -> PermissionAsked:
    """What an MCP server wants to know; a call of one of its tools is asked for in the same way."""
    meta = mapping(params, "_meta")
    server, message = text(params, "serverName") or "mcp", text(params, "message")
    asks = bool(mapping(mapping(params, "requestedSchema"), "properties"))
    tool = text(meta, "tool_name")
    return PermissionAsked(
        request_id=request_id,
        tool=f"{server}.{tool}" if tool else server,
        tool_kind=ToolKind.ASK if asks else ToolKind.MCP,
        detail=one_line(message),
        question=message if asks else "",
    )


def _writable(permissions: Mapping[str, Any]) -> tuple[str, ...]:
    written = items(mapping(permissions, "fileSystem"), "write")
    return tuple(path for path in written if isinstance(path, str))
