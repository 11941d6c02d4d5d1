"""The main path: an agent stops at its limit, the next one finishes."""

from __future__ import annotations

from datetime import timedelta

from relay.core import commands, effects
from relay.core.fsm import State
from tests.fakes.agents import HITS_LIMIT, WORKS, Agent, Err, Exit, call, done, limit, quota, result, text
from tests.fakes.port import ALPHA, BETA, WORK, Begin, Daemon
from tests.fakes.world import NOON, FakeWorld

STATES = [
    State.ENVELOPE_BUILT,
    State.DISPATCHED,
    State.RESUMING,
    State.RUNNING,
    State.PAUSING,
    State.SNAPSHOTTED,
    State.ENVELOPE_BUILT,
    State.DISPATCHED,
    State.RESUMING,
    State.RUNNING,
    State.COMPLETED,
]


STORY = [
    "session",
    "dispatched",
    "failure",
    "gate",
    "child_ended",
    "child_gone",
    "snapshot",
    "contract",
    "dispatched",
    "verify",
    "child_ended",
    "child_gone",
    "snapshot",
]


def test_the_second_agent_finishes_what_the_first_began(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS, verify=("make test",))
    world = daemon.world
    daemon.run_until_ended()
    record = world.record()
    assert isinstance(daemon.answers["1"], commands.Accepted)
    assert (record.state, record.verified, record.handoffs) == (State.COMPLETED, True, 1)
    assert record.end_reason == "the acceptance commands passed"
    assert [run.target for run in record.runs] == [ALPHA, BETA]
    assert [run.ended_at is not None for run in record.runs] == [True, True]
    assert world.states() == STATES
    assert world.commits["s-1"] == ["s-1-w1", "s-1-w2"]
    assert world.runs[("s-1", 1)].told == ["build it"]
    assert world.runs[("s-1", 2)].told == [f"BRIEF {world.contract_ids['s-1'][0]}"]
    assert world.alive() == []


def test_the_log_tells_the_whole_story_once_and_in_order(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS, verify=("make test",))
    daemon.run_until_ended()
    log = daemon.world.audit["/repo"]
    told = [entry.type for entry in log if entry.type not in ("agent_event", "fsm", "circuit")]
    assert told == STORY
    assert [entry["to"] for entry in daemon.world.entries("fsm")] == STATES
    assert [entry.seq for entry in daemon.world.shown] == sorted({e.seq for e in daemon.world.shown})
    assert [e for e in daemon.world.shown if e.repository] == log
    places = daemon.world.journaled()
    assert len(places) == len(set(places)) == len(daemon.world.printed())


def order(daemon: Daemon) -> list[str]:
    wanted = (effects.EndChild, effects.StartChild, effects.TakeSnapshot, effects.SealContract)
    return [
        type(effect).__name__ if isinstance(effect, wanted) else effect.record.state
        for effect in daemon.world.performed
        if isinstance(effect, (*wanted, effects.SaveSession))
    ]


def test_the_first_agent_is_gone_before_anything_is_taken_from_it(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS)
    daemon.run_until_ended()
    story = order(daemon)
    pausing = story.index("PAUSING")
    assert story[pausing:] == [
        "PAUSING",
        "EndChild",
        "TakeSnapshot",
        "SNAPSHOTTED",
        "SealContract",
        "ENVELOPE_BUILT",
        "DISPATCHED",
        "StartChild",
        "RESUMING",
        "RESUMING",
        "RUNNING",
        "RUNNING",
        "EndChild",
        "TakeSnapshot",
        "COMPLETED",
    ]


def test_the_next_account_goes_on_with_the_providers_own_session(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS, chain=(ALPHA, BETA, WORK))
    daemon.run_until_ended()
    record = daemon.world.record()
    assert [run.target for run in record.runs] == [ALPHA, WORK]
    assert record.runs[1].native_resume
    assert daemon.world.openings[("s-1", 2)][1] == "native-s-1.1"


def test_where_the_own_session_cannot_be_brought_the_brief_is_told(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS, chain=(ALPHA, WORK), world=FakeWorld(resumable=False))
    daemon.run_until_ended()
    record = daemon.world.record()
    assert record.state is State.COMPLETED
    assert not record.runs[1].native_resume
    assert daemon.world.runs[("s-1", 2)].told[0].startswith("BRIEF c-")


def test_a_contract_that_was_tampered_with_is_not_injected(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS, world=FakeWorld(tampered=True))
    daemon.run_until_ended()
    record = daemon.world.record()
    assert record.state is State.FAILED
    assert record.end_reason == "the contract is refused: the signature does not match"
    assert list(daemon.world.runs) == [("s-1", 1)]


def test_a_limit_on_stderr_alone_is_seen(begin: Begin) -> None:
    agent = Agent(turns=((text("Hm."), Err("You've reached your usage limit."), Exit(1)),))
    daemon = begin(agent, WORKS)
    daemon.run_until_ended()
    assert daemon.world.entries("failure")[0]["class"] == "usage_limit"
    assert [run.target for run in daemon.world.record().runs] == [ALPHA, BETA]


def test_a_limit_that_is_talked_about_is_none(begin: Begin) -> None:
    words = "You have reached your usage limit, says the page that I wrote."
    daemon = begin(Agent(turns=((text(words), Err(words), done(words)),)))
    daemon.run_until_ended()
    assert [run.target for run in daemon.world.record().runs] == [ALPHA]
    assert daemon.world.entries("failure") == []


def test_near_its_limit_an_agent_is_handed_over_once_at_a_safe_point(begin: Begin) -> None:
    near = Agent(turns=((call("c"), quota(0.9), quota(0.91), result("c"), text("more"), done()),))
    daemon = begin(near, WORKS)
    daemon.run_until_ended()
    record = daemon.world.record()
    assert record.handoffs == 1
    assert record.state is State.COMPLETED
    assert daemon.world.entries("gate") == [{"run": 1, "forced": False}]
    assert [entry["reason"] for entry in daemon.world.entries("fsm") if entry["to"] == "PAUSING"] == [
        "alpha has used 90% of its quota"
    ]


def test_without_a_fallback_the_threshold_changes_nothing(begin: Begin) -> None:
    daemon = begin(Agent(turns=((quota(0.9), done()),)), chain=(ALPHA,))
    daemon.run_until_ended()
    assert daemon.world.record().handoffs == 0


def test_when_everybody_is_exhausted_the_session_waits_for_the_first_reset(begin: Begin) -> None:
    first, second = limit(NOON + timedelta(hours=6)), limit(NOON + timedelta(hours=3))
    daemon = begin(Agent(turns=((first,),)), Agent(turns=((second,),)), WORKS)
    daemon.run_until("WAITING")
    waiting = daemon.world.record()
    assert waiting.wake_at == NOON + timedelta(hours=3)
    assert not waiting.hold
    daemon.run_until_ended()
    record = daemon.world.record()
    assert record.state is State.COMPLETED
    assert [run.target for run in record.runs] == [ALPHA, BETA, BETA]
    assert daemon.world.now >= waiting.wake_at


def test_two_sessions_do_not_mind_each_other(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS)
    daemon.create("s-2", verify=("make test",))
    daemon.run(lambda: daemon.world.ended("s-1") and daemon.world.ended("s-2"))
    daemon.run(timers=False)
    for sid in ("s-1", "s-2"):
        assert daemon.world.record(sid).state is State.COMPLETED
        assert set(daemon.world.journaled(sid)) == daemon.world.printed(sid)
