"""Snapshots of worktrees in every state that an agent can leave behind."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relay.effects import snapshot
from relay.effects.git import Git
from relay.effects.repository import inspect
from relay.effects.snapshot import FileChange, SnapshotTaken, stat_line, take
from relay.effects.staging import Identity
from relay.effects.worktree import create
from relay.errors import ConflictError, GitError, NoRepositoryError
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
    return make_repo(tmp_path / "repo")


@pytest.fixture
async def tree(root: Path) -> Path:
    return await worktree_of(root)


async def worktree_of(root: Path) -> Path:
    made = await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)
    return made.path


def settled(root: Path, tree: Path, taken: SnapshotTaken, n: int = 1) -> None:
    """The branch, its ref and HEAD stand at the snapshot, and the next agent finds it clean."""
    assert git(tree, "symbolic-ref", "HEAD") == "refs/heads/relay/s1"
    assert git(root, "rev-parse", "relay/s1") == taken.commit
    assert git(root, "rev-parse", f"refs/relay/s1/{n}") == taken.commit
    assert git(root, "rev-parse", f"{taken.commit}^{{tree}}") == taken.tree
    assert status(tree) == ""
    git(root, "fsck", "--strict", "--connectivity-only")
    assert not list((root / ".git").rglob("relay-index-*"))


async def test_a_snapshot_holds_the_work_and_says_what_it_is(root: Path, tree: Path) -> None:
    write(tree, {"a.txt": "a\nmore\n", "new.txt": "1\n2\n", "pic.png": b"\x89PNG\0\xff"})
    (tree / "b.txt").unlink()
    before = fingerprint(root)
    taken = await take(tree, "s1", 1, "Half-way\n\nbody", author=Identity(name="Ada <x>", email="a@b.org"))
    settled(root, tree, taken)
    assert fingerprint(root) == before
    assert taken.made
    assert taken.parent == git(root, "rev-parse", "main")
    assert taken.changed == (
        FileChange(path="a.txt", status="M", added=1, removed=0),
        FileChange(path="b.txt", status="D", added=0, removed=1),
        FileChange(path="new.txt", status="A", added=2, removed=0),
        FileChange(path="pic.png", status="A", binary=True),
    )
    assert (
        git(root, "log", "-1", "--format=%an|%ae|%B", taken.commit).strip()
        == "Ada  x|a@b.org|Half-way\n\nbody"
    )


async def test_nothing_new_makes_no_commit(root: Path, tree: Path) -> None:
    write(tree, {"a.txt": "changed\n"})
    first = await take(tree, "s1", 1, "snap")
    again = await take(tree, "s1", 1, "snap")
    second = await take(tree, "s1", 2, "snap")
    assert (again.made, again.commit, again.parent, again.changed) == (
        False,
        first.commit,
        first.parent,
        first.changed,
    )
    assert (second.made, second.commit, second.changed) == (False, first.commit, ())
    settled(root, tree, second, 2)


async def test_what_the_agent_committed_is_kept_as_it_is(root: Path, tree: Path) -> None:
    write(tree, {"a.txt": "committed\n"})
    commit = commit_all(tree, "agent's own")
    taken = await take(tree, "s1", 1, "snap")
    assert (taken.made, taken.commit) == (False, commit)
    settled(root, tree, taken)


def type_changes(tree: Path) -> None:
    (tree / "a.txt").unlink()
    (tree / "a.txt").symlink_to("b.txt")
    (tree / "b.txt").chmod(0o755)
    shutil.rmtree(tree / "dir")
    write(tree, {"dir": "file now\n"})


def link_for_folder(tree: Path) -> None:
    shutil.rmtree(tree / "dir")
    (tree / "dir").symlink_to("/tmp")


def folder_for_file(tree: Path) -> None:
    (tree / "a.txt").unlink()
    write(tree, {"a.txt/b/c": "deep\n"})


def hostile_names(tree: Path) -> None:
    for name in (
        b"-rf",
        b"--output=x",
        b"line\nbreak",
        b"tab\there",
        b'"quoted"',
        b"caf\xe9",
        b"*",
        b"\\n",
        b" ",
    ):
        Path(os.fsdecode(os.path.join(os.fsencode(tree), name))).write_bytes(b"x\n")  # noqa: PTH118


def case_only(tree: Path) -> None:
    (tree / "a.txt").rename(tree / "A.TXT")


def staged_away(tree: Path) -> None:
    git(tree, "rm", "-q", "--cached", "a.txt")
    git(tree, "add", "-N", ".")


def without_index(tree: Path) -> None:
    Path(git(tree, "rev-parse", "--git-path", "index")).unlink()
    write(tree, {"n": "n\n"})


def emptied(tree: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tree / name).unlink()
    shutil.rmtree(tree / "dir")


CHANGES = (
    type_changes, link_for_folder, folder_for_file, hostile_names,
    case_only, staged_away, without_index, emptied,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
async def test_any_state_of_files_is_what_git_add_all_would_take(
    root: Path, tree: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(tree)
    taken = await take(tree, "s1", 1, "snap")
    settled(root, tree, taken)
    git(tree, "rm", "-r", "-q", "--cached", "--ignore-unmatch", ".")
    git(tree, "add", "-A")
    assert git(tree, "write-tree") == taken.tree


async def test_names_that_are_no_text_are_written_as_git_quotes_them(tree: Path) -> None:
    hostile_names(tree)
    taken = await take(tree, "s1", 1, "snap")
    assert {change.path for change in taken.changed} == {
        "-rf", "--output=x", "line\nbreak", "tab\there", '"\\042quoted\\042"', '"caf\\351"', "*", "\\n", " ",
    }  # fmt: skip


async def test_large_files_stay_out_and_are_named(root: Path, tree: Path) -> None:
    write(tree, {"old.bin": b"x"})
    await take(tree, "s1", 1, "snap", max_file_mb=0.1)
    write(tree, {"old.bin": b"x" * 200_000, "new.bin": b"y" * 200_000, "ok.txt": "ok\n"})
    taken = await take(tree, "s1", 2, "snap", max_file_mb=0.1)
    assert sorted(taken.left_out) == [("new.bin", 200_000), ("old.bin", 200_000)]
    assert [change.path for change in taken.changed] == ["ok.txt"]
    assert show(root, taken.commit, "old.bin") == "x"
    assert (tree / "new.bin").stat().st_size == 200_000
    assert any("new.bin (0.2 MB) is too large" in note for note in taken.notes)


async def test_ignored_files_and_nested_repositories_stay_out(tree: Path) -> None:
    write(tree, {".gitignore": "*.log\n", "x.log": "x"})
    make_repo(tree / "nested")
    os.mkfifo(tree / "pipe")
    taken = await take(tree, "s1", 1, "snap")
    assert [change.path for change in taken.changed] == [".gitignore"]
    assert any("nested" in note for note in taken.notes)


async def test_a_snapshot_is_taken_where_a_fifo_replaced_a_file(root: Path, tree: Path) -> None:
    (tree / "a.txt").unlink()
    os.mkfifo(tree / "a.txt")
    write(tree, {"b.txt": "work\n"})
    taken = await take(tree, "s1", 1, "snap")
    assert show(root, taken.commit, "b.txt") == "work"


async def test_work_on_another_branch_comes_to_the_sessions(root: Path, tree: Path) -> None:
    git(tree, "switch", "-q", "-c", "agents-own")
    write(tree, {"a.txt": "there\n"})
    other = commit_all(tree, "elsewhere")
    write(tree, {"b.txt": "open\n"})
    taken = await take(tree, "s1", 1, "snap")
    settled(root, tree, taken)
    assert git(root, "rev-parse", f"{taken.commit}^") == other
    assert git(root, "rev-parse", "agents-own") == other
    assert "on the branch agents-own" in "".join(taken.notes)


async def test_both_branches_are_parents_when_each_has_work(root: Path, tree: Path) -> None:
    write(tree, {"a.txt": "session\n"})
    first = await take(tree, "s1", 1, "snap")
    git(tree, "switch", "-q", "-c", "agents-own", "main")
    write(tree, {"b.txt": "elsewhere\n"})
    other = commit_all(tree, "elsewhere")
    taken = await take(tree, "s1", 2, "snap")
    settled(root, tree, taken, 2)
    assert git(root, "rev-parse", f"{taken.commit}^1", f"{taken.commit}^2").split() == [other, first.commit]
    again = await take(tree, "s1", 2, "snap")
    assert (again.commit, again.made) == (taken.commit, False)


async def test_commits_on_a_detached_head_are_not_lost(root: Path, tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach")
    write(tree, {"a.txt": "detached\n"})
    commit = commit_all(tree, "detached")
    taken = await take(tree, "s1", 1, "snap")
    settled(root, tree, taken)
    assert taken.commit == commit
    assert "no branch (detached HEAD)" in "".join(taken.notes)


def orphan(tree: Path) -> None:
    git(tree, "checkout", "-q", "--orphan", "new-root")


def branch_deleted(tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach")
    git(tree, "branch", "-q", "-D", "relay/s1")


def reset_back(tree: Path) -> None:
    write(tree, {"gone.txt": "gone\n"})
    commit_all(tree, "to be reset")
    git(tree, "reset", "-q", "--hard", "HEAD~1")


def head_garbled(tree: Path) -> None:
    git(tree, "symbolic-ref", "HEAD", "refs/heads/nowhere")


@pytest.mark.parametrize(
    "change", [orphan, branch_deleted, reset_back, head_garbled], ids=lambda f: f.__name__
)
async def test_whatever_was_done_to_head_the_work_is_on_the_branch(
    root: Path, tree: Path, change: Callable[[Path], None]
) -> None:
    change(tree)
    write(tree, {"work.txt": "work\n"})
    taken = await take(tree, "s1", 1, "snap")
    settled(root, tree, taken)
    assert show(root, taken.commit, "work.txt") == "work"
    assert git(root, "merge-base", taken.commit, "main") == git(root, "rev-parse", "main")


def diverge(tree: Path) -> None:
    git(tree, "switch", "-q", "-c", "side")
    write(tree, {"a.txt": "side\n"})
    commit_all(tree, "side")
    git(tree, "switch", "-q", "relay/s1")
    write(tree, {"a.txt": "session\n"})
    commit_all(tree, "session")


@pytest.mark.parametrize("verb", ["merge", "rebase", "cherry-pick"])
async def test_an_unfinished_merge_is_taken_as_it_lies(root: Path, tree: Path, verb: str) -> None:
    diverge(tree)
    before = git(root, "rev-parse", "relay/s1")
    git(tree, verb, "side", ok=False)
    assert "<<<<<<<" in (tree / "a.txt").read_text()
    taken = await take(tree, "s1", 1, "snap")
    settled(root, tree, taken)
    assert "<<<<<<<" in show(root, taken.commit, "a.txt")
    assert git(root, "merge-base", taken.commit, before) == before
    assert f"A {verb} was under way" in "".join(taken.notes)
    assert "a.txt" in "".join(taken.notes)


async def test_a_merge_can_be_concluded_after_the_snapshot(root: Path, tree: Path) -> None:
    diverge(tree)
    git(tree, "merge", "side", ok=False)
    await take(tree, "s1", 1, "snap")
    write(tree, {"a.txt": "resolved\n"})
    git(tree, "commit", "-q", "-a", "-m", "concluded")
    assert git(root, "merge-base", "relay/s1", "side") == git(root, "rev-parse", "side")


async def test_commits_in_a_submodule_are_in_the_snapshot(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    tree = await worktree_of(root)
    inner = commit_all(tree / "lib", "inside")
    taken = await take(tree, "s1", 1, "snap")
    assert tree_of(root, taken.commit)["lib"] == f"160000 {inner}"


async def test_nothing_is_committed_where_the_worktree_is_not_ours_any_more(root: Path, tree: Path) -> None:
    write(root, {"a.txt": "the user's own\n"})
    before = fingerprint(root), git(root, "for-each-ref")
    saved = (tree / ".git").read_bytes()
    (tree / ".git").unlink()
    with pytest.raises(NoRepositoryError, match="no worktree"):
        await take(tree, "s1", 1, "snap")
    git(tree, "init", "-q")
    with pytest.raises(NoRepositoryError, match="repository of its own"):
        await take(tree, "s1", 1, "snap")
    assert (fingerprint(root), git(root, "for-each-ref")) == before
    shutil.rmtree(tree / ".git")
    (tree / ".git").write_bytes(saved)
    assert (await take(tree, "s1", 1, "snap")).commit
    shutil.rmtree(tree)
    with pytest.raises(NoRepositoryError, match="is gone"):
        await take(tree, "s1", 2, "snap")


async def test_a_session_in_the_users_checkout_moves_nothing_there(root: Path) -> None:
    write(root, {"a.txt": "agent and user\n", "new.txt": "new\n"})
    git(root, "add", "new.txt")
    before = fingerprint(root)
    taken = await take(root, "s1", 1, "snap", move_branch=False)
    again = await take(root, "s1", 1, "snap", move_branch=False)
    assert fingerprint(root) == before
    assert (again.commit, again.made) == (taken.commit, False)
    assert git(root, "rev-parse", "refs/relay/s1/1") == taken.commit
    assert git(root, "branch", "--list", "relay/*") == ""
    assert show(root, taken.commit, "new.txt") == "new"


class Died(BaseException):
    """The process is gone: nothing after it runs."""


@contextlib.contextmanager
def dying() -> Iterator[None]:
    died = False
    try:
        yield
    except* Died:
        died = True
    assert died


@pytest.mark.parametrize("counted_from", ["the parent", "the base"])
@pytest.mark.parametrize(
    "step", ["status", "update-index", "write-tree", "commit-tree", "update-ref", "symbolic-ref"]
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_after_a_crash_at_any_step_it_ends_the_same(
    root: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str, counted_from: str
) -> None:
    since = git(root, "rev-parse", "main") if counted_from == "the base" else None
    git(tree, "checkout", "-q", "--detach")
    write(tree, {"a.txt": "work\n", "new.txt": "new\n"})
    real = Git.run

    async def run(self: Git, *args: str, **options: object) -> object:
        if args[0] == step and when == "before":
            raise Died
        result = await real(self, *args, **options)  # type: ignore[arg-type]
        if args[0] == step:
            raise Died
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Git, "run", run)
        with dying():
            await take(tree, "s1", 1, "snap", since=since)
    taken = await take(tree, "s1", 1, "snap", since=since)
    settled(root, tree, taken)
    assert git(root, "rev-list", "--count", f"main..{taken.commit}") == "1"
    assert [change.path for change in taken.changed] == ["a.txt", "new.txt"]


async def test_a_crash_before_the_index_is_in_place_is_mended(
    root: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a.txt": "work\n"})

    async def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "install_index", die)
        with pytest.raises(Died):
            await take(tree, "s1", 1, "snap")
    assert status(tree) != ""
    settled(root, tree, await take(tree, "s1", 1, "snap"))


async def test_a_lock_of_somebody_else_is_named_and_kept(
    root: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = root / ".git/worktrees/s1/index.lock"
    lock.write_text("")
    write(tree, {"a.txt": "work\n"})
    with pytest.raises(ConflictError, match=r"index\.lock") as caught:
        await take(tree, "s1", 1, "snap")
    assert "delete that file" in caught.value.hint
    assert lock.exists()
    lock.unlink()
    settled(root, tree, await take(tree, "s1", 1, "snap"))


async def test_the_lock_of_a_relay_that_died_is_taken_over(root: Path, tree: Path) -> None:
    (root / ".git/worktrees/s1/index.lock").write_text("relay 4194303 1.0 0123456789abcdef\n")
    (root / ".git/worktrees/s1/relay-index-4194303-00000000").write_text("")
    write(tree, {"a.txt": "work\n"})
    settled(root, tree, await take(tree, "s1", 1, "snap"))


async def test_where_there_are_no_hard_links_the_index_is_put_in_place_too(
    root: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    write(tree, {"a.txt": "work\n"})
    settled(root, tree, await take(tree, "s1", 1, "snap"))
    lock = root / ".git/worktrees/s1/index.lock"
    lock.write_text("")
    write(tree, {"a.txt": "more\n"})
    with pytest.raises(ConflictError):
        await take(tree, "s1", 2, "snap")
    assert lock.read_text() == ""


async def test_a_store_that_cannot_be_written_loses_nothing(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a.txt": "work\n"})
    objects = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir")) / "objects"
    saved = objects.rename(objects.with_name("objects.saved"))
    objects.write_text("no folder")
    with pytest.raises((GitError, NoRepositoryError)) as caught:
        await take(tree, "s1", 1, "snap")
    assert caught.value.hint
    objects.unlink()
    saved.rename(objects)
    assert (await take(tree, "s1", 1, "snap")).made


async def test_the_work_since_an_earlier_commit_is_told(root: Path, tree: Path) -> None:
    base = git(root, "rev-parse", "main")
    write(tree, {"a.txt": "a\nb\n", "b.txt": ""})
    await take(tree, "s1", 1, "snap")
    write(tree, {"new.txt": "new\n"})
    taken = await take(tree, "s1", 2, "snap", since=base)
    assert [change.path for change in taken.changed] == ["a.txt", "b.txt", "new.txt"]
    assert stat_line(taken.changed) == "3 files changed, 2 insertions(+), 1 deletion(-)"
    again = await take(tree, "s1", 3, "snap", since=base)
    assert (again.made, again.changed) == (False, taken.changed)
    with pytest.raises(GitError):
        await take(tree, "s1", 4, "snap", since="0" * 40)
