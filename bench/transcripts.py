"""Generated sessions of every CLI that Relay can write, made of what real ones are made of.

Used by `bench/detect.py`. Deterministic but for the instants, which lie in the last hours.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from relay.core.events import PlanItem, TaskStatus
from relay.evaluation.scripts import EditedFile, Planned, RanCommand, ReadFile, Said, Step, Told
from relay.evaluation.writers import WRITERS

SHARES = {"claude": 0.4, "codex": 0.25, "gemini": 0.1, "qwen": 0.1, "opencode": 0.1, "copilot": 0.05}
"""Of the bytes, by store."""
WORDS = ("the", "order", "service", "returns", "a", "refund", "when", "its", "ledger", "test", "row")
IMAGE = "iVBORw0KGgo" + "A" * 400_000


def make(home: Path, size: int, *, shares: dict[str, float] = SHARES, sessions: int = 100) -> dict[str, int]:
    """Write sessions of about `size` bytes in all below `home`; the bytes of each store.

    Args:
        sessions: how many of each store, at most; none is smaller than 100 kB.
    """
    made: dict[str, int] = {}
    for store, share in shares.items():
        count = max(1, min(sessions, int(size * share / 100_000)))
        made[store] = sum(_session(home, store, number, int(size * share / count)) for number in range(count))
    return made


def _session(home: Path, store: str, number: int, size: int) -> int:
    rng = random.Random(f"{store} {number}")
    started = datetime.now(UTC) - timedelta(hours=2)
    writer = WRITERS[store](home, f"/src/app-{number % 10}", f"bench-{number}", started=started)
    writer.take(Said(f"Add a refund flow, part {number}. Never touch the ledger."))
    while writer.written < size:
        for step in _turn(rng, writer.count):
            writer.take(step)
    writer.take(Told("Done so far. Next: the tests"))
    writer.end()
    writer.close()
    return writer.written


def _turn(rng: random.Random, count: int) -> Iterator[Step]:
    kind = rng.random()
    yield Told(_text(rng, 300))
    if kind < 0.45:
        body = IMAGE if rng.random() < 0.004 else _text(rng, int(rng.expovariate(1 / 6000)) + 200)
        yield ReadFile(f"src/m{rng.randrange(300)}.py", body)
    elif kind < 0.7:
        code = 1 if rng.random() < 0.1 else 0
        output = _text(rng, int(rng.expovariate(1 / 3000)) + 100)
        yield RanCommand(f"pytest tests/test_{rng.randrange(60)}.py -q", code, output)
    elif kind < 0.95:
        yield EditedFile(f"src/m{rng.randrange(300)}.py", before=_text(rng, 400), after=_text(rng, 500))
    else:
        done = count % 8
        yield Planned(
            tuple(
                PlanItem(text=f"Step {n}", status=TaskStatus.COMPLETED if n < done else TaskStatus.PENDING)
                for n in range(8)
            )
        )


def _text(rng: random.Random, length: int) -> str:
    return " ".join(rng.choices(WORDS, k=max(1, length // 5)))
