"""Tells the service manager that started the daemon how it is: systemd's notification protocol.

A datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)). Used by the daemon; silent where no
service manager asked for it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping

import trio
from attrs import frozen

from relay.errors import RelayError

log = logging.getLogger("relay.service")

_SEND_SECONDS = 0.5
_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@frozen(kw_only=True)
class ServiceManager:
    """Who is told.

    Args:
        address: of the socket; "" when nobody wants to know. "@" begins an abstract one.
        watchdog_seconds: without a sign of life for so long the daemon is ended; 0 when it is not watched.
    """

    address: str = ""
    watchdog_seconds: float = 0.0

    @classmethod
    def take(cls, env: MutableMapping[str, str]) -> ServiceManager:
        """As the environment says; the variables are taken out, so that no agent speaks for the daemon."""
        told = {name: env.pop(name, "") for name in _VARIABLES}
        micros = told["WATCHDOG_USEC"]
        watched = micros.isdigit() and told["WATCHDOG_PID"] in ("", str(os.getpid()))
        return cls(
            address=told["NOTIFY_SOCKET"], watchdog_seconds=int(micros) / 1_000_000 if watched else 0.0
        )

    def tell(self, *states: str) -> None:
        """Send assignments such as "READY=1"; a service manager that is gone is no failure of ours."""
        if not self.address:
            return
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as endpoint:
                # One that does not read must not hold the daemon up.
                endpoint.settimeout(_SEND_SECONDS)
                endpoint.connect(name)
                endpoint.sendall("\n".join(states).encode())
        except OSError as error:
            log.warning("the service manager at %s can't be told: %s", self.address, error)

    async def prove_alive(self, answers: Callable[[], Awaitable[object]], ending: trio.Event) -> None:
        """Ping the watchdog at half its time until the end, each time only after `answers` has returned.

        Args:
            answers: passes through what must work; while it does not return, or fails, there is no ping.
        """
        interval = self.watchdog_seconds / 2
        while not ending.is_set():
            began = trio.current_time()
            with trio.move_on_after(interval) as scope:
                try:
                    await answers()
                except RelayError as error:
                    log.warning("the watchdog is not told: %s", error.message)
                else:
                    self.tell("WATCHDOG=1")
            if scope.cancelled_caught:
                log.warning("the watchdog is not told: the actors did not answer within %g s", interval)
            with trio.move_on_at(began + interval):
                await ending.wait()
