"""Timers by wall-clock instants: a machine that slept finds them due at once when it wakes."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta

import trio

LONGEST_NAP = 1.0


async def wait_until(
    at: datetime, *, clock: Callable[[], datetime], jitter: float = 0.0, nap: float = LONGEST_NAP
) -> None:
    """Return at the instant `at`, plus up to `jitter` seconds.

    The clock is asked again after every nap, so that sleep and clock jumps do no harm. Naps grow with
    the distance, a minute at most.
    """
    due = at + timedelta(seconds=random.uniform(0, jitter)) if jitter else at
    while (left := (due - clock()).total_seconds()) > 0:  # noqa: ASYNC110  (the wall clock tells no event)
        await trio.sleep(min(left, max(nap, min(left / 100, 60.0))))
    await trio.lowlevel.checkpoint()
