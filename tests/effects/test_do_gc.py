"""Clearing away in real repositories: what goes, what stays and why, and being killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from relay.core import reports
from relay.core.fsm import State
from relay.effects import worktree
from relay.effects.repository import inspect
from relay.store.repositories import remember_repository
from tests.fakes import leavings
from tests.fakes.leavings import LONG_AGO, NOW, Leavings
from tests.fakes.repos import commit_all, git, isolate, make_repo, with_submodule, write

SID = "s-merged01"
FILES = {"made.txt": "made\n"}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Leavings:
    isolate(monkeypatch, tmp_path / "home")
    make_repo(tmp_path / "project", {"a.txt": "a\n", ".gitignore": "build/\n.env\n"})
    return Leavings(tmp_path.resolve())


def of(found: reports.GarbageCollected, kind: str, sid: str = SID) -> list[reports.GarbageItem]:
    return [item for item in found.items if (item.kind, item.session) == (kind, sid)]


def merge(left: Leavings, sid: str = SID) -> None:
    git(left.places.root, "merge", "-q", "--no-edit", f"relay/{sid}")


def old(path: Path) -> Path:
    os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()), follow_symlinks=False)
    return path


# -- worktrees -----------------------------------------------------------------------------------


async def test_a_merged_worktree_goes_with_its_ignored_files_and_says_so(left: Leavings) -> None:
    record = await left.session(SID, FILES)
    merge(left)
    write(Path(record.worktree), {"build/x.o": "x" * 1000, ".env": "A=1\n"})

    [item] = of(await left.collect(), "worktree")

    assert item.removed
    assert item.bytes > 1000
    assert item.why == "over since 2026-04-02; with it go ignored files: .env, build/"
    assert not await trio.Path(record.worktree).exists()
    assert git(left.places.root, "rev-parse", f"relay/{SID}") == git(left.places.root, "rev-parse", "main")


def squash(left: Leavings) -> None:
    git(left.places.root, "merge", "-q", "--squash", f"relay/{SID}")
    commit_all(left.places.root, "All of it at once")
    write(left.places.root, {"other.txt": "later\n"})
    commit_all(left.places.root, "Later")


def into_another_branch(left: Leavings) -> None:
    git(left.places.root, "branch", "topic", f"relay/{SID}")


def pushed(left: Leavings) -> None:
    git(left.places.root, "update-ref", "refs/remotes/origin/topic", f"relay/{SID}")


@pytest.mark.parametrize("way", [merge, squash, into_another_branch, pushed])
async def test_every_way_of_merging_counts(left: Leavings, way: Callable[[Leavings], None]) -> None:
    await left.session(SID, FILES)
    way(left)
    [item] = of(await left.collect(), "worktree")
    assert item.removed, item.why


def not_at_all(left: Leavings, path: Path) -> None:
    git(left.places.root, "reset", "-q", "--hard", "HEAD^")


def by_a_pushed_branch_of_relay_alone(left: Leavings, path: Path) -> None:
    not_at_all(left, path)
    git(left.places.root, "update-ref", f"refs/remotes/origin/relay/{SID}", f"relay/{SID}")


def squashed_and_changed_since(left: Leavings, path: Path) -> None:
    not_at_all(left, path)
    squash(left)
    write(left.places.root, FILES | {"made.txt": "otherwise\n"})
    commit_all(left.places.root, "Otherwise")


def a_new_file(left: Leavings, path: Path) -> None:
    write(path, {"later.txt": "somebody went on here\n"})


def a_commit_on_top(left: Leavings, path: Path) -> None:
    write(path, {"later.txt": "somebody went on here\n"})
    commit_all(path, "More")


def a_commit_on_no_branch(left: Leavings, path: Path) -> None:
    git(path, "checkout", "-q", "--detach")
    a_commit_on_top(left, path)


def a_lock(left: Leavings, path: Path) -> None:
    git(left.places.root, "worktree", "lock", "--reason", "I look at it", str(path))


def a_hidden_change(left: Leavings, path: Path) -> None:
    git(path, "update-index", "--assume-unchanged", "a.txt")
    write(path, {"a.txt": "my settings\n"})


def a_skipped_change(left: Leavings, path: Path) -> None:
    git(path, "update-index", "--skip-worktree", "a.txt")
    write(path, {"a.txt": "my settings\n"})


def a_rebase(left: Leavings, path: Path) -> None:
    git_dir = Path(git(path, "rev-parse", "--absolute-git-dir"))
    (git_dir / "rebase-merge").mkdir()


def an_ignored_repository(left: Leavings, path: Path) -> None:
    make_repo(path / "build" / "library")


def sessions_inside(left: Leavings, path: Path) -> None:
    write(path, {".relay/.gitignore": "*\n", ".relay/audit.jsonl": "{}\n"})


@pytest.mark.parametrize(
    ("harm", "why", "hint"),
    [
        (not_at_all, "its work is not merged", "relay merge"),
        (by_a_pushed_branch_of_relay_alone, "its work is not merged", "relay discard"),
        (squashed_and_changed_since, "its work is not merged", "relay discard"),
        (a_new_file, "changes that are in no commit: later.txt", "relay diff"),
        (a_commit_on_top, "its work is not merged", "relay merge"),
        (a_commit_on_no_branch, "which is on no branch", "relay diff"),
        (a_lock, "locked by `git worktree lock`: I look at it", "git worktree unlock"),
        (a_hidden_change, "was told not to look at (assume-unchanged, skip-worktree): a.txt", "ls-files -v"),
        (a_skipped_change, "was told not to look at (assume-unchanged, skip-worktree): a.txt", "ls-files"),
        (a_rebase, "a rebase is under way", "status"),
        (an_ignored_repository, "repositories of their own in it: build/library", "ls"),
        (sessions_inside, "repositories of their own in it: .relay", "ls"),
    ],
)
async def test_a_worktree_stays_while_something_would_be_lost(
    left: Leavings, harm: Callable[[Leavings, Path], None], why: str, hint: str
) -> None:
    record = await left.session(SID, FILES)
    merge(left)
    path = Path(record.worktree)
    harm(left, path)
    before = listing(path)

    [item] = of(await left.collect(keep_days=0), "worktree")

    assert (item.remove, item.removed) == (False, False)
    assert why in item.why
    assert hint in item.hint
    assert item.bytes > 0
    assert listing(path) == before


async def test_work_in_a_submodule_that_is_nowhere_else_stays(left: Leavings, tmp_path: Path) -> None:
    shutil.rmtree(left.places.root)
    with_submodule(left.places.root, tmp_path / "library")
    record = await left.session(SID, FILES)
    merge(left)
    modules = git(left.places.root, "config", "-f", ".gitmodules", "--get-regexp", "path")
    library = Path(record.worktree) / modules.split()[1]
    write(library, {"new.txt": "new\n"})
    commit_all(library, "Only here")
    [item] = of(await left.collect(), "worktree")
    assert not item.remove
    assert library.is_dir()


@pytest.mark.parametrize(
    "state", [state for state in State if state not in (State.COMPLETED, State.FAILED, State.STOPPED)]
)
async def test_nothing_of_a_session_that_is_not_over_is_touched(left: Leavings, state: State) -> None:
    record = await left.session(SID, FILES, state=state)
    merge(left)
    left.fifo(f"{SID}.1")
    found = await left.collect(keep_days=0, output_max_bytes=0)
    assert [item.kind for item in found.items if item.remove] == []
    assert await trio.Path(record.worktree).is_dir()
    assert left.places.run(SID, 1).is_dir()
    assert (left.state.fifos / f"{SID}.1").exists()


async def test_folders_that_are_of_no_session_are_listed_and_kept(left: Leavings) -> None:
    await left.session(SID, FILES)
    write(left.places.worktrees / "s-stranger1", {"mine.txt": "mine\n"})
    [item] = [item for item in (await left.collect(keep_days=0)).items if "stranger" in item.path]
    assert (item.remove, item.why) == (False, "no session of this name is known")
    assert (left.places.worktrees / "s-stranger1" / "mine.txt").exists()


async def test_a_session_that_cannot_be_read_is_left_alone_and_named(left: Leavings) -> None:
    record = await left.session(SID, FILES)
    merge(left)
    for name in ("fsm.json", "fsm.json.prev"):
        left.places.session(SID).joinpath(name).write_bytes(b"\0" * 30)
    found = await left.collect(keep_days=0)
    assert any(SID in problem for problem in found.problems)
    assert [item.path for item in found.items if item.remove] == []
    assert await trio.Path(record.worktree).is_dir()


# -- git's own -----------------------------------------------------------------------------------


async def test_git_forgets_a_worktree_whose_folder_is_gone_and_only_that(left: Leavings) -> None:
    record = await left.session(SID, FILES)
    other = left.root / "elsewhere"
    git(left.places.root, "worktree", "add", "-q", "-b", "mine", str(other))
    shutil.rmtree(other)
    shutil.rmtree(record.worktree)

    [item] = of(await left.collect(), "entry")

    assert item.removed
    listed = git(left.places.root, "worktree", "list", "--porcelain")
    assert record.worktree not in listed
    assert str(other) in listed


async def test_git_still_knows_what_was_staged_where_the_folder_is_gone(left: Leavings) -> None:
    record = await left.session(SID, FILES)
    write(Path(record.worktree), {"staged.txt": "staged\n"})
    git(Path(record.worktree), "add", "staged.txt")
    shutil.rmtree(record.worktree)
    [item] = of(await left.collect(), "entry")
    assert (item.remove, item.why) == (False, "its index holds changes that are in no commit")


async def test_refs_go_once_the_work_is_merged_and_the_folder_gone(left: Leavings) -> None:
    await left.session(SID, FILES)
    merge(left)
    assert of(await left.collect(), "snapshots") == []
    [item] = of(await left.collect(), "snapshots")
    assert item.removed
    assert git(left.places.root, "for-each-ref", "refs/relay") == ""
    assert git(left.places.root, "branch", "--list", f"relay/{SID}").strip() == f"relay/{SID}"


async def test_the_only_ref_to_discarded_work_stays(left: Leavings) -> None:
    record = await left.session(SID, FILES)
    repo = await inspect(left.places.root)
    await worktree.discard(repo, SID, Path(record.worktree))
    left.save(record, discarded=True)
    [item] = of(await left.collect(keep_days=0), "snapshots")
    assert (item.remove, item.why) == (False, "only this holds what was discarded")
    assert git(left.places.root, "cat-file", "-p", f"refs/relay/{SID}/discarded:made.txt") == "made"


async def test_refs_stay_while_the_work_is_in_no_branch_of_the_user(left: Leavings) -> None:
    record = await left.session(SID, FILES)
    git(left.places.root, "worktree", "remove", record.worktree)
    [item] = of(await left.collect(keep_days=0), "snapshots")
    assert (item.remove, item.why) == (False, "its work is in no branch of yours")
    assert git(left.places.root, "for-each-ref", "--format=%(refname)", "refs/relay").split() == [
        f"refs/relay/{SID}/1",
        f"refs/relay/{SID}/base",
    ]


async def test_what_a_killed_git_left_goes_after_a_day(left: Leavings) -> None:
    await left.session(SID, FILES)
    objects = left.places.root / ".git" / "objects"
    (objects / "ab").mkdir(exist_ok=True)
    gone = [objects / "pack/tmp_pack_x1", objects / "pack/tmp_idx_x1", objects / "ab/tmp_obj_x1"]
    gone += [left.places.root / ".git" / "relay-index-1-aa"]
    stays = [objects / "pack/tmp_pack_new", objects / "pack/pack-1.pack", objects / "ab/cdef"]
    for path in gone + stays:
        path.write_bytes(b"x" * 100)
        old(path)
    os.utime(stays[0], (NOW.timestamp(), NOW.timestamp()))
    found = await left.collect()
    assert {item.path for item in found.items if item.kind == "git file" and item.removed} == set(
        map(str, gone)
    )
    assert [path.exists() for path in gone + stays] == [False] * 4 + [True] * 3


# -- files ---------------------------------------------------------------------------------------


async def test_output_goes_by_age(left: Leavings) -> None:
    record = await left.session(SID, runs=2)
    left.save(record, updated_at=NOW - timedelta(days=13))
    assert [item.why for item in of(await left.collect(), "output")] == ["is kept for 14 days"] * 2
    left.save(record, updated_at=NOW - timedelta(days=15))
    assert [item.removed for item in of(await left.collect(), "output")] == [True, True]
    assert not left.places.run(SID, 1).exists()
    assert left.places.fsm(SID).exists()


async def test_output_that_is_not_redacted_waits_a_day_for_it_and_no_longer(left: Leavings) -> None:
    record = await left.session(SID, runs=0)
    left.printed(SID, 1, redacted=False)
    record = left.save(record, runs=(leavings.Run(number=1, target=leavings.TARGET),))
    left.save(record, updated_at=NOW - timedelta(hours=23))
    [item] = of(await left.collect(keep_days=0), "output")
    assert (item.remove, item.why) == (False, "its output is not redacted yet")
    left.save(record, updated_at=NOW - timedelta(hours=25))
    [item] = of(await left.collect(keep_days=0), "output")
    assert item.removed


async def test_input_pipes_go_unless_a_process_of_their_run_is_alive(left: Leavings) -> None:
    await left.session(SID)
    idle, used = left.fifo(f"{SID}.1"), left.fifo(f"{SID}.2")
    env = {**os.environ, "RELAY_RUN": f"{SID}.2"}
    process = await trio.lowlevel.open_process(["sleep", "600"], env=env)
    try:
        found = await left.collect()
    finally:
        process.kill()
        await process.wait()
    assert [item.removed for item in of(found, "fifo")] == [True, False]
    assert found.problems == (f"{used} was not removed: a process of its run is alive",)
    assert (idle.exists(), used.exists()) == (False, True)


async def test_a_file_that_cannot_be_removed_is_told_and_the_rest_goes(left: Leavings) -> None:
    await left.session(SID, runs=2)
    (left.places.run(SID, 1) / "folder").mkdir()
    found = await left.collect()
    assert [item.removed for item in of(found, "output")] == [False, True]
    assert [problem for problem in found.problems if str(left.places.run(SID, 1)) in problem]


async def test_a_dry_run_changes_nothing_and_says_the_same(left: Leavings) -> None:
    await everything(left)
    before = listing(left.root)
    dry = await left.collect(dry_run=True)
    assert listing(left.root) == before
    real = await left.collect()
    assert [(item.path, item.remove, item.why) for item in dry.items] == [
        (item.path, item.remove, item.why) for item in real.items
    ]
    assert not any(item.removed for item in dry.items)
    assert all(item.removed == item.remove for item in real.items)


# -- killed --------------------------------------------------------------------------------------


async def everything(left: Leavings) -> None:
    """Something of every kind that goes, and a live session beside it."""
    await left.session(SID, FILES)
    merge(left)
    gone = await left.session("s-gone0001", {"gone.txt": "gone\n"}, runs=0)
    shutil.rmtree(gone.worktree)
    bare = await left.session("s-bare0001", {"bare.txt": "bare\n"}, runs=0)
    merge(left, "s-bare0001")
    git(left.places.root, "worktree", "remove", bare.worktree)
    await left.session("s-unmerged1", {"new.txt": "new\n"}, runs=0)
    await left.session("s-live0001", {"live.txt": "live\n"}, state=State.RUNNING)
    for name in (f"{SID}.1", "s-live0001.1"):
        left.fifo(name)
    old_file = left.places.session(SID) / ".fsm.json.0123456789ab.tmp"
    old_file.write_text("half")
    old(old_file)
    pack = left.places.root / ".git/objects/pack/tmp_pack_zz"
    pack.write_text("half")
    old(pack)


def listing(root: Path) -> dict[str, bytes]:
    """What there is, but for what git changes by looking."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not name.endswith(("/index", ".pyc")):
            found[name] = path.read_bytes()
        elif path.is_fifo():
            found[name] = b"|"
    return {name: data for name, data in found.items() if "/logs/" not in name}


