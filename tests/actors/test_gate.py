"""The safe point: an agent is stopped between tool calls, and events flow while it is awaited."""

from __future__ import annotations

from relay.core import commands
from relay.core.fsm import State
from tests.fakes.agents import WORKS, Agent, Hang, Work, ask, call, done, result, text
from tests.fakes.port import BETA, Begin, Daemon

IN_A_CALL = Agent(turns=((call("c"), Hang(), text("half-way"), Hang(), Work(), result("c"), done()),))


def to_the_call(daemon: Daemon) -> None:
    """The agent runs, and its call is open."""
    daemon.run_until("RUNNING")
    assert [event["kind"] for event in daemon.world.entries("agent_event")][-1] == "tool_call"


def test_it_waits_for_the_result_of_the_open_call_while_events_flow(begin: Begin) -> None:
    daemon = begin(IN_A_CALL, WORKS)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    daemon.run(timers=False)
    process = daemon.world.runs[("s-1", 1)]
    assert daemon.world.record().state is State.PAUSING
    assert daemon.world.entries("gate") == []
    process.go_on()
    daemon.run(timers=False)
    assert [event["kind"] for event in daemon.world.entries("agent_event")][-1] == "text"
    assert process.alive
    process.go_on()
    daemon.run_until_ended()
    assert daemon.world.entries("gate") == [{"run": 1, "forced": False}]
    assert daemon.world.record().handoffs == 1


def test_past_the_deadline_it_forces(begin: Begin) -> None:
    daemon = begin(IN_A_CALL, WORKS, pause_deadline=30.0)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    asked = daemon.world.now
    daemon.run_until("SNAPSHOTTED")
    assert daemon.world.entries("gate") == [{"run": 1, "forced": True}]
    assert 30 <= (daemon.world.now - asked).total_seconds() < 31
    assert daemon.world.entries("child_gone")[0]["how"] == "input"


def test_an_agent_that_does_not_heed_the_interrupt_is_ended(begin: Begin) -> None:
    stubborn = Agent(turns=((call("c"), Hang()),), stubborn=True, last_words=(text("Ended!"),))
    daemon = begin(stubborn, WORKS)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    daemon.run_until_ended()
    assert daemon.world.entries("child_gone")[0]["how"] == "TERM"
    assert set(daemon.world.printed()) <= set(daemon.world.journaled())


def test_an_agent_that_has_ended_is_at_a_safe_point(begin: Begin) -> None:
    daemon = begin(IN_A_CALL, WORKS)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    daemon.run(timers=False)
    daemon.world.runs[("s-1", 1)].kill(137)
    asked = daemon.world.now
    daemon.run_until("SNAPSHOTTED")
    assert (daemon.world.now - asked).total_seconds() < 1


def test_between_two_calls_it_passes_at_once(begin: Begin) -> None:
    daemon = begin(Agent(turns=((call("c"), result("c"), Hang(), done()),)), WORKS)
    daemon.run_until("RUNNING")
    daemon.command(commands.HandOff)
    daemon.run_until_ended()
    assert daemon.world.entries("gate") == [{"run": 1, "forced": False}]


def test_a_permission_that_is_pending_at_the_gate_is_denied(begin: Begin) -> None:
    asks = Agent(turns=((call("c"), ask("c", "shell", command="make release"), done()),))
    daemon = begin(asks, WORKS)
    daemon.run_until("RUNNING")
    daemon.command(commands.HandOff)
    daemon.run_until_ended()
    results = [event for event in daemon.world.entries("agent_event") if event["kind"] == "tool_result"]
    assert results[0]["denied"] is True
    assert results[0]["output"] == "denied Relay is handing this task over; do not go on."
    assert daemon.world.entries("gate") == [{"run": 1, "forced": False}]


