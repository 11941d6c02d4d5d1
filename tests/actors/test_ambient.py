"""The ambient detector: each session is announced once, whatever is restarted in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay.actors.runtime import Runtime
from relay.core import effects, reports

NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)


class Machine:
    """The durable outside (file and log), and one life of the actors after the other."""

    def __init__(self) -> None:
        self.now = NOON
        self.sessions: dict[str, bool] = {}
        self.saved: tuple[str, ...] | None = None
        self.log: list[effects.JournalEntry] = []
        self.wanted: list[tuple[Any, Any]] = []
        self.timers: list[tuple[effects.SetTimer, Any]] = []
        self.failing: set[str] = set()
        self.save_lost = False
        self.runtime: Runtime | None = None

    def start(self, seconds: float = 30) -> None:
        self.stop()
        self.runtime = Runtime(lambda effect, sender: self.wanted.append((effect, sender)), lambda _: None)
        self.runtime.begin(self.now, {}, ambient_seconds=seconds)
        self.settle()

    def stop(self) -> None:
        if self.runtime is not None:
            self.runtime.shutdown()
        self.wanted.clear()
        self.timers.clear()

    def settle(self) -> None:
        """Do what is wanted until nothing is."""
        while self.wanted:
            effect, sender = self.wanted.pop(0)
            report = self.perform(effect, sender)
            if report is not None:
                assert self.runtime is not None
                self.runtime.tell(sender, report)

    def perform(self, effect: Any, sender: Any) -> Any:
        key, at = getattr(effect, "key", ""), self.now
        if type(effect).__name__ in self.failing:
            name = type(effect).__name__
            return reports.EffectFailed(key=key, at=at, effect=name, code="store", message="the disk")
        match effect:
            case effects.LoadAmbient():
                announced = [str(entry.data["key"]) for entry in self.log if entry.type == "ambient"]
                known = None if self.saved is None else (*self.saved, *announced)
                return reports.AmbientLoaded(key=key, at=at, known=known)
            case effects.SaveAmbient():
                self.saved = self.saved if self.save_lost else effect.known
                return None
            case effects.SurveyAgents():
                fresh = tuple(
                    reports.AgentSeen(key=name, view={"id": name, "key": name}, announce=announce)
                    for name, announce in self.sessions.items()
                    if name not in effect.known and not effect.first
                )
                return reports.AgentsSurveyed(key=key, at=at, seen=tuple(self.sessions), fresh=fresh)
            case effects.SetTimer():
                self.timers.append((effect, sender))
            case effects.ReserveSequence():
                return reports.SequenceReserved(key=key, at=at, first=1, end=1 + effect.count)
            case effects.AppendAudit():
                self.log.extend(effect.entries)
                return reports.AuditAppended(key=key, at=at)
            case effects.LoadBreakers():
                return reports.BreakersLoaded(key=key, at=at, breakers=())
            case effects.ListUnfinished():
                return reports.UnfinishedListed(key=key, at=at, sessions=())
        return None

    def tick(self, seconds: float = 31) -> None:
        self.now += timedelta(seconds=seconds)
        due = [each for each in self.timers if each[0].at <= self.now]
        self.timers = [each for each in self.timers if each not in due]
        assert self.runtime is not None
        for timer, sender in due:
            self.runtime.tell(sender, reports.TimerFired(key=timer.key, at=self.now))
        self.settle()

    @property
    def announced(self) -> list[str]:
        return [str(entry.data["key"]) for entry in self.log if entry.type == "ambient"]


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.stop()


def test_what_was_there_before_is_not_announced_and_what_comes_is_once(machine: Machine) -> None:
    machine.sessions = {"old": True}
    machine.start()
    machine.tick()
    assert machine.announced == []

    machine.sessions["new"] = True
    for _ in range(3):
        machine.tick()
    assert machine.announced == ["new"]


def test_nothing_is_announced_again_after_a_restart(machine: Machine) -> None:
    machine.start()
    machine.sessions["new"] = True
    machine.tick()
    machine.start()
    machine.tick()
    machine.sessions["newer"] = True
    machine.tick()
    assert machine.announced == ["new", "newer"]


def test_nothing_is_announced_again_when_only_the_log_was_written(machine: Machine) -> None:
    machine.start()
    machine.save_lost = True
    machine.sessions["new"] = True
    machine.tick()
    machine.start()
    machine.tick()
    assert machine.announced == ["new"]


def test_what_comes_while_no_daemon_runs_is_announced_by_the_next(machine: Machine) -> None:
    machine.start()
    machine.stop()
    machine.sessions["meanwhile"] = True
    machine.start()
    assert machine.announced == ["meanwhile"]


def test_relays_own_sessions_are_not_announced(machine: Machine) -> None:
    machine.start()
    machine.sessions["own"] = False
    machine.tick()
    assert machine.announced == []
    assert "own" in (machine.saved or ())


def test_switched_off_it_does_not_look(machine: Machine) -> None:
    machine.start(seconds=0)
    machine.sessions["new"] = True
    machine.tick(3600)
    assert (machine.announced, machine.saved) == ([], None)


@pytest.mark.parametrize("failing", ["LoadAmbient", "SurveyAgents"])
def test_it_looks_again_after_a_failure(machine: Machine, failing: str) -> None:
    machine.start()
    machine.failing = {failing}
    machine.start()
    machine.tick(3600)
    machine.failing = set()
    machine.sessions["new"] = True
    machine.tick(3600)
    machine.tick(3600)
    assert machine.announced == ["new"]
