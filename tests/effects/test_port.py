"""The effects port keeps the order in which effects of one session were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import field, frozen

from relay.core import effects, reports
from relay.core.chain import Target
from relay.core.record import Options, SessionRecord
from relay.effects import port
from relay.effects.port import EffectsPort
from relay.errors import DiskFullError

NOW = datetime(2030, 6, 1, tzinfo=UTC)


@frozen
class Surroundings:
    """As much of a world as the port itself needs."""

    env: Mapping[str, str] = field(factory=dict)

    def clock(self) -> datetime:
        return NOW


def save(number: int, sid: str = "s-1") -> effects.SaveSession:
    options = Options(goal="build it", chain=(Target(provider="alpha"),))
    record = SessionRecord(
        sid=sid,
        repository="/repo",
        worktree="/tree",
        branch="",
        options=options,
        created_at=NOW,
        updated_at=NOW,
    )
    return effects.SaveSession(key=f"save:{number}", record=record)


async def answers(monkeypatch: pytest.MonkeyPatch, handler: Any, wanted: list[effects.Effect]) -> list[Any]:
    """What the port answers when these are asked for in one turn of the loop."""
    monkeypatch.setitem(port._HANDLERS, effects.SaveSession, handler)  # type: ignore[arg-type]
    told: list[Any] = []
    async with trio.open_nursery() as nursery:
        effects_port = EffectsPort(Surroundings(), nursery, lambda _, report: told.append(report))  # type: ignore[arg-type]
        for effect in wanted:
            effects_port.perform(effect, "somebody")
    return told


async def test_saves_of_a_session_are_done_one_by_one_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: list[str] = []
    order: list[str] = []

    async def handler(world: Any, effect: effects.SaveSession) -> reports.SessionSaved:
        assert under_way == []
        under_way.append(effect.key)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        under_way.clear()
        order.append(effect.key)
        return reports.SessionSaved(key=effect.key, at=NOW)

    wanted = [save(number) for number in range(30)]
    told = await answers(monkeypatch, handler, list(wanted))
    assert order == [effect.key for effect in wanted]
    assert [report.key for report in told] == order


async def test_sessions_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    second = trio.Event()

    async def handler(world: Any, effect: effects.SaveSession) -> reports.SessionSaved:
        if effect.record.sid == "s-2":
            second.set()
        await second.wait()
        return reports.SessionSaved(key=effect.key, at=NOW)

    told = await answers(monkeypatch, handler, [save(1), save(2, "s-2")])
    assert len(told) == 2


async def test_one_that_fails_is_answered_and_the_next_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(world: Any, effect: effects.SaveSession) -> reports.SessionSaved:
        if effect.key == "save:0":
            raise DiskFullError("no space is left", hint="make room")
        return reports.SessionSaved(key=effect.key, at=NOW)

    told = await answers(monkeypatch, handler, [save(0), save(1)])
    assert told == [
        reports.EffectFailed(
            key="save:0",
            at=NOW,
            effect="SaveSession",
            code="disk_full",
            message="no space is left",
            hint="make room",
        ),
        reports.SessionSaved(key="save:1", at=NOW),
    ]


async def test_every_moment_of_an_effect_is_a_point_to_be_killed_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Were one left out, the tests that kill the daemon would try less and say nothing of it."""

    async def handler(world: Any, effect: effects.SaveSession) -> reports.SessionSaved:
        return reports.SessionSaved(key=effect.key, at=NOW)

    monkeypatch.setitem(port._HANDLERS, effects.SaveSession, handler)  # type: ignore[arg-type]
    points = tmp_path / "points"
    world = Surroundings(env={"RELAY_KILL_AT": f"list:{points}"})
    async with trio.open_nursery() as nursery:
        effects_port = EffectsPort(world, nursery, lambda _, report: None)  # type: ignore[arg-type]
        effects_port.perform(save(1), "somebody")
    assert points.read_text().split() == [
        "SaveSession:before:1",
        "SaveSession:after:1",
        "SaveSession:reported:1",
    ]
