"""One chat session of GitHub Copilot in VS Code, lifted: its requests and the parts of their responses.

Shapes as read in public sources of VS Code 1.109 and Copilot Chat 0.37, not seen written. A session is
stored also while a request goes on, and newer releases then write every tool call as complete, so what a call
of such a request came to is known only by a result, or by what the agent did after it. Called by
`relay.providers.copilot_chat_store`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from relay.core.events import PlanUpdated, TokenUsage, ToolKind, TurnEnded, TurnOutcome, UsageReported
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of, plan_in
from relay.providers.copilot_chat_edits import ToldEdit, local, slim_calls, told_edits
from relay.providers.documents import error_of, refused, spoke
from relay.providers.json_texts import Record, epoch_ms
from relay.providers.vscode_places import path_of
from relay.providers.wordings import wording_of

_WORDING = wording_of("copilot")
_LINKED = re.compile(r"\]\((file:[^)\s]+)\)")
_COMPLETE, _CANCELLED, _FAILED = 1, 2, 3
"""Values of `modelState`; 0 is pending, 4 waits for the user."""
_DENIED, _SKIPPED_BY_USER = 0, 5
"""Values of `isConfirmed` of a call that the user did not let run; the others are kinds of consent."""
_PARTS = ("kind", "value", "uri", "uris", "done", "isEdit", "isComplete", "isConfirmed", "toolId")
_TOOL_PARTS = ("toolCallId", "invocationMessage", "pastTenseMessage", "toolSpecificData", "resultDetails")
_MORE_PARTS = ("source", "baseUri", "content", "edits", "name", "inlineReference")
_KEPT = (*_PARTS, *_TOOL_PARTS, *_MORE_PARTS)
_SESSION = (
    "sessionId",
    "customTitle",
    "creationDate",
    "lastMessageDate",
    "inputState",
    "selectedModel",
)
_REQUEST = ("requestId", "timestamp", "message", "modelId", "isCanceled", "modelState", "response", "result")
_RESULT = ("errorDetails", "metadata", "usage")
_METADATA = ("promptTokens", "outputTokens", "usage")
_EDITED = ("textEditGroup", "notebookEditGroup")
_SKIPPED = ("thinking", "progressTaskSerialized", "undoStop", "codeblockUri")


def slim(path: tuple[Any, ...], value: Any) -> Any:
    """What is kept in memory of a value that goes to a path of a session: file contents are left out."""
    match path:
        case () if isinstance(value, dict):
            kept = {name: value[name] for name in _SESSION if name in value}
            return {**kept, "requests": _slim_all(_request, value.get("requests"))}
        case ("requests",) if isinstance(value, list):
            return _slim_all(_request, value)
        case ("requests", _) if isinstance(value, dict):
            return _request(value)
        case ("requests", _, "response") if isinstance(value, list):
            return _slim_all(_part, value)
        case ("requests", _, "response", _) if isinstance(value, dict):
            return _part(value)
        case ("requests", _, "result") if isinstance(value, dict):
            return _result(value)
        case ("requests", _, "result", "metadata") if isinstance(value, dict):
            return _metadata(value)
        case ("requests", _, "response", _, name) if name not in _KEPT:
            return None
        case ("requests", _, name, *_) if name not in _REQUEST:
            return None
        case _:
            return value


def _slim_all(one: Any, values: object) -> list[Any]:
    return [one(each) if isinstance(each, dict) else each for each in shapes.items({"v": values}, "v")]


def _request(value: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value[name] for name in _REQUEST if name in value}
    if "response" in kept:
        kept["response"] = _slim_all(_part, kept["response"])
    if isinstance(kept.get("message"), dict):
        kept["message"] = {"text": kept["message"].get("text")}
    if isinstance(kept.get("result"), dict):
        kept["result"] = _result(kept["result"])
    return kept


def _part(value: dict[str, Any]) -> dict[str, Any]:
    kind = value.get("kind")
    if kind in _SKIPPED:
        return {"kind": kind}
    if kind in _EDITED:
        return {"kind": kind, "uri": value.get("uri"), "done": value.get("done")}
    return {name: value[name] for name in _KEPT if name in value}


def _result(value: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value[name] for name in _RESULT if name in value}
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = _metadata(kept["metadata"])
    return kept


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value.get(name) for name in _METADATA}, **slim_calls(value)}


def is_request(value: object) -> bool:
    """The object is a request of a session."""
    return bool(shapes.text(value, "requestId")) and isinstance(value, Mapping) and "message" in value


def lift_session(lift: Lift, session: Record) -> None:
    """Take over a whole session, as a `.json` file holds it and a log of changes comes to."""
    model = shapes.mapping(shapes.mapping(session, "inputState"), "selectedModel")
    model = model or shapes.mapping(session, "selectedModel")
    lift.named(
        native_id="" if lift.native_id else shapes.text(session, "sessionId"),
        title=shapes.text(session, "customTitle"),
        model=_model(shapes.text(model, "identifier")),
    )
    lift.at(epoch_ms(session, "creationDate"))
    lift.at(epoch_ms(session, "lastMessageDate"))
    lift.context(0, shapes.integer(shapes.mapping(model, "metadata"), "maxInputTokens"))
    lift_requests(lift, shapes.items(session, "requests"))


def lift_requests(lift: Lift, requests: Iterable[Any]) -> None:
    """Take over requests, in order; one that is told twice counts once."""
    seen: set[str] = set()
    told: list[Record] = []
    for request in requests:
        name = shapes.text(request, "requestId")
        if name and name in seen:
            lift.skip("duplicate")
            continue
        seen.add(name)
        if isinstance(request, Mapping) and request:
            told.append(request)
    for request in told:
        _lift_request(lift, request, is_last=request is told[-1])


def _lift_request(lift: Lift, request: Record, *, is_last: bool) -> None:
    at = epoch_ms(request, "timestamp")
    parts = shapes.items(request, "response")
    if not lift.cwd:
        lift.named(cwd=next(filter(None, (path_of(shapes.mapping(p, "baseUri")) for p in parts)), ""))
    lift.named(model=_model(shapes.text(request, "modelId")))
    lift.said(typed(shapes.text(shapes.mapping(request, "message"), "text")), at)
    state = shapes.mapping(request, "modelState")
    ended = epoch_ms(state, "completedAt") or at
    result = shapes.mapping(request, "result")
    told = shapes.mapping(result, "metadata")
    edits = tuple(told_edits(told))
    over = _is_over(request)
    calls = list(_each_call_once(parts))
    reached = max((number for number, part in enumerate(calls) if _shows_an_end(part)), default=-1)
    said: list[str] = []
    for number, part in enumerate(calls):
        if _is_told(part, edits):
            spoke(lift, "".join(said), at)
            said.clear()
        else:
            _lift_part(lift, part, said, at, done=over or number <= reached)
    spoke(lift, "".join(said), ended)
    for edit in edits:
        act(
            lift,
            tool=edit.tool,
            call_id=edit.call_id,
            given={"path": edit.path},
            at=ended,
            ok=edit.ok,
            output=edit.output,
        )
    spent = shapes.integer(told, "promptTokens"), shapes.integer(told, "outputTokens")
    if any(spent):
        lift.take(UsageReported(usage=TokenUsage(input=max(0, spent[0]), output=max(0, spent[1]))), ended)
        lift.context(spent[0] + spent[1])
    _lift_end(lift, request, result, ended, is_last=is_last)


def _each_call_once(parts: tuple[Any, ...]) -> Iterable[Record]:
    """The parts, of those that tell the same tool call the last one."""
    last = {shapes.text(part, "toolCallId"): number for number, part in enumerate(parts)}
    for number, part in enumerate(parts):
        name = shapes.text(part, "toolCallId")
        if isinstance(part, Mapping) and (not name or last[name] == number):
            yield part


def _is_told(part: Record, edits: tuple[ToldEdit, ...]) -> bool:
    """The part shows an edit of files whose edits are told: those say how it ended."""
    tool = shapes.text(part, "toolId")
    if not edits or kind_of(tool) is not ToolKind.EDIT or _is_denied(part):
        return False
    paths = {local(path) for path in _paths_of(part, tool)}
    return bool(paths) and paths <= {edit.path for edit in edits}


def _is_denied(part: Record) -> bool:
    confirmed = part.get("isConfirmed")
    return confirmed is False or shapes.number(confirmed, "type") in (_DENIED, _SKIPPED_BY_USER)


def _state_of(request: Record) -> int | None:
    state = shapes.mapping(request, "modelState")
    return shapes.integer(state, "value") if state else None


def _is_over(request: Record) -> bool:
    """The request ended, in whatever way; older releases tell so by a result alone."""
    state = _state_of(request)
    if request.get("isCanceled") is True or state in (_COMPLETE, _CANCELLED, _FAILED):
        return True
    return bool(shapes.mapping(request, "result"))


def _shows_an_end(part: Record) -> bool:
    """Calls up to this part of a response have ended: it has a result, or was made of one."""
    if shapes.text(part, "kind") in _EDITED:
        return part.get("done") is True
    command = shapes.mapping(shapes.mapping(part, "toolSpecificData"), "terminalCommandState")
    has_result = bool(part.get("resultDetails")) or shapes.number(command, "exitCode") is not None
    return has_result or bool(_words_in(part).strip())


def _words_in(part: Record) -> str:
    """What the agent says in a part of a response; "" for one that shows something else."""
    if shapes.text(part, "kind") not in ("", "markdownContent"):
        return ""
    return shapes.text(part, "value") or shapes.text(shapes.mapping(part, "content"), "value")


def _lift_end(lift: Lift, request: Record, result: Record, at: datetime | None, *, is_last: bool) -> None:
    error, state = shapes.mapping(result, "errorDetails"), _state_of(request)
    if error:
        code = shapes.text(error, "code")
        if error.get("isQuotaExceeded") is True:
            code = "quota_exceeded"
        elif error.get("isRateLimited") is True:
            code = "rate_limited"
        elif error.get("responseIsFiltered") is True:
            code = "content_filter"
        refused(lift, error_of(shapes.text(error, "message"), code=code), _WORDING, at)
    elif request.get("isCanceled") is True or state == _CANCELLED:
        lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)
    elif state == _COMPLETE or (state is None and result):
        lift.turn_open = False
    elif not is_last:
        # The user asked for something else since: nothing of it goes on.
        lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)


def _lift_part(lift: Lift, part: Record, said: list[str], at: datetime | None, *, done: bool) -> None:
    """One part of a response; text is gathered until something else comes between.

    Args:
        done: a tool call that says so is taken to have ended.
    """
    match shapes.text(part, "kind"):
        case "" | "markdownContent":
            said.append(_words_in(part))
        case "toolInvocationSerialized" | "toolInvocation":
            spoke(lift, "".join(said), at)
            said.clear()
            _lift_tool(lift, part, at, done=done)
        case "inlineReference":
            said.append(shapes.text(part, "name"))
        case "textEditGroup" | "notebookEditGroup":
            path = path_of(part.get("uri"))
            if path:
                lift.changed(path)
        case "workspaceEdit":
            for edit in shapes.items(part, "edits"):
                path = path_of(shapes.mapping(edit, "newResource")) or path_of(
                    shapes.mapping(edit, "oldResource")
                )
                if path:
                    lift.changed(path)
        case _:
            pass


def _lift_tool(lift: Lift, part: Record, at: datetime | None, *, done: bool) -> None:
    data = shapes.mapping(part, "toolSpecificData")
    call_id = shapes.text(part, "toolCallId")
    tool = shapes.text(part, "toolId")
    denied = _is_denied(part)
    done = denied or (done and part.get("isComplete") is not False)
    match shapes.text(data, "kind"):
        case "todoList":
            plan = plan_in(shapes.items(data, "todoList"))
            if plan.items:
                lift.take(PlanUpdated(items=plan.items), at)
        case "terminal":
            _lift_command(lift, call_id, data, done=done, denied=denied, at=at)
        case kind:
            source = shapes.mapping(part, "source")
            if shapes.text(source, "type") == "mcp":
                lift.server(shapes.text(source, "serverLabel") or shapes.text(source, "label"))
            tool = "runsubagent" if kind == "subagent" else tool
            for number, path in enumerate(_paths_of(part, tool) or ("",)):
                act(
                    lift,
                    tool=tool,
                    call_id=f"{call_id}:{number}",
                    given={"path": path} if path else {},
                    at=at,
                    ok=not denied if done else None,
                    output=shapes.text(shapes.mapping(part, "resultDetails"), "output"),
                    denied=denied,
                )


def _lift_command(
    lift: Lift, call_id: str, data: Record, *, done: bool, denied: bool, at: datetime | None
) -> None:
    line = shapes.mapping(data, "commandLine")
    command = (
        shapes.text(line, "userEdited")
        or shapes.text(line, "toolEdited")
        or shapes.text(line, "original")
        or shapes.text(data, "command")
    )
    code = shapes.number(shapes.mapping(data, "terminalCommandState"), "exitCode")
    act(
        lift,
        tool="run_in_terminal",
        call_id=call_id,
        given={"command": command},
        at=at,
        ok=not denied and not code if done else None,
        output=shapes.text(shapes.mapping(data, "terminalCommandOutput"), "text"),
        exit_code=int(code) if code is not None else None,
        denied=denied,
    )


def _paths_of(part: Record, tool: str) -> tuple[str, ...]:
    """The files that a tool's message links to; of what only reads and edits."""
    if kind_of(tool) not in (ToolKind.EDIT, ToolKind.READ):
        return ()
    paths: dict[str, None] = {}
    for name in ("pastTenseMessage", "invocationMessage"):
        told = part.get(name)
        message = shapes.text(part, name) or shapes.text(told, "value")
        links = tuple(shapes.mapping(told, "uris")) or tuple(_LINKED.findall(message))
        paths.update((path, None) for link in links if (path := path_of(link.partition("#")[0])))
        if paths:
            break
    return tuple(paths)


def _model(identifier: str) -> str:
    """The model's name; VS Code puts its vendor before it."""
    return identifier.removeprefix("copilot/")
