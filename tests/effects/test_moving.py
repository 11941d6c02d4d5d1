"""Snapshots of a working tree in which something writes at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay.effects.history import session_diff
from relay.effects.repository import inspect
from relay.effects.snapshot import take
from relay.effects.worktree import create, discard
from relay.errors import ConflictError
from tests.fakes.repos import git, isolate, make_repo, show, tree_of, write

GIT = shutil.which("git") or "git"
DIES = """#!/bin/sh
case " $* " in *" update-index "*) ;; *) exec {git} "$@" ;; esac
paths=$(mktemp)
cat >"$paths"
set -- {times}/* "$@"
if [ -e "$1" ] && tr '\\0' '\\n' <"$paths" | grep -qx moving.bin; then
    [ "$1" = {times}/always ] || rm -f "$1"
    rm -f "$paths"
    : >"$GIT_INDEX_FILE.lock"
    kill -BUS $$
fi
while [ "${{1#{times}}}" != "$1" ]; do shift; done
{git} "$@" <"$paths"
code=$?
rm -f "$paths"
exit $code
"""
WRITER = """
import sys
data = bytes(range(256)) * 20000
with open(sys.argv[1], "r+b", buffering=0) as file:
    print("begun", flush=True)
    while True:
        file.truncate(0)
        file.seek(0)
        file.write(data)
"""


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
async def tree(tmp_path: Path) -> Path:
    """A session's worktree with many new files, of which one is `moving.bin`."""
    root = make_repo(tmp_path / "repo", {"moving.bin": "as it began\n"})
    made = await create(await inspect(root), "s1", root / ".relay/worktrees/s1", carry=True)
    write(made.path, {f"new-{number:02}.txt": f"{number}\n" for number in range(20)})
    write(made.path, {"moving.bin": "in the midst of it\n"})
    return made.path


def bus_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int | None) -> None:
    """From now on git dies as if moving.bin shrank, so many times; None for always."""
    left, programs = tmp_path / "times", tmp_path / "programs"
    left.mkdir()
    programs.mkdir()
    for name in ["always"] if times is None else [str(number) for number in range(times)]:
        (left / name).touch()
    (programs / "git").write_text(DIES.format(git=GIT, times=left))
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


async def test_a_file_that_moves_whenever_it_is_read_keeps_no_other_file_out(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus_errors(monkeypatch, tmp_path, None)

    taken = await take(tree, "s1", 1, "snap")

    assert {f"new-{number:02}.txt" for number in range(20)} <= set(tree_of(tree, taken.commit))
    assert show(tree, taken.commit, "moving.bin") == "as it began"
    assert [left.path for left in taken.left_out] == ["moving.bin"]
    assert "moving.bin (0.0 MB) is being written to all the time and was left out" in " ".join(taken.notes)
    assert (tree / "moving.bin").read_text() == "in the midst of it\n"
    assert list((tmp_path / "repo/.git/worktrees/s1").glob("relay-index*")) == []


async def test_a_file_that_moves_for_a_while_is_taken(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus_errors(monkeypatch, tmp_path, 4)

    taken = await take(tree, "s1", 1, "snap")

    assert taken.left_out == ()
    assert show(tree, taken.commit, "moving.bin") == "in the midst of it"


async def test_nothing_is_put_away_while_a_file_of_it_moves(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = await inspect(tmp_path / "repo")
    bus_errors(monkeypatch, tmp_path, None)

    with pytest.raises(ConflictError, match=r"moving\.bin is being written to"):
        await discard(repo, "s1", tree, force=True)

    assert (tree / "moving.bin").read_text() == "in the midst of it\n"


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """A program shrinks the file and writes it anew, without a pause."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        yield
    finally:
        writer.kill()
        writer.communicate()


async def test_beside_a_program_that_writes_all_the_time(tree: Path) -> None:
    """Real git, real bus errors. Whether the one file is taken is a matter of luck."""
    base = git(tree, "rev-parse", "HEAD")
    with written_to(tree / "moving.bin"):
        for number in range(1, 4):
            write(tree, {f"later-{number}.txt": "later\n"})
            taken = await take(tree, "s1", number, "snap")
            assert f"later-{number}.txt" in tree_of(tree, taken.commit)
            assert {left.path for left in taken.left_out} <= {"moving.bin"}
            told = await session_diff(tree, "s1", base, tree)
            assert f"later-{number}.txt" in {change.path for change in told.files}


async def test_a_session_begins_beside_a_program_that_writes_all_the_time(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo", {"moving.bin": "as it began\n"})
    write(root, {"draft.txt": "draft\n"})
    with written_to(root / "moving.bin"):
        for sid in ("s1", "s2", "s3"):
            made = await create(await inspect(root), sid, root / ".relay/worktrees" / sid, carry=True)
            assert (made.path / "draft.txt").read_text() == "draft\n"
