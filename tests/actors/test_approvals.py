"""Permission requests: allowed unasked, asked, approved, and denied by the clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from relay.actors import messages
from relay.core import commands
from tests.fakes.agents import Agent, Work, ask, call, done
from tests.fakes.port import Begin, Daemon
from tests.fakes.world import FakeWorld, Fault

INSIDE = "/repo/.relay/worktrees/s-1/a.py"


def agent(kind: str, **asked: Any) -> Agent:
    return Agent(turns=((call("c", kind), ask("c", kind, **asked), Work(), done()),))


def answered(daemon: Daemon) -> list[tuple[bool, str]]:
    """What the agent was answered: given or not, and the note."""
    events = daemon.world.entries("agent_event")
    return [(event["ok"], event["output"]) for event in events if event["kind"] == "tool_result"]


def open_ones(daemon: Daemon) -> list[dict[str, Any]]:
    asked = daemon.ask_root(messages.ListApprovals)
    answer = daemon.answers[asked]
    assert isinstance(answer, commands.Accepted)
    return list(answer.data["approvals"])


def decide(daemon: Daemon, approval: str, allowed: bool, note: str = "") -> commands.Answer:
    now = daemon.world.now
    asked = daemon.ask_root(
        messages.DecideApproval, approval=approval, allowed=allowed, note=note, by="tester", at=now
    )
    return daemon.answers[asked]


def test_an_edit_inside_the_worktree_passes_unasked(begin: Begin) -> None:
    daemon = begin(agent("edit", path=INSIDE))
    daemon.run_until_ended()
    assert answered(daemon) == [(True, "allowed")]
    assert daemon.world.entries("approval") == []


def test_an_edit_elsewhere_is_asked_for(begin: Begin) -> None:
    daemon = begin(agent("edit", path="/repo/a.py"))
    daemon.run(timers=False)
    assert [view["paths"] for view in open_ones(daemon)] == [["/repo/a.py"]]


def test_an_edit_through_a_link_that_leads_out_is_asked_for(begin: Begin) -> None:
    daemon = begin(agent("edit", path=INSIDE), world=FakeWorld(links_out={INSIDE}))
    daemon.run(timers=False)
    assert [view["paths"] for view in open_ones(daemon)] == [[INSIDE]]
    assert answered(daemon) == []


def test_an_edit_whose_place_cannot_be_found_out_is_asked_for(begin: Begin) -> None:
    world = FakeWorld()
    world.faults["LocatePaths"] = [Fault()]
    daemon = begin(agent("edit", path=INSIDE), world=world)
    daemon.run(timers=False)
    assert [view["paths"] for view in open_ones(daemon)] == [[INSIDE]]


def test_a_command_is_asked_for_and_approved(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make release"))
    daemon.run(timers=False)
    (view,) = open_ones(daemon)
    assert (view["command"], view["session"]) == ("make release", "s-1")
    answer = decide(daemon, view["id"], True, "go on")
    daemon.run_until_ended()
    assert isinstance(answer, commands.Accepted)
    assert answered(daemon) == [(True, "allowed go on")]
    assert [entry["status"] for entry in daemon.world.entries("approval")] == ["open", "approved"]


def test_unanswered_for_five_minutes_it_is_denied_by_the_clock(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make release"))
    daemon.run(timers=False)
    asked = daemon.world.now
    daemon.run_until_ended()
    assert answered(daemon) == [(False, "denied nobody answered in time")]
    assert daemon.world.entries("approval")[-1]["by"] == "the clock"
    assert timedelta(seconds=299) < daemon.world.now - asked < timedelta(seconds=302)


def test_with_all_allowed_nothing_is_asked(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make release"), allow="all")
    daemon.run_until_ended()
    assert answered(daemon) == [(True, "allowed")]


def test_a_listed_command_is_not_asked_for(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make test"), policy={"approvals": {"commands": ["make t*"]}})
    daemon.run_until_ended()
    assert answered(daemon) == [(True, "allowed")]


def test_a_question_is_answered_by_a_reply(begin: Begin) -> None:
    daemon = begin(agent("ask", question="Which database?"))
    daemon.run(timers=False)
    daemon.command(commands.Reply, text="SQLite")
    daemon.run_until_ended()
    assert answered(daemon) == [(True, "allowed SQLite")]
    assert open_ones(daemon) == []


def test_what_was_asked_is_asked_again_after_a_restart(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make release"))
    daemon.run(timers=False)
    (before,) = open_ones(daemon)
    daemon.crash()
    daemon.run(timers=False)
    (after,) = open_ones(daemon)
    assert after["id"] == before["id"]
    decide(daemon, after["id"][:6], True)
    daemon.run_until_ended()
    assert answered(daemon) == [(True, "allowed")]


def test_an_unknown_approval_is_refused_with_a_hint(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make release"))
    daemon.run(timers=False)
    answer = decide(daemon, "a-none", True)
    assert isinstance(answer, commands.Refused)
    assert (answer.code, answer.hint) == ("not_found", "`relay approvals` lists those that wait")


def test_nothing_stays_open_once_the_agent_is_stopped(begin: Begin) -> None:
    daemon = begin(agent("shell", command="make release"))
    daemon.run(timers=False)
    daemon.command(commands.Stop)
    daemon.run_until_ended()
    assert open_ones(daemon) == []
