"""Merging a session's work into a checkout that a user works in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest

from relay.effects import merge as merge_module
from relay.effects.git import Git
from relay.effects.merge import MergeDone, merge
from relay.effects.repository import inspect
from relay.effects.snapshot import take
from relay.effects.worktree import create
from relay.errors import ConflictError, NotFoundError
from tests.fakes.repos import commit_all, fingerprint, git, isolate, make_repo, status, write


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repo(
        tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n", "dir/c.txt": "c\n", ".gitignore": "*.log\n"}
    )


async def begin(root: Path) -> Path:
    return (await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)).path


async def work(root: Path, files: dict[str, str | bytes] | None = None) -> str:
    """A session whose agent wrote `files`; the snapshot's commit."""
    tree = await begin(root)
    write(tree, files if files is not None else {"a.txt": "agent\n", "new/n.txt": "new\n"})
    return (await take(tree, "s1", 1, "snap")).commit


async def merged(root: Path) -> MergeDone:
    return await merge(await inspect(root), "s1")


async def test_where_nothing_else_happened_the_branch_moves_on(root: Path) -> None:
    before = git(root, "rev-parse", "main")
    commit = await work(root)
    done = await merged(root)
    assert done == MergeDone(
        branch="main", commit=commit, previous=before, files=("a.txt", "new/n.txt"), fast_forward=True
    )
    assert git(root, "rev-parse", "main", "ORIG_HEAD").split() == [commit, before]
    assert (root / "a.txt").read_text() == "agent\n"
    assert (root / "new/n.txt").read_text() == "new\n"
    assert status(root) == ""
    assert not list((root / ".git").glob("*.lock")) + list((root / ".git").glob("relay-index-*"))


async def test_merged_twice_there_is_nothing_to_do(root: Path) -> None:
    await work(root)
    first = await merged(root)
    second = await merged(root)
    assert (second.commit, second.files) == (first.commit, ())


async def test_work_on_both_sides_becomes_a_merge_commit_by_the_user(root: Path) -> None:
    commit = await work(root)
    write(root, {"b.txt": "user\n"})
    ours = commit_all(root, "user's own")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    done = await merged(root)
    assert not done.fast_forward
    assert (
        git(root, "log", "-1", "--format=%P|%an|%s")
        == f"{ours} {commit}|Ada|Merge branch 'relay/s1' into main"
    )
    assert ((root / "a.txt").read_text(), (root / "b.txt").read_text()) == ("agent\n", "user\n")
    assert status(root) == ""
    git(root, "fsck", "--strict")


async def test_without_a_name_of_the_user_the_merge_is_relays(root: Path) -> None:
    await work(root)
    write(root, {"b.txt": "user\n"})
    commit_all(root, "user's own")
    git(root, "config", "user.useConfigOnly", "true")
    await merged(root)
    assert git(root, "log", "-1", "--format=%an") == "Relay"


def not_for_libgit2(path: str) -> None:
    raise pygit2.GitError(f"{path}: unsupported extension name")


