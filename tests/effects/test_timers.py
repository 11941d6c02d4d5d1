"""Waiting by the wall clock and by the time awake, when the machine sleeps or its clock is set."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import trio
from trio.testing import MockClock

from relay.effects.timers import LONGEST_NAP, wait_awake, wait_until

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Wall:
    """A wall clock that runs with the loop's, and jumps where the test says: at a second, by an amount."""

    def __init__(self, *jumps: tuple[float, float]) -> None:
        self.jumps = jumps

    def __call__(self) -> datetime:
        now = trio.current_time()
        drift = sum(amount for at, amount in self.jumps if now >= at)
        return NOON + timedelta(seconds=now + drift)


async def waited(wait: Callable[[], object]) -> float:
    before = trio.current_time()
    await wait()  # type: ignore[misc]
    return trio.current_time() - before


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@pytest.mark.parametrize(
    ("seconds", "jumps", "least", "most"),
    [
        pytest.param(3600, (), 3600, 3600, id="nothing happens"),
        pytest.param(-5, (), 0, 0, id="it has passed already"),
        pytest.param(5 * 3600, ((100, 8 * 3600),), 100, 100 + LONGEST_NAP, id="the reset passes in sleep"),
        pytest.param(5 * 3600, ((100, 3600),), 4 * 3600, 4 * 3600, id="an hour of sleep"),
        pytest.param(60, ((10, -3600),), 3660, 3660, id="the clock is set back"),
        pytest.param(3600, ((10, 86400), (11, -86400)), 10, 10 + LONGEST_NAP + 3600, id="there and back"),
    ],
)
async def test_the_wall_clock_decides(
    autojump_clock: MockClock,
    seconds: float,
    jumps: tuple[tuple[float, float], ...],
    least: float,
    most: float,
) -> None:
    wall = Wall(*jumps)
    took = await waited(lambda: wait_until(NOON + timedelta(seconds=seconds), clock=wall))
    assert least <= round(took, 3) <= most


async def test_a_wait_until_the_end_of_time_is_a_wait(autojump_clock: MockClock) -> None:
    with trio.move_on_after(3600) as scope:
        await wait_until(datetime.max.replace(tzinfo=UTC), clock=Wall(), jitter=5.0)
    assert scope.cancelled_caught


async def test_after_sleep_many_do_not_come_at_once(autojump_clock: MockClock) -> None:
    wall = Wall((100, 8 * 3600))
    ends: list[float] = []

    async def one() -> None:
        await wait_until(NOON + timedelta(hours=5), clock=wall, jitter=30.0)
        ends.append(round(trio.current_time(), 3))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one)
    assert len(set(ends)) > 25
    assert max(ends) <= 100 + LONGEST_NAP + 30


async def test_sleep_does_not_count_for_what_sleeps_too(autojump_clock: MockClock) -> None:
    assert await waited(lambda: wait_awake(120)) == 120
    assert await waited(lambda: wait_awake(-1)) == 0
    assert 10 <= await waited(lambda: wait_awake(10, jitter=5)) <= 15
