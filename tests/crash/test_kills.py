"""The daemon is killed anywhere in a handoff: nothing is lost, nothing is done twice, the end is the same.

`make soak` does the same for longer. RELAY_CRASH_SEED chooses the instants, RELAY_CRASH_POINTS ("all" or
how many) and RELAY_CRASH_SESSIONS how much is tried, RELAY_CRASH_WORKERS how much at a time.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.crash.harness import FILES, Trial, zygote

SEED = int(os.environ.get("RELAY_CRASH_SEED", "1"))
POINTS = os.environ.get("RELAY_CRASH_POINTS", "48")
SESSIONS = int(os.environ.get("RELAY_CRASH_SESSIONS", "24"))
OFTEN = 20
"""Effects with more occurrences than that differ in number from run to run: their last ones are left out."""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="relay-crash-", dir="/var/tmp")).resolve()
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def trial(folder: Path) -> AsyncIterator[Trial]:
    async with zygote() as starter:
        yield Trial(folder, starter)


def chosen(points: list[str], rng: random.Random) -> list[str]:
    """One point of every kind, and others as far as they may be tried."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for point in points:
        kinds[point.rpartition(":")[0]].append(point)
    sure = [points[: len(points) * 2 // 3] if len(points) > OFTEN else points for points in kinds.values()]
    if POINTS == "all":
        return [point for kind in sure for point in kind]
    firsts = [rng.choice(kind) for kind in sure]
    rest = [point for kind in sure for point in kind if point not in firsts]
    return [*firsts, *rng.sample(rest, max(0, min(int(POINTS) - len(firsts), len(rest))))]


async def test_killed_before_and_after_every_kind_of_effect(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with trial(folder) as tried:
        points = folder / "points"
        want = await tried.undisturbed(f"list:{points}")
        assert (want.state, want.targets) == ("COMPLETED", ("scripted/one", "scripted/two"))
        assert want.files == FILES
        assert want.told == ("1:prompt", "2:prompt", "2:say:1")
        names = chosen(points.read_text().split(), random.Random(SEED))
        await tried.all([partial(tried.at_point, name) for name in names])
    with capsys.disabled():
        print(f"\n  at named points: {tried.losses.told()}")
    tried.losses.check()
    assert tried.losses.kills > len(names) / 2


async def test_killed_at_random_instants_again_and_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with trial(folder) as tried:
        await tried.undisturbed()
        rngs = [random.Random(SEED * 1000 + number) for number in range(SESSIONS)]
        await tried.all([partial(tried.at_instants, rng) for rng in rngs])
    with capsys.disabled():
        print(f"\n  at random instants: {tried.losses.told()}")
    tried.losses.check()
    assert tried.losses.kills >= SESSIONS
