"""A session that can't be begun is refused, and nothing of it is left to go on later."""

from __future__ import annotations

import pytest

from relay.actors import messages
from relay.core import commands, effects
from tests.fakes.agents import WORKS
from tests.fakes.port import Begin
from tests.fakes.world import REPOSITORY, FakeWorld, Fault


def full_disk() -> Fault:
    return Fault("disk_full", "cannot write fsm.json: No space left on device", "free some space")


def test_one_whose_first_save_fails_is_refused_and_never_goes_on(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["SaveSession"] = [full_disk()]
    daemon = begin(WORKS, world=world)

    daemon.run()

    answer = daemon.answers["1"]
    assert isinstance(answer, commands.Refused)
    assert (answer.code, answer.hint) == ("disk_full", "free some space")
    undone = [done for done in world.performed if isinstance(done, effects.UndoWorktree)]
    assert [(done.sid, done.repository, done.branch) for done in undone] == [("s-1", REPOSITORY, "relay/s-1")]
    assert world.saved == {}
    assert world.runs == {}
    assert [entry.type for entry in world.audit[REPOSITORY]] == []
    listed = daemon.ask_root(messages.DescribeSessions)
    daemon.run()
    assert daemon.answers[listed] == commands.Accepted(data={"sessions": []})


def test_asked_for_again_under_the_same_id_it_is_begun(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["SaveSession"] = [full_disk()]
    daemon = begin(WORKS, world=world)
    daemon.run()
    again = daemon.create()
    daemon.run_until_ended()
    assert isinstance(daemon.answers[again], commands.Accepted)


def test_a_command_for_one_that_never_was_is_refused_and_leaves_nothing_behind(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["SaveSession"] = [full_disk()]
    daemon = begin(WORKS, world=world)
    daemon.run()
    asked = daemon.command(commands.Pause)
    daemon.run()
    refused = daemon.answers[asked]
    assert isinstance(refused, commands.Refused)
    assert refused.code == "not_found"
    listed = daemon.ask_root(messages.DescribeTree)
    daemon.run()
    assert "s-1" not in str(daemon.answers[listed])


def test_what_could_not_be_taken_away_is_said(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["SaveSession"] = [full_disk()]
    world.faults["UndoWorktree"] = [Fault("git_failed", "git worktree remove: it is busy")]
    daemon = begin(WORKS, world=world)
    daemon.run()
    answer = daemon.answers["1"]
    assert isinstance(answer, commands.Refused)
    assert answer.code == "disk_full"
    assert answer.hint == (
        "free some space. What was made for it could not be taken away: git worktree remove: it is busy"
    )


@pytest.mark.parametrize("failing", [2, 3])
def test_a_later_save_that_fails_is_tried_again(begin: Begin, failing: int) -> None:
    daemon = begin(WORKS)
    daemon.run(lambda: len(daemon.world.saves) == failing - 1)
    daemon.world.faults["SaveSession"] = [full_disk()]
    daemon.run_until_ended()
    assert isinstance(daemon.answers["1"], commands.Accepted)
    assert daemon.world.record().state == "COMPLETED"
