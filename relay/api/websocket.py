"""`/ws`: durable events as arrays, one frame per 15 ms and client at most.

`?after=<seq>` first sends what came since; `?session=<sid>` sends one session's only. A client that
reads too slowly is cut off with `[{"type": "resync", ...}]`: it comes again with its last number.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import orjson
import trio
from quart import websocket

from relay.api.context import ApiContext
from relay.api.routing import whole_number
from relay.api.sessions import entry_view
from relay.api.stream import FRAME_EVENTS, Listener, StreamEvent, next_frame, wire_event
from relay.errors import StoreError
from relay.store import audit_read
from relay.store.places import session_id
from relay.store.repositories import known_repositories

log = logging.getLogger("relay.http")

FRAME_SECONDS = 0.015


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
            # Taken at the same instant as the listener was added, so that nothing falls between the two.
            stored_to, missed = context.stream.floor, context.stream.since(last, session)
            last = await _catch_up(context, last, stored_to, missed, session)
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


async def _catch_up(
    context: ApiContext, after: int, stored_to: int, missed: list[StreamEvent], session: str
) -> int:
    if after < stored_to:
        stored = _stored(context, after, stored_to, session)
        while batch := await trio.to_thread.run_sync(list, islice(stored, FRAME_EVENTS)):
            await _send(batch)
            after = batch[-1].seq
    await _send(missed)
    return missed[-1].seq if missed else after


def _stored(context: ApiContext, after: int, last: int, session: str) -> Iterator[StreamEvent]:
    """Events that only the logs have, up to the number `last`, in the order of their numbers."""
    paths: list[Path] = [context.places.audit]
    paths += [places.audit for places in known_repositories(context.places)]
    return heapq.merge(*(_logged(path, after, last, session) for path in paths), key=lambda event: event.seq)


def _logged(path: Path, after: int, last: int, session: str) -> Iterator[StreamEvent]:
    try:
        for entry in audit_read.entries(path, after=after, session=session):
            if entry.seq > last:
                return
            if entry.seq > after:
                view = entry_view(entry)
                yield wire_event(entry.seq, entry.ts, entry.session, entry.event, view["data"])
    except StoreError as error:
        # The events of all other repositories come all the same.
        log.warning("not told to a client that comes back: %s", error.message)


async def _pump(listener: Listener, last: int) -> None:
    while True:
        await listener.wait()
        events = listener.take()
        fresh = [event for event in events if event.seq > last]
        if fresh:
            await _send(fresh)
            last = fresh[-1].seq
        if listener.overrun:
            await websocket.send(orjson.dumps([{"type": "resync", "seq": last}]).decode())
        if listener.overrun or (listener.ended and not listener.queue):
            return
        await trio.sleep(FRAME_SECONDS)


async def _send(events: list[StreamEvent]) -> None:
    sent = 0
    while frame := next_frame(islice(events, sent, None)):
        await websocket.send((b"[" + b",".join(event.wire for event in frame) + b"]").decode())
        sent += len(frame)
