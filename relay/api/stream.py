"""The stream of durable events: a ring of the newest, and listeners that never slow anyone down.

The effects port publishes here; WebSocket handlers and `/api/events` read. Each event is serialised
once, whatever the number of listeners.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC

import orjson
import trio
from attrs import define, field, frozen

from relay.core.effects import JournalEntry

RING = 20_000
BACKLOG = 50_000


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


@define(eq=False)
class Listener:
    """One client's queue.

    Args:
        session: only this session's events, or "" for all.
    """

    session: str = ""
    queue: deque[StreamEvent] = field(factory=deque)
    overrun: bool = False
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

    def take(self, most: int) -> list[StreamEvent]:
        """The next events, oldest first."""
        taken = [self.queue.popleft() for _ in range(min(most, len(self.queue)))]
        if not self.queue and not self.overrun:
            self._bell = trio.Event()
        return taken


class EventStream:
    """See the module."""

    def __init__(self) -> None:
        self._ring: deque[StreamEvent] = deque(maxlen=RING)
        self._listeners: set[Listener] = set()
        self._floor: int | None = None

    def publish(self, entries: Sequence[JournalEntry]) -> None:
        """Durable events, in the order of their numbers."""
        events = [
            wire_event(e.seq, e.at.astimezone(UTC).isoformat(), e.session, e.type, e.data) for e in entries
        ]
        if self._floor is None and events:
            self._floor = events[0].seq - 1
        overflow = len(self._ring) + len(events) - RING
        if overflow > 0:
            gone = [*self._ring, *events][overflow - 1]
            self._floor = gone.seq
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

    def since(self, seq: int, session: str = "") -> list[StreamEvent]:
        """The ring's events with a greater number."""
        return [e for e in self._ring if e.seq > seq and (not session or e.session == session)]

    def holds(self, seq: int) -> bool:
        """The ring has everything that came after this number."""
        return self._floor is not None and seq >= self._floor

    @property
    def first(self) -> int | None:
        """Number of the ring's oldest event."""
        return self._ring[0].seq if self._ring else None

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)
