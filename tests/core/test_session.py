"""The session rules alone, without actors: what is saved before what, and what waits its turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from relay.core import asks, commands, effects, reports
from relay.core.chain import Target
from relay.core.effects import LastPlaces
from relay.core.events import (
    AgentStarted,
    AgentText,
    Observed,
    Place,
    Retrying,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from relay.core.facts import SessionFacts
from relay.core.fsm import State
from relay.core.record import Options, Run, Saying, SessionRecord
from relay.core.session import Outputs, Session, SessionPolicy

NOW = datetime(2030, 6, 1, tzinfo=UTC)
ALPHA, BETA = Target(provider="alpha"), Target(provider="beta")


def record(**changes: Any) -> SessionRecord:
    values: dict[str, Any] = {
        "sid": "s-1",
        "repository": "/repo",
        "worktree": "/tree",
        "branch": "relay/s-1",
        "options": Options(goal="build it", chain=(ALPHA, BETA)),
        "created_at": NOW,
        "updated_at": NOW,
        "state": State.RUNNING,
        "runs": (Run(number=1, target=ALPHA, started_at=NOW),),
    }
    return SessionRecord(**{**values, **changes})


def session(**changes: Any) -> Session:
    """A session that was found in its state, its output read again."""
    found = record(**changes)
    rules = Session(found, SessionFacts.for_goal("build it", worktree="/tree"), SessionPolicy())
    rules.recovered(LastPlaces(), NOW)
    return rules


def of(outputs: Outputs, kind: type[Any]) -> list[Any]:
    return [output for output in outputs if isinstance(output, kind)]


def saved(rules: Session, outputs: Outputs) -> Outputs:
    """What follows once everything that is to be saved is."""
    following: Outputs = []
    for save in of(outputs, effects.SaveSession):
        following += rules.report(reports.SessionSaved(key=save.key, at=NOW))
    return following


def seen(offset: int, event: Any) -> Observed:
    return Observed(place=Place(run=1, stream="out", offset=offset), at=NOW, event=event)


def test_a_transition_is_entered_when_it_is_saved() -> None:
    rules = session()
    _, outputs = rules.command(commands.HandOff(at=NOW, by="me"))
    assert of(outputs, asks.ReachSafePoint) == []
    assert rules.record.state is State.RUNNING
    following = saved(rules, outputs)
    assert rules.record.state is State.PAUSING
    assert len(of(following, asks.ReachSafePoint)) == 1


def test_the_report_of_another_save_enters_nothing() -> None:
    rules = session()
    rules.command(commands.HandOff(at=NOW, by="me"))
    assert rules.report(reports.SessionSaved(key="persist:99", at=NOW)) == []
    assert rules.record.state is State.RUNNING


def test_a_command_is_judged_by_the_state_that_is_being_saved() -> None:
    rules = session()
    _, leaving = rules.command(commands.HandOff(at=NOW, by="me"))
    answer, outputs = rules.command(commands.Pause(at=NOW, by="me"))
    assert isinstance(answer, commands.Accepted)
    assert of(outputs, effects.SaveSession)[-1].record.hold
    saved(rules, leaving)
    assert rules.record.hold


def test_a_message_is_saved_before_it_is_said() -> None:
    rules = session()
    _, outputs = rules.command(commands.Reply(at=NOW, by="me", text="mind the tests"))
    assert of(outputs, asks.Say) == []
    assert of(outputs, effects.SaveSession)[0].record.unsaid == (Saying(key="say:1", text="mind the tests"),)
    assert of(saved(rules, outputs), asks.Say) == [asks.Say(run=1, key="say:1", text="mind the tests")]
    rules.said("say:1", NOW)
    assert rules.record.unsaid == ()


def test_what_may_not_have_been_said_is_said_again_under_its_key() -> None:
    rules = session(said=3, unsaid=(Saying(key="say:3", text="go on"),))
    assert of(rules.caught_up(NOW), asks.Say) == [asks.Say(run=1, key="say:3", text="go on")]


def test_a_turn_that_was_acted_on_is_not_acted_on_again() -> None:
    ends = [seen(1, AgentStarted(native_id="n")), seen(2, TurnEnded(outcome=TurnOutcome.COMPLETED))]
    acted = session(turns_acted=1)
    acted.observed(ends, known=True)
    assert of(acted.caught_up(NOW), effects.SaveSession) == []
    not_acted = session()
    not_acted.observed(ends, known=True)
    assert of(not_acted.caught_up(NOW), effects.SaveSession)[0].record.ending == "complete"


RETRYING = [
    seen(1, AgentStarted(native_id="n")),
    seen(2, TurnStarted()),
    seen(3, Retrying(attempt=1, delay=600.0)),
]


def test_an_agent_that_would_wait_long_by_itself_is_left_after_a_restart_too() -> None:
    """The retry was logged by a life that died before it was acted on."""
    rules = session()
    rules.observed(RETRYING, known=True)
    outputs = rules.caught_up(NOW)
    assert of(outputs, effects.SaveSession)[0].record.reason == "alpha would wait 600 s by itself"
    assert [ask.run for ask in of(saved(rules, outputs), asks.ReachSafePoint)] == [1]
    assert rules.record.state is State.PAUSING


def test_an_agent_that_would_wait_long_by_itself_is_left_at_once() -> None:
    outputs = session().observed(RETRYING)
    assert of(outputs, effects.SaveSession)[-1].record.reason == "alpha would wait 600 s by itself"


@pytest.mark.parametrize(
    ("later", "chain"),
    [
        ([seen(4, AgentText(text="on I go"))], (ALPHA, BETA)),
        ([seen(4, Retrying(attempt=1, delay=2.0)), seen(5, AgentText(text="on I go"))], (ALPHA, BETA)),
        ([], (ALPHA,)),
    ],
    ids=["it went on", "it went on after another", "there is nobody else"],
)
def test_an_agent_that_went_on_after_a_long_wait_is_not_left(
    later: list[Observed], chain: tuple[Target, ...]
) -> None:
    rules = session(options=Options(goal="build it", chain=chain))
    rules.observed([*RETRYING, *later], known=True)
    assert of(rules.caught_up(NOW), effects.SaveSession) == []
    assert rules.record.state is State.RUNNING


def test_known_events_are_not_recorded_again() -> None:
    rules = session()
    assert of(rules.observed([seen(1, AgentStarted(native_id="n"))], known=True), asks.Record) == []
    assert len(of(rules.observed([seen(2, AgentStarted(native_id="n"))]), asks.Record)) == 1


def test_a_stop_survives_a_restart() -> None:
    rules = session(ending="stop", end_reason="stopped by me")
    outputs = rules.caught_up(NOW)
    assert of(outputs, asks.Interrupt) == [asks.Interrupt(run=1, key="interrupt:1")]
    refused, _ = rules.command(commands.Resume(at=NOW, by="me"))
    assert isinstance(refused, commands.Refused)


def test_a_child_is_left_only_when_its_output_is_read_and_logged() -> None:
    rules = session(state=State.PAUSING)
    gone = reports.ChildGone(key="end:1", at=NOW, run=1, how="input", status=0)
    assert of(rules.report(gone), asks.Confirm) == []
    ended = rules.report(reports.ChildEnded(key="f", at=NOW, run=1, status=0))
    assert of(ended, effects.TakeSnapshot) == []
    (confirm,) = of(ended, asks.Confirm)
    logged = rules.report(reports.Recorded(key=confirm.key, at=NOW))
    assert len(of(logged, effects.TakeSnapshot)) == 1


def test_processes_that_will_not_die_fail_the_session() -> None:
    rules = session(state=State.PAUSING)
    rules.report(reports.ChildEnded(key="f", at=NOW, run=1, status=0))
    (confirm,) = of(
        rules.report(reports.ChildGone(key="end:1", at=NOW, run=1, how="KILL", left=(7, 8))), asks.Confirm
    )
    rules.report(reports.Recorded(key=confirm.key, at=NOW))
    taken = reports.SnapshotTaken(key="snapshot", at=NOW, number=1, commit="c", made=True)
    saved(rules, rules.report(taken))
    assert rules.record.state is State.FAILED
    assert rules.record.end_reason == "processes of alpha would not end: 7, 8; end them by hand"


def test_a_save_that_failed_is_tried_again_with_what_is_newest() -> None:
    rules = session()
    _, outputs = rules.command(commands.HandOff(at=NOW, by="me"))
    (save,) = of(outputs, effects.SaveSession)
    failed = reports.EffectFailed(
        key=save.key, at=NOW, effect="SaveSession", code="disk_full", message="no space is left"
    )
    assert of(rules.report(failed), effects.SetTimer)[0].key == "save-again"
    rules.command(commands.Reply(at=NOW, by="me", text="later"))
    again = of(rules.report(reports.TimerFired(key="save-again", at=NOW)), effects.SaveSession)
    assert again[-1].key == save.key
    assert again[-1].record.replies == ("later",)


def test_merge_and_discard_are_for_sessions_that_are_over() -> None:
    refused, _ = session().command(commands.Merge(at=NOW, by="me"))
    assert isinstance(refused, commands.Refused)
    over = session(state=State.COMPLETED)
    pending, outputs = over.command(commands.Merge(at=NOW, by="me"))
    assert pending == commands.Pending(key="merge")
    assert len(of(outputs, effects.MergeSession)) == 1
    busy, _ = over.command(commands.Discard(at=NOW, by="me"))
    assert isinstance(busy, commands.Refused)
    over.report(reports.SessionMerged(key="merge", at=NOW, branch="main", commit="c", files=2))
    assert over.record.merged_into == "main"


def test_a_session_that_is_not_held_any_more_is_woken_after_a_restart() -> None:
    rules = Session(
        evolve(record(state=State.WAITING), runs=()),
        SessionFacts.for_goal("build it", worktree="/tree"),
        SessionPolicy(),
    )
    timers = of(rules.recovered(LastPlaces(), NOW), effects.SetTimer)
    assert [(timer.key, timer.at) for timer in timers] == [("wake", NOW)]
