"""Conversations of Cursor, lifted: the bubbles of its editor, and the messages that its agent stores.

Shapes as read in public sources for Cursor 2.x, not seen written. Used by `relay.providers.cursor_store` and
`relay.providers.cursor_agent_store`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from attrs import define, field

from relay.core.events import (
    PlanItem,
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
from relay.providers.acts import act, kind_of, plan_in, status_of
from relay.providers.documents import error_of, refused, spoke
from relay.providers.json_texts import Record, object_in
from relay.providers.wordings import wording_of

_WORDING = wording_of("cursor")
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_CONTEXT = re.compile(
    r"\s*<(?:user_info|project_layout|rules|git_status|agent_skills|open_and_recently_viewed)"
)
_EXIT = re.compile(r"Exit code: (\d{1,5})")
_USER, _AGENT = 1, 2
_OPEN = ("running", "pending", "loading", "generating")
_LISTED = (ToolKind.EDIT, ToolKind.PLAN, ToolKind.SUBAGENT)
"""What a list tells of; the results of other tools, which are most of a conversation, are not parsed."""
_TELLING = re.compile(r'"(?:rejected|finalTodos|exitCode)"')
_PLAN_TOOLS = ("todo_write", "todowrite", "updatetodos")


@define
class Todos:
    """The list of todos as calls that merge into it make it."""

    items: dict[str, PlanItem] = field(factory=dict)

    def take(self, given: Record) -> PlanUpdated:
        """A call with its list; what it does not name is kept if it says so."""
        if given.get("merge") is not True:
            self.items.clear()
        for number, todo in enumerate(shapes.items(given, "todos")):
            name = shapes.text(todo, "id") or str(number)
            known = self.items.get(name)
            text = shapes.text(todo, "content") or (known.text if known else "")
            if text:
                self.items[name] = PlanItem(text=text, status=status_of(shapes.text(todo, "status")))
        return PlanUpdated(items=tuple(self.items.values()))


def prompt_in(text: str) -> str:
    """What the user typed, in a message that Cursor put its context around; "" when there is nothing."""
    asked = _QUERY.findall(text)
    if asked:
        return typed("\n\n".join(asked))
    return "" if _CONTEXT.match(text) else typed(text)


def lift_bubble(lift: Lift, bubble: Record, todos: Todos) -> None:
    """Take over one bubble: a prompt, a message, a tool call or an error."""
    at = shapes.iso(bubble, "createdAt")
    if shapes.integer(bubble, "type") == _USER:
        lift.said(prompt_in(shapes.text(bubble, "text")), at)
        lift.named(model=shapes.text(shapes.mapping(bubble, "modelInfo"), "modelName"))
        return
    spoke(lift, shapes.text(bubble, "text"), at)
    former = shapes.mapping(bubble, "toolFormerData")
    if former:
        _lift_former(lift, former, todos, at)
    spent = shapes.mapping(bubble, "tokenCount")
    fresh, output = shapes.integer(spent, "inputTokens"), shapes.integer(spent, "outputTokens")
    if fresh > 0 or output > 0:
        lift.take(UsageReported(usage=TokenUsage(input=max(0, fresh), output=max(0, output))), at)
    error = shapes.mapping(bubble, "errorDetails")
    if error:
        told = shapes.mapping(error, "details")
        words = shapes.text(error, "message") or shapes.text(told, "detail") or shapes.text(told, "title")
        refused(lift, error_of(words, code=shapes.text(error, "error")), _WORDING, at)


def _lift_former(lift: Lift, former: Record, todos: Todos, at: datetime | None) -> None:
    tool = shapes.text(former, "name")
    if not lift.thorough and kind_of(tool) not in _LISTED:
        lift.at(at)
        return
    given = object_in(shapes.text(former, "params")) or object_in(shapes.text(former, "rawArgs"))
    told = shapes.text(former, "result")
    result = object_in(told) if lift.thorough or _TELLING.search(told) else {}
    status = shapes.text(former, "status")
    if tool.lower() in _PLAN_TOOLS:
        final = plan_in(shapes.items(result, "finalTodos"))
        plan = todos.take(given)
        if final.items:
            todos.take({"todos": shapes.items(result, "finalTodos")})
        if status != "error" and (final.items or plan.items):
            lift.take(PlanUpdated(items=final.items or plan.items), at)
        return
    denied = result.get("rejected") is True or "rejected" in (
        status,
        shapes.text(former, "userDecision"),
        shapes.text(shapes.mapping(former, "additionalData"), "userDecision"),
    )
    code = shapes.number(result, "exitCode")
    act(
        lift,
        tool=tool,
        call_id=shapes.text(former, "toolCallId"),
        given=given,
        at=at,
        ok=_worked(status, denied=denied, code=code),
        output=shapes.text(result, "output") or shapes.text(result, "error") or told,
        exit_code=int(code) if code is not None and not denied else None,
        denied=denied,
    )


def _worked(status: str, *, denied: bool, code: float | None) -> bool | None:
    if denied or code:
        return False
    return None if status in _OPEN else status not in ("error", "cancelled")


def lift_end(lift: Lift, status: str, at: datetime | None) -> None:
    """What the conversation's own status says of the last turn."""
    match status:
        case "completed":
            lift.turn_open = False
        case "aborted" | "cancelled":
            lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)
        case _:
            pass