def test_a_permission_asked_for_while_the_gate_waits_is_denied(begin: Begin) -> None:
    asks = Agent(turns=((call("c"), Hang(), call("d"), ask("d", "shell", command="x"), result("c"), done()),))
    daemon = begin(asks, WORKS)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    daemon.run(timers=False)
    daemon.world.runs[("s-1", 1)].go_on()
    daemon.run(timers=False)
    results = [event for event in daemon.world.entries("agent_event") if event["kind"] == "tool_result"]
    assert [event["callId"] for event in results if event.get("denied")] == ["d"]


def test_after_a_restart_the_gate_knows_the_open_call(begin: Begin) -> None:
    daemon = begin(IN_A_CALL, WORKS)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    daemon.run(timers=False)
    daemon.crash()
    daemon.run(timers=False)
    assert daemon.world.record().state is State.PAUSING
    assert daemon.world.entries("gate") == []
    daemon.world.runs[("s-1", 1)].go_on()
    daemon.world.runs[("s-1", 1)].act()
    daemon.world.runs[("s-1", 1)].act()
    daemon.world.runs[("s-1", 1)].go_on()
    daemon.run_until_ended()
    assert daemon.world.entries("gate") == [{"run": 1, "forced": False}]


def test_a_pause_holds_until_it_is_resumed_with_the_same_agent(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), Hang(), done()),)), WORKS)
    daemon.run_until("RUNNING")
    daemon.command(commands.Pause)
    daemon.run()
    held = daemon.world.record()
    assert (held.state, held.hold, held.wait_reason) == (State.WAITING, True, "paused by tester")
    assert daemon.world.alive() == []
    daemon.command(commands.Resume)
    daemon.run_until_ended()
    runs = daemon.world.record().runs
    assert runs[0].target == runs[1].target
    assert runs[1].native_resume


def test_a_pause_that_comes_in_the_middle_of_a_handoff_holds_too(begin: Begin) -> None:
    daemon = begin(IN_A_CALL, WORKS)
    to_the_call(daemon)
    daemon.command(commands.HandOff)
    daemon.run(lambda: daemon.world.states()[-1] == "SNAPSHOTTED")
    daemon.command(commands.Pause)
    daemon.run()
    assert daemon.world.record().state is State.WAITING
    assert daemon.world.record().hold


def test_stop_ends_the_agent_and_keeps_its_work(begin: Begin) -> None:
    daemon = begin(Agent(turns=((Work(), text("a"), Hang()),)))
    daemon.run_until("RUNNING")
    daemon.command(commands.Stop)
    daemon.run_until_ended()
    record = daemon.world.record()
    assert (record.state, record.end_reason) == (State.STOPPED, "stopped by tester")
    assert record.snapshot_commit == "s-1-w1"
    assert daemon.world.alive() == []
    late = daemon.command(commands.Pause)
    daemon.run()
    assert isinstance(daemon.answers[late], commands.Refused)


def test_a_handoff_to_a_named_agent_goes_there(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), Hang()),)), WORKS, chain=(BETA,))
    daemon.run_until("RUNNING")
    refused = daemon.command(commands.HandOff)
    assert isinstance(daemon.answers[refused], commands.Refused)
    daemon.command(commands.HandOff, to=BETA)
    daemon.run_until_ended()
    assert [str(run.target) for run in daemon.world.record().runs] == ["beta", "beta"]


def test_a_reply_reaches_a_working_agent_and_one_that_has_yet_to_start(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), Hang(), done()), (done("b"),))), WORKS)
    daemon.run_until("RUNNING")
    daemon.command(commands.Reply, text="mind the tests")
    daemon.run(timers=False)
    daemon.world.runs[("s-1", 1)].go_on()
    daemon.run_until_ended()
    assert daemon.world.runs[("s-1", 1)].told == ["build it", "mind the tests"]


def test_a_reply_to_a_paused_session_is_told_when_it_goes_on(begin: Begin) -> None:
    daemon = begin(Agent(turns=((text("a"), Hang(), done()),)), WORKS)
    daemon.run_until("RUNNING")
    daemon.command(commands.Pause)
    daemon.run()
    daemon.command(commands.Reply, text="use the other module")
    daemon.run_until_ended()
    assert daemon.world.openings[("s-1", 2)][0].endswith("use the other module")
