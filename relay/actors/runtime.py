"""The actor system, owned by one object and used from the Trio thread alone.

Thespian's simpleSystemBase runs every pending message inside `tell`, in the caller's thread, and is not
re-entrant; so effects and requests come in through `Runtime.tell`, one at a time, and never from inside
a handler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from thespian.actors import ActorSystem

from relay.actors.base import Address, Wiring
from relay.actors.messages import Answered, Begin
from relay.actors.ports import Bind, EffectsPortActor, FacadeActor
from relay.actors.root import RootActor


class Runtime:
    """The actor system.

    Args:
        perform: takes an effect and the address of who wants it; only notes it, never calls back.
        deliver: takes an answer for the facade; only notes it.
    """

    def __init__(self, perform: Callable[[Any, Address], None], deliver: Callable[[Answered], None]) -> None:
        self._system = ActorSystem("simpleSystemBase", logDefs=False, transientUnique=True)
        self._running = False
        self._waiting: deque[tuple[Address, Any]] = deque()
        port = self._system.createActor(EffectsPortActor)
        facade = self._system.createActor(FacadeActor)
        self._root = self._system.createActor(RootActor)
        self.tell(port, Bind(perform))
        self.tell(facade, Bind(deliver))
        self.tell(self._root, Wiring(name="root", supervisor=None, port=port, facade=facade))

    def tell(self, address: Address, message: Any) -> None:
        """Send, and run every message that follows from it before returning.

        A call from within (a callable at the border) waits until the outer call is done.
        """
        self._waiting.append((address, message))
        if self._running:
            return
        self._running = True
        try:
            while self._waiting:
                self._system.tell(*self._waiting.popleft())
        finally:
            self._running = False

    def ask_root(self, message: Any) -> None:
        """A request of the facade."""
        self.tell(self._root, message)

    def begin(self, at: datetime, policies: Mapping[str, Any], **settings: Any) -> None:
        """Start the tree, and take up the sessions that were not over; `settings` by the names of `Begin`."""
        self.ask_root(Begin(at=at, policies=policies, **settings))

    def shutdown(self) -> None:
        """End every actor. Children of the daemon live on."""
        self._system.shutdown()
