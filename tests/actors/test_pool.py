"""The provider pool: who is let through when many wait, and what of it a restart remembers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from relay.core import commands, effects
from relay.core.circuit import Breaker, Circuit
from relay.core.events import QuotaWindow
from relay.core.fsm import State
from relay.core.policies import CircuitPolicy, RetryPolicy
from relay.core.session import SessionPolicy
from relay.core.wire import from_wire, to_wire
from tests.fakes.agents import HITS_LIMIT, WORKS, Agent, Hang, Work, done, failed, limit, quota, text
from tests.fakes.port import ALPHA, BETA, Begin, Daemon, Step
from tests.fakes.world import NOON, FakeWorld, Fault

RESET = NOON + timedelta(hours=1)
AT_ITS_LIMIT = Agent(turns=((text("I begin."), limit(RESET)),))
LONG_TURN = Agent(turns=((text("I go on."), Hang(), Work(), done()),))
SAYS_NOTHING_YET = Agent(turns=((Hang(), text("I go on."), Work(), done()),))
OVERLOADED = Agent(turns=((failed("overloaded", "The model is overloaded."),),))
SESSIONS = ("s-1", "s-2", "s-3", "s-4")


def breaker(world: FakeWorld, target: str = "alpha/default") -> Breaker:
    """As it lies on disk."""
    return from_wire(world.breakers[target], Breaker)


def running_again(daemon: Daemon, *sids: str) -> list[str]:
    """Those of the sessions whose second agent is at work."""
    return [
        sid for sid in sids if daemon.world.states(sid)[-1] == State.RUNNING and (sid, 2) in daemon.world.runs
    ]


def all_wait(begin: Begin, second: Agent, sessions: tuple[str, ...] = SESSIONS) -> Daemon:
    """Sessions of one login, that has come to its limit."""
    daemon = begin(AT_ITS_LIMIT, second, chain=(ALPHA,))
    for sid in sessions[1:]:
        daemon.create(sid=sid, chain=(ALPHA,))
    daemon.run(lambda: all(daemon.world.states(sid)[-1:] == [State.WAITING] for sid in sessions))
    daemon.run(timers=False)
    return daemon


def at_the_reset(daemon: Daemon) -> None:
    """The first one wakes, and all that follows from it but for the clock."""
    daemon.run(lambda: any((sid, 2) in daemon.world.runs for sid in SESSIONS))
    daemon.run(timers=False)


def test_once_the_probe_is_answered_all_that_wait_go_on_though_its_turn_takes_long(begin: Begin) -> None:
    daemon = all_wait(begin, LONG_TURN)
    daemon.run(lambda: len(running_again(daemon, *SESSIONS)) == len(SESSIONS))
    assert RESET <= daemon.world.now < RESET + timedelta(minutes=2)
    assert breaker(daemon.world).state is Circuit.CLOSED


def test_while_the_probe_is_not_answered_nobody_else_is_let_through(begin: Begin) -> None:
    daemon = all_wait(begin, SAYS_NOTHING_YET)
    at_the_reset(daemon)
    daemon.run(lambda: daemon.world.now > RESET + timedelta(minutes=1))
    assert len([sid for sid in SESSIONS if (sid, 2) in daemon.world.runs]) == 1
    assert breaker(daemon.world).state is Circuit.HALF_OPEN


@pytest.mark.parametrize("left_by", [commands.Stop, commands.Pause])
def test_when_the_prober_is_stopped_or_paused_the_next_one_probes(begin: Begin, left_by: type[Any]) -> None:
    daemon = all_wait(begin, SAYS_NOTHING_YET)
    at_the_reset(daemon)
    (prober,) = [sid for sid in SESSIONS if (sid, 2) in daemon.world.runs]
    daemon.command(left_by, sid=prober)
    others = [sid for sid in SESSIONS if sid != prober]
    daemon.run(lambda: any((sid, 2) in daemon.world.runs for sid in others))
    assert daemon.world.now < RESET + timedelta(minutes=2)


def test_one_whose_wait_is_just_being_saved_hears_that_a_target_is_free(begin: Begin) -> None:
    daemon = all_wait(begin, SAYS_NOTHING_YET, SESSIONS[:2])
    at_the_reset(daemon)
    (prober,) = [sid for sid in SESSIONS if (sid, 2) in daemon.world.runs]
    (other,) = {"s-1", "s-2"} - {prober}

    def wait_being_saved() -> bool:
        saving = [each.effect for each in daemon.asked if isinstance(each.effect, effects.SaveSession)]
        return any(save.record.sid == other and save.record.state == State.WAITING for save in saving)

    daemon.run(wait_being_saved)
    daemon.command(commands.Stop, sid=prober)
    while steps := [s for s in daemon.steps() if s.kind != "timer" and not saves(s, other)]:
        daemon.take(steps[0])
    assert wait_being_saved()
    daemon.run(lambda: (other, 2) in daemon.world.runs)
    assert daemon.world.now < RESET + timedelta(minutes=2)


def saves(step: Step, sid: str) -> bool:
    """It puts this session's record on disk."""
    effect = getattr(step.subject, "effect", None)
    return isinstance(effect, effects.SaveSession) and effect.record.sid == sid


