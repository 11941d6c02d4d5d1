"""The housekeeper: soon after the start, then every day, also when it could not be done; never when off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay.actors.runtime import Runtime
from relay.core import effects, reports

NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)


class House:
    """The world outside: what is asked of it to be cleared away, and the timers."""

    def __init__(self) -> None:
        self.now = NOON
        self.wanted: list[tuple[Any, Any]] = []
        self.timers: list[tuple[effects.SetTimer, Any]] = []
        self.asked: list[tuple[datetime, effects.CollectGarbage]] = []
        self.log: list[effects.JournalEntry] = []
        self.items: tuple[reports.GarbageItem, ...] = ()
        self.failing = False
        self.runtime = Runtime(lambda effect, sender: self.wanted.append((effect, sender)), lambda _: None)

    def start(self, **settings: Any) -> None:
        self.runtime.begin(self.now, {}, **settings)
        self.settle()

    def settle(self) -> None:
        while self.wanted:
            effect, sender = self.wanted.pop(0)
            report = self.perform(effect, sender)
            if report is not None:
                self.runtime.tell(sender, report)

    def perform(self, effect: Any, sender: Any) -> Any:
        key, at = getattr(effect, "key", ""), self.now
        match effect:
            case effects.CollectGarbage():
                self.asked.append((at, effect))
                if self.failing:
                    return reports.EffectFailed(
                        key=key, at=at, effect="CollectGarbage", code="store", message="no"
                    )
                return reports.GarbageCollected(key=key, at=at, items=self.items, dry_run=effect.dry_run)
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

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)
        due = [each for each in self.timers if each[0].at <= self.now]
        self.timers = [each for each in self.timers if each not in due]
        for timer, sender in due:
            self.runtime.tell(sender, reports.TimerFired(key=timer.key, at=self.now))
        self.settle()

    @property
    def told(self) -> list[dict[str, Any]]:
        return [dict(entry.data) for entry in self.log if entry.type == "gc"]


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.runtime.shutdown()


def item(number: int, *, removed: bool = True) -> reports.GarbageItem:
    return reports.GarbageItem(
        kind="output",
        path=f"/r/run-{number}",
        session="s-1",
        repository="/r",
        bytes=10,
        remove=True,
        removed=removed,
        why="over",
    )


def test_it_is_done_soon_after_the_start_and_then_every_day(house: House) -> None:
    house.start(gc_enabled=True, gc_keep_days=3.0, gc_output_max_mb=7.0)
    house.wait(seconds=100)
    assert house.asked == []
    house.wait(seconds=30)
    for _ in range(3):
        house.wait(hours=23)
        house.wait(hours=1)
    assert [at - NOON for at, _ in house.asked] == [timedelta(seconds=130, days=days) for days in range(4)]
    wanted = {(each.dry_run, each.keep_days, each.output_max_bytes) for _, each in house.asked}
    assert wanted == {(False, 3.0, 7 * 2**20)}


def test_a_day_on_which_it_fails_is_followed_by_the_next(house: House) -> None:
    house.start(gc_enabled=True)
    house.failing = True
    house.wait(minutes=3)
    house.failing = False
    house.wait(days=1)
    assert len(house.asked) == 2


def test_switched_off_it_is_done_only_when_asked_for(house: House) -> None:
    house.start(gc_enabled=False)
    house.wait(days=30)
    assert house.asked == []


def test_what_was_done_is_told_in_bounds(house: House) -> None:
    house.items = (*(item(number) for number in range(250)), item(999, removed=False))
    house.start(gc_enabled=True)
    house.wait(minutes=3)
    [told] = house.told
    assert (told["count"], told["bytes"], len(told["removed"])) == (250, 2500, 100)


def test_nothing_is_told_when_nothing_was_done(house: House) -> None:
    house.items = (item(1, removed=False),)
    house.start(gc_enabled=True)
    house.wait(minutes=3)
    assert house.told == []
