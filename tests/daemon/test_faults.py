"""Sessions whose files something else harms: a defined end, the work is kept, and it is said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen

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


def back(now: Path, before: Path) -> None:
    now.rename(before)


def linked(now: Path, before: Path) -> None:
    before.symlink_to(now)


@pytest.mark.parametrize("how", [back, linked])
async def test_a_repository_that_is_moved_while_no_daemon_runs(
    home: Live, tmp_path: Path, how: Callable[[Path, Path], None]
) -> None:
    """Two repositories: the other one's session goes on."""
    release = tmp_path / "release"
    home.plays("one", MADE, waiting(release), LATER)
    repository, other = home.repository(), home.repository("other")
    await home.start()
    sid = await home.run(repository, "scripted/one", allow="all")
    sibling = await home.run(other, "scripted/one", allow="all")
    await home.post(f"/api/sessions/{sid}/pause")
    release.touch()
    await home.reach(sid, "WAITING")
    await home.stop()
    elsewhere = repository.with_name("moved")
    repository.rename(elsewhere)

    await home.start()
    assert [each["sessionId"] for each in await home.get("/api/sessions")] == [sibling]
    status, error = await home.refused(f"/api/sessions/{sid}/resume")
    assert (status, error["code"]) == (404, "not_found")
    assert str(repository) in error["hint"]
    assert "move it back" in error["hint"]
    told = await home.cli("status", sid)
    assert told.returncode == 5
    assert str(repository).encode() in told.stderr
    assert (await over(home, sibling))["fsmState"] == "COMPLETED"
    await home.stop()

    how(elsewhere, repository)
    await home.start()
    await home.post(f"/api/sessions/{sid}/resume")
    assert (await over(home, sid))["fsmState"] == "COMPLETED"
    assert {"made.txt", "later.txt"} <= committed(home, repository, sid)
    await home.stop()


@frozen(kw_only=True)
class Harm:
    """Something that is done to a session's files from outside.

    Args:
        when: "running" under its agent's hands, "paused" while no agent runs, "down" while no daemon runs and
            the agent goes on, "asleep" while neither does, "killed" after a kill -9 of the daemon.
        does: given the repository and the session's id; what it gives back mends it.
        said: in the session's view or its events, before it is mended or at the end.
        kept: what its branch holds at the end.
        ends: how the session ends.
    """

    when: str
    does: Callable[[Path, str], Callable[[], object] | None]
    said: str = ""
    kept: frozenset[str] = frozenset({"made.txt", "later.txt"})
    ends: str = "COMPLETED"


def git_there(repository: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)


def remove_worktree(repository: Path, sid: str) -> None:
    shutil.rmtree(repository / ".relay" / "worktrees" / sid)


def remove_worktree_and_its_entry(repository: Path, sid: str) -> None:
    remove_worktree(repository, sid)
    git_there(repository, "worktree", "prune")


def cut_worktree_off(repository: Path, sid: str) -> Callable[[], object]:
    """Git's entry of it is gone; the mend is the one that the message names."""
    shutil.rmtree(repository / ".git" / "worktrees" / sid)
    folder = repository / ".relay" / "worktrees" / sid
    return partial(folder.rename, repository / ".relay" / "worktrees" / "aside")


def move_branch(repository: Path, sid: str) -> None:
    git_there(repository, "update-ref", f"refs/heads/relay/{sid}", "main")


def delete_branch(repository: Path, sid: str) -> None:
    git_there(repository, "update-ref", "-d", f"refs/heads/relay/{sid}")


def check_out_another(repository: Path, sid: str) -> None:
    git_there(repository / ".relay" / "worktrees" / sid, "checkout", "-q", "-b", "elsewhere")


def hold(*parts: str) -> Callable[[Path, str], Callable[[], object]]:
    """A lock of git that nobody's process belongs to, at this place in the git folder."""

    def held(repository: Path, sid: str) -> Callable[[], object]:
        lock = repository.joinpath(".git", *(part.replace("SID", sid) for part in parts))
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text("another program")
        return lock.unlink

    return held


