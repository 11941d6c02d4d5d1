"""Whole sessions in a repository whose configuration names programs wherever it can: none ever runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relay.effects.history import commit_diff, session_commits
from relay.effects.repository import inspect
from relay.effects.rewind import rewind
from tests.fakes import repos
from tests.fakes.live import Live
from tests.fakes.whole import FIRST, SECOND, worked

KINDS = ("txt", "bin", "lfs", "inc", "linked", "branch")
"""Endings that `repos.hostile` gives filters to."""


def trap(home: Live, canary: Path, form: str) -> Path:
    """A repository with a submodule and files of every kind, whose every program touches `canary`."""
    library, root = home.root / "library", home.root / "project"
    for folder in (library, root):
        folder.mkdir()
        repos.git(folder, "init", "-q", "-b", "main", f"--object-format={form}")
        repos.write(folder, {"README.md": "# A project\n", "long.md": "1\n2\n3\n4\n5\n"})
        repos.write(folder, {f"old.{kind}": "old\n" for kind in KINDS})
        repos.commit_all(folder, "Begin")
    repos.git(root, "submodule", "--quiet", "add", str(library), "lib")
    repos.commit_all(root, "With a submodule")
    shutil.copyfile(root / ".git" / "config", harmless(root))
    repos.hostile(root, canary)
    attributes = (root / ".gitattributes").read_text()
    repos.write(root, {".gitattributes": attributes + "*.md filter=evil diff=evil merge=evil\n"})
    repos.write(root, {f"draft.{kind}": "draft\n" for kind in KINDS})
    return root


def plays(home: Live) -> None:
    """Both agents write files of every kind, and the second one a line that the user's commit is beside."""
    new = [{"write": {"path": f"new.{kind}", "content": "new\n"}} for kind in KINDS]
    old = [{"write": {"path": f"old.{kind}", "content": "changed\n"}} for kind in KINDS]
    home.plays("one", *new, *FIRST)
    home.plays("two", *old, {"write": {"path": "long.md", "content": "1\n2\n3\n4\nagent\n"}}, *SECOND)


def commit(checkout: Path, name: str, content: str) -> None:
    """A commit by the user, while the configuration is a harmless one."""
    config = checkout / ".git" / "config"
    kept = config.read_bytes()
    shutil.copyfile(harmless(checkout), config)
    repos.write(checkout, {name: content})
    repos.git(checkout, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "Mine", name)
    config.write_bytes(kept)


def harmless(checkout: Path) -> Path:
    return checkout / ".git" / "config-before"


@pytest.mark.parametrize("form", ["sha1", "sha256"])
async def test_a_whole_session_runs_no_program_of_the_repository(
    home: Live, tmp_path: Path, form: str
) -> None:
    canary = tmp_path / "canary"
    checkout = trap(home, canary, form)
    plays(home)

    def silent() -> None:
        assert not canary.exists(), canary.read_text()

    canary.unlink(missing_ok=True)
    await home.start()
    sid = await worked(home, checkout)
    silent()
    for words in (("doctor",), ("status", sid), ("diff", sid), ("gc", "--dry-run"), ("detect",)):
        told = await home.cli(*words, cwd=checkout)
        assert b"Traceback" not in told.stderr
        silent()
    view = await home.get(f"/api/sessions/{sid}")
    for made in await session_commits(checkout, sid, view["baseCommit"]):
        assert (await commit_diff(checkout, made.sha)).files
        await rewind(await inspect(checkout), made.sha)
    silent()

    # The user's own commit: the merge is a real one, with both sides in a file that has a merge driver.
    commit(checkout, "long.md", "user\n2\n3\n4\n5\n")
    silent()
    await home.post(f"/api/sessions/{sid}/merge")
    silent()
    assert (checkout / "long.md").read_text() == "user\n2\n3\n4\nagent\n"
    for kind in KINDS:
        kinds = [(checkout / f"{name}.{kind}").read_text() for name in ("old", "new", "draft")]
        assert kinds == ["changed\n", "new\n", "draft\n"]

    async def cleared() -> bool:
        answer = await home.post("/api/gc", keepDays=0)
        assert answer["problems"] == []
        return not answer["items"]

    await home.until("all of it is cleared away", cleared)
    silent()
    other = await home.run(checkout, "scripted/two")
    await home.reach(other, "COMPLETED")
    await home.post(f"/api/sessions/{other}/discard")
    silent()
    await home.stop()
    silent()
    assert home.processes() == []


async def test_the_canary_sings_when_the_same_is_done_by_plain_git(home: Live, tmp_path: Path) -> None:
    """Shows that the test above tests something: each sort of program runs here."""
    canary = tmp_path / "canary"
    checkout = trap(home, canary, "sha1")
    canary.unlink(missing_ok=True)
    repos.git(checkout, "worktree", "add", "-q", "-b", "relay/x", str(home.root / "beside"), ok=False)
    repos.git(checkout, "diff", ok=False)
    repos.git(checkout, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "x", "README.md", ok=False)
    sung = canary.read_text()
    for sort in ("hook post-checkout", "hook reference-transaction", "hook post-index-change", "evil.sh"):
        assert sort in sung
