"""Repositories whose objects or refs are stored in another way than most: SHA-256, and clones in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.effects.history import commit_diff
from relay.effects.merge import merge
from relay.effects.repository import inspect
from relay.effects.snapshot import take
from relay.effects.worktree import create, discard
from relay.errors import ConflictError, GitError
from tests.fakes.repos import commit_all, git, isolate, make_repo, show, status, write


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


def sha256(root: Path) -> Path:
    root.mkdir()
    git(root, "init", "-q", "-b", "main", "--object-format=sha256")
    write(root, {"a.txt": "1\n2\n3\n4\n5\n", "gone.txt": "gone\n", "kept.txt": "kept\n"})
    commit_all(root, "First")
    return root


async def test_work_on_both_sides_is_merged_with_a_deletion_that_was_carried(tmp_path: Path) -> None:
    root = sha256(tmp_path / "repo")
    (root / "gone.txt").unlink()
    tree = (await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)).path
    write(tree, {"a.txt": "1\n2\n3\n4\nagent\n"})
    taken = await take(tree, "s1", 1, "snap")
    assert len(taken.commit) == 64
    write(root, {"a.txt": "user\n2\n3\n4\n5\n"})
    git(root, "commit", "-q", "-m", "user's own", "a.txt")

    done = await merge(await inspect(root), "s1")

    assert set(done.files) == {"a.txt", "gone.txt"}
    assert (root / "a.txt").read_text() == "user\n2\n3\n4\nagent\n"
    assert not (root / "gone.txt").exists()
    assert status(root) == ""


async def test_the_same_lines_on_both_sides_change_nothing(tmp_path: Path) -> None:
    root = sha256(tmp_path / "repo")
    tree = (await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)).path
    write(tree, {"a.txt": "agent\n"})
    await take(tree, "s1", 1, "snap")
    write(root, {"a.txt": "user\n"})
    commit_all(root, "user's own")
    with pytest.raises(ConflictError, match=r"the same lines: a\.txt"):
        await merge(await inspect(root), "s1")
    assert (root / "a.txt").read_text() == "user\n"


async def test_a_submodule_is_filled_and_its_work_stops_the_end(tmp_path: Path) -> None:
    library, root = sha256(tmp_path / "library"), sha256(tmp_path / "repo")
    git(root, "submodule", "--quiet", "add", str(library), "lib")
    commit_all(root, "With a submodule")
    repo = await inspect(root)
    made = await create(repo, "s1", root / ".relay/worktrees/s1", carry=True)
    assert (made.path / "lib/a.txt").exists()
    write(made.path, {"lib/a.txt": "work\n"})
    with pytest.raises(ConflictError, match="nowhere else: lib"):
        await discard(repo, "s1", made.path)
    write(made.path, {"lib/a.txt": "1\n2\n3\n4\n5\n"})
    await discard(repo, "s1", made.path)
    assert not made.path.exists()


async def test_what_a_clone_in_part_does_not_hold_is_not_fetched(tmp_path: Path) -> None:
    source = make_repo(tmp_path / "source", {"a.txt": "1\n"})
    git(source, "config", "uploadpack.allowFilter", "true")
    for text in ("2\n", "3\n", "4\n"):
        write(source, {"a.txt": text})
        commit_all(source, text)
    root = tmp_path / "repo"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{source}", str(root))
    packs = sorted((root / ".git/objects").rglob("*"))
    with pytest.raises(GitError) as caught:
        await commit_diff(root, git(root, "rev-parse", "HEAD~1"))
    assert "git fetch" in caught.value.hint
    assert sorted((root / ".git/objects").rglob("*")) == packs
    assert show(root, "HEAD", "a.txt") == "4"