def stale(*parts: str) -> Callable[[Path, str], None]:
    """The same, and nobody removes it."""

    def left(repository: Path, sid: str) -> None:
        hold(*parts)(repository, sid)

    return left


def harm_state(content: bytes) -> Callable[[Path, str], None]:
    def write(repository: Path, sid: str) -> None:
        (repository / ".relay" / "sessions" / sid / "fsm.json").write_bytes(content)

    return write


def remove_state(repository: Path, sid: str) -> None:
    (repository / ".relay" / "sessions" / sid / "fsm.json").unlink()


def remove_contract(repository: Path, sid: str) -> None:
    (repository / ".relay" / "sessions" / sid / "envelope.json").unlink(missing_ok=True)


def tear_log(repository: Path, sid: str) -> None:
    with (repository / ".relay" / "audit.jsonl").open("ab") as file:
        file.write(b'{"seq": 9999, "ts": "20')


def remove_log(repository: Path, sid: str) -> None:
    (repository / ".relay" / "audit.jsonl").unlink()


def block_log(repository: Path, sid: str) -> Callable[[], object]:
    """A folder stands where the log was."""
    log = repository / ".relay" / "audit.jsonl"
    aside = log.with_name("aside")
    log.rename(aside)
    log.mkdir()

    def mend() -> None:
        log.rmdir()
        aside.rename(log)

    return mend


