"""How long a request waits for its answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from relay.actors.facade import Facade
from relay.actors.messages import Answered
from relay.core.commands import Accepted, Command, Discard, Merge, Pause
from relay.errors import TimedOutError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Slow:
    """A runtime whose actors answer after some seconds."""

    def __init__(self, facade: Facade, nursery: trio.Nursery, seconds: float) -> None:
        self._facade, self._nursery, self._seconds = facade, nursery, seconds

    def ask_root(self, message: Any) -> None:
        self._nursery.start_soon(self._answer, message.correlation)

    async def _answer(self, correlation: str) -> None:
        await trio.sleep(self._seconds)
        self._facade.deliver(Answered(correlation=correlation, answer=Accepted(data={"done": True})))


async def asked(command: Command, seconds: float) -> Any:
    """The answer, or why there is none."""
    facade, answer = Facade(lambda: NOW), None
    async with trio.open_nursery() as nursery:
        facade.bind(Slow(facade, nursery, seconds))  # type: ignore[arg-type]
        try:
            answer = await facade.command("s-1", "/code", command)
        except TimedOutError as error:
            answer = error.message
        nursery.cancel_scope.cancel()
    return answer


@pytest.mark.parametrize("command", [Merge(at=NOW, by="me"), Discard(at=NOW, by="me")])
async def test_what_changes_a_checkout_is_waited_for(command: Command, autojump_clock: MockClock) -> None:
    assert await asked(command, 600) == {"done": True}


async def test_others_are_told_that_it_takes_too_long(autojump_clock: MockClock) -> None:
    assert await asked(Pause(at=NOW, by="me"), 600) == "no answer within 30 s"
