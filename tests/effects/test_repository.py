"""Looking at repositories of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.effects.git import open_git
from relay.effects.gitnames import BadNameError
from relay.effects.repository import inspect, resolve_commit
from relay.errors import NoRepositoryError, NotFoundError, RepositoryRefusedError
from tests.fakes.repos import commit_all, git, isolate, make_repo, with_submodule, write


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


async def test_a_clean_repository_is_described_from_any_folder_in_it(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    found = await inspect(root / "dir")
    assert (found.root, found.common_dir, found.branch) == (root, root / ".git", "main")
    assert found.head_commit == git(root, "rev-parse", "HEAD")
    assert (found.dirty_count, found.has_submodules, found.sparse, found.busy) == (0, False, False, "")


async def test_what_is_special_is_told(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "lib")
    write(root, {"a.txt": "changed\n", "new/x": "x", "new/y": "y"})
    git(root, "checkout", "-q", "--detach")
    found = await inspect(root)
    assert found.branch is None
    assert found.has_submodules
    assert found.dirty_count == 2


async def test_a_linked_worktree_is_a_root_of_its_own(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    found = await inspect(tmp_path / "side")
    assert (found.root, found.branch) == (tmp_path / "side", "side")
    assert found.common_dir == root / ".git"
    assert found.git_dir == root / ".git/worktrees/side"


async def test_an_unfinished_merge_is_seen(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    git(root, "switch", "-q", "-c", "side")
    write(root, {"a.txt": "side\n"})
    commit_all(root, "side")
    git(root, "switch", "-q", "main")
    write(root, {"a.txt": "main\n"})
    commit_all(root, "main")
    git(root, "merge", "side", ok=False)
    assert (await inspect(root)).busy == "merge"


def plain(tmp: Path) -> Path:
    (tmp / "plain").mkdir()
    return tmp / "plain"


def a_file(tmp: Path) -> Path:
    (tmp / "file").write_text("x")
    return tmp / "file"


def bare(tmp: Path) -> Path:
    git(tmp, "init", "-q", "--bare", "bare.git")
    return tmp / "bare.git"


def inside_git_dir(tmp: Path) -> Path:
    return make_repo(tmp / "repo") / ".git"


def unborn(tmp: Path) -> Path:
    git(tmp, "init", "-q", "unborn")
    return tmp / "unborn"


def home_itself(tmp: Path) -> Path:
    write(tmp / "home", {"x": "x"})
    git(tmp / "home", "init", "-q")
    commit_all(tmp / "home", "all of it")
    return tmp / "home"


def above_home(tmp: Path) -> Path:
    git(tmp, "init", "-q")
    commit_all(tmp, "all of it")
    return tmp


def elsewhere(tmp: Path) -> Path:
    root = make_repo(tmp / "repo")
    (tmp / "other").mkdir()
    git(root, "config", "core.worktree", str(tmp / "other"))
    return root


def broken(tmp: Path) -> Path:
    root = make_repo(tmp / "repo")
    (root / ".git/HEAD").write_text("nonsense\n")
    return root


@pytest.mark.parametrize(
    ("make", "want_error", "want_text", "want_hint"),
    [
        (lambda tmp: tmp / "nowhere", NoRepositoryError, "is not a folder", "folder"),
        (a_file, NoRepositoryError, "is not a folder", "folder"),
        (plain, NoRepositoryError, "is in no git repository", "--in-place"),
        (broken, NoRepositoryError, "is in no git repository", "git init"),
        (bare, RepositoryRefusedError, "bare", "git clone"),
        (inside_git_dir, RepositoryRefusedError, "inside a git folder", "git clone"),
        (unborn, RepositoryRefusedError, "no commit yet", "commit -m"),
        (home_itself, RepositoryRefusedError, "home folder", "git init"),
        (above_home, RepositoryRefusedError, "home folder", "git init"),
        (elsewhere, RepositoryRefusedError, "core.worktree", "core.worktree"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_what_cannot_be_worked_in_is_refused_with_a_mend(
    tmp_path: Path, make: object, want_error: type[Exception], want_text: str, want_hint: str
) -> None:
    folder = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(want_error) as caught:
        await inspect(folder)
    assert want_text in caught.value.message  # type: ignore[attr-defined]
    assert want_hint in caught.value.hint  # type: ignore[attr-defined]


async def test_looking_changes_nothing(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    (root / "a.txt").touch()
    before = (root / ".git/index").stat().st_mtime_ns, sorted((root / ".git").rglob("*"))
    await inspect(root)
    assert ((root / ".git/index").stat().st_mtime_ns, sorted((root / ".git").rglob("*"))) == before


async def test_a_commit_is_found_by_its_id_alone(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    head = git(root, "rev-parse", "HEAD")
    call = await open_git(root)
    assert await resolve_commit(call, head[:8]) == head
    tree = git(root, "rev-parse", "HEAD^{tree}")
    for absent in ("0" * 40, tree):
        with pytest.raises(NotFoundError):
            await resolve_commit(call, absent)
    with pytest.raises(BadNameError):
        await resolve_commit(call, "--output=/tmp/x")


async def test_a_commit_of_another_branch_is_none_of_the_sessions(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    git(root, "branch", "relay/s1")
    other = commit_all(root, "later")
    call = await open_git(root)
    assert await resolve_commit(call, git(root, "rev-parse", "relay/s1"), sid="s1")
    with pytest.raises(NotFoundError, match="of session s1"):
        await resolve_commit(call, other, sid="s1")
