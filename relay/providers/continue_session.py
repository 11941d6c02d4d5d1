"""One session of Continue, lifted from its document.

As read in public sources of Continue 1.x, not seen written. Opened by `relay.providers.continue_store`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from relay.core.events import PlanUpdated, TokenUsage, UsageReported
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act
from relay.providers.continue_store import folder_of
from relay.providers.documents import DocumentTranscript, checklist, records_in, spoke
from relay.providers.json_texts import Record, object_in
from relay.providers.vscode_places import path_of

_EXIT = re.compile(r"exit(?:ed with)? (?:code|status):? (\d{1,5})\b", re.IGNORECASE)
_OPEN = ("generating", "generated", "calling")


class ContinueSession(DocumentTranscript):
    """One session; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        data = self.document(lift, self.found.paths[0])
        session = object_in(data)
        created = self.found.hint.get("created", "")
        if created.isascii() and created.isdigit() and len(created) < 16:
            lift.at(shapes.instant({"at": int(created) / 1000}, "at"))
        lift.named(
            cwd=lift.cwd or folder_of(session),
            title=shapes.text(session, "title"),
            model=shapes.text(session, "chatModelTitle"),
        )
        for item in records_in(lift, data, _is_item, "history"):
            _lift_item(lift, item)
        spent = shapes.mapping(session, "usage")
        if lift.facts.tokens == TokenUsage() and spent:
            lift.totals(_usage(spent))
        cost = shapes.number(spent, "totalCost")
        lift.cost_usd = float(cost) if cost else None
        lift.at(shapes.instant({"at": self.found.touched}, "at"))


def _lift_item(lift: Lift, item: Record) -> None:
    message = shapes.mapping(item, "message")
    told = _text(message)
    summary = shapes.text(item, "conversationSummary")
    match shapes.text(message, "role"):
        case "user":
            lift.said(typed(told))
            for context in shapes.items(item, "contextItems"):
                uri = shapes.mapping(context, "uri")
                if shapes.text(uri, "type") == "file" and (path := path_of(shapes.text(uri, "value"))):
                    lift.read(path)
        case "assistant":
            _lift_answer(lift, item, message, told)
        case "tool":
            lift.turn_open = True
        case _:
            pass
    if summary:
        lift.compacted(summary)


def _lift_answer(lift: Lift, item: Record, message: Record, told: str) -> None:
    spoke(lift, told, None)
    for log in shapes.items(item, "promptLogs")[-1:]:
        lift.named(model=shapes.text(shapes.mapping(log, "completionOptions"), "model"))
    states = shapes.items(item, "toolCallStates")
    lift.turn_open = bool(states) or bool(shapes.items(message, "toolCalls")) or not told.strip()
    for state in states:
        _lift_call(lift, state)
    spent = shapes.mapping(message, "usage")
    if spent:
        lift.take(UsageReported(usage=_usage(spent)))
        lift.context(shapes.integer(spent, "promptTokens") + shapes.integer(spent, "completionTokens"))


def _lift_call(lift: Lift, state: object) -> None:
    function = shapes.mapping(shapes.mapping(state, "toolCall"), "function")
    tool = shapes.text(function, "name")
    given = shapes.mapping(state, "processedArgs") or shapes.mapping(state, "parsedArgs")
    given = given or object_in(shapes.text(function, "arguments"))
    items = checklist(shapes.text(given, "checklist"))
    if items:
        lift.take(PlanUpdated(items=items))
        return
    status = shapes.text(state, "status")
    output = "\n".join(
        f"{shapes.text(each, 'content')}\n{shapes.text(each, 'status')}".strip()
        for each in shapes.items(state, "output")
    )
    code = _EXIT.search(output)
    act(
        lift,
        tool=tool,
        call_id=shapes.text(state, "toolCallId"),
        given=given,
        at=None,
        ok=None if status in _OPEN else status == "done" and not (code and int(code[1])),
        output=output,
        exit_code=int(code[1]) if code and status == "done" else None,
        denied=status == "canceled",
    )


def _usage(told: Mapping[str, Any]) -> TokenUsage:
    details = shapes.mapping(told, "promptTokensDetails")
    cached = max(0, shapes.integer(details, "cachedTokens"))
    return TokenUsage(
        input=max(0, shapes.integer(told, "promptTokens") - cached),
        cached_input=cached,
        output=max(0, shapes.integer(told, "completionTokens")),
    )


def _text(message: Record) -> str:
    pieces = [shapes.text(piece, "text") for piece in shapes.items(message, "content")]
    return shapes.text(message, "content") or "\n".join(piece for piece in pieces if piece)


def _is_item(value: object) -> bool:
    return shapes.text(shapes.mapping(value, "message"), "role") != ""
