"""A repository whose configuration names programs wherever it can: none of them ever runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relay.effects.history import commit_diff, session_commits, session_diff
from relay.effects.merge import merge
from relay.effects.repository import inspect
from relay.effects.rewind import rewind
from relay.effects.snapshot import take
from relay.effects.worktree import create, discard, remove
from tests.fakes.repos import commit_all, git, hostile, isolate, make_repo, show, with_submodule, write


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


async def everything(root: Path, name: str) -> None:
    """Every function of the git modules, in the order of a session's life."""
    files = {f"{name}.{kind}": "1\n" for kind in ("txt", "bin", "lfs", "inc", "linked", "branch")}
    write(root, files)
    repo = await inspect(root)
    path = root / ".relay/worktrees" / name
    made = await create(repo, name, path, carry=True)
    assert (await create(repo, name, path, carry=True)).carried_commit == made.carried_commit
    write(path, dict.fromkeys(files, "2\n"))
    taken = await take(path, name, 1, "snap")
    assert show(root, taken.commit, f"{name}.txt") == "2"
    await take(path, name, 2, "snap", since=made.base_commit)
    await commit_diff(root, taken.commit)
    await session_diff(root, name, made.base_commit, path)
    await session_commits(root, name, made.base_commit)
    await rewind(repo, taken.commit)
    done = await merge(repo, name)
    assert set(files) <= set(done.files)
    assert (root / f"{name}.txt").read_text() == "2\n"
    await remove(repo, name, path)
    shutil.rmtree(path, ignore_errors=True)
    await create(repo, name, path, carry=True)
    write(path, {"last.txt": "3\n"})
    await discard(repo, name, path)


async def test_no_program_that_the_repository_names_is_run(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    canary = tmp_path / "canary"
    hostile(root, canary)
    await everything(root, "s1")
    assert not canary.exists(), canary.read_text()
    # Both sides have moved on: a real merge, with its commit.
    repo = await inspect(root)
    path = root / ".relay/worktrees/s2"
    made = await create(repo, "s2", path, carry=False)
    write(path, {"a.txt": "agent\n"})
    await take(path, "s2", 1, "snap")
    ours = git(root, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    tree = git(root, "rev-parse", f"{ours}^{{tree}}")
    git(
        root,
        "-c",
        "core.hooksPath=/dev/null",
        "update-ref",
        "HEAD",
        git(root, "commit-tree", tree, "-p", ours, "-m", "x"),
    )
    canary.unlink(missing_ok=True)
    assert not (await merge(await inspect(root), "s2")).fast_forward
    assert made.notes
    assert not canary.exists(), canary.read_text()


async def test_the_canary_sings_when_git_is_run_plainly(tmp_path: Path) -> None:
    """The same repository, by plain git: shows that the test above tests something."""
    root = make_repo(tmp_path / "repo")
    canary = tmp_path / "canary"
    hostile(root, canary)
    write(root, {"x.txt": "x\n", "x.inc": "x\n"})
    git(root, "add", "-A", ok=False)
    git(root, "commit", "-m", "x", ok=False)
    sung = canary.read_text()
    assert "hook" in sung
    assert "evil.sh" in sung


async def test_a_submodule_whose_own_configuration_is_hostile_is_not_entered(tmp_path: Path) -> None:
    root = with_submodule(tmp_path / "repo", tmp_path / "library")
    canary = tmp_path / "canary"
    path = (await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)).path
    for folder in (root / "lib", path / "lib"):
        git(folder, "config", "filter.evil.clean", f"touch {canary}; cat")
        git(folder, "config", "core.fsmonitor", f"touch {canary}; false")
        write(folder, {".gitattributes": "* filter=evil\n", "lib.txt": "changed\n"})
    await take(path, "s1", 1, "snap")
    repo = await inspect(root)
    await session_diff(root, "s1", repo.head_commit, path)
    await create(repo, "s2", root / ".relay/worktrees/s2", carry=True)
    await discard(repo, "s1", path, force=True)
    assert not canary.exists()


async def test_signing_hooks_and_monitors_of_the_user_do_not_hold_a_session_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many set up git: every commit signed (by a program that waits for a person), hooks that refuse."""
    root = make_repo(tmp_path / "repo")
    waits = tmp_path / "gpg"
    waits.write_text("#!/bin/sh\nexec sleep 600\n")
    waits.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction", "pre-merge-commit"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {waits}\n[core]\n\thooksPath = {hooks}\n"
        f"\tfsmonitor = {waits}\n[user]\n\tname = Ada\n\temail = ada@example.org\n\tsigningKey = 1234\n"
        "[status]\n\tshowUntrackedFiles = no\n\tshort = true\n[diff]\n\tnoprefix = true\n\trenames = copies\n"
        "[core]\n\tquotePath = false\n[color]\n\tui = always\n[merge]\n\tff = only\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    await everything(root, "s1")
    write(root, {"b.txt": "user\n"})
    git(root, "-c", "commit.gpgSign=false", "-c", "core.fsmonitor=false", "add", "-A")
    assert (await inspect(root)).dirty_count >= 1


async def test_a_repository_made_hostile_later_is_no_way_in(tmp_path: Path) -> None:
    """An agent may write to the shared configuration; the next snapshot must not run what it put there."""
    root = make_repo(tmp_path / "repo")
    path = (await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)).path
    canary = tmp_path / "canary"
    git(path, "config", "extensions.worktreeConfig", "true")
    git(path, "config", "--worktree", "filter.late.clean", f"touch {canary}; cat")
    git(path, "config", "--worktree", "core.fsmonitor", f"touch {canary}; false")
    write(path, {".gitattributes": "* filter=late\n", "a.txt": "work\n"})
    taken = await take(path, "s1", 1, "snap")
    assert taken.notes == ("The filter 'late' of this repository's own configuration was not run.",)
    assert not canary.exists()
    commit_all(root, "user goes on")
