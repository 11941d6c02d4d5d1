"""The daemon is killed, and what it looked after changes before the next one comes."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from tests.crash.harness import Case, Losses, Trial, marked, zygote

SEED = int(os.environ.get("RELAY_CRASH_SEED", "1"))
WAITS = "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done"
BEGINS: dict[str, Any] = {"name": "Begin", "steps": [{"shell": WAITS}]}
FINISHES: dict[str, Any] = {
    "name": "Go on",
    "steps": [{"write": {"path": "third.txt", "content": "as told, once\n"}}],
}


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="relay-crash-", dir="/var/tmp")).resolve()
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def trial(folder: Path) -> AsyncIterator[Trial]:
    async with zygote() as starter:
        yield Trial(folder, starter)


async def killed_while_it_works(case: Case) -> str:
    """The daemon is dead and the agent at its first command; the session's id."""
    assert await case.start()
    assert await case.begin()
    sid = case.sids()[0]

    async def begun() -> bool:
        return (case.places.worktree(sid) / "begun.txt").exists()

    assert await case.until(begun), case.story()
    assert await case.kill()
    return sid


async def nobody_left(sid: str) -> None:
    with trio.fail_after(30):
        while marked([sid]):  # noqa: ASYNC110  (processes that are not ours)
            await trio.sleep(0.1)


def power_off(sids: list[str]) -> None:
    """Kill all that carries the mark of one of the sessions."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("RELAY_RUN", "").partition(".")[0] in sids:
                process.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue


def checked(case: Case, sid: str) -> Losses:
    losses = Losses()
    case.judge(losses, sid)
    losses.left += marked([sid])
    losses.check()
    return losses


async def test_an_agent_that_finished_and_ended_meanwhile(folder: Path) -> None:
    played = {"one": {"tasks": [BEGINS, {**FINISHES, "steps": [*FINISHES["steps"], {"exit": 0}]}]}, "two": {}}
    async with trial(folder) as tried:
        case = tried.case(scenarios=played)
        sid = await killed_while_it_works(case)
        (case.places.worktree(sid) / "go").touch()
        await nobody_left(sid)
        assert await case.life(), case.story()
        await case.end()
        record = case.record(sid)
        assert (record.state, record.verified, len(record.runs)) == ("COMPLETED", True, 1), case.story()
        checked(case, sid)


async def test_an_agent_that_crashed_meanwhile(folder: Path) -> None:
    fresh = {"tasks": [{"name": "Begin", "steps": []}, FINISHES]}
    played = {"one": {"tasks": [BEGINS, {"name": "Go on", "steps": [{"kill_self": "KILL"}]}]}, "two": fresh}
    async with trial(folder) as tried:
        case = tried.case(scenarios=played)
        sid = await killed_while_it_works(case)
        (case.places.worktree(sid) / "go").touch()
        await nobody_left(sid)
        assert await case.start()
        assert await case.over(), case.story()
        await case.settled()
        await case.end()
        assert case.record(sid).state == "COMPLETED", case.story()
        assert [entry.data["status"] for entry in case.entries(sid, "child_ended")][:1] == [137]
        assert case.entries(sid, "failure")
        checked(case, sid)


async def test_the_machine_was_switched_off(folder: Path) -> None:
    """Agent, shim and all are gone and have left no status: the session goes on, and says why."""
    async with trial(folder) as tried:
        case = tried.case(scenarios={"one": {"tasks": [BEGINS, FINISHES]}, "two": {}})
        sid = await killed_while_it_works(case)
        power_off([sid])
        await nobody_left(sid)
        (case.places.worktree(sid) / "go").touch()
        assert await case.life(), case.story()
        await case.end()
        record = case.record(sid)
        assert (record.state, record.verified) == ("COMPLETED", True), case.story()
        assert len(record.runs) > 1, case.story()
        assert [entry.data["status"] for entry in case.entries(sid, "child_ended")][:1] == [None]
        assert case.entries(sid, "failure"), case.story()
        checked(case, sid)


async def test_switched_off_at_random_instants(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was under way: the session comes to its end, and every event is there once."""
    losses = Losses()

    async def switched_off(tried: Trial, rng: random.Random) -> None:
        case = tried.case()
        lives = [rng.uniform(0.1, 1.5) for _ in range(2)]
        for life in lives:
            assert await case.start(), case.story()
            with trio.move_on_after(life):
                await case.begin()
                await case.over()
            losses.kills += await case.kill()
            await trio.to_thread.run_sync(power_off, list(case.places.session_ids()))
        assert await case.life(), case.story()
        await case.end()
        sid = case.sids()[0]
        record = case.record(sid)
        tried.sids.append(sid)
        case.judge(losses, f"switched off after {lives}")
        if record.state != "COMPLETED" or not record.verified:
            losses.different.append(f"switched off after {lives}: {case.story()}")

    async with trial(folder) as tried:
        rngs = [random.Random(SEED * 1000 + number) for number in range(6)]
        await tried.all([partial(switched_off, tried, rng) for rng in rngs])
        losses.left += tried.losses.left
    with capsys.disabled():
        print(f"\n  switched off: {losses.told()}")
    losses.check()


