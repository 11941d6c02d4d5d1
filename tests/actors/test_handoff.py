"""The main path: an agent stops at its limit, the next one finishes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay.core import commands
from relay.core.fsm import State
from tests.fakes.agents import HITS_LIMIT, WORKS
from tests.fakes.port import ALPHA, BETA, Daemon
from tests.fakes.world import FakeWorld


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld(agents={1: HITS_LIMIT, 2: WORKS})


@pytest.fixture
def daemon(world: FakeWorld) -> Iterator[Daemon]:
    daemon = Daemon(world).start()
    yield daemon
    daemon.close()
    assert world.violations == []


def test_the_second_agent_finishes_what_the_first_began(daemon: Daemon, world: FakeWorld) -> None:
    asked = daemon.create(verify=("make test",))
    daemon.run_until_ended()
    record = world.record()
    assert isinstance(daemon.answers[asked], commands.Accepted)
    assert record.state is State.COMPLETED
    assert record.verified is True
    assert [run.target for run in record.runs] == [ALPHA, BETA]
    assert record.handoffs == 1
    assert world.alive() == []
