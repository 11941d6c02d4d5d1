"""Snapshot of a repository of 20 000 files: Relay's, beside what git alone takes for the same tree.

Run by hand: python bench/snapshot.py [files]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from relay.effects.repository import inspect
from relay.effects.snapshot import take
from relay.effects.worktree import create

ROUNDS = 7
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")


def git(cwd: Path, *args: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *args], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def build(root: Path, files: int) -> None:
    for number in range(files):
        path = root / f"d{number // 1000:03}" / f"s{number // 50 % 20:02}" / f"f{number:06}.py"
        if number % 50 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def f{number}():\n    return {number}\n" * 10)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")


def edit(tree: Path, round_: int, changed: int) -> None:
    every = sorted(tree.glob("d*/s*/f*.py"))
    for path in every[:: max(1, len(every) // max(1, changed))][:changed]:
        path.write_text(path.read_text() + f"# {round_} {time.monotonic_ns()}\n")


def alone(tree: Path) -> float:
    started = time.perf_counter()
    git(tree, "add", "-A")
    git(tree, "write-tree")
    return time.perf_counter() - started


async def measure(root: Path, changed: int) -> tuple[list[float], list[float], float]:
    sid = f"bench{changed}"
    repo = await inspect(root)
    started = time.perf_counter()
    tree = (await create(repo, sid, root / ".relay/worktrees" / sid, carry=True)).path
    making = time.perf_counter() - started
    other = root.parent / f"git-{sid}"
    git(root, "worktree", "add", "-q", "--detach", str(other), "main")
    relay: list[float] = []
    plain: list[float] = []
    for round_ in range(ROUNDS):
        edit(tree, round_, changed)
        edit(other, round_, changed)
        started = time.perf_counter()
        taken = await take(tree, sid, round_ + 1, "bench")
        relay.append(time.perf_counter() - started)
        assert len(taken.changed) == changed
        plain.append(alone(other))
    return relay, plain, making


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repo"
        root.mkdir()
        (root / ".gitignore").write_text("/.relay/\n")
        build(root, files)
        print(f"{files} files; median (best) of {ROUNDS} rounds, milliseconds")
        print(f"{'changed':>8} {'Relay snapshot':>16} {'git add+write-tree':>20} {'worktree made':>14}")
        for changed in (0, 1, 20, 500):
            relay, plain, making = trio.run(measure, root, changed)
            print(
                f"{changed:>8} {median(relay):>16} {median(plain):>20} {making * 1000:>14.0f}",
            )


def median(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f} ({min(seconds) * 1000:.0f})"


if __name__ == "__main__":
    main()