HARMS = {
    "worktree removed, asleep": Harm(when="asleep", does=remove_worktree, said="was made again"),
    "worktree and its entry removed, asleep": Harm(
        when="asleep", does=remove_worktree_and_its_entry, said="was made again"
    ),
    "worktree cut off, asleep": Harm(
        when="asleep", does=cut_worktree_off, said="is no worktree of a repository any more"
    ),
    "branch moved, paused": Harm(when="paused", does=move_branch),
    "branch moved, down": Harm(when="down", does=move_branch),
    "branch deleted, running": Harm(when="running", does=delete_branch),
    "branch deleted, paused": Harm(when="paused", does=delete_branch),
    "branch deleted, asleep": Harm(when="asleep", does=delete_branch),
    "another branch checked out, running": Harm(
        when="running", does=check_out_another, said="The worktree was on the branch elsewhere"
    ),
    "another branch checked out, down": Harm(
        when="down", does=check_out_another, said="The worktree was on the branch elsewhere"
    ),
    "branch locked, running": Harm(
        when="running", does=hold("refs", "heads", "relay", "SID.lock"), said="SID.lock"
    ),
    "checkout's index locked, running": Harm(when="running", does=stale("index.lock")),
    "packed refs locked, running": Harm(when="running", does=stale("packed-refs.lock")),
    "state of NULs, running": Harm(when="running", does=harm_state(b"\0" * 300)),
    "state of NULs, asleep": Harm(when="asleep", does=harm_state(b"\0" * 300)),
    "state removed, killed": Harm(when="killed", does=remove_state),
    "contract removed, paused": Harm(
        when="paused", does=remove_contract, said="the contract is refused", ends="FAILED"
    ),
    "log torn, running": Harm(when="running", does=tear_log),
    "log torn, down": Harm(when="down", does=tear_log),
    "log removed, running": Harm(when="running", does=remove_log),
    "log removed, down": Harm(when="down", does=remove_log),
    "log blocked, running": Harm(when="running", does=block_log, said="the audit log can't be written"),
    "log blocked, down": Harm(when="down", does=block_log, said="audit.jsonl is not a regular file"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
async def test_files_that_are_harmed(home: Live, tmp_path: Path, harm: Harm) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
        if harm.when in ("paused", "asleep"):
            await home.post(f"/api/sessions/{sid}/pause")
            release.touch()
            await home.reach(sid, "WAITING")
        if harm.when in ("down", "asleep"):
            await home.stop()
        if harm.when == "killed":
            await home.kill()
        mend = harm.does(repository, sid)
        if harm.when in ("down", "asleep", "killed"):
            await home.start()
        release.touch()
        if harm.when in ("paused", "asleep"):
            await home.post(f"/api/sessions/{sid}/resume")

        said = harm.said.replace("SID", sid)

        async def told() -> bool:
            shown = await home.cli("status", sid)
            if said in " ".join(shown.stdout.decode().split()):
                return True
            return said in json.dumps(await home.get("/api/events"))

        if said and mend is not None:
            await home.until(f"it is said: {said}", told)
        if mend is not None:
            mend()
        view = await over(home, sid)

        assert view["fsmState"] == harm.ends, (view["endReason"], await home.story(sid))
        assert committed(home, repository, sid) >= harm.kept
        assert said in await notes(home, sid) or mend is not None, await home.story(sid)
        verdict = await home.get("/api/audit/verify", session=sid)
        assert verdict["ok"], verdict


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
    async with running(home, tmp_path) as (repository, sid, release):
        await home.stop()
        (repository / ".relay" / "sessions" / sid / "fsm.json").write_bytes(content)

        await home.start()
        release.touch()

        assert (await over(home, sid))["fsmState"] == "COMPLETED"
        assert {"made.txt", "later.txt"} <= committed(home, repository, sid)


async def test_a_state_file_of_a_newer_relay_is_left_alone_and_named(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
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


async def test_a_torn_end_of_the_log_is_cut_off_and_said(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
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


def link_sessions(relay: Path) -> str:
    (relay / "sessions").rename(relay / "aside")
    (relay / "sessions").symlink_to("aside")
    return "sessions is a symbolic link"


def file_for_sessions(relay: Path) -> str:
    (relay / "sessions").rename(relay / "aside")
    (relay / "sessions").write_text("a file is in its place")
    return "sessions: Not a directory"


def link_log(relay: Path) -> str:
    (relay / "audit.jsonl").rename(relay / "aside")
    (relay / "audit.jsonl").symlink_to("aside")
    return "audit.jsonl"


def link_all(relay: Path) -> str:
    relay.rename(relay.with_name("aside"))
    relay.symlink_to("aside")
    return ".relay is a symbolic link"


def folder_for_offset(relay: Path) -> str:
    """Of a session that is over, and that nobody looks at any more."""
    [offset] = (relay / "sessions").glob("*/run-1/offset")
    offset.unlink()
    offset.mkdir()
    return ""


@pytest.mark.parametrize("harm", [link_sessions, file_for_sessions, link_log, link_all, folder_for_offset])
async def test_what_is_wrong_in_one_repository_is_no_matter_of_the_others(
    home: Live, tmp_path: Path, harm: Callable[[Path], str]
) -> None:
    """Also not when their sessions are listed, followed, ended, or taken up after a restart."""
    async with running(home, tmp_path) as (_, sid, release):
        home.plays("quick", MADE)
        # Its name comes first, as does its place among the known repositories after the next start.
        other = home.repository("another")
        harmed = await home.run(other, "scripted/quick", allow="all")
        await over(home, harmed)
        said = harm(other / ".relay")

        for killed in (False, True):
            if killed:
                await home.kill()
                await home.start()
            listed = await home.get("/api/sessions")
            assert sid in [view["sessionId"] for view in listed]
            for words in (("status", sid), ("logs", sid), ("diff", sid), ("gc", "--dry-run")):
                assert (await home.cli(*words)).returncode == 0, words
            with trio.fail_after(60):
                async with home.watching("?after=0") as client:
                    while f'"session":"{sid}"' not in await client.get_message():
                        pass
            tree = (await home.cli("status", "--tree")).stdout.decode()
            assert "run-1" in tree[tree.index(sid) :]
        doctor = await home.cli("doctor", "--json")
        assert said in " ".join(check["summary"] for check in json.loads(doctor.stdout))

        release.touch()
        assert (await over(home, sid))["fsmState"] == "COMPLETED"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@asynccontextmanager
async def small_disk(disk: Path, options: str) -> AsyncIterator[Path]:
    """A file system of its own in that folder."""
    await trio.Path(disk).mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={options}", "tmpfs", str(disk)]
    if (await trio.run_process(mount, check=False, capture_stderr=True)).returncode != 0:
        pytest.skip("a small disk can't be mounted here")
    try:
        yield disk
    finally:
        with trio.CancelScope(shield=True):
            await trio.run_process(["umount", "-l", str(disk)], check=False)


async def remount(disk: Path, how: str) -> None:
    await trio.run_process(["mount", "-o", f"remount,{how}", str(disk)])


def fill(disk: Path) -> Path:
    """The file that takes all the room there is."""
    full = disk / "full"
    with full.open("wb", buffering=0) as file, suppress(OSError):
        for size in (65536, 512):
            with suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return full


@needs_root
async def test_a_disk_that_is_full_for_a_while(home: Live, tmp_path: Path) -> None:
    async with small_disk(tmp_path / "disk", "24m") as disk:
        release = tmp_path / "release"
        home.plays("one", MADE, waiting(release), LATER)
        repository = home.repository("disk/project")
        await home.start()
        sid = await home.run(repository, "scripted/one", allow="all")
        made = repository / ".relay" / "worktrees" / sid / "made.txt"

        async def there() -> bool:
            return await trio.Path(made).exists()

        await home.until("the agent made its file", there)
        full = fill(disk)
        release.touch()

        async def said() -> bool:
            view = await home.get(f"/api/sessions/{sid}")
            return "space" in json.dumps(view) or "full" in json.dumps(view)

        await home.until("the full disk is said", said)
        await trio.Path(full).unlink()

        view = await over(home, sid)
        assert view["fsmState"] == "COMPLETED", view
        assert {"made.txt", "later.txt"} <= committed(home, repository, sid)
        assert (await home.get("/api/audit/verify", session=sid))["ok"]
        assert [path.name for path in (repository / ".relay").rglob("*.tmp")] == []
        await home.stop()


@needs_root
async def test_a_new_session_on_a_full_disk_is_refused_and_leaves_nothing(home: Live, tmp_path: Path) -> None:
    async with small_disk(tmp_path / "disk", "24m") as disk:
        home.plays("one", MADE)
        repository = home.repository("disk/project")
        await home.start()
        first = await home.run(repository, "scripted/one", allow="all")
        await over(home, first)
        full = fill(disk)

        status, error = await home.refused(
            "/api/sessions", task="Do", cwd=str(repository), providers=["scripted/one"], allow="all"
        )

        assert (status, error["code"]) == (507, "disk_full"), error
        assert error["hint"]
        await trio.Path(full).unlink()
        assert [each["sessionId"] for each in await home.get("/api/sessions")] == [first]
        assert [path.name for path in (repository / ".relay" / "sessions").iterdir()] == [first]
        assert home.git(repository, "branch", "--list", "relay/*").split() == ["+", f"relay/{first}"]
        again = await home.run(repository, "scripted/one", allow="all")
        assert (await over(home, again))["fsmState"] == "COMPLETED"
        await home.stop()


@needs_root
@pytest.mark.parametrize(
    "words", [("daemon", "run", "--port", "0"), ("daemon", "start")], ids=["run", "start"]
)
async def test_a_state_folder_that_is_read_only_is_refused(
    home: Live, tmp_path: Path, words: tuple[str, ...]
) -> None:
    async with small_disk(tmp_path / "disk", "1m,mode=700") as disk:
        await remount(disk, "ro")
        home.more_env["RELAY_STATE_DIR"] = str(disk)

        refused = await home.cli(*words)

        said = refused.stderr.decode()
        assert refused.returncode != 0
        assert str(disk) in said
        assert "read-only" in said.lower()
        assert "Traceback" not in said


@needs_root
async def test_a_repository_that_is_read_only_is_refused(home: Live, tmp_path: Path) -> None:
    async with small_disk(tmp_path / "disk", "24m") as disk:
        home.plays("one", MADE)
        repository = home.repository("disk/project")
        await home.start()
        await remount(disk, "ro")

        status, error = await home.refused(
            "/api/sessions", task="Do", cwd=str(repository), providers=["scripted/one"], allow="all"
        )

        assert (status, error["code"]) == (500, "store_failed")
        assert str(repository) in error["message"]
        assert "read-only" in error["hint"]
        await remount(disk, "rw")
        sid = await home.run(repository, "scripted/one", allow="all")
        assert (await over(home, sid))["fsmState"] == "COMPLETED"
        await home.stop()


@needs_root
async def test_a_state_folder_without_room_for_a_while(home: Live, tmp_path: Path) -> None:
    """The event numbers, the daemon's own log and the input pipes lie there."""
    async with small_disk(home.state, "4m,mode=700") as disk:  # noqa: SIM117  (the disk outlives the run)
        async with running(home, tmp_path) as (repository, sid, release):
            full = fill(disk)
            release.touch()
            later = repository / ".relay" / "worktrees" / sid / "later.txt"
            await home.until("the agent is done", trio.Path(later).exists)
            full.unlink()

            view = await over(home, sid)

            assert view["fsmState"] == "COMPLETED", view
            assert {"made.txt", "later.txt"} <= committed(home, repository, sid)
            assert (await home.get("/api/audit/verify", session=sid))["ok"]


@needs_root
async def test_a_start_without_room_in_the_state_folder_says_so(home: Live) -> None:
    """What the daemon would say goes into a file on the same disk."""
    async with small_disk(home.state, "1m,mode=700") as disk:
        full = fill(disk)

        refused = await home.cli("daemon", "start", "--port", "0")

        assert refused.returncode != 0
        assert "no space" in refused.stderr.decode().lower()
        assert b"Traceback" not in refused.stderr
        full.unlink()
        assert (await home.cli("daemon", "start", "--port", "0")).returncode == 0
        assert (await home.cli("daemon", "stop")).returncode == 0


NEEDED = {"of NULs": b"\0" * 64, "cut": b'{"version": 1, ', "newer": b'{"version": 99}\n'}


@pytest.mark.parametrize("name", ["repositories.json", "sequence.json"])
@pytest.mark.parametrize("content", NEEDED.values(), ids=NEEDED.keys())
async def test_without_what_the_daemon_needs_to_know_it_does_not_start(
    home: Live, name: str, content: bytes
) -> None:
    """To begin without it would leave sessions alone, or give event numbers twice."""
    damaged = home.state / name
    home.state.chmod(0o700)
    damaged.write_bytes(content)

    refused = await home.cli("daemon", "run", "--port", "0")

    assert refused.returncode != 0
    said = refused.stderr.decode()
    assert said.startswith(f"error: {damaged} ")
    assert "Traceback" not in said
    assert damaged.read_bytes() == content
    status = await home.cli("daemon", "status")
    assert str(damaged) in status.stderr.decode()


async def test_without_the_file_of_event_numbers_none_is_given_twice(home: Live, tmp_path: Path) -> None:
    async with running(home, tmp_path) as (repository, sid, release):
        await home.kill()
        (home.state / "sequence.json").unlink()
        await home.start()
        release.touch()
        await over(home, sid)

        numbers = [event["seq"] for event in home.audit(repository)]

        assert numbers == sorted(set(numbers))
        with trio.fail_after(60):
            async with home.watching(f"?after=0&session={sid}") as client:
                while '"to":"COMPLETED"' not in await client.get_message():
                    pass
