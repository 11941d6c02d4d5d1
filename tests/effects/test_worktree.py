"""Making and ending session worktrees beside real checkouts of every kind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from relay.effects import worktree
from relay.effects.make_again import make_again
from relay.effects.repository import Repository, inspect
from relay.effects.snapshot import take
from relay.effects.worktree import WorktreeMade, create, discard, remove
from relay.errors import ConflictError, GitError
from tests.fakes import api
from tests.fakes.repos import (
    commit_all,
    fingerprint,
    git,
    isolate,
    make_repo,
    show,
    status,
    tree_of,
    with_submodule,
    write,
)


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repo(
        tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n", "dir/c.txt": "c\n", "run.sh": "#!/bin/sh\n"}
    )


async def made(root: Path, sid: str = "s1", *, carry: bool = True) -> tuple[Repository, WorktreeMade]:
    repo = await inspect(root)
    return repo, await create(repo, sid, root / ".relay/worktrees" / sid, carry=carry)


def same_files(root: Path, path: Path) -> None:
    """Both folders hold the same files: content, links and the exec bit."""

    def files(top: Path) -> dict[bytes, object]:
        found: dict[bytes, object] = {}
        for folder, folders, names in os.walk(os.fsencode(top)):
            folders[:] = [f for f in folders if f not in (b".git", b".relay")]
            for full in (Path(os.fsdecode(folder)) / os.fsdecode(name) for name in names):
                if full.name == ".git":
                    continue
                content = os.fsencode(full.readlink()) if full.is_symlink() else full.read_bytes()
                found[os.fsencode(full.relative_to(top))] = (
                    full.is_symlink(),
                    full.lstat().st_mode & 0o100,
                    content,
                )
        return found

    assert files(path) == files(root)


async def test_a_clean_checkout_gives_a_worktree_at_its_commit(root: Path) -> None:
    _, found = await made(root)
    head = git(root, "rev-parse", "HEAD")
    assert (found.branch, found.base_commit, found.carried_commit) == ("relay/s1", head, None)
    assert found.notes == ()
    assert git(found.path, "rev-parse", "--abbrev-ref", "HEAD") == "relay/s1"
    assert status(found.path) == ""
    assert git(root, "rev-parse", "refs/relay/s1/base") == head


def staged(root: Path) -> None:
    write(root, {"a.txt": "staged\n", "new.txt": "new\n"})
    git(root, "add", "a.txt", "new.txt")


def unstaged(root: Path) -> None:
    write(root, {"a.txt": "unstaged\n"})


def staged_then_changed(root: Path) -> None:
    staged(root)
    write(root, {"a.txt": "changed again\n"})


def untracked(root: Path) -> None:
    write(root, {"deep/er/new.txt": "new\n"})


def deleted(root: Path) -> None:
    (root / "a.txt").unlink()
    git(root, "rm", "-q", "b.txt")


def executable(root: Path) -> None:
    (root / "a.txt").chmod(0o755)
    write(root, {"new.sh": "#!/bin/sh\n"})
    (root / "new.sh").chmod(0o755)


def links(root: Path) -> None:
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to("b.txt")
    (root / "dangling").symlink_to("nowhere")
    (root / "outside").symlink_to("/etc")


def renamed_in_case(root: Path) -> None:
    (root / "a.txt").rename(root / "A.txt")


def folder_for_file(root: Path) -> None:
    (root / "a.txt").unlink()
    write(root, {"a.txt/inner": "x\n"})


def file_for_folder(root: Path) -> None:
    shutil.rmtree(root / "dir")
    write(root, {"dir": "now a file\n"})


def link_for_folder(root: Path) -> None:
    shutil.rmtree(root / "dir")
    (root / "dir").symlink_to("/tmp")


def hostile_names(root: Path) -> None:
    for name in (
        b"-rf",
        b"--output=x",
        b"line\nbreak",
        b"tab\there",
        b'"quoted"',
        b"caf\xe9",
        b" lead",
        b"*",
        b"\\n",
    ):
        Path(os.fsdecode(os.path.join(os.fsencode(root), name))).write_bytes(b"x\n")  # noqa: PTH118
    write(root, {":(exclude)x": "x\n", "$(touch pwned)": "x\n", "grün/ñ": "x\n"})


def intent_to_add(root: Path) -> None:
    write(root, {"later.txt": "later\n"})
    git(root, "add", "-N", "later.txt")


DIRTY = (
    staged, unstaged, staged_then_changed, untracked, deleted, executable, links, renamed_in_case,
    folder_for_file, file_for_folder, link_for_folder, hostile_names, intent_to_add,
)  # fmt: skip


@pytest.mark.parametrize("change", DIRTY, ids=lambda f: f.__name__)
async def test_what_is_uncommitted_is_carried_and_the_checkout_stays_as_it_is(
    root: Path, change: Callable[[Path], None]
) -> None:
    change(root)
    before = fingerprint(root)
    _, found = await made(root)
    assert fingerprint(root) == before
    assert found.carried_commit is not None
    assert found.carried_files
    assert git(root, "rev-parse", f"{found.carried_commit}^") == found.base_commit
    same_files(root, found.path)
    assert status(found.path) == ""
    assert not list((root / ".git").glob("relay-index-*"))


async def test_a_change_within_the_same_tick_as_the_index_is_carried(root: Path) -> None:
    for n in range(8):
        write(root, {"a.txt": f"{n:02}\n"})
        git(root, "add", "a.txt")
        write(root, {"a.txt": f"{n + 50:02}\n"})
        _, found = await made(root, f"s{n}")
        assert (found.path / "a.txt").read_text() == f"{n + 50:02}\n"


async def test_unmerged_files_are_carried_as_they_lie(root: Path) -> None:
    git(root, "switch", "-q", "-c", "side")
    write(root, {"a.txt": "side\n"})
    commit_all(root, "side")
    git(root, "switch", "-q", "main")
    write(root, {"a.txt": "main\n"})
    commit_all(root, "main")
    git(root, "merge", "side", ok=False)
    before = fingerprint(root)
    _, found = await made(root)
    assert fingerprint(root) == before
    assert "<<<<<<<" in (found.path / "a.txt").read_text()
    assert "Unmerged files were taken as they lie: a.txt." in found.notes
    assert any("A merge is under way" in note for note in found.notes)


async def test_ignored_files_and_nested_repositories_stay_behind(root: Path) -> None:
    write(root, {".gitignore": "*.log\n/.relay/\n", "x.log": "x"})
    make_repo(root / "nested")
    _, found = await made(root)
    assert found.carried_files == (".gitignore",)
    assert not (found.path / "x.log").exists()
    assert not (found.path / "nested").exists()
    assert any("nested" in note for note in found.notes)


async def test_relays_own_state_is_never_carried(root: Path) -> None:
    write(root, {".relay/sessions/s0/fsm.json": "{}", ".relay/relay.toml": "[relay]\n"})
    _, found = await made(root)
    assert found.carried_files == (".relay/relay.toml",)


async def test_files_above_the_limit_are_named(root: Path) -> None:
    write(root, {"big.bin": b"x" * 300_000, "small.bin": b"x" * 10})
    repo = await inspect(root)
    found = await create(repo, "s1", root / ".relay/worktrees/s1", carry=True, max_file_mb=0.1)
    assert found.carried_files == ("small.bin",)
    assert found.notes == ("big.bin (0.3 MB) is too large and was left out of the carried changes.",)


async def test_clean_leaves_the_changes_out(root: Path) -> None:
    unstaged(root)
    _, found = await made(root, carry=False)
    assert found.carried_commit is None
    assert (found.path / "a.txt").read_text() == "a\n"


async def test_a_detached_head_is_recorded_as_the_base(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "--detach")
    _, found = await made(root)
    assert found.base_commit == head
    assert git(found.path, "symbolic-ref", "HEAD") == "refs/heads/relay/s1"


async def test_line_ends_stay_what_git_keeps(root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    git(root, "config", "core.safecrlf", "true")
    write(root, {"dos.txt": "one\r\ntwo\r\n", "mixed.txt": "one\r\ntwo\n"})
    before = fingerprint(root)
    _, found = await made(root)
    assert fingerprint(root) == before
    assert found.carried_commit is not None
    assert show(root, found.carried_commit, "dos.txt") == "one\ntwo"
    assert (found.path / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert status(found.path) == ""


async def test_a_sparse_checkout_stays_sparse(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo", {"in/x": "x\n", "out/y": "y\n", "top": "t\n"})
    git(root, "sparse-checkout", "set", "--cone", "in")
    write(root, {"in/x": "changed\n"})
    before = fingerprint(root)
    repo, found = await made(root)
    assert repo.sparse
    assert fingerprint(root) == before
    assert found.carried_files == ("in/x",)
    assert found.carried_commit is not None
    assert "out/y" in tree_of(root, found.carried_commit)
    assert not (found.path / "out").exists()
    taken = await take(found.path, "s1", 1, "snap")
    assert not taken.made


async def test_submodules_are_filled_from_the_checkout(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    unpushed = commit_all(root / "lib", "never pushed")
    config = (root / ".git/config").read_text()
    before = fingerprint(root)
    _, found = await made(root)
    assert fingerprint(root) == before
    assert (root / ".git/config").read_text() == config
    assert (found.path / "lib/lib.txt").read_text() == "library\n"
    assert git(found.path / "lib", "rev-parse", "HEAD") == unpushed
    assert git(found.path / "lib", "config", "remote.origin.url") == str(tmp_path / "library")
    assert found.carried_files == ("lib",)
    assert found.notes == ()


async def test_a_submodule_that_cannot_be_filled_is_a_note(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    git(root, "submodule", "--quiet", "deinit", "-f", "lib")
    _, found = await made(root)
    assert found.notes == ("The submodule lib is not checked out in the checkout; it was left empty.",)


async def test_changes_inside_a_submodule_are_not_carried_and_that_is_said(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    write(root, {"lib/lib.txt": "changed\n"})
    _, found = await made(root)
    assert found.notes == ("Uncommitted changes inside of the submodule lib were not carried.",)


async def test_eight_at_once_in_one_repository(root: Path) -> None:
    unstaged(root)
    repo = await inspect(root)
    results: list[WorktreeMade] = []

    async def one(n: int) -> None:
        results.append(await create(repo, f"s{n}", root / f".relay/worktrees/s{n}", carry=True))

    async with trio.open_nursery() as nursery:
        for n in range(8):
            nursery.start_soon(one, n)
    assert {r.branch for r in results} == {f"relay/s{n}" for n in range(8)}
    assert all((r.path / "a.txt").read_text() == "unstaged\n" for r in results)


async def test_made_again_it_is_the_same(root: Path) -> None:
    staged(root)
    _, first = await made(root)
    write(first.path, {"a.txt": "agent was here\n"})
    _, second = await made(root)
    assert second == first
    assert (first.path / "a.txt").read_text() == "agent was here\n"


async def test_a_folder_that_went_missing_is_made_again_from_the_last_snapshot(root: Path) -> None:
    _, first = await made(root)
    write(first.path, {"work.txt": "work\n"})
    await take(first.path, "s1", 1, "snap")
    shutil.rmtree(first.path)
    _, second = await made(root)
    assert (second.path / "work.txt").read_text() == "work\n"
    assert second.base_commit == first.base_commit
    assert any("made again" in note for note in second.notes)


@pytest.mark.parametrize("submodules", [False, True])
async def test_worktrees_of_the_user_on_a_disk_that_is_not_there_are_not_forgotten(
    root: Path, tmp_path: Path, submodules: bool
) -> None:
    if submodules:
        shutil.rmtree(root)
        with_submodule(root, tmp_path / "library")
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "usb"))
    shutil.rmtree(tmp_path / "usb")
    repo, first = await made(root)
    shutil.rmtree(first.path)
    _, second = await made(root)
    assert any("made again" in note for note in second.notes)
    await made(root, "s2")
    shutil.rmtree(root / ".relay/worktrees/s2")
    for sid in ("s1", "s2"):
        await discard(repo, sid, root / ".relay/worktrees" / sid)
    listed = git(root, "worktree", "list", "--porcelain")
    assert str(tmp_path / "usb") in listed
    assert ".relay" not in listed


STEPS = ("worktree", "reset", "update-ref", "commit-tree", "write-tree", "update-index", "status")


class Died(BaseException):
    """The process is gone: nothing after it runs."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("clean_up", [True, False], ids=["error", "crash"])
