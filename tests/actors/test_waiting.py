"""Sessions that wait for a login: told when it is there sooner, whatever was restarted meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest

from relay.actors import messages
from relay.actors.pool import ProviderPoolActor
from relay.actors.session import SessionActor
from relay.core import asks, commands, effects
from relay.core.circuit import Breaker, Circuit
from relay.core.events import QuotaWindow
from relay.core.fsm import State
from relay.core.policies import ApprovalPolicy
from relay.core.session import SessionPolicy
from relay.core.wire import from_wire, to_wire
from tests.fakes.agents import WORKS, Agent, Hang, Work, ask, call, done, failed, limit, text
from tests.fakes.port import ALPHA, BETA, Begin, Daemon, Step
from tests.fakes.world import NOON, FakeWorld

RESET = NOON + timedelta(hours=1)
AT_ITS_LIMIT = Agent(turns=((text("I begin."), limit(RESET)),))
SAYS_NOTHING_YET = Agent(turns=((Hang(), text("I go on."), Work(), done()),))
REFUSES = Agent(turns=((Hang(), failed("refusal", "I will not do that.")),))
SIDS = ("s-1", "s-2", "s-3")
AT_ONCE = timedelta(minutes=1)


@pytest.fixture
def quiet() -> Iterator[None]:
    """The crashes that are made here are logged, and would fill the terminal."""
    log = logging.getLogger("relay.actors")
    before, log.disabled = log.disabled, True
    yield
    log.disabled = before


def breaker(daemon: Daemon, target: str = "alpha/default") -> Breaker:
    return from_wire(daemon.world.breakers[target], Breaker)


def isolated() -> dict[str, object]:
    return dict(to_wire(Breaker(state=Circuit.ISOLATED, reason="isolated by hand")))


def by_hand(daemon: Daemon, *, isolate: bool, target: str = "alpha") -> None:
    """`relay circuit isolate` or `restore`."""
    daemon.ask_root(messages.IsolateProvider, target=target, isolated=isolate, at=daemon.world.now)
    daemon.run(timers=False)


def all_wait(begin: Begin, second: Agent) -> Daemon:
    """Sessions of one login, each of which met its limit."""
    daemon = begin(AT_ITS_LIMIT, second, chain=(ALPHA,))
    for sid in SIDS[1:]:
        daemon.create(sid=sid, chain=(ALPHA,))
    daemon.run(lambda: all(daemon.world.states(sid)[-1:] == [State.WAITING] for sid in SIDS))
    daemon.run(timers=False)
    return daemon


def one_is_blocked(begin: Begin) -> Daemon:
    """A session whose only login is out of service."""
    daemon = begin(WORKS, world=FakeWorld(breakers={"alpha/default": isolated()}), chain=(ALPHA,))
    daemon.run_until(State.WAITING)
    daemon.run()
    return daemon


def second_runs(daemon: Daemon) -> list[str]:
    return [sid for sid in SIDS if (sid, 2) in daemon.world.runs]


def crash_pool(monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    """The pool raises once; the tree starts anew."""

    def broken(actor: ProviderPoolActor, message: object, sender: object) -> None:
        raise ValueError("this handler is broken")

    with monkeypatch.context() as patch:
        patch.setattr(ProviderPoolActor, "receive_DescribeProviders", broken)
        daemon.ask_root(messages.DescribeProviders, at=daemon.world.now)
    restart = next(key for key in daemon.timers if key[1] == "restart:pool")
    daemon.take(Step("timer", restart[1], restart))
    daemon.run(timers=False)


@pytest.mark.parametrize("meanwhile", ["nothing", "restart", "pool crashes"])
@pytest.mark.usefixtures("quiet")
def test_sessions_go_on_when_the_login_they_wait_for_is_put_back(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    daemon = all_wait(begin, WORKS)
    if meanwhile == "restart":
        daemon.crash()
        daemon.run(timers=False)
    elif meanwhile == "pool crashes":
        crash_pool(monkeypatch, daemon)
    by_hand(daemon, isolate=False)
    for sid in SIDS:
        daemon.run_until_ended(sid)
    assert daemon.world.now < NOON + AT_ONCE


@pytest.mark.parametrize("restarts", [False, True])
def test_one_whose_login_is_out_of_service_goes_on_when_it_is_put_back(begin: Begin, restarts: bool) -> None:
    daemon = one_is_blocked(begin)
    if restarts:
        daemon.crash()
        daemon.run(timers=False)
    by_hand(daemon, isolate=False)
    daemon.run_until_ended()
    assert daemon.world.record().state == State.COMPLETED


def test_one_whose_login_was_put_back_just_before_a_crash_goes_on(begin: Begin) -> None:
    daemon = one_is_blocked(begin)
    del daemon.world.breakers["alpha/default"]
    daemon.crash()
    daemon.run_until_ended()
    assert daemon.world.record().state == State.COMPLETED


def test_one_that_a_person_paused_stays_when_its_login_is_put_back(begin: Begin) -> None:
    daemon = one_is_blocked(begin)
    daemon.command(commands.Pause)
    by_hand(daemon, isolate=False)
    daemon.run()
    assert daemon.world.states()[-1] == State.WAITING
    daemon.command(commands.Resume)
    daemon.run_until_ended()
    assert daemon.world.record().state == State.COMPLETED


def test_putting_back_forgets_a_quota_for_good_and_lets_those_go_on_that_it_kept_away(begin: Begin) -> None:
    window = QuotaWindow(name="five_hour", fraction_used=1.0, resets_at=RESET)
    world = FakeWorld(breakers={"alpha/default": to_wire(Breaker(windows=(window,)))})
    daemon = begin(WORKS, world=world, chain=(ALPHA,))
    daemon.run_until(State.WAITING)
    by_hand(daemon, isolate=False)
    assert not breaker(daemon).windows
    daemon.run_until_ended()
    assert daemon.world.now < NOON + AT_ONCE


def test_one_that_begins_to_wait_while_the_probe_is_answered_is_not_forgotten(begin: Begin) -> None:
    daemon = all_wait(begin, SAYS_NOTHING_YET)
    daemon.run(lambda: bool(second_runs(daemon)))
    daemon.run(timers=False)
    (prober,) = second_runs(daemon)
    late = next(sid for sid in SIDS if sid != prober)
    # It is refused, and its state is still being saved when the probe is answered.
    daemon.run(lambda: daemon.world.states(late)[-1] == State.ENVELOPE_BUILT)

    def others() -> list[Step]:
        steps = [step for step in daemon.steps() if step.kind != "timer"]
        return [step for step in steps if not is_save(step, late)]

    daemon.world.runs[(prober, 2)].go_on()
    while steps := others():
        daemon.take(steps[0])
    assert breaker(daemon).state is Circuit.CLOSED
    daemon.world.agents = {**daemon.world.agents, 2: WORKS}
    daemon.run_until_ended(late)
    assert daemon.world.now < RESET + timedelta(minutes=2)


def is_save(step: Step, sid: str) -> bool:
    effect = getattr(step.subject, "effect", None)
    return isinstance(effect, effects.SaveSession) and effect.record.sid == sid and step.kind == "perform"


def test_a_person_who_resumes_one_lets_one_probe_alone(begin: Begin) -> None:
    daemon = all_wait(begin, SAYS_NOTHING_YET)
    daemon.command(commands.Resume, sid="s-2")
    daemon.run(lambda: daemon.world.now > NOON + AT_ONCE or ("s-2", 2) in daemon.world.runs)
    daemon.run(timers=False)
    assert second_runs(daemon) == ["s-2"]
    assert breaker(daemon).state is Circuit.HALF_OPEN
    daemon.world.runs[("s-2", 2)].go_on()
    daemon.world.agents = {**daemon.world.agents, 2: WORKS}
    for sid in SIDS:
        daemon.run_until_ended(sid)
    assert daemon.world.now < NOON + timedelta(minutes=10)


def test_a_person_who_resumes_one_puts_nothing_back_into_service(begin: Begin) -> None:
    daemon = one_is_blocked(begin)
    daemon.command(commands.Resume)
    daemon.run_until_ended()
    assert daemon.world.record().state == State.COMPLETED
    assert breaker(daemon).state is Circuit.ISOLATED


def test_a_turn_that_began_before_and_is_refused_ends_nobody_elses_probe(begin: Begin) -> None:
    daemon = begin(REFUSES, WORKS, chain=(ALPHA,))
    daemon.run_until(State.RESUMING)
    daemon.world.agents = {1: AT_ITS_LIMIT, 2: SAYS_NOTHING_YET}
    for sid in SIDS[1:]:
        daemon.create(sid=sid, chain=(ALPHA,))
    daemon.run(lambda: bool(second_runs(daemon)))
    daemon.run(timers=False)
    prober = second_runs(daemon)
    daemon.world.runs[("s-1", 1)].go_on()
    daemon.run(lambda: daemon.world.now > RESET + timedelta(minutes=5))
    assert second_runs(daemon) == prober


@pytest.mark.usefixtures("quiet")
def test_one_that_is_given_up_leaves_its_probe_and_its_questions(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Agent(turns=((call("c", "edit"), ask("c", "edit", path="/repo/a.py"), Work(), done()),))
    daemon = begin(asking, chain=(ALPHA,))
    daemon.run(lambda: bool(daemon.world.entries("approval")))
    pool: list[asks.LeaveTargets] = []
    monkeypatch.setattr(ProviderPoolActor, "receive_LeaveTargets", lambda _, told, __: pool.append(told))

    def broken(actor: SessionActor, message: object, sender: object) -> None:
        raise ValueError("this handler is broken")

    monkeypatch.setattr(SessionActor, "receive_SessionLoaded", broken)
    monkeypatch.setattr(SessionActor, "receive_CommandSession", broken)
    daemon.command(commands.Pause)
    daemon.run_until_ended()
    assert [told.sid for told in pool] == ["s-1"]
    assert [told["status"] for told in daemon.world.entries("approval")] == ["open", "closed"]


@pytest.mark.usefixtures("quiet")
def test_a_repositorys_settings_hold_after_the_tree_was_started_anew(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Agent(turns=((call("c", "edit"), ask("c", "edit", path="/repo/a.py"), Work(), done()),))
    daemon = begin(WORKS)
    daemon.run_until_ended()
    # What the daemon found at its start did not name this repository yet.
    daemon.policy = to_wire(SessionPolicy(approvals=ApprovalPolicy(timeout_seconds=1800.0)))
    daemon.world.agents = {1: asking}
    daemon.create(sid="s-2", chain=(BETA,))
    daemon.run(lambda: bool(daemon.world.entries("approval", "s-2")))
    crash_pool(monkeypatch, daemon)
    asked = daemon.world.entries("approval", "s-2")[-1]
    assert asked["deniedAt"] > (NOON + timedelta(minutes=29)).isoformat()


def test_one_whose_quota_keeps_it_away_does_not_ask_again_and_again(begin: Begin) -> None:
    window = QuotaWindow(name="five_hour", fraction_used=1.0, resets_at=RESET)
    untried = Breaker(state=Circuit.HALF_OPEN, windows=(window,))
    daemon = begin(WORKS, world=FakeWorld(breakers={"alpha/default": to_wire(untried)}), chain=(ALPHA,))
    daemon.run_until_ended()
    assert daemon.world.now >= RESET
    assert daemon.world.states().count(State.WAITING) == 1
