"""Clearing away with a real daemon: what goes, what is kept and listed, and that nothing live is touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from tests.fakes.live import Live

WRITE = {"write": {"path": "made.txt", "content": "made\n"}}


async def collected(home: Live, **body: Any) -> dict[tuple[str, str], dict[str, Any]]:
    answer = await home.post("/api/gc", **body)
    assert answer["problems"] == []
    return {(item["kind"], item["session"]): item for item in answer["items"]}


async def test_output_goes_by_age_and_a_worktree_once_it_is_merged(home: Live) -> None:
    home.plays("one", WRITE)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one")
    view = await home.reach(sid, "COMPLETED")
    worktree = Path(view["worktree"])
    run = repository / ".relay" / "sessions" / sid / "run-1"

    async def wound_up() -> bool:
        return not (await collected(home, dryRun=True, keepDays=0))[("output", sid)]["why"].endswith(
            "redacted yet"
        )

    await home.until("its output is redacted", wound_up)
    young = await collected(home)
    assert not any(item["remove"] for item in young.values())
    assert "is not merged" in young[("worktree", sid)]["why"]
    assert young[("worktree", sid)]["hint"] == f"relay merge {sid}, or relay discard {sid}"

    dry = await collected(home, dryRun=True, keepDays=0)
    assert (dry[("output", sid)]["remove"], dry[("output", sid)]["removed"]) == (True, False)
    assert not dry[("worktree", sid)]["remove"]
    assert run.is_dir()

    first = await collected(home, keepDays=0)
    assert first[("output", sid)]["removed"]
    assert not run.exists()
    assert await trio.Path(worktree).is_dir()

    await home.post(f"/api/sessions/{sid}/merge")
    (worktree / "later.txt").write_text("somebody went on here\n")
    assert "later.txt" in (await collected(home, keepDays=0))[("worktree", sid)]["why"]
    (worktree / "later.txt").unlink()
    second = await collected(home, keepDays=0)
    assert second[("worktree", sid)]["removed"]
    assert not await trio.Path(worktree).exists()
    assert (repository / "made.txt").read_text() == "made\n"
    assert sid in home.git(repository, "branch", "--list", f"relay/{sid}")

    third = await collected(home, keepDays=0)
    assert third[("snapshots", sid)]["removed"]
    assert home.git(repository, "for-each-ref", "refs/relay") == ""
    assert await collected(home, keepDays=0) == {}
    assert (await home.get(f"/api/sessions/{sid}"))["fsmState"] == "COMPLETED"
    assert (await home.get("/api/audit/verify", session=sid))["ok"]
    events = [entry for entry in await home.get("/api/events") if entry["type"] == "gc"]
    assert [len(event["data"]["removed"]) for event in events] == [1, 1, 1]
    await home.stop()


async def test_a_live_session_and_what_is_not_known_are_left_alone(home: Live, tmp_path: Path) -> None:
    release = tmp_path / "release"
    home.plays("one", {"shell": f"while [ ! -e {release} ]; do sleep 0.05; done"}, WRITE)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    await home.reach(sid, "RUNNING")
    strange = home.state / "fifo" / "s-unknown1.1"
    os.mkfifo(strange)
    fresh, stale = (
        repository / ".relay" / name
        for name in (".relay.toml.0123456789ab.tmp", ".relay.toml.0123456789ac.tmp")
    )
    fresh.write_text("x")
    stale.write_text("x")
    os.utime(stale, (1, 1))

    found = await collected(home, keepDays=0)

    assert ("output", sid) not in found
    assert ("worktree", sid) not in found
    assert found[("fifo", sid)]["why"] == "its session is under way"
    assert found[("fifo", "s-unknown1")]["why"] == "its session is not known"
    assert strange.exists()
    assert (fresh.exists(), stale.exists()) == (True, False)
    release.touch()
    assert (await home.reach(sid, "COMPLETED"))["verified"] is None
    await home.stop()


async def test_the_command_lists_and_clears(home: Live) -> None:
    home.plays("one", WRITE)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one")
    await home.reach(sid, "COMPLETED")

    async def wound_up() -> bool:
        items = await collected(home, dryRun=True, keepDays=0)
        return bool(items[("output", sid)]["remove"])

    await home.until("its output is redacted", wound_up)
    dry = await home.cli("gc", "--dry-run", "--older-than", "0", cwd=repository)
    told = dry.stdout.decode()
    assert dry.returncode == 0, dry.stderr
    assert "would go" in told
    assert "run-1" in told
    assert f"relay merge {sid}" in told
    done = await home.cli("gc", "--older-than", "0", cwd=repository)
    assert "given back" in done.stdout.decode()
    again = await home.cli("gc", "--older-than", "0", cwd=repository)
    assert "nothing is to be cleared away" in again.stdout.decode()
    await home.stop()


@pytest.mark.parametrize("moment", ["before", "after", "reported"])
async def test_a_daemon_killed_while_it_clears_away_ends_it_later(home: Live, moment: str) -> None:
    home.plays("one", WRITE)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one")
    await home.reach(sid, "COMPLETED")
    run = repository / ".relay" / "sessions" / sid / "run-1"

    async def wound_up() -> bool:
        items = await collected(home, dryRun=True, keepDays=0)
        return bool(items[("output", sid)]["remove"])

    await home.until("its output is redacted", wound_up)
    await home.stop()
    home.more_env["RELAY_KILL_AT"] = f"CollectGarbage:{moment}:1"
    await home.start()
    with pytest.raises(httpx2.HTTPError):
        await home.post("/api/gc", keepDays=0)
    assert await home.ended() == -9
    assert run.exists() == (moment == "before")
    del home.more_env["RELAY_KILL_AT"]
    await home.start()
    found = await collected(home, keepDays=0)
    assert [item["removed"] for key, item in found.items() if key == ("output", sid)] == [True] * (
        moment == "before"
    )
    assert not run.exists()
    assert (await home.get(f"/api/sessions/{sid}"))["fsmState"] == "COMPLETED"
    assert (await home.get("/api/audit/verify", session=sid))["ok"]
    await home.stop()
