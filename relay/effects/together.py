"""Waits for two calls at once that have nothing to do with each other, as two reads by git.

Used inside this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from relay.errors import RelayError

A = TypeVar("A")
B = TypeVar("B")


async def together(one: Callable[[], Awaitable[A]], other: Callable[[], Awaitable[B]], /) -> tuple[A, B]:
    """The results of both calls, when both have ended.

    Raises:
        RelayError: of the first of them, in this order, that failed.
    """
    first: list[A | RelayError] = []
    second: list[B | RelayError] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_keep, one, first)
        nursery.start_soon(_keep, other, second)
    [result], [other_result] = first, second
    if isinstance(result, RelayError):
        raise result
    if isinstance(other_result, RelayError):
        raise other_result
    return result, other_result


async def _keep(call: Callable[[], Awaitable[A]], kept: list[A | RelayError]) -> None:
    try:
        kept.append(await call())
    except RelayError as error:
        kept.append(error)
