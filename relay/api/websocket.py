"""`/ws`: durable events as arrays, one frame per 15 ms and client at most.

`?after=<seq>` first sends what came since; `?session=<sid>` sends one session's only. A client that
reads too slowly is cut off with `[{"type": "resync", ...}]`: it comes again with its last number.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import trio
from quart import websocket

from relay.api.context import ApiContext
from relay.api.routing import whole_number
from relay.api.sessions import entry_view
from relay.api.stream import Listener, StreamEvent, wire_event
from relay.store import audit_read
from relay.store.places import session_id
from relay.store.sessions import known_repositories

FRAME_SECONDS = 0.015
FRAME_EVENTS = 1_000


async def serve_events(context: ApiContext) -> None:
    """One client, until it goes away.

    Raises:
        NotAllowedError: it may not come in; the handshake is refused with that status.
        UserError: `after` or `session` is not as it must be; the same.
    """
    context.gatekeeper.check(websocket.headers, websocket.cookies, token_needed=True)
    resumes = "after" in websocket.args
    last = whole_number(websocket.args, "after", 0) if resumes else -1
    session = websocket.args.get("session", "")
    if session:
        session_id(session)
    await websocket.accept()
    listener = context.stream.listen(session)
    try:
        if resumes:
            last = await _catch_up(context, last, session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drain)
            await _pump(listener, last)
            nursery.cancel_scope.cancel()
    finally:
        context.stream.leave(listener)


async def _drain() -> None:
    """Whatever a client sends is read and dropped, so that its close is seen."""
    while True:
        await websocket.receive()


async def _catch_up(context: ApiContext, after: int, session: str) -> int:
    if not context.stream.holds(after):
        first = context.stream.first
        for batch in await trio.to_thread.run_sync(_stored, context, after, first, session):
            await _send(batch)
            after = batch[-1].seq
    missed = context.stream.since(after, session)
    for at in range(0, len(missed), FRAME_EVENTS):
        await _send(missed[at : at + FRAME_EVENTS])
    return missed[-1].seq if missed else after


def _stored(context: ApiContext, after: int, first: int | None, session: str) -> list[list[StreamEvent]]:
    """Events from the logs that the ring has no more, in the order of their numbers."""
    paths: list[Path] = [context.places.audit]
    paths += [places.audit for places in known_repositories(context.places)]
    found: list[StreamEvent] = []
    for path in paths:
        for entry in audit_read.entries(path, after=after, session=session):
            if first is not None and entry.seq >= first:
                break
            view = entry_view(entry)
            found.append(wire_event(entry.seq, entry.ts, entry.session, entry.event, view["data"]))
    found.sort(key=lambda event: event.seq)
    return [found[at : at + FRAME_EVENTS] for at in range(0, len(found), FRAME_EVENTS)]


async def _pump(listener: Listener, last: int) -> None:
    while True:
        await listener.wait()
        events = listener.take(FRAME_EVENTS)
        fresh = [event for event in events if event.seq > last]
        if fresh:
            await _send(fresh)
            last = fresh[-1].seq
        if listener.overrun:
            await websocket.send(orjson.dumps([{"type": "resync", "seq": last}]).decode())
            return
        await trio.sleep(FRAME_SECONDS)


async def _send(events: list[StreamEvent]) -> None:
    await websocket.send((b"[" + b",".join(event.wire for event in events) + b"]").decode())
