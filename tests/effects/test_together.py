from __future__ import annotations

import pytest
import trio

from relay.effects.together import together
from relay.errors import GitError


async def test_all_run_at_once_and_keep_their_order() -> None:
    met = trio.Event()

    async def waits() -> str:
        await met.wait()
        return "first"

    async def meets() -> int:
        met.set()
        return 2

    with trio.fail_after(10):
        assert await together(waits, meets) == ("first", 2)


async def test_the_first_failure_is_raised_as_it_is_when_all_have_ended() -> None:
    ended = []

    async def slow() -> None:
        await trio.lowlevel.checkpoint()
        ended.append("slow")
        raise GitError("slow failed")

    async def quick() -> None:
        ended.append("quick")
        raise GitError("quick failed")

    with pytest.raises(GitError, match="slow failed"):
        await together(slow, quick)
    assert sorted(ended) == ["quick", "slow"]


async def test_a_cancellation_reaches_all() -> None:
    with trio.move_on_after(0) as scope:
        await together(trio.sleep_forever, trio.sleep_forever)
    assert scope.cancelled_caught
