"""A whole session over a repository of any kind, and all that its user would look at afterwards.

The first agent comes to its limit, the second ends the work, and it is merged into the checkout.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from relay.effects.history import session_commits
from tests.fakes.live import Live

FIRST = (
    {"write": {"path": "first.txt", "content": "first\n"}},
    {"append": {"path": "README.md", "content": "by the first\n"}},
    {"limit": {"kind": "usage_limit", "resets_in": 7200}},
)
SECOND = (
    {"write": {"path": "second.txt", "content": "second\n"}},
    {"append": {"path": "README.md", "content": "by the second\n"}},
)
VERIFY = "grep -q 'by the first' README.md && grep -q 'by the second' README.md && test -e second.txt"
README = "# A project\nby the user, not committed\nby the first\nby the second\n"
WORK = {"README.md": README, "first.txt": "first\n", "second.txt": "second\n", "draft.txt": "draft\n"}
"""What the session's branch holds in the end, beside what was there."""


@frozen(kw_only=True)
class Seen:
    """What of a checkout a user could see change."""

    head: str
    refs: str
    status: str
    index: bytes
    files: Mapping[str, bytes]


def look(home: Live, checkout: Path) -> Seen:
    """Look at a checkout, Relay's own things apart."""
    refs = home.git(checkout, "for-each-ref").splitlines()
    git_dir = Path(home.git(checkout, "rev-parse", "--absolute-git-dir").strip())
    files: dict[str, bytes] = {}
    for folder, folders, names in os.walk(checkout):
        folders[:] = [name for name in folders if name not in (".git", ".relay")]
        for path in (Path(folder) / name for name in names):
            files[str(path.relative_to(checkout))] = path.read_bytes()
    return Seen(
        head=home.git(checkout, "rev-parse", "--symbolic-full-name", "HEAD"),
        refs="\n".join(ref for ref in refs if "/relay/" not in ref),
        status=home.git(checkout, "--no-optional-locks", "status", "--porcelain", "-uall"),
        index=(git_dir / "index").read_bytes(),
        files=files,
    )


def draft(checkout: Path) -> None:
    """What the user has not committed when the session begins."""
    with (checkout / "README.md").open("a") as file:
        file.write("by the user, not committed\n")
    (checkout / "draft.txt").write_text("draft\n")


def agents(home: Live) -> None:
    """The two accounts that play it."""
    home.plays("one", *FIRST)
    home.plays("two", *SECOND)


async def worked(home: Live, checkout: Path, **body: Any) -> str:
    """Begin the session in `checkout` and let both agents end it; its id."""
    sid = await home.run(checkout, "scripted/one", "scripted/two", verify=[VERIFY], allow="all", **body)
    view = await home.reach(sid, "COMPLETED")
    assert [run["target"] for run in view["runs"]] == ["scripted/one", "scripted/two"]
    assert (view["handoffsDone"], view["verified"]) == (1, True)
    told = await home.get(f"/api/sessions/{sid}/diff")
    assert {"README.md", "first.txt", "second.txt"} <= {change["path"] for change in told["files"]}
    assert "+by the second" in told["patch"]
    commits = await session_commits(checkout, sid, view["baseCommit"])
    assert [name for commit in commits for name in commit.refs if name.isdecimal()]
    contract = await home.get("/api/contract", session=sid)
    assert contract["verified"] is True
    return sid


def branch_files(home: Live, checkout: Path, sid: str) -> dict[str, str]:
    """The files on the session's branch."""
    names = home.git(checkout, "ls-tree", "-r", "--name-only", f"relay/{sid}").splitlines()
    return {name: home.git(checkout, "show", f"relay/{sid}:{name}") for name in names}


def no_rubbish(home: Live, checkout: Path) -> None:
    """Nothing runs, and no lock or file of a write is left in git's folders."""
    assert home.processes() == []
    common = Path(home.git(checkout, "rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    left = [path for path in common.rglob("*") if path.suffix == ".lock" or path.name.startswith("relay-")]
    assert left == []


async def merged(home: Live, checkout: Path, sid: str) -> None:
    """Merge, and find the work of both agents and the user's own in the checkout."""
    await home.post(f"/api/sessions/{sid}/merge")
    for name, content in WORK.items():
        assert (checkout / name).read_text() == content, name
    assert home.git(checkout, "status", "--porcelain", "-uall") == ""


async def cleared(home: Live, checkout: Path, sid: str, worktrees: str) -> None:
    """`relay gc` takes all of an ended session away but its branch; then the repository is whole.

    Args:
        worktrees: what was listed before the session.
    """

    async def nothing_left() -> bool:
        answer = await home.post("/api/gc", keepDays=0)
        assert answer["problems"] == []
        return not answer["items"]

    await home.until("there is nothing left to clear away", nothing_left)
    assert listed(home, checkout) == worktrees
    assert home.git(checkout, "for-each-ref", "refs/relay") == ""
    assert not (checkout / ".relay" / "worktrees" / sid).exists()
    no_rubbish(home, checkout)
    home.git(checkout, "fsck", "--no-dangling")


def listed(home: Live, checkout: Path) -> str:
    """The folders of all worktrees."""
    told = home.git(checkout, "worktree", "list", "--porcelain").splitlines()
    return "\n".join(line for line in told if line.startswith("worktree "))


async def whole(home: Live, checkout: Path) -> str:
    """All of it, from a checkout with uncommitted changes to the merge and clearing away; its id."""
    draft(checkout)
    before, worktrees = look(home, checkout), listed(home, checkout)
    agents(home)
    await home.start()
    sid = await worked(home, checkout)
    assert look(home, checkout) == before
    files = branch_files(home, checkout, sid)
    assert {name: files.get(name) for name in WORK} == WORK
    no_rubbish(home, checkout)
    await merged(home, checkout, sid)
    await cleared(home, checkout, sid, worktrees)
    await home.stop()
    return sid


async def discarded(home: Live, checkout: Path) -> None:
    """A session that is discarded: the checkout as it was, the work under the ref that is named."""
    before = look(home, checkout)
    agents(home)
    await home.start()
    sid = await worked(home, checkout)
    answer = await home.post(f"/api/sessions/{sid}/discard")
    assert look(home, checkout) == before
    assert not (checkout / ".relay" / "worktrees" / sid).exists()
    assert home.git(checkout, "branch", "--list", f"relay/{sid}") == ""
    kept = home.git(checkout, "for-each-ref", "--format=%(refname)", f"refs/relay/{sid}").split()
    assert kept == [f"refs/relay/{sid}/discarded"], answer
    assert home.git(checkout, "show", f"{kept[0]}:second.txt") == "second\n"
    no_rubbish(home, checkout)
    await home.stop()
