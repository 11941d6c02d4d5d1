"""A daemon that runs only while it is busy: what counts as work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from relay.api.idle import IDLE_SECONDS, Idleness
from relay.errors import TimedOutError

OVER = ({"state": "COMPLETED"},)


class Nobody:
    listeners = 0


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0)


class Actors:
    """They say what they have, or, for so many times, nothing in time."""

    def __init__(self, *views: Mapping[str, Any], silent: int = 0) -> None:
        self.views, self.silent = views, silent

    async def __call__(self) -> Mapping[str, Any]:
        if self.silent:
            self.silent -= 1
            raise TimedOutError("the actors did not answer")
        return {"sessions": self.views}


async def ended_after(idleness: Idleness) -> float:
    begun = trio.current_time()
    await idleness.wait(trio.Event())
    return trio.current_time() - begun


async def test_it_ends_when_nothing_has_been_under_way_for_a_while(autojump_clock: MockClock) -> None:
    assert IDLE_SECONDS < await ended_after(Idleness(Actors(*OVER), Nobody())) < IDLE_SECONDS + 3


async def test_it_does_not_end_before_a_request_is_answered(autojump_clock: MockClock) -> None:
    idleness = Idleness(Actors(*OVER), Nobody())

    async def takes_long(scope: Any, receive: Any, send: Any) -> None:
        await trio.sleep(600)

    app: Any = idleness.counting(takes_long)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, {"type": "http"}, None, None)
        assert 600 < await ended_after(idleness) < 603 + IDLE_SECONDS


async def test_a_request_that_fails_counts_no_more(autojump_clock: MockClock) -> None:
    idleness = Idleness(Actors(), Nobody())

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("it broke")

    app: Any = idleness.counting(fails)
    with pytest.raises(ValueError, match="it broke"):
        await app({"type": "http"}, None, None)
    assert await ended_after(idleness) < IDLE_SECONDS + 3


async def test_it_does_not_end_since_the_actors_are_silent(autojump_clock: MockClock) -> None:
    assert await ended_after(Idleness(Actors(silent=100), Nobody())) > 100