async def test_after_a_failure_at_any_step_it_can_be_made(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str, clean_up: bool
) -> None:
    """An error rolls back; a crash (no rolling back) leaves what the next try finds and mends."""
    unstaged(root)
    repo = await inspect(root)
    before = fingerprint(root)
    with monkeypatch.context() as patch:
        real = worktree.Git.run
        countdown = {"update-ref": 2}.get(step, 1)

        async def run(self: worktree.Git, *args: str, **options: object) -> object:
            nonlocal countdown
            hit = args[0] == step and args[1:2] != ("remove",)
            countdown -= hit
            if hit and countdown == 0 and when == "before":
                raise GitError("broken") if clean_up else Died
            result = await real(self, *args, **options)  # type: ignore[arg-type]
            if hit and countdown == 0:
                raise GitError("broken") if clean_up else Died
            return result

        patch.setattr(worktree.Git, "run", run)
        if not clean_up:

            async def nothing(*_: object) -> None:
                pass

            patch.setattr(worktree, "_roll_back", nothing)
        with pytest.raises((GitError, Died)):
            await create(repo, "s1", root / ".relay/worktrees/s1", carry=True)
    assert fingerprint(root) == before
    finished = step == "update-ref" and when == "after"
    if clean_up and not finished:
        assert git(root, "for-each-ref", "refs/heads/relay", "refs/relay") == ""
        assert not (root / ".relay/worktrees/s1").exists()
        assert len(git(root, "worktree", "list").split("\n")) == 1
    _, found = await made(root)
    assert (found.path / "a.txt").read_text() == "unstaged\n"
    assert status(found.path) == ""
    assert git(root, "for-each-ref", "--format=%(refname:lstrip=3)", "refs/relay").split() == [
        "base",
        "carried",
    ]


