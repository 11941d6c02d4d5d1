"""Whole sessions over a repository of very many files. `make soak` takes a hundred thousand."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import psutil

from tests.fakes.live import Live
from tests.fakes.whole import agents, cleared, draft, listed, look, merged, worked

T = TypeVar("T")
FILES = int(os.environ.get("RELAY_MANY_FILES", "2000"))
FOLDER = 250
GROWN_MB = 300
"""What the daemon may grow by."""
CONTRACT_MB = 20

CHANGE_ALL = """
import pathlib
for path in pathlib.Path().glob("d*/*.txt"):
    path.write_text(path.read_text() + "more\\n")
"""


def many(home: Live) -> Path:
    """A repository of so many files. What is done to them may take longer than elsewhere."""
    folder = home.repository()
    for number in range(FILES):
        path = folder / f"d{number // FOLDER}" / f"f{number}.txt"
        if number % FOLDER == 0:
            path.parent.mkdir()
        path.write_text(f"file {number}\n")
    home.git(folder, "add", "-A")
    home.git(folder, "commit", "-q", "-m", "Many")
    return folder


async def timed(what: str, done: Awaitable[T]) -> T:
    began = time.perf_counter()
    answer = await done
    print(f"{what}: {time.perf_counter() - began:.2f} s with {FILES} files")
    return answer


def held(home: Live) -> float:
    """The daemon's memory, in megabytes."""
    assert home.process is not None
    return psutil.Process(home.process.pid).memory_info().rss / 2**20


async def merge(home: Live, sid: str) -> None:
    """Merge; it goes on when it takes longer than the API waits."""
    answer = await home.client.post(f"/api/sessions/{sid}/merge", json={})
    assert answer.status_code in (200, 504), answer.text

    async def done() -> bool:
        return (await home.get(f"/api/sessions/{sid}"))["mergedInto"] == "main"

    await home.until("it is merged", done)


async def test_a_session_that_changes_few_of_them(home: Live) -> None:
    checkout = many(home)
    draft(checkout)
    before, worktrees = look(home, checkout), listed(home, checkout)
    agents(home)
    await home.start()
    memory = held(home)
    sid = await timed("session", worked(home, checkout))
    assert look(home, checkout) == before
    told = await timed("difference", home.get(f"/api/sessions/{sid}/diff"))
    assert len(told["files"]) == 3
    await timed("merge", merged(home, checkout, sid))
    await timed("clearing away", cleared(home, checkout, sid, worktrees))
    assert held(home) - memory < GROWN_MB
    await home.stop()


async def test_a_session_that_changes_all_of_them(home: Live) -> None:
    checkout = many(home)
    shell = f"{shlex.quote(sys.executable)} -c {shlex.quote(CHANGE_ALL)}"
    home.plays("one", {"shell": shell}, {"limit": {"kind": "usage_limit", "resets_in": 7200}})
    home.plays("two", {"write": {"path": "second.txt", "content": "second\n"}})
    before, worktrees = look(home, checkout), listed(home, checkout)
    await home.start()
    memory = held(home)
    sid = await home.run(checkout, "scripted/one", "scripted/two", allow="all")
    view = await timed("session", home.reach(sid, "COMPLETED"))
    assert view["handoffsDone"] == 1
    assert look(home, checkout) == before
    told = await timed("difference", home.get(f"/api/sessions/{sid}/diff"))
    assert len(told["files"]) == FILES + 1
    assert len(told["patch"]) <= 2 << 20
    contract = checkout / ".relay" / "sessions" / sid / "envelope.json"
    assert contract.stat().st_size < CONTRACT_MB * 2**20
    await timed("merge", merge(home, sid))
    for number in (0, FILES // 2, FILES - 1):
        path = checkout / f"d{number // FOLDER}" / f"f{number}.txt"
        assert path.read_text() == f"file {number}\nmore\n"
    assert (checkout / "second.txt").read_text() == "second\n"
    assert home.git(checkout, "status", "--porcelain", "-uall") == ""
    await timed("clearing away", cleared(home, checkout, sid, worktrees))
    assert held(home) - memory < GROWN_MB
    await home.stop()