@pytest.mark.parametrize("by", ["libgit2", "git"])
async def test_the_same_lines_on_both_sides_change_nothing(
    root: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "git":
        monkeypatch.setattr(pygit2, "Repository", not_for_libgit2)
    await work(root, {"a.txt": "agent\n", "b.txt": "agent\n"})
    write(root, {"a.txt": "user\n", "b.txt": "user\n"})
    commit_all(root, "user's own")
    before = fingerprint(root)
    with pytest.raises(ConflictError, match=r"same lines: a\.txt, b\.txt") as caught:
        await merged(root)
    assert fingerprint(root) == before
    assert "git merge relay/s1" in caught.value.hint


async def test_what_was_carried_and_built_upon_is_merged(root: Path) -> None:
    """The most common way: start from a dirty checkout, leave it alone, merge."""
    write(root, {"a.txt": "draft\n", "b.txt": "kept\n", "note.txt": "note\n"})
    (root / "dir/c.txt").unlink()
    git(root, "add", "b.txt")
    (root / "note.txt").chmod(0o755)
    await work(root, {"a.txt": "draft, finished\n"})
    done = await merged(root)
    assert done.fast_forward
    assert (root / "a.txt").read_text() == "draft, finished\n"
    assert (root / "b.txt").read_text() == "kept\n"
    assert (root / "note.txt").stat().st_mode & 0o100
    assert not (root / "dir/c.txt").exists()
    assert status(root) == ""
    assert git(root, "show", "refs/relay/s1/carried:a.txt") == "draft"


async def test_uncommitted_work_elsewhere_is_left_alone(root: Path) -> None:
    await work(root)
    write(root, {"b.txt": "user's draft\n", "mine.txt": "mine\n", "x.log": "log\n"})
    git(root, "add", "mine.txt")
    await merged(root)
    assert status(root) == " M b.txt\nA  mine.txt"
    assert (root / "a.txt").read_text() == "agent\n"


def changed(root: Path) -> None:
    write(root, {"a.txt": "user's\n"})


def staged(root: Path) -> None:
    write(root, {"a.txt": "user's\n"})
    git(root, "add", "a.txt")


def staged_then_equal(root: Path) -> None:
    staged(root)
    write(root, {"a.txt": "agent\n"})


def deleted(root: Path) -> None:
    (root / "a.txt").unlink()


def executable(root: Path) -> None:
    (root / "a.txt").chmod(0o755)


def made_a_link(root: Path) -> None:
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to("b.txt")


def made_a_folder(root: Path) -> None:
    (root / "a.txt").unlink()
    write(root, {"a.txt/inner": "user's\n"})


def untracked(root: Path) -> None:
    write(root, {"new/n.txt": "user's\n"})


def untracked_file_for_folder(root: Path) -> None:
    write(root, {"new": "user's\n"})


def link_for_folder(root: Path) -> None:
    (root / "elsewhere").mkdir()
    (root / "new").symlink_to("elsewhere")


def ignored(root: Path) -> None:
    write(root, {"out.log": "user's\n"})


def ignored_in_an_ignored_folder(root: Path) -> None:
    write(root, {".git/info/exclude": "/new/\n", "new/n.txt": "user's\n"})


def ignored_file_for_folder(root: Path) -> None:
    write(root, {".git/info/exclude": "/new\n", "new": "user's\n"})


LOSSES = (
    changed, staged, staged_then_equal, deleted, executable, made_a_link, made_a_folder, untracked,
    untracked_file_for_folder, link_for_folder, ignored, ignored_in_an_ignored_folder,
    ignored_file_for_folder,
)  # fmt: skip


@pytest.mark.parametrize("change", LOSSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("both_sides", [False, True], ids=["forward", "merge"])
async def test_nothing_uncommitted_is_ever_overwritten(
    root: Path, change: Callable[[Path], None], both_sides: bool
) -> None:
    tree = await begin(root)
    write(tree, {"a.txt": "agent\n", "new/n.txt": "new\n", "out.log": "agent\n"})
    git(tree, "add", "-f", "out.log")
    await take(tree, "s1", 1, "snap")
    if both_sides:
        write(root, {"b.txt": "user\n"})
        commit_all(root, "user's own")
    change(root)
    before = fingerprint(root)
    with pytest.raises(ConflictError) as caught:
        await merged(root)
    assert fingerprint(root) == before
    assert "uncommitted" in caught.value.message
    assert any(name in caught.value.message for name in ("a.txt", "new", "out.log"))
    assert "ommit" in caught.value.hint
    assert not list((root / ".git").glob("*.lock")) + list((root / ".git").glob("relay-index-*"))


async def test_a_change_after_it_was_carried_is_not_overwritten(root: Path) -> None:
    write(root, {"a.txt": "draft\n"})
    await work(root, {"a.txt": "draft, finished\n"})
    write(root, {"a.txt": "draft, by hand\n"})
    with pytest.raises(ConflictError, match=r"a\.txt"):
        await merged(root)
    assert (root / "a.txt").read_text() == "draft, by hand\n"


async def test_an_ignored_folder_with_other_files_is_in_nobodys_way(root: Path) -> None:
    write(root, {".git/info/exclude": "/new/\n", "new/other.txt": "user's\n"})
    tree = await begin(root)
    write(tree, {"new/n.txt": "new\n"})
    git(tree, "add", "-f", "new/n.txt")
    await take(tree, "s1", 1, "snap")
    await merged(root)
    assert sorted(path.name for path in (root / "new").iterdir()) == ["n.txt", "other.txt"]


async def test_names_of_every_kind_are_merged(root: Path) -> None:
    names = [os.fsdecode(n) for n in (b"-rf", b"line\nbreak", b'"q"', b"caf\xe9", b"*", b" x")]
    write(root, dict.fromkeys(names, "draft\n"))
    await work(root, dict.fromkeys(names[:3], "done\n"))
    await merged(root)
    assert [(root / name).read_text() for name in names] == ["done\n"] * 3 + ["draft\n"] * 3
    assert status(root) == ""


async def test_line_ends_are_no_difference(root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    write(root, {"dos.txt": "one\r\n"})
    await work(root, {"dos.txt": "one\r\ntwo\r\n"})
    await merged(root)
    assert (root / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert status(root) == ""


def detached(root: Path) -> None:
    git(root, "checkout", "-q", "--detach")


def merging(root: Path) -> None:
    git(root, "switch", "-q", "-c", "side", "main")
    write(root, {"b.txt": "side\n"})
    commit_all(root, "side")
    git(root, "switch", "-q", "main")
    write(root, {"b.txt": "main\n"})
    commit_all(root, "main")
    git(root, "merge", "side", ok=False)


def unmerged(root: Path) -> None:
    merging(root)
    git(root, "merge", "--quit")


@pytest.mark.parametrize(
    ("change", "want_text", "want_hint"),
    [
        (detached, "detached HEAD", "git switch"),
        (merging, "a merge is under way", "git merge --abort"),
        (unmerged, "b.txt is unmerged", "Resolve"),
    ],
)
async def test_a_checkout_in_the_midst_of_something_is_refused(
    root: Path, change: Callable[[Path], None], want_text: str, want_hint: str
) -> None:
    await work(root)
    change(root)
    before = fingerprint(root)
    with pytest.raises(ConflictError) as caught:
        await merged(root)
    assert fingerprint(root) == before
    assert want_text in caught.value.message
    assert want_hint in caught.value.hint


async def test_the_work_of_a_branch_that_somebody_deleted_can_be_had_from_its_last_snapshot(
    root: Path,
) -> None:
    await work(root)
    write(root / ".relay/worktrees/s1", {"later.txt": "later\n"})
    last = await take(root / ".relay/worktrees/s1", "s1", 2, "snap")
    git(root, "update-ref", "-d", "refs/heads/relay/s1")

    with pytest.raises(NotFoundError) as caught:
        await merged(root)

    command = caught.value.hint.partition(": ")[2].split()
    git(root, *command[1:])
    assert git(root, "rev-parse", "relay/s1") == last.commit


async def test_a_session_without_a_branch_is_not_found(root: Path) -> None:
    with pytest.raises(NotFoundError, match="relay/s1"):
        await merged(root)


async def test_a_lock_of_somebody_else_is_named_and_kept(root: Path) -> None:
    await work(root)
    lock = root / ".git/index.lock"
    lock.write_text("")
    with pytest.raises(ConflictError, match=r"index\.lock"):
        await merged(root)
    assert lock.exists()
    assert (root / "a.txt").read_text() == "a\n"


@pytest.mark.parametrize("by", ["libgit2", "git"])
async def test_the_merge_driver_of_the_repository_is_not_run(
    root: Path, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "git":
        monkeypatch.setattr(pygit2, "Repository", not_for_libgit2)
    write(root, {".gitattributes": "*.txt merge=evil\n", "long.txt": "1\n2\n3\n4\n5\n"})
    commit_all(root, "attributes")
    git(root, "config", "merge.evil.driver", f"touch {tmp_path}/canary")
    await work(root, {"long.txt": "1\n2\n3\n4\nagent\n"})
    write(root, {"long.txt": "user\n2\n3\n4\n5\n"})
    commit_all(root, "user's own")
    await merged(root)
    assert (root / "long.txt").read_text() == "user\n2\n3\n4\nagent\n"
    assert not (tmp_path / "canary").exists()


class Died(BaseException):
    """The process is gone: nothing after it runs."""


@pytest.mark.parametrize("step", ["commit-tree", "read-tree", "update-ref", "replace"])
@pytest.mark.parametrize("both_sides", [False, True], ids=["forward", "merge"])
async def test_after_a_crash_at_any_step_it_ends_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, both_sides: bool
) -> None:
    write(root, {"b.txt": "draft\n"})
    await work(root, {"a.txt": "agent\n", "b.txt": "draft, finished\n", "new/n.txt": "new\n"})
    if both_sides:
        git(root, "stash", "-q")
        write(root, {"dir/c.txt": "user\n"})
        commit_all(root, "user's own")
        git(root, "stash", "pop", "-q")
    real = Git.run

    async def run(self: Git, *args: str, **options: object) -> object:
        result = await real(self, *args, **options)  # type: ignore[arg-type]
        if args[0] == step and (step != "read-tree" or "-u" in args):
            raise Died
        return result

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Git, "run", run)
        if step == "replace":
            patch.setattr(merge_module, "replace_index", die)
        died = step != "commit-tree" or both_sides
        if died:
            with pytest.raises(Died):
                await merged(root)
    await merged(root)
    assert (root / "a.txt").read_text() == "agent\n"
    assert (root / "b.txt").read_text() == "draft, finished\n"
    assert (root / "dir/c.txt").read_text() == ("user\n" if both_sides else "c\n")
    assert status(root) == ""
    assert git(root, "rev-list", "--count", "--merges", "main") == str(int(both_sides))