async def test_a_line_that_was_written_and_not_noted_is_taken_once(folder: Path) -> None:
    """The one window that stays open: the line comes again under its key, and agents know keys."""
    async with trial(folder) as tried:
        case = tried.case(scenarios={"one": {"tasks": [BEGINS, FINISHES]}, "two": {}})
        sid = await killed_while_it_works(case)
        noted = case.places.run(sid, 1) / "writes"
        assert noted.read_text() == "prompt\n"
        noted.write_text("")
        (case.places.worktree(sid) / "go").touch()
        assert await case.life(), case.story()
        await case.end()
        assert noted.read_text() == "prompt\n"
        assert case.outcome().told == ("1:prompt",)
        assert case.record(sid).state == "COMPLETED"
        checked(case, sid)


async def test_acceptance_commands_under_way_are_ended_and_run_again(folder: Path) -> None:
    runs = folder / "verify-runs"
    command = f"echo run >> {runs}; [ -e go ] || sleep 1000"
    async with trial(folder) as tried:
        case = tried.case(scenarios={"one": {"tasks": [FINISHES]}, "two": {}})
        assert await case.start()
        assert await case.begin(verify=[command])
        sid = case.sids()[0]

        async def under_way() -> bool:
            return runs.exists()

        assert await case.until(under_way), case.story()
        assert await case.kill()
        assert any("sleep 1000" in left for left in marked([sid]))
        (case.places.worktree(sid) / "go").touch()
        assert await case.life(), case.story()
        await case.end()
        assert runs.read_text() == "run\nrun\n"
        assert case.record(sid).verified
        checked(case, sid)


async def test_a_session_whose_beginning_was_cut_off_is_not_in_the_way_of_others(folder: Path) -> None:
    async with trial(folder) as tried:
        case = tried.case(scenarios={"one": {"tasks": [BEGINS, FINISHES]}, "two": {}})
        sid = await killed_while_it_works(case)
        # Its id sorts before that of any session with letters in it.
        cut_off = case.places.sessions / "s-000000"
        cut_off.mkdir()
        (case.places.worktree(sid) / "go").touch()
        assert await case.start()

        async def over() -> bool:
            return bool(case.record(sid).ended)

        assert await case.until(over), case.story()
        cut_off.rmdir()
        assert await case.settled()
        await case.end()
        assert case.record(sid).state == "COMPLETED"
        checked(case, sid)


async def test_twenty_live_sessions_are_followed_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 20
    async with trial(folder) as tried:
        case = tried.case(scenarios={"one": {"tasks": [BEGINS, FINISHES]}, "two": {}})
        assert await case.start()
        body = {"task": "Wait", "cwd": str(case.repo), "providers": ["scripted/one"], "allow": "all"}
        sids = [(await case.post("/api/sessions", body))["sessionId"] for _ in range(count)]

        async def begun() -> bool:
            return all((case.places.worktree(sid) / "begun.txt").exists() for sid in sids)

        assert await case.until(begun), case.story()
        assert await case.kill()
        since = trio.current_time()
        assert await case.start()
        up = trio.current_time() - since

        async def followed() -> bool:
            log = case.places.audit.read_text()
            return len(set(re.findall(r'"recovered":true.*?"session":"(s-\w+)"', log))) == count

        assert await case.until(followed), case.story()
        took = trio.current_time() - since
        with capsys.disabled():
            print(f"\n  {count} sessions followed again {took:.2f} s after the start, up in {up:.2f} s")
        for sid in sids:
            (case.places.worktree(sid) / "go").touch()

        async def over() -> bool:
            return case.ended()

        assert await case.until(over), case.story()
        await case.end()
        assert {case.record(sid).state for sid in sids} == {"COMPLETED"}, case.story()
        assert all(len(case.record(sid).runs) == 1 for sid in sids)
        assert marked(sids) == []
