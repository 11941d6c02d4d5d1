"""Relay's own share of a handoff: `python bench/handoff.py [handoffs] [files]`.

A daemon of its own, a repository of 1 000 files, two scripted agents. The clock runs from the event by which
the first agent meets its limit to the start of the second one's process, by the instants in the audit log.
The budget is 150 ms. Run by hand; the figures depend on the machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import trio

from tests.fakes.live import Event, Live, live

BUDGET_MS = 150
STEPS = (
    ("limit seen, pausing begins", "fsm", "PAUSING"),
    ("first agent is gone", "child_gone", ""),
    ("snapshot is committed", "fsm", "SNAPSHOTTED"),
    ("contract is signed", "fsm", "ENVELOPE_BUILT"),
    ("target is chosen", "fsm", "DISPATCHED"),
    ("second agent is started", "dispatched", ""),
)


def at(event: Event) -> float:
    return datetime.fromisoformat(event["ts"]).timestamp() * 1e3


def split(events: list[Event]) -> list[float]:
    """Milliseconds from the limit to each step."""
    first = next(i for i, e in enumerate(events) if e["data"].get("kind") == "turn_ended")
    began, found, behind = at(events[first]), [], events[first:]
    for _, kind, state in STEPS:
        event = next(e for e in behind if e["type"] == kind and state in ("", e["data"].get("to")))
        found.append(at(event) - began)
    return found


async def measure(home: Live, repository: Path) -> list[float]:
    sid = await home.run(repository, "scripted/first", "scripted/second")
    await home.reach(sid, "COMPLETED")
    return split([event for event in home.audit(repository) if event["session"] == sid])


async def main(count: int, files: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with live(Path(folder).resolve() / "bench") as home:  # noqa: ASYNC240
            made = {f"src/p{n % 40}/m{n}.py": f"def f{n}():\n    return {n}\n" * 20 for n in range(files)}
            repository = home.repository(files=made)
            edits: list[Any] = [
                {"write": {"path": f"src/p{n}/new{n}.py", "content": "x = 1\n" * 40}} for n in range(10)
            ]
            home.plays("first", *edits, {"limit": "usage_limit"})
            home.plays("second", {"say": "I go on"})
            await home.start()
            rows = []
            for _ in range(count):
                # The limit of the handoff before has put the first account out of service.
                await home.post("/api/circuit", target="scripted/first", isolated=False)
                rows.append(await measure(home, repository))
            await home.stop()
    print(f"{files} files, {count} handoffs; milliseconds since the limit was read")
    print(f"{'step':<28} {'median':>8} {'best':>8} {'worst':>8}")
    for number, (name, _, _) in enumerate(STEPS):
        column = [row[number] for row in rows]
        print(f"{name:<28} {statistics.median(column):>8.0f} {min(column):>8.0f} {max(column):>8.0f}")
    whole = statistics.median(row[-1] for row in rows)
    print(f"budget {BUDGET_MS} ms: {'met' if whole <= BUDGET_MS else 'missed'}")


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    trio.run(main, *(arguments + [10, 1000][len(arguments) :]))
