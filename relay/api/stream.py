"""The stream of durable events: a ring of the newest, and listeners that never slow anyone down.

The effects port publishes here; WebSocket handlers and `/api/events` read. Each event is serialised
once, whatever the number of listeners.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import orjson
import trio
from attrs import define, field, frozen

from relay.core.audit import stamp
from relay.core.effects import JournalEntry

RING = 20_000
BACKLOG = 50_000
FRAME_EVENTS = 1_000
FRAME_BYTES = 256 * 1024
"""WebSocket clients commonly refuse messages of more than a mebibyte."""


@frozen
class StreamEvent:
    """One event, ready to send.

    Args:
        seq: its number.
        session: its session, or "".
        type: its type.
        wire: the JSON object's bytes.
    """

    seq: int
    session: str
    type: str
    wire: bytes


def wire_event(seq: int, ts: str, session: str, kind: str, data: object) -> StreamEvent:
    """An event in the form of `/ws`: `{seq, ts, session, type, data}`."""
    body = {"seq": seq, "ts": ts, "session": session, "type": kind, "data": data}
    return StreamEvent(seq, session, kind, orjson.dumps(body, default=str))


def next_frame(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """The first of the events: as many as make a frame, at least one."""
    frame: list[StreamEvent] = []
    size = 0
    for event in events:
        size += len(event.wire) + 1
        if frame and (size > FRAME_BYTES or len(frame) == FRAME_EVENTS):
            break
        frame.append(event)
    return frame


@define(eq=False)
class Listener:
    """One client's queue.

    Args:
        session: only this session's events, or "" for all.
    """

    session: str = ""
    queue: deque[StreamEvent] = field(factory=deque)
    overrun: bool = False
    ended: bool = False
    _bell: trio.Event = field(factory=trio.Event)

    def offer(self, events: Sequence[StreamEvent]) -> None:
        """More events; one that is too far behind is cut off rather than slowing anyone."""
        if self.overrun:
            return
        for event in events:
            if not self.session or event.session == self.session:
                self.queue.append(event)
        if len(self.queue) > BACKLOG:
            self.queue.clear()
            self.overrun = True
        if self.queue or self.overrun:
            self._bell.set()

    async def wait(self) -> None:
        """Return when there is something to send."""
        await self._bell.wait()

    def end(self) -> None:
        """The daemon ends."""
        self.ended = True
        self._bell.set()

    def take(self) -> list[StreamEvent]:
        """The next events, oldest first, as many as make a frame."""
        taken = next_frame(self.queue)
        for _ in taken:
            self.queue.popleft()
        if not self.queue and not self.overrun:
            self._bell = trio.Event()
        return taken


class EventStream:
    """See the module.

    Args:
        floor: the greatest number that an earlier life of the daemon can have given.
    """

    def __init__(self, floor: int = 0) -> None:
        self._ring: deque[StreamEvent] = deque(maxlen=RING)
        self._listeners: set[Listener] = set()
        self.floor = floor
        """The ring has every event with a greater number; the others are in the logs alone."""

    def publish(self, entries: Sequence[JournalEntry]) -> None:
        """Durable events, in the order of their numbers."""
        events = [wire_event(e.seq, stamp(e.at), e.session, e.type, e.data) for e in entries]
        overflow = len(self._ring) + len(events) - RING
        if overflow > 0:
            kept = len(self._ring)
            gone = self._ring[overflow - 1] if overflow <= kept else events[overflow - kept - 1]
            self.floor = gone.seq
        self._ring.extend(events)
        for listener in self._listeners:
            listener.offer(events)

    def listen(self, session: str = "") -> Listener:
        """Begin to listen: events published from now on."""
        listener = Listener(session=session)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Stop listening."""
        self._listeners.discard(listener)

    def end(self) -> None:
        """Let every listener go: the daemon ends."""
        for listener in self._listeners:
            listener.end()

    def since(self, seq: int, session: str = "") -> list[StreamEvent]:
        """The ring's events with a greater number."""
        return [e for e in self._ring if e.seq > seq and (not session or e.session == session)]

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)
