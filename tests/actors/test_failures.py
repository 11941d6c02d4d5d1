"""What follows when an agent fails, does not start, or says that it is done before it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from relay.core import commands
from relay.core.fsm import State
from tests.fakes.agents import (
    HITS_LIMIT,
    WORKS,
    Agent,
    Exit,
    Hang,
    Work,
    done,
    failed,
    limit,
    plan,
    text,
    usage,
)
from tests.fakes.port import ALPHA, BETA, WORK, Begin, Daemon
from tests.fakes.world import FakeWorld

OVERLOADED = failed("overloaded", "The model is overloaded.")
NEVER_RIGHT = Agent(turns=((text("Done!"), done()),))


def targets(daemon: Daemon) -> list[str]:
    return [str(run.target) for run in daemon.world.record().runs]


# Acceptance


def test_what_fails_goes_to_the_agent_as_its_next_instruction(begin: Begin) -> None:
    mends = Agent(turns=((done(),), (Work(), done())))
    daemon = begin(mends, world=FakeWorld(accepts=lambda work: work > 0), verify=("make test",))
    daemon.run_until_ended()
    told = daemon.world.runs[("s-1", 1)].told
    assert daemon.world.record().state is State.COMPLETED
    assert told[1].startswith("The work is not accepted yet: `make test` ended with status 1.")
    assert "2 passed, 1 failed" in told[1]


def test_after_three_failures_the_next_agent_tries_with_the_output(begin: Begin) -> None:
    daemon = begin(NEVER_RIGHT, WORKS, world=FakeWorld(accepts=lambda work: work > 0), verify=("make test",))
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "beta"]
    assert daemon.world.record().state is State.COMPLETED
    assert "2 passed, 1 failed" in daemon.world.openings[("s-1", 2)][0]


def test_without_a_fallback_it_is_failed_and_never_completed(begin: Begin) -> None:
    world = FakeWorld(accepts=lambda work: False)
    daemon = begin(NEVER_RIGHT, world=world, verify=("make test",), chain=(ALPHA,))
    daemon.run_until_ended()
    record = daemon.world.record()
    assert record.state is State.FAILED
    assert record.verified is False
    assert record.end_reason == "not accepted: `make test` ended with status 1 after 3 attempts"
    assert "COMPLETED" not in world.states()


def test_a_one_way_agent_is_started_again_to_be_told(begin: Begin) -> None:
    one_way = Agent(turns=((done(),),), one_way=True)
    daemon = begin(one_way, WORKS, world=FakeWorld(accepts=lambda work: work > 0), verify=("make test",))
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "alpha"]
    assert daemon.world.record().state is State.COMPLETED
    assert "not accepted yet" in daemon.world.openings[("s-1", 2)][0]


def test_open_items_of_a_plan_lead_to_one_nudge(begin: Begin) -> None:
    lazy = Agent(turns=((plan(write="completed", test="pending"), done()), (done(),)))
    daemon = begin(lazy)
    daemon.run_until_ended()
    told = daemon.world.runs[("s-1", 1)].told
    assert len(told) == 2
    assert "- test" in told[1]
    assert daemon.world.record().end_reason.endswith("the agent left 1 of its tasks open")


# Starts


@pytest.mark.parametrize(
    ("agent", "missing", "why"),
    [
        (Agent(opening=(Exit(1),)), (), "did not start"),
        (Agent(silent=True), (), "no sign of life within 120 s"),
        (WORKS, ("alpha",), "alpha is not installed"),
    ],
    ids=["ends at once", "no heartbeat", "missing program"],
)
def test_a_failed_start_moves_on_along_the_chain(
    begin: Begin, agent: Agent, missing: tuple[str, ...], why: str
) -> None:
    daemon = begin(agent, WORKS, world=FakeWorld(missing=set(missing)))
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "beta"]
    assert daemon.world.record().state is State.COMPLETED
    assert any(why in entry["reason"] for entry in daemon.world.entries("fsm"))


def test_nobody_can_be_started_and_the_session_is_held_with_the_reason(begin: Begin) -> None:
    daemon = begin(world=FakeWorld(missing={"alpha", "beta"}))
    daemon.run()
    record = daemon.world.record()
    assert (record.state, record.hold) == (State.WAITING, True)
    assert "beta could not be started: beta is not installed" in record.wait_reason
    daemon.world.missing.clear()
    daemon.command(commands.Resume)
    daemon.run_until_ended()
    assert daemon.world.record().state is State.COMPLETED


# Failures of turns


def test_an_overload_is_sat_out_by_the_same_agent(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), OVERLOADED), (Work(), done()))))
    daemon.run_until("WAITING")
    waiting = daemon.world.record()
    assert waiting.in_place_retry
    assert daemon.world.alive() == [1]
    assert waiting.wake_at is not None
    assert waiting.wake_at - daemon.world.now < timedelta(seconds=10)
    daemon.run_until_ended()
    assert daemon.world.runs[("s-1", 1)].told == ["build it", "continue"]
    assert targets(daemon) == ["alpha"]


def test_an_overload_that_lasts_is_handed_off_and_the_next_has_its_own_tries(begin: Begin) -> None:
    lasting = Agent(turns=((OVERLOADED,),))
    once = Agent(turns=((text("a"), OVERLOADED), (Work(), done())))
    daemon = begin(lasting, once)
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "beta"]
    assert len(daemon.world.runs[("s-1", 1)].told) == 9
    waits = [entry["wakeAt"] for entry in daemon.world.entries("fsm") if entry["to"] == "WAITING"]
    assert len(waits) == 9


def test_a_refused_login_is_held_with_a_hint_and_tried_again_when_resumed(begin: Begin) -> None:
    signed_out = Agent(turns=((failed("signed_out", "You are not signed in."),),))
    daemon = begin(signed_out, WORKS)
    daemon.run()
    record = daemon.world.record()
    assert (record.state, record.hold) == (State.WAITING, True)
    assert "Sign in again" in record.wait_reason
    daemon.command(commands.Resume)
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "alpha"]


def test_a_full_context_is_begun_afresh_with_the_same_agent(begin: Begin) -> None:
    full = Agent(turns=((text("a"), failed("context_overflow", "The conversation is too long.")),))
    daemon = begin(full, WORKS)
    daemon.run_until_ended()
    runs = daemon.world.record().runs
    assert [str(run.target) for run in runs] == ["alpha", "alpha"]
    assert not runs[1].native_resume
    assert daemon.world.runs[("s-1", 2)].told[0].startswith("BRIEF")


def test_a_context_that_stays_full_does_not_go_round_for_ever(begin: Begin) -> None:
    full = Agent(turns=((text("a"), failed("context_overflow", "The conversation is too long.")),))
    daemon = begin(*[full] * 9, chain=(ALPHA,))
    daemon.run()
    record = daemon.world.record()
    assert (record.state, record.hold) == (State.WAITING, True)
    assert len(record.runs) == 3


def test_a_refusal_is_handed_on_once(begin: Begin) -> None:
    refuses = Agent(turns=((text("a"), failed("refused", "The model refused to answer.")),))
    daemon = begin(*[refuses] * 9, chain=(ALPHA, BETA))
    daemon.run()
    record = daemon.world.record()
    assert targets(daemon) == ["alpha", "beta"]
    assert (record.state, record.hold) == (State.WAITING, True)


def test_an_agent_that_dies_is_tried_once_more(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), Exit(137)),)), WORKS)
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "alpha"]


def test_a_limit_without_a_fallback_waits_for_its_reset(begin: Begin) -> None:
    world = FakeWorld()
    daemon = begin(
        Agent(turns=((limit(world.now + timedelta(hours=1)),),)), WORKS, chain=(ALPHA,), world=world
    )
    daemon.run_until("WAITING")
    assert daemon.world.record().wake_at == world.now.replace(hour=13, minute=0, second=30, microsecond=0)
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "alpha"]


def test_a_declared_cap_hands_off_before_it(begin: Begin) -> None:
    spends = Agent(turns=((text("a"), usage(900), Hang()),))
    daemon = begin(spends, WORKS, policy={"declaredCaps": [["alpha", 1000]]})
    daemon.run_until_ended()
    assert targets(daemon) == ["alpha", "beta"]
    assert daemon.world.record().runs[0].tokens == 900


def test_the_number_of_handoffs_is_kept(begin: Begin) -> None:
    daemon = begin(*[HITS_LIMIT] * 9, chain=(ALPHA, WORK, BETA), max_handoffs=1)
    daemon.run_until("WAITING")
    assert daemon.world.record().handoffs == 1
