"""A crash of the daemon at every point of a whole handoff: the session ends as if nothing had been."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import Any

import pytest
from attrs import evolve

from relay.actors import messages
from relay.actors.pool import ProviderPoolActor
from relay.core.fsm import State
from relay.core.record import SessionRecord
from tests.fakes.agents import HITS_LIMIT, Agent, Work, call, done, failed, limit, plan, result, text
from tests.fakes.port import ALPHA, BETA, WORK, Daemon, Step
from tests.fakes.world import NOON, FakeWorld

OVERLOADED = failed("overloaded", "The model is overloaded.")
MENDS = Agent(
    turns=((text("All done."), done()), (text("I mend it."), call("c1"), Work(), result("c1"), done()))
)
"""Says that it is done before it is: the acceptance commands send it back once."""

SCENARIOS: dict[str, dict[str, Any]] = {
    "handoff": {"agents": {1: HITS_LIMIT}, "options": {}},
    "sent back": {"agents": {1: HITS_LIMIT, 2: MENDS}, "options": {"verify": ("make test",)}, "needs": 2},
    "nudged": {
        "agents": {1: Agent(turns=((plan(a="pending"), done()), (plan(a="completed"), done())))},
        "options": {},
    },
    "retried in place": {
        "agents": {1: Agent(turns=((text("hm"), OVERLOADED), (Work(), done())))},
        "options": {},
    },
    "one way": {"agents": {1: Agent(turns=((Work(), limit()),), one_way=True)}, "options": {}},
    "accounts": {"agents": {1: HITS_LIMIT}, "options": {"chain": (ALPHA, WORK, BETA)}},
}


def world_of(scenario: dict[str, Any]) -> FakeWorld:
    needs = scenario.get("needs", 0)
    return FakeWorld(agents=scenario["agents"], accepts=lambda work: work >= needs)


def settled(record: SessionRecord) -> SessionRecord:
    """The record without its instants, and without which step ended a child: it is found ended."""
    runs = tuple(evolve(run, started_at=None, ended_at=None, why_ended="") for run in record.runs)
    return evolve(record, runs=runs, created_at=NOON, updated_at=NOON)


def undisturbed(scenario: dict[str, Any]) -> tuple[FakeWorld, int]:
    """The world after a run without a crash, and how many steps it took."""
    world = world_of(scenario)
    daemon = Daemon(world).start()
    daemon.create(**scenario["options"])
    steps = 0
    while not (world.ended() and not daemon.steps()):
        daemon.take(daemon.steps()[0])
        steps += 1
    daemon.close()
    return world, steps


def crashed_at(scenario: dict[str, Any], at: int) -> FakeWorld:
    """The world after a run whose daemon crashed after so many steps."""
    world = world_of(scenario)
    daemon = Daemon(world).start()
    daemon.create(**scenario["options"])
    for _ in range(at):
        daemon.take(daemon.steps()[0])
    daemon.crash()
    if "s-1" not in world.saved:
        daemon.create(**scenario["options"])
    daemon.run_until_ended()
    daemon.close()
    return world


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_step_changes_nothing(name: str) -> None:
    scenario = SCENARIOS[name]
    want, steps = undisturbed(scenario)
    assert want.record().state is State.COMPLETED
    assert want.violations == []
    for at in range(steps):
        world = crashed_at(scenario, at)
        assert world.violations == [], at
        assert settled(world.record()) == settled(want.record()), at
        assert world.commits == want.commits, at
        assert world.contract_ids == want.contract_ids, at
        assert sorted(world.journaled()) == sorted(want.journaled()), at
        assert set(world.journaled()) == world.printed(), at
        assert world.alive() == [], at
        assert [len(p.told) for p in world.runs.values()] == [len(p.told) for p in want.runs.values()], at


def started_anew_at(scenario: dict[str, Any], at: int, patch: pytest.MonkeyPatch) -> FakeWorld:
    """The world after a run whose provider pool crashed after so many steps; effects under way go on."""

    def broken(actor: ProviderPoolActor, message: object, sender: object) -> None:
        raise ValueError("this handler is broken")

    world = world_of(scenario)
    daemon = Daemon(world).start()
    daemon.create(**scenario["options"])
    for _ in range(at):
        daemon.take(daemon.steps()[0])
    with patch.context() as broke:
        broke.setattr(ProviderPoolActor, "receive_DescribeProviders", broken)
        broke.setattr(ProviderPoolActor, "_comes_early", lambda *_: False)
        daemon.ask_root(messages.DescribeProviders, at=world.now)
    restart = next(key for key in daemon.timers if key[1] == "restart:pool")
    daemon.take(Step("timer", restart[1], restart))
    if "s-1" not in world.saved:
        daemon.run(timers=False)
    if "s-1" not in world.saved:
        daemon.create(**scenario["options"])
    daemon.run_until_ended()
    daemon.close()
    return world


@pytest.mark.parametrize("name", ["handoff", "retried in place"])
def test_the_tree_started_anew_at_any_step_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="relay.actors")
    scenario = SCENARIOS[name]
    want, steps = undisturbed(scenario)
    for at in range(steps):
        world = started_anew_at(scenario, at, monkeypatch)
        assert world.violations == [], at
        assert settled(world.record()) == settled(want.record()), at
        assert world.commits == want.commits, at
        assert sorted(world.journaled()) == sorted(want.journaled()), at
        assert world.alive() == [], at
        assert [len(p.told) for p in world.runs.values()] == [len(p.told) for p in want.runs.values()], at


@pytest.mark.parametrize("name", ["handoff", "accounts"])
def test_a_machine_that_goes_down_at_any_step_costs_no_target(name: str) -> None:
    """The agent is gone with the daemon, and left no status: it is started again, not passed over."""
    scenario = SCENARIOS[name]
    want, steps = undisturbed(scenario)
    chosen = [target for _, target in sorted(want.started_with.items())]
    for at in range(steps):
        world = FakeWorld(by_target={str(ALPHA): HITS_LIMIT})
        daemon = Daemon(world).start()
        daemon.create(**scenario["options"])
        for _ in range(at):
            daemon.take(daemon.steps()[0])
        for process in world.runs.values():
            process.kill(None)
        daemon.crash()
        if "s-1" not in world.saved:
            daemon.create(**scenario["options"])
        daemon.run_until_ended()
        daemon.close()
        assert world.violations == [], at
        assert world.record().state is State.COMPLETED, at
        started = [target for _, target in sorted(world.started_with.items())]
        assert [target for target, _ in groupby(started)] == chosen, at
        assert not [entry for entry in world.entries("fsm") if entry["waitReason"].startswith("nobody")], at
