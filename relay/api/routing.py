"""Routes as a table: what the application serves, what OpenAPI describes and what tests enumerate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import field, frozen

from relay.api.context import ApiContext
from relay.errors import ConfigError

_DIGITS = 18


@frozen(kw_only=True)
class Call:
    """One request, checked.

    Args:
        path: values of the path's placeholders.
        query: the query's values.
        body: the body as the route's request class, or None.
        by: who asks, for the audit log.
    """

    path: Mapping[str, str] = field(factory=dict)
    query: Mapping[str, str] = field(factory=dict)
    body: Any = None
    by: str = "owner"


Handler = Callable[[ApiContext, Call], Awaitable[Any]]


@frozen(kw_only=True)
class Route:
    """One operation.

    Args:
        method: "GET" or "POST".
        path: with placeholders as "{sid}".
        handler: gives a JSON value.
        summary: one line.
        request: class of the body, for POST.
        query: names of query parameters, with what they mean.
        response: what comes back, in words.
        token: the route needs the token.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    request: type[Any] | None = None
    query: Mapping[str, str] = field(factory=dict)
    response: str = ""
    token: bool = True


def whole_number(query: Mapping[str, str], name: str, default: int) -> int:
    """A query value as a number of 0 or more.

    Raises:
        ConfigError: it is none, or far too large.
    """
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise ConfigError(f"{name} {text[:40]!r} is not a whole number of at most {_DIGITS} digits")
    return int(text)
