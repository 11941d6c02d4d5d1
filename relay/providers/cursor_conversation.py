"""One conversation of Cursor's editor, lifted from the rows of its database.

The newest summary of a conversation stands beside its bubbles, which all stay; a bubble before which one was
made holds that itself, as JSON in a text or as a text. As read in public sources for
Cursor 2.x, not seen written. Opened by `relay.providers.cursor_store`.
"""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Iterator, Mapping

from relay.core.events import PlanUpdated
from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.acts import plan_in
from relay.providers.cursor_chat import Todos, is_message, lift_bubble, lift_end, lift_messages, wire_fields
from relay.providers.cursor_rows import rows_of, value_of
from relay.providers.documents import DocumentTranscript
from relay.providers.json_texts import Record, epoch_ms, object_in
from relay.providers.vscode_places import path_of

_MOST_BUBBLES = 50_000


class CursorConversation(DocumentTranscript):
    """One conversation; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        with self.files.database(self.found.paths[0]) as database:
            value = value_of(database, "cursorDiskKV", f"composerData:{self.found.key}")
            lift.bytes_read = len(value)
            told = object_in(value)
            if value and not told:
                lift.skip("malformed")
            _lift_conversation(lift, told, database)


def _lift_conversation(lift: Lift, told: Record, database: sqlite3.Connection | None) -> None:
    parent = shapes.text(shapes.mapping(told, "subagentInfo"), "parentComposerId")
    model = shapes.text(shapes.mapping(told, "modelConfig"), "modelName")
    lift.named(title=shapes.text(told, "name"), branch=shapes.text(told, "createdOnBranch"), parent=parent)
    begun, ended = epoch_ms(told, "createdAt"), epoch_ms(told, "lastUpdatedAt")
    lift.at(begun)
    todos = Todos()
    count = 0
    summary, covered = _summary(told)
    summaries = {summary.strip(), ""}
    for bubble in _bubbles(lift, told, database):
        if summary and shapes.text(bubble, "bubbleId") not in covered:
            lift.compacted(summary)
            summary = ""
        own = _own_summary(bubble)
        if own.strip() not in summaries:
            summaries.add(own.strip())
            lift.compacted(own, shapes.iso(bubble, "createdAt"))
        if not lift.cwd:
            uris = shapes.items(bubble, "workspaceUris")
            lift.named(cwd=path_of(uris[0]) if uris else "")
        lift_bubble(lift, bubble, todos)
        count += 1
    if summary:
        lift.compacted(summary)
    if not count:
        lift_messages(lift, _messages(told, database))
    lift.at(ended)
    lift.named(model="" if model == "default" else model)
    if shapes.items(told, "todos"):
        lift.take(PlanUpdated(items=plan_in(shapes.items(told, "todos")).items), ended)
    for uri in shapes.mapping(told, "originalFileStates"):
        if path := path_of(uri):
            lift.changed(path)
    for file in shapes.items(told, "newlyCreatedFiles"):
        if path := path_of(shapes.mapping(file, "uri")):
            lift.changed(path)
    lift.context(shapes.integer(told, "contextTokensUsed"), shapes.integer(told, "contextTokenLimit"))
    lift.subagents = max(lift.subagents, len(shapes.items(told, "subComposerIds")))
    spent = [shapes.number(each, "costInCents") for each in shapes.mapping(told, "usageData").values()]
    if any(spent):
        lift.cost_usd = sum(cents or 0 for cents in spent) / 100
    lift_end(lift, shapes.text(told, "status"), ended)


def _summary(told: Record) -> tuple[str, frozenset[str]]:
    """The newest summary, and the bubbles that stand before it.

    What was said last stays the last thing said, also where the summary takes it in: one is made of a whole
    conversation too, for another one that refers to it.
    """
    latest = shapes.mapping(told, "latestConversationSummary")
    inner = shapes.mapping(latest, "summary")
    summary = shapes.text(inner, "summary") or shapes.text(latest, "summary")
    if not summary.strip():
        return "", frozenset()
    last = shapes.text(inner, "truncationLastBubbleIdInclusive") or shapes.text(latest, "lastBubbleId")
    headers = shapes.items(told, "fullConversationHeadersOnly") or shapes.items(told, "conversation")
    names = [shapes.text(header, "bubbleId") for header in headers]
    for number, header in enumerate(headers):
        if last and last in (names[number], shapes.text(header, "serverBubbleId")):
            return summary, frozenset(names[: min(number + 1, len(names) - 1)])
    return summary, frozenset()


def _own_summary(bubble: Record) -> str:
    """The summary that a bubble holds; "" for most, and where it is torn."""
    text = shapes.text(bubble, "conversationSummary")
    told = object_in(text) if text.lstrip().startswith("{") else shapes.mapping(bubble, "conversationSummary")
    return shapes.text(told, "summary") or ("" if text.lstrip().startswith("{") else text)


def _bubbles(lift: Lift, told: Record, database: sqlite3.Connection | None) -> Iterator[Record]:
    """The bubbles in their order; those that are missing or empty are passed over."""
    seen: set[str] = set()
    inline = shapes.mapping(told, "conversationMap")
    for header in shapes.items(told, "fullConversationHeadersOnly")[:_MOST_BUBBLES]:
        name = shapes.text(header, "bubbleId")
        if not name or name in seen:
            lift.skip("duplicate" if name else "unknown")
            continue
        seen.add(name)
        key = f"bubbleId:{shapes.text(told, 'composerId') or lift.native_id}:{name}"
        value = value_of(database, "cursorDiskKV", key)
        lift.bytes_read += len(value)
        bubble = object_in(value) or shapes.mapping(inline, name)
        if value and not bubble:
            lift.skip("malformed")
        elif bubble:
            yield bubble
    if not seen:
        yield from _strays(lift, database)
    for bubble in shapes.items(told, "conversation")[:_MOST_BUBBLES]:
        if isinstance(bubble, Mapping) and shapes.text(bubble, "bubbleId") not in seen:
            yield bubble


def _strays(lift: Lift, database: sqlite3.Connection | None) -> list[Record]:
    """All bubbles of a conversation that does not tell their order, by their times."""
    query = "SELECT value FROM cursorDiskKV WHERE key >= ? AND key < ? LIMIT ?"
    keys = f"bubbleId:{lift.native_id}:", f"bubbleId:{lift.native_id};", _MOST_BUBBLES
    bubbles = [
        object_in(value) for (value,) in rows_of(database, query, *keys) if isinstance(value, str | bytes)
    ]
    return sorted(filter(None, bubbles), key=lambda bubble: shapes.text(bubble, "createdAt"))


def _messages(told: Record, database: sqlite3.Connection | None) -> Iterator[Record]:
    """The messages that the conversation's state names, from the agent's own blobs."""
    state = shapes.text(told, "conversationState").removeprefix("~")
    try:
        data = base64.b64decode(state + "=" * (-len(state) % 4))
    except (binascii.Error, ValueError):
        return
    for number, name in wire_fields(data):
        if number == 1 and len(name) == 32:
            message = object_in(value_of(database, "cursorDiskKV", f"agentKv:blob:{name.hex()}"))
            if is_message(message):
                yield message
