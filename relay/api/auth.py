"""Who may come in: token, Host, Origin, content type. Checked before any route and before a WebSocket
is accepted.
"""

from __future__ import annotations

import hmac
import secrets
import time
from typing import Protocol

from attrs import define, field

from relay.errors import NotAllowedError, UnauthorizedError

COOKIE = "relay_token"
TICKET_SECONDS = 60.0
_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Fields(Protocol):
    """Headers or cookies."""

    def get(self, key: str, /) -> str | None:
        """The field's value; headers by any case."""


@define
class Gatekeeper:
    """The rules of one daemon.

    Args:
        token: the user's token.
        port: the port the daemon is bound to.
    """

    token: str
    port: int
    _tickets: dict[str, float] = field(factory=dict)

    def check(self, headers: Fields, cookies: Fields, *, token_needed: bool) -> None:
        """Let a request or an upgrade in.

        Args:
            headers: the request's, case-insensitive.
            token_needed: false for the health route alone.

        Raises:
            NotAllowedError: foreign Host or Origin, cross-site request.
            UnauthorizedError: no token or a wrong one.
        """
        host = headers.get("Host") or ""
        if host.lower() not in self._hosts():
            raise NotAllowedError(
                f"Host {host!r} is not a name of this daemon",
                hint=f"use http://127.0.0.1:{self.port}",
            )
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{name}" for name in self._hosts()}:
            raise NotAllowedError(f"Origin {origin!r} is not this daemon's", hint="no other page may come in")
        if (headers.get("Sec-Fetch-Site") or "none") not in ("none", "same-origin"):
            raise NotAllowedError("a cross-site request", hint="no other page may come in")
        if token_needed and not self._knows(headers.get("Authorization") or "", cookies.get(COOKIE) or ""):
            raise UnauthorizedError(
                "no valid token",
                hint="send `Authorization: Bearer <token>`; local clients read the token file by themselves",
            )

    def _hosts(self) -> frozenset[str]:
        return frozenset(f"{name}:{self.port}" for name in _NAMES)

    def _knows(self, authorization: str, cookie: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        candidates = [given.strip()] if scheme.lower() == "bearer" else []
        candidates.append(cookie)
        known = self.token.encode()
        matches = [hmac.compare_digest(candidate.encode(), known) for candidate in candidates if candidate]
        return any(matches)

    def make_ticket(self) -> str:
        """A one-time ticket for a browser, good for a minute."""
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = time.monotonic() + TICKET_SECONDS
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Use a ticket up; true if it was good."""
        now = time.monotonic()
        self._tickets = {name: until for name, until in self._tickets.items() if until > now}
        return self._tickets.pop(ticket, None) is not None
