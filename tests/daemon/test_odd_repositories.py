"""Whole sessions over repositories of every kind: the work of both agents is there, nothing else changed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.live import Live
from tests.fakes.whole import discarded, whole

FILES = {"README.md": "# A project\n", "other/file.txt": "other\n"}


def begun(home: Live, *init: str) -> Path:
    """A repository with one commit, made by `git init` with these options."""
    folder = home.root / "project"
    folder.mkdir()
    home.git(folder, "init", "-q", "-b", "main", *init)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    home.git(folder, "add", "-A")
    home.git(folder, "commit", "-q", "-m", "Begin")
    return folder


def sha256(home: Live) -> Path:
    return begun(home, "--object-format=sha256")


def reftable(home: Live) -> Path:
    """Refs in a binary format, which libgit2 can't read."""
    try:
        return begun(home, "--ref-format=reftable")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this git has no reftable: {error.stderr.decode()[:100]}")


def origin(home: Live) -> Path:
    """A repository of two commits that may be cloned in part."""
    folder = home.repository("origin", FILES)
    home.git(folder, "config", "uploadpack.allowFilter", "true")
    (folder / "README.md").write_text("# A project, in its second year\n")
    home.git(folder, "commit", "-q", "-a", "-m", "Second")
    (folder / "README.md").write_text(FILES["README.md"])
    home.git(folder, "commit", "-q", "-a", "-m", "Third")
    return folder


def cloned(home: Live, how: str) -> Path:
    """A clone whose origin is not there any more: a fetch would fail."""
    source = origin(home)
    home.git(home.root, "clone", "-q", how, f"file://{source}", "project")
    source.rename(home.root / "unreachable")
    return home.root / "project"


def shallow(home: Live) -> Path:
    return cloned(home, "--depth=1")


def partial(home: Live) -> Path:
    return cloned(home, "--filter=blob:none")


def of_a_bare_one(home: Live) -> Path:
    """A worktree of a bare repository."""
    home.git(home.root, "clone", "-q", "--bare", str(origin(home)), "bare.git")
    home.git(home.root / "bare.git", "worktree", "add", "-q", "-b", "work", str(home.root / "project"))
    return home.root / "project"


def linked(home: Live) -> Path:
    """A worktree beside the user's main checkout."""
    home.git(origin(home), "worktree", "add", "-q", "-b", "work", str(home.root / "project"))
    return home.root / "project"


KINDS = [sha256, reftable, shallow, partial, of_a_bare_one, linked]


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
async def test_a_whole_session_and_its_merge(home: Live, make: Callable[[Live], Path]) -> None:
    checkout = make(home)
    await whole(home, checkout)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
async def test_a_whole_session_that_is_discarded(home: Live, make: Callable[[Live], Path]) -> None:
    await discarded(home, make(home))