def lift_messages(lift: Lift, messages: Iterable[Record]) -> None:
    """Take over messages as the agent stores them: role and content, without times."""
    todos = Todos()
    calls: dict[str, tuple[str, Record]] = {}
    for message in messages:
        role = shapes.text(message, "role")
        told = shapes.text(message, "content")
        blocks = shapes.items(message, "content")
        if role == "user":
            texts = [shapes.text(block, "text") for block in blocks]
            lift.said(prompt_in(told or "\n".join(text for text in texts if text)), None)
        elif role == "assistant":
            asked = False
            for block in ({"type": "text", "text": told}, *blocks):
                asked = _lift_block(lift, block, calls, todos) or asked
            lift.turn_open = asked
        elif role == "tool":
            for block in blocks:
                _lift_result(lift, block, calls)
            lift.turn_open = True
    for call_id, (tool, given) in calls.items():
        act(lift, tool=tool, call_id=call_id, given=given, at=None)


def _lift_block(lift: Lift, block: object, calls: dict[str, tuple[str, Record]], todos: Todos) -> bool:
    """One block of an agent's message; True when it calls a tool."""
    options = shapes.mapping(shapes.mapping(block, "providerOptions"), "cursor")
    lift.named(model=shapes.text(options, "modelName"))
    match shapes.text(block, "type"):
        case "text" if shapes.text(block, "text").strip():
            spoke(lift, shapes.text(block, "text"), None)
        case "tool-call":
            tool, given = shapes.text(block, "toolName"), shapes.mapping(block, "args")
            if tool.lower() in _PLAN_TOOLS:
                plan = todos.take(given)
                if plan.items:
                    lift.take(plan)
            else:
                calls[shapes.text(block, "toolCallId")] = (tool, given)
            return True
        case _:
            pass
    return False


def _lift_result(lift: Lift, block: object, calls: dict[str, tuple[str, Record]]) -> None:
    call_id = shapes.text(block, "toolCallId")
    call = calls.pop(call_id, None)
    if call is None:
        return
    output = shapes.text(block, "result")
    code = _EXIT.search(output, 0, 200) if kind_of(call[0]).value == "shell" else None
    wrong = output.lstrip().lower().startswith(("error", "failed"))
    act(
        lift,
        tool=call[0],
        call_id=call_id,
        given=call[1],
        at=None,
        ok=not int(code[1]) if code else not wrong,
        output=output,
        exit_code=int(code[1]) if code else None,
        denied="rejected" in output[:200].lower() and not code,
    )


def is_message(value: object) -> bool:
    """The object is a message as the agent stores it."""
    return isinstance(value, Mapping) and shapes.text(value, "role") != "" and "content" in value


def wire_fields(data: bytes) -> Iterable[tuple[int, bytes]]:
    """The fields of a protobuf message that hold bytes, in order: their numbers and values.

    Ends where the data is no such message.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                _, at = _varint(data, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(data, at)
                if at < 0 or at + size > len(data):
                    return
                yield tag >> 3, data[at : at + size]
                at += size
            case 5:
                at += 4
            case _:
                return
        if at < 0:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset and the offset behind it, which is -1 when there is none."""
    if at < 0:
        return 0, -1
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, -1
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    return 0, -1
