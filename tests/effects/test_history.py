"""Reading what a session did, and going back to it."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pygit2
import pytest

from relay.core.wire import to_wire
from relay.effects import history_git
from relay.effects.gitnames import BadNameError
from relay.effects.history import commit_diff, diff, session_commits, session_diff
from relay.effects.repository import inspect
from relay.effects.rewind import rewind
from relay.effects.snapshot import FileChange, take
from relay.effects.worktree import create, discard
from relay.errors import DiskFullError, GitError, NoRepositoryError, NotFoundError
from tests.fakes.repos import commit_all, fingerprint, git, isolate, make_repo, write


@pytest.fixture(autouse=True, params=["libgit2", "git"])
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """By each of the two that can read; git alone reads what libgit2 can't open."""
    isolate(monkeypatch, tmp_path / "home")
    if request.param == "git":
        monkeypatch.setattr(pygit2, "Repository", not_for_libgit2)


def not_for_libgit2(path: str) -> None:
    raise pygit2.GitError(f"{path}: unsupported extension name")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n", "long.txt": "line\n" * 50})


@pytest.fixture
async def tree(root: Path) -> Path:
    return (await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)).path


async def test_a_difference_is_told_in_a_line_in_files_and_as_a_patch(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(root, {"a.txt": "a\nb\n", "pic": b"\0\1", "caf\udce9": "x\n"})
    (root / "long.txt").rename(root / "moved.txt")
    (root / "b.txt").unlink()
    tip = commit_all(root, "work")
    found = await diff(root, base[:10], tip)
    assert found.stat == "5 files changed, 2 insertions(+), 1 deletion(-)"
    assert found.files == (
        FileChange(path="a.txt", status="M", added=1),
        FileChange(path="b.txt", status="D", removed=1),
        FileChange(path='"caf\\351"', status="A", added=1),
        FileChange(path="moved.txt", status="R", old_path="long.txt"),
        FileChange(path="pic", status="A", binary=True),
    )
    assert "+b\n" in found.patch
    assert "rename from long.txt" in found.patch
    assert not found.cut
    assert await commit_diff(root, tip) == found
    assert to_wire(found)["files"][0] == {"path": "a.txt", "status": "M", "added": 1}


async def test_the_first_commit_is_compared_with_nothing(root: Path) -> None:
    found = await commit_diff(root, git(root, "rev-parse", "HEAD"))
    assert (found.base, [change.status for change in found.files]) == ("", ["A", "A", "A"])


async def test_a_long_patch_is_cut_and_says_so(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(root, {"a.txt": "x\n" * 5000, "huge.bin": b"x" * (9 << 20)})
    found = await diff(root, base, commit_all(root, "work"), limit=1000)
    assert found.cut
    assert len(found.patch) == 1000
    assert {change.path for change in found.files} == {"a.txt", "huge.bin"}


async def test_a_sessions_work_holds_what_is_not_committed_yet(root: Path, tree: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(tree, {"a.txt": "snapshot\n", ".gitignore": "*.log\n", "x.log": "x"})
    await take(tree, "s1", 1, "snap")
    write(tree, {"b.txt": "open\n", "new/n.txt": "new\n"})
    found = await session_diff(root, "s1", base, tree)
    assert [(f.path, f.status) for f in found.files] == [
        (".gitignore", "A"),
        ("a.txt", "M"),
        ("b.txt", "M"),
        ("new/n.txt", "A"),
    ]
    assert "+open\n" in found.patch
    assert "+new\n" in found.patch


async def test_looking_at_a_sessions_work_leaves_nothing_and_large_files_are_only_named(
    root: Path, tree: Path
) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(tree, {"a.txt": b"x" * (9 << 20), "new.bin": b"y" * (9 << 20), "b.txt": "open\n"})
    before = sorted((root / ".git").rglob("*"))
    found = await session_diff(root, "s1", base, tree)
    assert [(f.path, f.status, f.binary) for f in found.files] == [
        ("a.txt", "M", True),
        ("b.txt", "M", False),
        ("new.bin", "A", True),
    ]
    assert found.cut
    assert len(found.patch) < 1000
    assert sorted((root / ".git").rglob("*")) == before


async def test_a_full_disk_is_said_and_nothing_is_left(
    root: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(tree, {"a.txt": "other\n"})
    before = sorted((root / ".git").rglob("*"))
    write_bytes = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "alternates":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DiskFullError):
        await session_diff(root, "s1", base, tree)
    assert sorted((root / ".git").rglob("*")) == before


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    root: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(tree, {"a.txt": "open\n"})
    real, failures = history_git.stage_all, [GitError("exit status -7"), GitError("unstable object source")]

    async def stage(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real(*args)

    monkeypatch.setattr(history_git, "stage_all", stage)
    assert [f.path for f in (await session_diff(root, "s1", base, tree)).files] == ["a.txt"]
    failures += [GitError("broken")] * 9
    with pytest.raises(GitError, match="broken"):
        await session_diff(root, "s1", base, tree)


async def test_a_sessions_work_outlives_its_folder_and_its_branch(root: Path, tree: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(tree, {"a.txt": "work\n"})
    taken = await take(tree, "s1", 1, "snap")
    shutil.rmtree(tree)
    assert (
        await session_diff(root, "s1", base, tree)
    ).stat == "1 file changed, 1 insertion(+), 1 deletion(-)"
    await discard(await inspect(root), "s1", tree)
    assert (await session_diff(root, "s1", base, tree)).tip == taken.commit
    assert [commit.sha for commit in await session_commits(root, "s1", base)] == [taken.commit]


async def test_commits_come_newest_first_with_the_names_they_go_by(root: Path, tree: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(tree, {"a.txt": "1\n"})
    own = commit_all(tree, "agent's own\n\nwith a body")
    write(tree, {"a.txt": "2\n"})
    taken = await take(tree, "s1", 1, "snapshot")
    found = await session_commits(root, "s1", base)
    assert [(c.sha, c.subject, c.author, c.refs) for c in found] == [
        (taken.commit, "snapshot", "Relay", ("1",)),
        (own, "agent's own", "Tester", ()),
    ]
    assert found[0].parents == (own,)
    assert found[0].at.tzinfo is not None


@pytest.mark.parametrize("sha", ["--output=/tmp/x", "HEAD", "a..b", "main", "a" * 65])
async def test_only_ids_reach_the_repository(root: Path, sha: str) -> None:
    head = git(root, "rev-parse", "HEAD")
    for read in (
        diff(root, sha, head),
        diff(root, head, sha),
        commit_diff(root, sha),
        session_commits(root, "s1", sha),
    ):
        with pytest.raises(BadNameError):
            await read


async def test_what_is_not_there_is_said(root: Path, tmp_path: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    for absent in ("0" * 40, git(root, "rev-parse", "HEAD:a.txt")):
        with pytest.raises(NotFoundError, match=absent):
            await commit_diff(root, absent)
    with pytest.raises(NotFoundError, match="s9"):
        await session_commits(root, "s9", head)
    with pytest.raises(NoRepositoryError, match="in no git repository"):
        await diff(tmp_path, head, head)


async def test_going_back_makes_a_branch_and_nothing_else(root: Path, tree: Path) -> None:
    write(tree, {"a.txt": "work\n"})
    taken = await take(tree, "s1", 1, "snap")
    write(root, {"a.txt": "user's draft\n"})
    repo = await inspect(root)
    before = fingerprint(root)
    first = await rewind(repo, taken.commit[:12])
    assert await rewind(repo, taken.commit) == first
    assert git(root, "rev-parse", first.branch) == taken.commit
    assert first.hint == f"To go there: git switch {first.branch}"
    git(root, "branch", "-D", first.branch)
    assert fingerprint(root) == before