def copy(source: Path, target: Path) -> None:
    """Put a copy of both folders in the place of those that are there."""
    for name in ("project", "state"):
        shutil.rmtree(target / name, ignore_errors=True)
        (target / name).parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", source / name, target / name], check=True)


def collect_and_die(left: Leavings, at: int) -> dict[str, object] | None:
    """Clear away in a process of its own that is killed before a step; None when it was."""
    ran = subprocess.run(
        [sys.executable, leavings.__file__, str(left.root), str(at)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(leavings.__file__).parents[2])},
    )
    if ran.returncode == -9:
        return None
    assert ran.returncode == 0, ran.stderr.decode()
    return dict(json.loads(ran.stdout))


async def test_killed_before_any_step_it_ends_the_same_and_loses_nothing(
    left: Leavings, tmp_path: Path
) -> None:
    await everything(left)
    kept = tmp_path.parent / f"{tmp_path.name}-kept"

    copy(left.root, kept)
    safe = ("s-live0001", "worktrees/s-unmerged1", "relay/s-unmerged1")
    live = {name: data for name, data in listing(left.root).items() if any(part in name for part in safe)}
    undisturbed = collect_and_die(left, 0)
    assert undisturbed is not None
    assert undisturbed["problems"] == []
    steps = undisturbed["steps"]
    assert isinstance(steps, int)
    assert steps > 10
    await left.collect()
    end = listing(left.root)
    for at in range(1, steps + 1):
        copy(kept, left.root)
        assert collect_and_die(left, at) is None
        half = listing(left.root)
        assert {name: half.get(name) for name in live} == live
        for _ in range(2):  # refs go only once their folder is gone
            done = await left.collect()
            assert done.problems == ()
        assert listing(left.root) == end
        assert git(left.places.root, "fsck", "--no-dangling") == ""
    shutil.rmtree(kept)


