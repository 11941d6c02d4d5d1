"""Is anything under way? A daemon that was started for a session ends by itself when nothing is.

Called by `relay.daemon`, of a daemon that runs only while it is busy.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import trio
from hypercorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, Scope

from relay.errors import RelayError

log = logging.getLogger("relay.daemon")

IDLE_SECONDS = 30.0
LOOK_SECONDS = 1.0
ENDED = ("COMPLETED", "FAILED", "STOPPED")


class Listeners(Protocol):
    """As much of the event stream as is asked here."""

    @property
    def listeners(self) -> int:
        """How many follow it."""


class Idleness:
    """See the module.

    Args:
        sessions: the live view of the sessions that have an actor.
        stream: who follows events is there.
    """

    def __init__(self, sessions: Callable[[], Awaitable[Mapping[str, Any]]], stream: Listeners) -> None:
        self._sessions = sessions
        self._stream = stream
        self._requests = 0

    def counting(self, app: ASGIFramework) -> ASGIFramework:
        """The application, whose requests count as work until they are answered.

        Beginning a session in a large repository takes minutes, and so does merging one that is over.
        """

        async def asgi(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            self._requests += 1
            try:
                await app(scope, receive, send)
            finally:
                self._requests -= 1

        return asgi

    async def wait(self, ending: trio.Event) -> None:
        """Return once nothing has been under way for `IDLE_SECONDS`, or the daemon ends anyway."""
        idle_since = trio.current_time()
        while not ending.is_set():
            with trio.move_on_after(LOOK_SECONDS):
                await ending.wait()
            if await self._busy():
                idle_since = trio.current_time()
            if trio.current_time() - idle_since > IDLE_SECONDS:
                return

    async def _busy(self) -> bool:
        if self._requests or self._stream.listeners:
            return True
        try:
            views = (await self._sessions())["sessions"]
        except RelayError as error:
            # They are just being started anew, perhaps: nothing says that they have nothing to do.
            log.warning("the actors do not say what is under way: %s", error.message)
            return True
        return any(view.get("state", "DISPATCHED") not in ENDED for view in views)
