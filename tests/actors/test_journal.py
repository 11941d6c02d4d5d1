"""The journal: numbers, one append at a time, logs that can't be written, and what the hub may show."""

from __future__ import annotations

from relay.actors import messages
from relay.core import commands, effects
from tests.fakes.agents import HITS_LIMIT, WORKS
from tests.fakes.port import Begin, Daemon
from tests.fakes.world import NOON, FakeWorld, Fault


def entry(repository: str, number: int) -> effects.JournalEntry:
    return effects.JournalEntry(repository=repository, session="s", type="note", at=NOON, data={"n": number})


def record(daemon: Daemon, repository: str, number: int) -> None:
    daemon.runtime.ask_root(messages.RecordEvent(entry=entry(repository, number)))


def idle(world: FakeWorld) -> Daemon:
    daemon = Daemon(world).start()
    daemon.run(timers=False)
    return daemon


def numbers(entries: list[effects.JournalEntry]) -> list[int]:
    return [e.data["n"] for e in entries if "n" in e.data]


def appends(world: FakeWorld) -> list[effects.AppendAudit]:
    return [effect for effect in world.performed if isinstance(effect, effects.AppendAudit)]


def problem(daemon: Daemon) -> str:
    """What a client is told holds up the only session."""
    answer = daemon.answers[daemon.ask_root(messages.DescribeSessions)]
    assert isinstance(answer, commands.Accepted)
    told: str = answer.data["sessions"][0]["live"]["problem"]
    return told


def test_what_comes_while_an_append_is_under_way_goes_into_the_next() -> None:
    world = FakeWorld()
    daemon = idle(world)
    for number in range(10):
        record(daemon, "/a", number)
    daemon.run(timers=False)
    assert [len(append.entries) for append in appends(world)] == [1, 9]
    assert numbers(world.audit["/a"]) == list(range(10))
    assert [e.seq for e in world.shown] == list(range(1, 11))
    daemon.close()


def test_nothing_is_shown_before_it_is_durable() -> None:
    world = FakeWorld()
    daemon = idle(world)
    record(daemon, "/a", 1)
    while steps := [step for step in daemon.steps() if step.kind != "timer"]:
        assert len(world.shown) <= len(world.audit["/a"])
        daemon.take(steps[0])
    assert numbers(world.shown) == [1]
    daemon.close()


def test_a_log_that_cannot_be_written_keeps_its_entries_while_others_go_on() -> None:
    world = FakeWorld(unwritable={"/full"})
    daemon = idle(world)
    for number in range(3):
        record(daemon, "/full", number)
        record(daemon, "/good", number)
        daemon.run(timers=False)
    assert numbers(world.audit["/good"]) == [0, 1, 2]
    assert world.audit["/full"] == []
    for _ in range(5):
        daemon.take(daemon.steps()[-1])
        daemon.run(timers=False)
    assert numbers(world.audit["/good"]) == [0, 1, 2]
    world.unwritable.clear()
    record(daemon, "/full", 3)
    daemon.run()
    assert numbers(world.audit["/full"]) == [0, 1, 2, 3]
    assert [e.seq for e in world.shown] == sorted({e.seq for e in world.shown})
    daemon.close()


def test_an_append_that_fails_as_a_whole_is_tried_again_in_order() -> None:
    world = FakeWorld()
    daemon = idle(world)
    world.faults["AppendAudit"] = [Fault("internal"), Fault("internal")]
    for number in range(4):
        record(daemon, "/a", number)
    daemon.run()
    assert numbers(world.audit["/a"]) == [0, 1, 2, 3]
    assert numbers(world.shown) == [0, 1, 2, 3]
    daemon.close()


def test_numbers_are_never_given_twice_across_a_restart() -> None:
    world = FakeWorld()
    daemon = idle(world)
    record(daemon, "/a", 0)
    daemon.run()
    daemon.crash()
    record(daemon, "/a", 1)
    daemon.run()
    first, second = (e.seq for e in world.audit["/a"])
    assert second > first
    daemon.close()


def test_entries_wait_for_numbers_that_cannot_be_reserved() -> None:
    world = FakeWorld()
    world.faults["ReserveSequence"] = [Fault(), Fault()]
    daemon = idle(world)
    record(daemon, "/a", 0)
    daemon.run()
    assert numbers(world.audit["/a"]) == [0]
    daemon.close()


def test_transitions_are_flushed_to_the_disk(begin: Begin) -> None:
    daemon = begin(HITS_LIMIT, WORKS)
    daemon.run_until_ended()
    for append in appends(daemon.world):
        assert append.sync or all(e.type != "fsm" for e in append.entries)


def test_a_session_leaves_no_run_before_its_events_are_in_the_log(begin: Begin) -> None:
    world = FakeWorld()
    daemon = begin(HITS_LIMIT, WORKS, world=world)
    daemon.run(lambda: world.states()[-1:] == ["RUNNING"])
    world.unwritable.add("/repo")
    for _ in range(300):
        daemon.take(daemon.steps()[0])
    assert world.record().state in ("RUNNING", "PAUSING")
    assert problem(daemon) == "the audit log can't be written: read-only"
    world.unwritable.clear()
    daemon.run_until_ended()
    assert problem(daemon) == ""
    assert set(world.journaled()) == world.printed()