# -- sessions that never began -------------------------------------------------------------------


async def cut_off(left: Leavings, *, at: str) -> Path:
    """What a daemon leaves that was killed while it made a session."""
    left.state.ensure()
    folder = left.places.ensure_session(SID)
    remember_repository(left.state, str(left.places.root))
    if at != "folder":
        await worktree.create(await inspect(left.places.root), SID, left.places.worktree(SID), carry=True)
    if at == "save":
        (folder / ".fsm.json.0123456789ab.tmp").write_text("{")
    return old(folder)


@pytest.mark.parametrize("at", ["folder", "worktree", "save"])
async def test_a_session_that_never_began_goes_and_loses_nothing(left: Leavings, at: str) -> None:
    write(left.places.root, {"mine.txt": "mine\n"})
    folder = await cut_off(left, at=at)
    if at != "folder":
        write(left.places.worktree(SID), {"found.txt": "found\n"})

    found = await left.collect()

    assert [item.removed for item in of(found, "unbegun")] == [True]
    assert not found.problems
    assert not folder.exists()
    assert not left.places.worktree(SID).exists()
    assert git(left.places.root, "branch", "--list", "relay/*") == ""
    if at != "folder":
        kept = git(left.places.root, "ls-tree", "--name-only", f"refs/relay/{SID}/discarded").split()
        assert {"mine.txt", "found.txt"} <= set(kept)
    assert (await left.collect()).problems == ()


async def test_a_session_that_is_just_being_made_stays(left: Leavings) -> None:
    folder = await cut_off(left, at="worktree")
    os.utime(folder, (NOW.timestamp(), NOW.timestamp()))

    [item] = of(await left.collect(), "unbegun")

    assert not item.removed
    assert left.places.worktree(SID).is_dir()


async def test_one_of_which_anything_was_saved_is_not_taken_for_one_that_never_began(left: Leavings) -> None:
    folder = await cut_off(left, at="worktree")
    (folder / "run-1").mkdir()
    old(folder)

    found = await left.collect()

    assert of(found, "unbegun") == []
    assert left.places.worktree(SID).is_dir()