@pytest.mark.parametrize("step", ["reset", "unlock"])
async def test_a_crash_while_it_is_made_again_loses_no_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A folder without its files must not be taken for the work of an agent that deleted them."""
    _, first = await made(root)
    write(first.path, {"work.txt": "work\n"})
    taken = await take(first.path, "s1", 1, "snap")
    shutil.rmtree(first.path)
    with monkeypatch.context() as patch:
        real = worktree.Git.run

        async def run(self: worktree.Git, *args: str, **options: object) -> object:
            if step in args:
                raise Died
            return await real(self, *args, **options)  # type: ignore[arg-type]

        patch.setattr(worktree.Git, "run", run)
        with pytest.raises(Died):
            await made(root)
    assert worktree.half_made(first.path)
    record = api.record("s1", root)
    assert "made again" in str(await make_again(record))
    assert not worktree.half_made(first.path)
    again = await take(first.path, "s1", 2, "snap")
    assert (again.commit, again.made) == (taken.commit, False)
    assert await make_again(record) == ()


async def test_a_cancelled_making_leaves_nothing(root: Path) -> None:
    repo = await inspect(root)
    for n in range(0, 60, 6):
        with trio.move_on_after(n / 1000):
            await create(repo, f"s{n}", root / f".relay/worktrees/s{n}", carry=True)
            continue
        assert git(root, "for-each-ref", f"refs/heads/relay/s{n}", f"refs/relay/s{n}") == ""
        assert not (root / f".relay/worktrees/s{n}").exists()


async def test_a_branch_of_that_name_is_not_taken_over(root: Path) -> None:
    git(root, "branch", "relay/s1")
    with pytest.raises(ConflictError, match="relay/s1 exists already"):
        await made(root)
    assert git(root, "rev-parse", "relay/s1") == git(root, "rev-parse", "main")


async def test_a_branch_called_relay_is_in_the_way_and_named(root: Path) -> None:
    git(root, "branch", "relay")
    with pytest.raises(ConflictError, match="shorter name") as caught:
        await made(root)
    assert "git branch -m relay" in caught.value.hint


async def test_a_folder_that_is_there_is_not_overwritten(root: Path) -> None:
    write(root, {".relay/worktrees/s1/mine.txt": "mine\n"})
    with pytest.raises(ConflictError, match="exists already"):
        await made(root)
    assert (root / ".relay/worktrees/s1/mine.txt").read_text() == "mine\n"
    assert git(root, "branch", "--list", "relay/*") == ""


async def test_a_lock_left_in_the_checkout_is_in_nobodys_way(root: Path) -> None:
    (root / ".git/index.lock").write_text("")
    unstaged(root)
    _, found = await made(root)
    assert (found.path / "a.txt").read_text() == "unstaged\n"
    assert (root / ".git/index.lock").exists()


async def test_removing_keeps_the_branch(root: Path) -> None:
    repo, found = await made(root)
    write(found.path, {"work.txt": "work\n"})
    taken = await take(found.path, "s1", 1, "snap")
    await remove(repo, "s1", found.path)
    await remove(repo, "s1", found.path)
    assert not found.path.exists()
    assert git(root, "rev-parse", "relay/s1") == taken.commit
    assert len(git(root, "worktree", "list").split("\n")) == 1


async def test_removing_refuses_while_something_would_be_lost(root: Path) -> None:
    repo, found = await made(root)
    write(found.path, {"work.txt": "work\n"})
    with pytest.raises(ConflictError, match=r"in no commit: work\.txt"):
        await remove(repo, "s1", found.path)
    git(found.path, "checkout", "-q", "--detach")
    commit_all(found.path, "on no branch")
    with pytest.raises(ConflictError, match="on no branch"):
        await remove(repo, "s1", found.path)
    assert (found.path / "work.txt").exists()
    await remove(repo, "s1", found.path, force=True)
    assert not found.path.exists()


async def test_only_worktrees_of_the_repository_are_removed(root: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other")
    repo = await inspect(root)
    for path in (other, root, root / "dir"):
        with pytest.raises(ConflictError, match="is no worktree"):
            await remove(repo, "s1", path, force=True)
    assert (other / "a.txt").exists()
    assert (root / "dir/c.txt").exists()


async def test_discarding_loses_nothing(root: Path) -> None:
    unstaged(root)
    repo, found = await made(root)
    write(found.path, {"one.txt": "one\n"})
    await take(found.path, "s1", 1, "snap")
    write(found.path, {"two.txt": "uncommitted\n"})
    gone = await discard(repo, "s1", found.path)
    assert not found.path.exists()
    assert git(root, "branch", "--list", "relay/*") == ""
    assert git(root, "for-each-ref", "--format=%(refname)", "refs/relay") == "refs/relay/s1/discarded"
    assert gone.ref == "refs/relay/s1/discarded"
    assert show(root, gone.ref, "two.txt") == "uncommitted"
    assert show(root, gone.ref, "one.txt") == "one"
    assert gone.hint == "To get it back: git branch relay/s1 refs/relay/s1/discarded"
    assert await discard(repo, "s1", found.path) == gone


async def test_discarding_keeps_snapshots_that_the_branch_lost(root: Path) -> None:
    repo, found = await made(root)
    write(found.path, {"one.txt": "one\n"})
    first = await take(found.path, "s1", 1, "snap")
    git(found.path, "reset", "-q", "--hard", "main")
    write(found.path, {"two.txt": "two\n"})
    await take(found.path, "s1", 2, "snap")
    await discard(repo, "s1", found.path)
    assert git(root, "rev-parse", "refs/relay/s1/1") == first.commit


async def test_work_in_a_submodule_that_is_nowhere_else_stops_the_end(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    repo, found = await made(root)
    commit_all(found.path / "lib", "only here")
    for end in (remove, discard):
        with pytest.raises(ConflictError, match="lib"):
            await end(repo, "s1", found.path)
    assert (found.path / "lib/lib.txt").exists()
    await discard(repo, "s1", found.path, force=True)
    assert not found.path.exists()


async def test_a_session_can_be_made_from_a_linked_worktree(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    write(tmp_path / "side", {"a.txt": "side\n"})
    repo = await inspect(tmp_path / "side")
    found = await create(repo, "s1", tmp_path / "side/.relay/worktrees/s1", carry=True)
    assert (found.path / "a.txt").read_text() == "side\n"
    assert status(root) == ""


async def test_a_read_only_repository_says_what_to_do(root: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    unstaged(root)
    repo = await inspect(root)
    (root / ".git").chmod(0o555)
    try:
        with pytest.raises(GitError, match="not writable"):
            await create(repo, "s1", root / ".relay/worktrees/s1", carry=True)
    finally:
        (root / ".git").chmod(0o755)
