"""Sessions begun from a checkout in the midst of something: it stays as it is, the work comes to the user."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.live import Live
from tests.fakes.whole import FIRST, SECOND, draft, listed, look, merged, no_rubbish, worked

BOTH = "side\nmain\n"


def conflicted(home: Live, *verb: str) -> Path:
    """A checkout in which git stopped at a conflict in `both.txt`."""
    checkout = home.repository("project", {"README.md": "# A project\n", "both.txt": "base\n"})
    home.git(checkout, "switch", "-q", "-c", "side")
    (checkout / "both.txt").write_text("side\n")
    home.git(checkout, "commit", "-q", "-a", "-m", "Side")
    home.git(checkout, "switch", "-q", "main")
    (checkout / "both.txt").write_text("main\n")
    home.git(checkout, "commit", "-q", "-a", "-m", "Main")
    with pytest.raises(subprocess.CalledProcessError):
        home.git(checkout, *verb, "side")
    assert "<<<<<<<" in (checkout / "both.txt").read_text()
    return checkout


def resolve(home: Live, checkout: Path) -> None:
    (checkout / "both.txt").write_text(BOTH)
    home.git(checkout, "add", "both.txt")


def conclude_merge(home: Live, checkout: Path) -> None:
    resolve(home, checkout)
    home.git(checkout, "commit", "-q", "-m", "Merge side")


def conclude_rebase(home: Live, checkout: Path) -> None:
    resolve(home, checkout)
    home.git(checkout, "-c", "core.editor=true", "rebase", "--continue")


@pytest.mark.parametrize(
    ("verb", "conclude"), [("merge", conclude_merge), ("rebase", conclude_rebase)], ids=["merge", "rebase"]
)
async def test_a_conflict_is_left_to_the_user_and_taken_along_as_it_lies(
    home: Live, verb: str, conclude: Callable[[Live, Path], None]
) -> None:
    """The second agent resolves it in its worktree as the user does in the checkout."""
    checkout = conflicted(home, verb)
    before, worktrees = look(home, checkout), listed(home, checkout)
    home.plays("one", {"shell": "grep -q '<<<<<<<' both.txt && cp both.txt seen.txt"}, *FIRST)
    home.plays("two", {"write": {"path": "both.txt", "content": BOTH}}, *SECOND)
    await home.start()
    sid = await worked(home, checkout)
    assert look(home, checkout) == before
    assert f"A {verb} is under way in the checkout" in await home.story(sid)
    assert "<<<<<<<" in home.git(checkout, "show", f"relay/{sid}:seen.txt")

    status, error = await home.refused(f"/api/sessions/{sid}/merge")
    assert (status, error["code"]) == (409, "conflict")
    assert f"a {verb} is under way" in error["message"]
    assert look(home, checkout) == before

    conclude(home, checkout)
    await home.post(f"/api/sessions/{sid}/merge")
    assert (checkout / "both.txt").read_text() == BOTH
    assert (checkout / "README.md").read_text() == "# A project\nby the first\nby the second\n"
    assert (checkout / "second.txt").read_text() == "second\n"
    assert home.git(checkout, "status", "--porcelain") == ""
    await home.post(f"/api/sessions/{sid}/discard")
    assert listed(home, checkout) == worktrees
    no_rubbish(home, checkout)
    await home.stop()


async def test_a_detached_head_gets_the_work_once_a_branch_is_checked_out(home: Live) -> None:
    checkout = home.repository()
    home.git(checkout, "checkout", "-q", "--detach")
    draft(checkout)
    before = look(home, checkout)
    home.plays("one", *FIRST)
    home.plays("two", *SECOND)
    await home.start()
    sid = await worked(home, checkout)
    status, error = await home.refused(f"/api/sessions/{sid}/merge")
    assert (status, error["code"]) == (409, "conflict")
    assert "git switch" in error["hint"]
    assert look(home, checkout) == before
    home.git(checkout, "switch", "-q", "main")
    await merged(home, checkout, sid)
    await home.stop()
