"""The base of every actor: dispatch by message class, crashes told upward, a clock from messages.

A handler is `receive_<MessageClass>(message, sender)`; it is synchronous and does no I/O. A handler
that raises would be run again by Thespian with the same message: the base catches, tells the
supervisor and ends the actor, so that no half-changed actor goes on.
"""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime
from typing import Any

from attrs import frozen
from thespian.actors import Actor, ActorExitRequest, ChildActorExited, DeadEnvelope, PoisonMessage

from relay.actors.messages import ActorCrashed
from relay.core.effects import Effect

Address = Any
"""A Thespian ActorAddress."""

log = logging.getLogger("relay.actors")


@frozen(kw_only=True)
class Wiring:
    """The first message of every actor: who is who.

    Args:
        name: the actor's name in the tree.
        supervisor: who is told of a crash.
        port: the effects port; the others are the fixed actors.
    """

    name: str
    supervisor: Address
    port: Address
    facade: Address
    journal: Address = None
    hub: Address = None
    pool: Address = None
    desk: Address = None


class RelayActor(Actor):  # type: ignore[misc]
    """An actor of Relay's tree."""

    def __init__(self) -> None:
        super().__init__()
        self.wiring: Wiring | None = None
        self._crashed = False
        self.now: datetime = datetime.min.replace(tzinfo=UTC)

    @property
    def wires(self) -> Wiring:
        """Who is who; known from the first message on."""
        if self.wiring is None:
            raise RuntimeError(f"{type(self).__name__} got a message before its wiring")
        return self.wiring

    def receiveMessage(self, message: Any, sender: Address) -> None:
        """Thespian's entry."""
        if isinstance(message, Wiring):
            self.wiring = message
            self.wired()
            return
        if isinstance(message, ActorExitRequest | DeadEnvelope) or self._crashed:
            return
        if isinstance(message, ChildActorExited):
            self.child_exited(message.childAddress)
            return
        if isinstance(message, PoisonMessage):
            message = message.poisonMessage
            log.error("a message came back as poison: %s", type(message).__name__)
            return
        self.now = getattr(message, "at", None) or self.now
        handler = getattr(self, f"receive_{type(message).__name__}", None)
        try:
            if handler is None:
                self.receive_other(message, sender)
            else:
                handler(message, sender)
        except Exception as error:  # noqa: BLE001  (the supervision boundary: told upward, never swallowed)
            self._crash(message, error)

    def _crash(self, message: Any, error: Exception) -> None:
        # What is on its way to this actor already must not meet a half-changed state.
        self._crashed = True
        wiring = self.wiring
        trace = "".join(traceback.format_exception(error))
        name = wiring.name if wiring else type(self).__name__
        log.error("%s crashed on %s:\n%s", name, type(message).__name__, trace)
        if wiring is not None and wiring.supervisor is not None:
            crashed = ActorCrashed(name=name, message=type(message).__name__, trace=trace, at=self.now)
            self.send(wiring.supervisor, crashed)
        self.send(self.myAddress, ActorExitRequest())

    def wired(self) -> None:
        """Called once, when the wiring is known."""

    def child_exited(self, address: Address) -> None:
        """A child has ended, on purpose or not."""

    def receive_other(self, message: Any, sender: Address) -> None:
        """A message without a handler: a dead letter."""
        log.warning("dead letter: %s for %s", type(message).__name__, self.wires.name)

    def want(self, effect: Effect) -> None:
        """Have an effect done; its report comes back to this actor."""
        self.send(self.wires.port, effect)
