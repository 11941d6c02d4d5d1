"""Sessions whose files something else harms: a defined end, the work is kept, and it is said."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.fakes.live import ENDED, Live

MADE = {"write": {"path": "made.txt", "content": "made\n"}}
LATER = {"write": {"path": "later.txt", "content": "later\n"}}


def waiting(release: Path) -> dict[str, Any]:
    return {"shell": f"while [ ! -e {release} ]; do sleep 0.05; done"}


@asynccontextmanager
async def running(home: Live, tmp_path: Path) -> AsyncIterator[tuple[Path, str, Path]]:
    """A session whose agent has made one file and waits: repository, session, and what lets it go on."""
    release = tmp_path / "release"
    home.plays("one", MADE, waiting(release), LATER)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    made = repository / ".relay" / "worktrees" / sid / "made.txt"

    async def there() -> bool:
        return await trio.Path(made).exists()

    await home.until("the agent made its file", there)
    yield repository, sid, release
    await home.stop()


async def over(home: Live, sid: str) -> dict[str, Any]:
    async def ended() -> Any:
        view = await home.get(f"/api/sessions/{sid}")
        return view if view["fsmState"] in ENDED else None

    return dict(await home.until(f"{sid} is over", ended))


async def notes(home: Live, sid: str) -> str:
    events = await home.get(f"/api/sessions/{sid}/events")
    return json.dumps([event["data"] for event in events])


def committed(home: Live, repository: Path, sid: str) -> set[str]:
    return set(home.git(repository, "ls-tree", "--name-only", f"relay/{sid}").split())


async def test_a_worktree_that_is_removed_while_its_agent_works(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
        await home.post(f"/api/sessions/{sid}/pause")
        release.touch()
        await home.reach(sid, "WAITING")
        worktree = repository / ".relay" / "worktrees" / sid
        shutil.rmtree(worktree)
        await home.post(f"/api/sessions/{sid}/resume")

        view = await over(home, sid)

        assert view["fsmState"] == "COMPLETED", view["endReason"]
        assert {"made.txt", "later.txt"} <= committed(home, repository, sid)
        assert "was gone and was made again" in await notes(home, sid)


async def test_a_worktree_that_is_removed_under_a_running_agent(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
        shutil.rmtree(repository / ".relay" / "worktrees" / sid)
        release.touch()

        view = await over(home, sid)

        assert view["fsmState"] in ("COMPLETED", "FAILED")
        assert "was gone and was made again from the last snapshot" in await notes(home, sid)
        assert (repository / ".relay" / "worktrees" / sid / "README.md").exists()


async def test_a_session_branch_that_is_moved_by_hand(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
        home.git(repository, "update-ref", f"refs/heads/relay/{sid}", "HEAD")
        release.touch()

        view = await over(home, sid)

        assert view["fsmState"] == "COMPLETED", view["endReason"]
        assert {"made.txt", "later.txt"} <= committed(home, repository, sid)


async def test_a_repository_that_is_moved_while_no_daemon_runs(home: Live, tmp_path: Path) -> None:
    release = tmp_path / "release"
    home.plays("one", MADE, waiting(release), LATER)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    await home.post(f"/api/sessions/{sid}/pause")
    release.touch()
    await home.reach(sid, "WAITING")
    await home.stop()
    elsewhere = repository.with_name("moved")
    repository.rename(elsewhere)

    await home.start()
    assert await home.get("/api/sessions") == []
    status, error = await home.refused(f"/api/sessions/{sid}/resume")
    assert (status, error["code"]) == (404, "not_found")
    await home.stop()

    elsewhere.rename(repository)
    await home.start()
    await home.post(f"/api/sessions/{sid}/resume")
    assert (await over(home, sid))["fsmState"] == "COMPLETED"
    assert {"made.txt", "later.txt"} <= committed(home, repository, sid)
    await home.stop()


STATES = {
    "of NULs": b"\0" * 500,
    "empty": b"",
    "cut off": b'{"version": 1, "sid": "s-',
    "no JSON": b"hello\n",
}


@pytest.mark.parametrize("content", STATES.values(), ids=STATES.keys())
async def test_a_state_file_that_is_damaged_is_answered_from_the_one_before(
    home: Live, tmp_path: Path, content: bytes
) -> None:
    release = tmp_path / "release"
    home.plays("one", MADE, waiting(release), LATER)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    await home.reach(sid, "RUNNING")
    await home.stop()
    (repository / ".relay" / "sessions" / sid / "fsm.json").write_bytes(content)

    await home.start()
    release.touch()

    assert (await over(home, sid))["fsmState"] == "COMPLETED"
    assert {"made.txt", "later.txt"} <= committed(home, repository, sid)
    await home.stop()


async def test_a_state_file_of_a_newer_relay_is_left_alone_and_named(home: Live, tmp_path: Path) -> None:
    release = tmp_path / "release"
    home.plays("one", MADE, waiting(release), LATER)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    await home.reach(sid, "RUNNING")
    await home.stop()
    path = repository / ".relay" / "sessions" / sid / "fsm.json"
    newer = json.dumps({**json.loads(path.read_bytes()), "version": 99})
    path.write_text(newer)

    await home.start()

    async def said() -> bool:
        events = await home.get("/api/events")
        return any("version 99" in json.dumps(event["data"]) for event in events)

    await home.until("the newer version is named", said)
    assert path.read_text() == newer
    doctor = await home.cli("doctor", "--json", cwd=repository)
    assert any(
        check["check"] == "sessions" and check["status"] == "error" for check in json.loads(doctor.stdout)
    )
    release.touch()
    await home.stop()


async def test_a_torn_end_of_the_log_is_cut_off_and_said(home: Live, tmp_path: Path) -> None:
    release = tmp_path / "release"
    home.plays("one", MADE, waiting(release), LATER)
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    await home.reach(sid, "RUNNING")
    await home.kill()
    log = repository / ".relay" / "audit.jsonl"
    with log.open("ab") as file:
        file.write(b'{"seq": 9999, "ts": "20')

    await home.start()
    release.touch()

    assert (await over(home, sid))["fsmState"] == "COMPLETED"
    verdict = await home.get("/api/audit/verify", session=sid)
    assert verdict["ok"]
    assert any("torn" in note or "cut" in note or "incomplete" in note for note in verdict["notes"])
    await home.stop()


async def test_a_lock_of_git_that_somebody_holds_is_waited_for(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
        admin = repository / ".git" / "worktrees" / sid
        lock = admin / "index.lock"
        lock.write_text("held by another program")
        release.touch()

        async def named() -> bool:
            view = await home.get(f"/api/sessions/{sid}")
            return "index.lock" in json.dumps(view)

        await home.until("the lock is named", named)
        assert lock.exists()
        lock.unlink()

        assert (await over(home, sid))["fsmState"] == "COMPLETED"
        assert {"made.txt", "later.txt"} <= committed(home, repository, sid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
async def test_a_disk_that_is_full_for_a_while(home: Live, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = await trio.run_process(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=False, capture_stderr=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small disk can't be mounted here")
    try:
        release = tmp_path / "release"
        home.plays("one", MADE, waiting(release), LATER)
        repository = home.repository("disk/project")
        await home.start()
        sid = await home.run(repository, "scripted/one", allow="all")
        made = repository / ".relay" / "worktrees" / sid / "made.txt"

        async def there() -> bool:
            return await trio.Path(made).exists()

        await home.until("the agent made its file", there)
        full = disk / "full"
        with full.open("wb") as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
            except OSError:
                pass
        release.touch()

        async def said() -> bool:
            view = await home.get(f"/api/sessions/{sid}")
            return "space" in json.dumps(view) or "full" in json.dumps(view)

        await home.until("the full disk is said", said)
        await trio.Path(full).unlink()

        view = await over(home, sid)
        assert view["fsmState"] in ("COMPLETED", "FAILED"), view
        assert "made.txt" in committed(home, repository, sid)
        assert (await home.get("/api/audit/verify", session=sid))["ok"]
        await home.stop()
    finally:
        with trio.CancelScope(shield=True):
            await trio.run_process(["umount", "-l", str(disk)], check=False)
