"""Crashes of actors: restarts with back-off, giving up past the intensity, and siblings that never notice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest

from relay.actors import messages
from relay.actors.journal import JournalActor
from relay.actors.session import SessionActor
from relay.actors.supervision import GiveUp, RestartAfter, RestartCounter, RestartPolicy
from relay.core import commands
from relay.core.fsm import State
from tests.fakes.agents import HITS_LIMIT, WORKS, Agent, Hang, text
from tests.fakes.port import Begin
from tests.fakes.world import NOON


def seconds(after: float) -> timedelta:
    return timedelta(seconds=after)


class Breaks:
    """Makes a session's actor raise when its agent says something, so many times."""

    def __init__(self, sid: str, times: int) -> None:
        self.sid, self.left = sid, times

    def __call__(self, actor: SessionActor, message: messages.Observe, sender: object) -> None:
        if actor.wires.name == self.sid and self.left > 0:
            self.left -= 1
            raise ValueError("this handler is broken")
        SENDS_ON(actor, message, sender)


SENDS_ON = SessionActor.receive_Observe


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The crashes that are made here are logged, and would fill the terminal."""
    log = logging.getLogger("relay.actors")
    before, log.disabled = log.disabled, True
    yield
    log.disabled = before


def break_sessions(patch: pytest.MonkeyPatch, sid: str, times: int) -> None:
    broken = Breaks(sid, times)

    def receive(actor: SessionActor, message: messages.Observe, sender: object) -> None:
        broken(actor, message, sender)

    patch.setattr(SessionActor, "receive_Observe", receive)


def test_as_many_restarts_as_allowed_and_not_one_more() -> None:
    counter = RestartCounter(RestartPolicy(intensity=3, period=seconds(60), base=1.0, longest=3.0))
    decisions = [counter.crashed(NOON + seconds(n)) for n in range(4)]
    assert decisions == [
        RestartAfter(delay=0.0),
        RestartAfter(delay=1.0),
        RestartAfter(delay=2.0),
        GiveUp(restarts=3),
    ]


def test_the_window_slides() -> None:
    counter = RestartCounter(RestartPolicy(intensity=2, period=seconds(60)))
    for n in (0, 30, 61, 92, 123):
        assert isinstance(counter.crashed(NOON + seconds(n)), RestartAfter), n
    assert isinstance(counter.crashed(NOON + seconds(124)), GiveUp)


def test_the_delay_has_a_limit() -> None:
    counter = RestartCounter(RestartPolicy(intensity=50))
    delays = [counter.crashed(NOON) for _ in range(20)]
    assert delays[-1] == RestartAfter(delay=10.0)


@pytest.mark.parametrize("times", [1, 5])
def test_a_session_whose_actor_crashes_goes_on_from_the_store(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    break_sessions(monkeypatch, "s-1", times)
    daemon = begin(HITS_LIMIT, WORKS)
    daemon.run_until_ended()
    assert daemon.world.record().state is State.COMPLETED
    assert len(daemon.world.entries("actor_crashed")) == times
    assert sorted(daemon.world.journaled()) == sorted(daemon.world.printed())


def test_one_that_keeps_crashing_is_failed_and_its_sibling_never_notices(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_sessions(monkeypatch, "s-1", 6)
    daemon = begin(HITS_LIMIT, WORKS)
    daemon.create("s-2")
    daemon.run(lambda: daemon.world.ended("s-1") and daemon.world.ended("s-2"))
    daemon.run(timers=False)
    failed, sibling = daemon.world.record("s-1"), daemon.world.record("s-2")
    assert failed.state is State.FAILED
    assert failed.end_reason == (
        "Relay's own session actor keeps failing: ValueError: this handler is broken"
    )
    assert daemon.world.alive() == []
    assert sibling.state is State.COMPLETED
    assert daemon.world.entries("actor_crashed", "s-2") == []
    assert daemon.world.ended_daemon == ""
    merged = daemon.command(commands.Merge)
    daemon.run(timers=False)
    assert isinstance(daemon.answers[merged], commands.Accepted)


def test_a_command_for_a_session_that_is_being_restarted_waits_for_it(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_sessions(monkeypatch, "s-1", 2)
    daemon = begin(WORKS)
    daemon.run(lambda: len(daemon.world.entries("actor_crashed")) == 2)
    stopped = daemon.command(commands.Stop)
    daemon.run_until_ended()
    assert isinstance(daemon.answers[stopped], commands.Accepted)
    assert daemon.world.record().state is State.STOPPED


def test_a_fixed_actor_that_crashes_takes_the_tree_with_it_and_nothing_is_lost(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, left = JournalActor.receive_AuditAppended, [2]

    def receive(actor: JournalActor, message: object, sender: object) -> None:
        if left[0] > 0 and actor._order > 8:
            left[0] -= 1
            raise ValueError("broken")
        sound(actor, message, sender)  # type: ignore[arg-type]

    monkeypatch.setattr(JournalActor, "receive_AuditAppended", receive)
    daemon = begin(HITS_LIMIT, WORKS)
    daemon.run_until_ended()
    assert left == [0]
    assert daemon.world.record().state is State.COMPLETED
    assert sorted(daemon.world.journaled()) == sorted(daemon.world.printed())


def test_a_fixed_actor_that_keeps_crashing_ends_the_daemon(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def receive(actor: JournalActor, message: object, sender: object) -> None:
        raise ValueError("broken for good")

    monkeypatch.setattr(JournalActor, "receive_Record", receive)
    daemon = begin(WORKS)
    daemon.run(lambda: daemon.world.ended_daemon != "")
    assert daemon.world.ended_daemon == "journal keeps failing: ValueError: broken for good"


def test_messages_that_nobody_expects_are_passed_over(begin: Begin) -> None:
    daemon = begin(WORKS)
    for message in (object(), "text", messages.Said(run=9, key="k", at=NOON), None):
        daemon.runtime.ask_root(message)
    daemon.command(commands.Stop, sid="s-none")
    daemon.run(timers=False)
    refused = daemon.answers["2"]
    assert isinstance(refused, commands.Refused)
    assert refused.code == "not_found"
    daemon.run_until_ended()
    assert daemon.world.record().state is State.COMPLETED


def test_the_tree_shows_every_actor(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), Hang()),)))
    daemon.run_until("RUNNING")
    answer = daemon.answers[daemon.ask_root(messages.DescribeTree)]
    assert isinstance(answer, commands.Accepted)
    tree = answer.data["tree"]
    assert [node["name"] for node in tree["children"]] == [
        "hub",
        "journal",
        "pool",
        "desk",
        "ambient",
        "housekeeper",
        "sessions",
    ]
    session = tree["children"][-1]["children"][0]
    assert (session["name"], session["state"]) == ("s-1", "RUNNING")
    assert session["children"][0]["name"] == "run-1"
