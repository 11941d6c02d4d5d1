"""Two kinds of waiting: until the wall clock shows an instant, and for a time in which the machine is awake.

The wall clock runs on while a laptop sleeps, and can be set; the clock of the event loop stands still
meanwhile and cannot. A quota's reset is an instant of the first; an agent that has to give a sign of life
slept like everything else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import trio

LONGEST_NAP = 5.0
"""The wall clock is asked again after so many seconds at the latest, so that a wait which passed in sleep is
over soon after it."""
SHORTEST_NAP = 1.0
LAST = datetime.max.replace(tzinfo=UTC)
"""Some say "never" with an instant at the end of time, behind which there is none."""


async def wait_until(at: datetime, *, clock: Callable[[], datetime], jitter: float = 0.0) -> None:
    """Return once the clock shows the instant `at`, plus up to `jitter` seconds.

    What passed in sleep is over at once, and the jitter counts from there: many would come together.
    """
    due = at + min(timedelta(seconds=random.uniform(0, jitter)), LAST - at) if jitter else at
    while (left := (due - clock()).total_seconds()) > 0:  # noqa: ASYNC110  (the wall clock tells no event)
        await trio.sleep(min(left, max(SHORTEST_NAP, min(left / 100, LONGEST_NAP))))
    late = (clock() - due).total_seconds() > LONGEST_NAP
    await trio.sleep(random.uniform(0, jitter) if jitter and late else 0)


async def wait_awake(seconds: float, *, jitter: float = 0.0) -> None:
    """Return after so many seconds, plus up to `jitter`, in which the machine was awake."""
    await trio.sleep(max(0.0, seconds) + (random.uniform(0, jitter) if jitter else 0.0))
