"""The two actors that stand at the border: effects go out, answers come in.

Both hold a plain callable given once by the runtime. The callables only put a value into a queue or
set an event; they never call back into the actor system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from thespian.actors import Actor, ActorExitRequest

from relay.actors.base import Address
from relay.actors.messages import Answered


@frozen
class Bind:
    """The border's callable. The one message that does not pickle: it never leaves the process."""

    call: Callable[..., None]


class EffectsPortActor(Actor):  # type: ignore[misc]
    """Hands each effect, with the address of who wants it, to the runtime."""

    def __init__(self) -> None:
        super().__init__()
        self._perform: Callable[[Any, Address], None] | None = None

    def receiveMessage(self, message: Any, sender: Address) -> None:
        """Thespian's entry."""
        if isinstance(message, Bind):
            self._perform = message.call
        elif not isinstance(message, ActorExitRequest) and self._perform is not None:
            self._perform(message, sender)


class FacadeActor(Actor):  # type: ignore[misc]
    """Hands each answer to whoever awaits its correlation id."""

    def __init__(self) -> None:
        super().__init__()
        self._deliver: Callable[[Answered], None] | None = None

    def receiveMessage(self, message: Any, sender: Address) -> None:
        """Thespian's entry."""
        if isinstance(message, Bind):
            self._deliver = message.call
        elif isinstance(message, Answered) and self._deliver is not None:
            self._deliver(message)