def test_of_many_that_wait_only_the_one_that_is_resumed_tries_before_the_reset(begin: Begin) -> None:
    daemon = all_wait(begin, AT_ITS_LIMIT)
    daemon.command(commands.Resume, sid="s-2")
    daemon.run(lambda: daemon.world.states("s-2").count(State.WAITING) == 2)
    daemon.run(timers=False)
    assert [sid for sid in SESSIONS if (sid, 2) in daemon.world.runs] == ["s-2"]
    assert breaker(daemon.world).open_until == RESET


def test_one_that_a_person_holds_is_not_woken_by_an_answered_probe(begin: Begin) -> None:
    daemon = all_wait(begin, LONG_TURN)
    daemon.command(commands.Pause, sid="s-4")
    daemon.run(lambda: len(running_again(daemon, *SESSIONS)) == len(SESSIONS) - 1)
    daemon.run()
    assert daemon.world.states("s-4")[-1] == State.WAITING


def test_the_repositorys_settings_say_when_failures_open_it(begin: Begin) -> None:
    policy = to_wire(
        SessionPolicy(
            retry=RetryPolicy(enabled=False), circuit=CircuitPolicy(failures=1, open_seconds=1800.0)
        )
    )
    daemon = begin(OVERLOADED, WORKS, chain=(ALPHA, BETA), policy=policy)
    daemon.run_until_ended()
    found = breaker(daemon.world)
    assert found.state is Circuit.OPEN
    assert found.open_until is not None
    assert NOON + timedelta(minutes=29) < found.open_until < NOON + timedelta(minutes=37)


def isolated() -> Mapping[str, Any]:
    return to_wire(Breaker(state=Circuit.ISOLATED, reason="isolated by hand"))


def test_what_an_earlier_life_knew_counts_for_what_is_asked_before_it_is_read(begin: Begin) -> None:
    world = FakeWorld(breakers={"alpha/default": isolated()})
    daemon = begin(WORKS, world=world)
    while steps := [s for s in daemon.steps() if s.kind != "timer" and "LoadBreakers" not in s.what]:
        daemon.take(steps[0])
    assert not world.runs
    daemon.run_until_ended()
    assert [run.target for run in world.record().runs] == [BETA]
    assert breaker(world).state is Circuit.ISOLATED


@pytest.mark.parametrize(
    "damaged",
    [
        {"state": "ajar"},
        {"state": "open", "openUntil": "2030-06-01T13:00:00"},
        {"windows": [{"name": "five_hour", "fractionUsed": 1.0, "resetsAt": "2030-06-01T13:00:00"}]},
        {"failures": None},
        ["open"],
        "open",
        None,
    ],
)
def test_a_breaker_that_cannot_be_read_is_passed_over_and_said(begin: Begin, damaged: Any) -> None:
    world = FakeWorld(breakers={"alpha/default": damaged, "beta/default": isolated()})
    daemon = begin(WORKS, world=world, chain=(BETA, ALPHA))
    daemon.run_until_ended()
    assert [run.target for run in world.record().runs] == [ALPHA]
    (said,) = world.entries("effect_failed", "")
    assert "the breaker of alpha/default" in said["message"]
    assert not world.entries("actor_crashed", "")


def test_breakers_that_cannot_be_read_keep_no_session_from_going_on(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["LoadBreakers"] = [Fault("store_failed", "breakers.json is no JSON")]
    daemon = begin(HITS_LIMIT, WORKS, world=world)
    daemon.run_until_ended()
    assert world.record().state == State.COMPLETED


def test_breakers_that_cannot_be_saved_are_saved_later(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["SaveBreakers"] = [Fault("disk_full", "no space left")]
    daemon = begin(HITS_LIMIT, WORKS, world=world)
    daemon.run_until_ended()
    daemon.run(lambda: "alpha/default" in world.breakers)
    assert breaker(world).state is Circuit.OPEN


def test_what_is_left_of_a_quota_is_still_known_after_a_restart(begin: Begin) -> None:
    daemon = begin(Agent(turns=((quota(0.5), text("I begin."), Hang(), done()),)))
    daemon.run_until(State.RUNNING)
    daemon.run(lambda: "alpha/default" in daemon.world.breakers)
    daemon.crash()
    daemon.run(timers=False)
    (window,) = breaker(daemon.world).windows
    assert window == QuotaWindow(name="five_hour", fraction_used=0.5, resets_at=window.resets_at)


def test_quotas_are_put_on_disk_now_and_then_not_at_every_answer(begin: Begin) -> None:
    answers = tuple(quota(n / 1000) for n in range(1, 100))
    daemon = begin(Agent(turns=((*answers, text("a"), Work(), done()),)))
    daemon.run_until_ended()
    daemon.run(timers=False)
    saves = [effect for effect in daemon.world.performed if isinstance(effect, effects.SaveBreakers)]
    assert len(saves) <= 2
