"""Waits for several calls at once that have nothing to do with each other, as two reads by git.

Used inside this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

import trio

from relay.errors import RelayError

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
async def together(one: Callable[[], Awaitable[A]], other: Callable[[], Awaitable[B]], /) -> tuple[A, B]: ...
@overload
async def together(
    one: Callable[[], Awaitable[A]], other: Callable[[], Awaitable[B]], third: Callable[[], Awaitable[C]], /
) -> tuple[A, B, C]: ...
async def together(*calls: Callable[[], Awaitable[object]]) -> tuple[object, ...]:
    """The results of the calls, in their order, when the last of them has ended.

    Raises:
        RelayError: of the first call, in their order, that failed; the others have ended by then.
    """
    results: dict[int, object] = {}
    failures: dict[int, RelayError] = {}

    async def run(number: int, call: Callable[[], Awaitable[object]]) -> None:
        try:
            results[number] = await call()
        except RelayError as error:
            failures[number] = error

    async with trio.open_nursery() as nursery:
        for number, call in enumerate(calls):
            nursery.start_soon(run, number, call)
    if failures:
        raise failures[min(failures)]
    return tuple(results[number] for number in range(len(calls)))
