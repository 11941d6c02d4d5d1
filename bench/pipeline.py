"""Events through adapter, session, journal and hub: `python bench/pipeline.py [sessions] [events each]`.

One process does all of it, as the daemon does: the real actors, the scripted agent's own lines, redaction,
the hash-chained log on the disk, the WebSocket's serialisation. Only the children are not there: their lines
are handed to the adapters at once. Prints events per second of one core against the budget, and how long one
event takes from its read to the stream when there is no hurry. Run by hand; figures depend on the machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import trio
import trio.lowlevel

from relay.actors import messages
from relay.actors.runtime import Runtime
from relay.api.stream import EventStream
from relay.core import effects, reports
from relay.core.chain import Target
from relay.core.framing import Line
from relay.core.record import Options
from relay.effects.do_journal import Logs
from relay.effects.world import World
from relay.store.places import RepoPlaces, StatePlaces

BUDGET = 10_000
CHUNK = 64 * 1024


def now() -> datetime:
    return datetime.now(UTC)


def hello() -> list[bytes]:
    return [
        orjson.dumps({"type": "hello", "session": "n-1", "model": "m", "cwd": "/", "version": "1"}),
        orjson.dumps({"type": "turn_started", "turn": "t1", "key": "prompt"}),
    ]


def work(number: int, size: int) -> bytes:
    """A line as agents write them: mostly text, tool calls and their results."""
    kind = number % 4
    if kind == 0:
        words = f"Step {number}: I look at the module and change the function. " * (size // 60 + 1)
        return orjson.dumps({"type": "text", "text": words[:size]})
    call = f"c{number - kind}"
    if kind == 1:
        return orjson.dumps(
            {
                "type": "tool_call",
                "id": call,
                "tool": "Edit",
                "kind": "edit",
                "paths": [f"src/m{number % 50}.py"],
            }
        )
    if kind == 2:
        output = "ok: 12 passed in 0.3 s\n" * (size // 24 + 1)
        return orjson.dumps(
            {"type": "tool_result", "id": call, "ok": True, "exit_code": 0, "output": output[:size]}
        )
    return orjson.dumps({"type": "usage", "input": 1200, "cached": 800, "output": 90})


class Bench:
    """An effects port that appends for real and answers all else at once."""

    def __init__(self, root: Path, sessions: int) -> None:
        self.repositories = [root / f"r{number}" for number in range(min(4, sessions))]
        for repository in self.repositories:
            repository.mkdir()
            RepoPlaces(root=repository).ensure()
        places = StatePlaces.locate({"RELAY_STATE_DIR": str(root / "state")}).ensure()
        self.stream = EventStream()
        self.logs = Logs(
            World(
                places=places,
                signing_key=b"k" * 32,
                clock=now,
                env={},
                config_dir=root,
                publish=self.stream.publish,
                end=lambda reason: sys.exit(reason),
            )
        )
        self.todo: deque[tuple[Any, Any]] = deque()
        self.adapters: dict[str, Any] = {}
        self.shown = 0
        self.runtime = Runtime(
            lambda effect, reply_to: self.todo.append((effect, reply_to)), lambda answer: None
        )

    async def settle(self) -> None:
        """Do what is asked for until nothing is."""
        while self.todo:
            effect, reply_to = self.todo.popleft()
            report = await self.do(effect, reply_to)
            if report is not None:
                self.runtime.tell(reply_to, report)

    async def do(self, effect: Any, reply_to: Any) -> Any:
        key, at = effect.key, now()
        match effect:
            case effects.AppendAudit():
                return await self.logs.append(effect)
            case effects.Broadcast():
                self.stream.publish(effect.entries)
                self.shown += len(effect.entries)
            case effects.ReserveSequence():
                return reports.SequenceReserved(key=key, at=at, first=1, end=1 + effect.count)
            case effects.LoadBreakers():
                return reports.BreakersLoaded(key=key, at=at, breakers=())
            case effects.ListUnfinished():
                return reports.UnfinishedListed(key=key, at=at, sessions=(), problems=())
            case effects.PrepareWorktree():
                return reports.WorktreePrepared(
                    key=key,
                    at=at,
                    repository=effect.repository,
                    worktree=effect.repository,
                    branch="",
                    base_commit="",
                    carried_files=0,
                    notes=(),
                )
            case effects.SaveSession():
                return reports.SessionSaved(key=key, at=at)
            case effects.StartChild():
                return reports.ChildStarted(
                    key=key, at=at, run=effect.run, pid=1, native_id="", found_alive=False, drift=(), notes=()
                )
            case effects.FollowChild():
                self.adapters[effect.record.sid] = (reply_to, key)
                return reports.RunOpened(
                    key=key, at=at, run=effect.run, prompt="x", native_id="", model="", command="", args=()
                )
            case effects.WriteChild():
                written = tuple(line.key for line in effect.lines)
                return reports.ChildWritten(key=key, at=at, run=effect.run, written=written, lost=False)
            case effects.LoadSession():
                raise RuntimeError("a session crashed")
        return None

    def create(self, number: int) -> str:
        sid = f"s-{number:08d}"
        self.runtime.ask_root(
            messages.CreateSession(
                correlation=sid,
                sid=sid,
                repository=str(self.repositories[number % len(self.repositories)]),
                options=Options(goal="x", chain=(Target(provider="scripted"),)),
                policy={},
                at=now(),
            )
        )
        return sid

    def read(self, sid: str, lines: list[bytes], offset: int) -> int:
        """Hand the adapter one read of the child's output; the offset behind it."""
        adapter, key = self.adapters[sid]
        framed = []
        for data in lines:
            offset += len(data) + 1
            framed.append(Line(data=data, end=offset))
        read = reports.OutputRead(key=key, at=now(), run=1, stream="out", lines=tuple(framed))
        self.runtime.tell(adapter, read)
        return offset


async def flood(sessions: int, each: int, size: int) -> tuple[float, float, int]:
    """Seconds of the clock and of the processor, and events shown."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sessions)
        bench.runtime.begin(now(), {})
        await bench.settle()
        sids = [bench.create(number) for number in range(sessions)]
        await bench.settle()
        offsets = {sid: bench.read(sid, hello(), 0) for sid in sids}
        await bench.settle()
        bench.stream.listen()
        lines = [work(number, size) for number in range(each)]
        per_read = max(1, CHUNK // (sum(map(len, lines)) // each + 1))
        before, began, cpu = bench.shown, time.perf_counter(), time.process_time()
        for at in range(0, each, per_read):
            for sid in sids:
                offsets[sid] = bench.read(sid, lines[at : at + per_read], offsets[sid])
                await bench.settle()
                await trio.lowlevel.checkpoint()
        took, used = time.perf_counter() - began, time.process_time() - cpu
        bench.logs.close()
        bench.runtime.shutdown()
        return took, used, bench.shown - before


async def one_by_one(count: int) -> list[float]:
    """Seconds from the read of a line until the stream has its event."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), 1)
        bench.runtime.begin(now(), {})
        await bench.settle()
        sid = bench.create(0)
        await bench.settle()
        offset = bench.read(sid, hello(), 0)
        await bench.settle()
        late = []
        for number in range(count):
            began = time.perf_counter()
            offset = bench.read(sid, [work(number, 200)], offset)
            await bench.settle()
            late.append(time.perf_counter() - began)
        bench.logs.close()
        bench.runtime.shutdown()
        return sorted(late)


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    print(f"budget: {BUDGET:,} events/s on one core")
    print(f"{'sessions':>9} {'bytes':>6} {'events':>8} {'events/s':>9} {'per core':>9}")
    for count, size in ((1, 200), (20, 200), (sessions, 200), (20, 2000), (4, 20_000)):
        events = max(each * sessions // count // (1 if size < 2000 else size // 400), 40)
        took, used, shown = trio.run(flood, count, events, size)
        verdict = "met" if shown / used >= BUDGET else f"missed: {used / shown * 1e6:.0f} us an event"
        print(f"{count:>9} {size:>6} {shown:>8} {shown / took:>9,.0f} {shown / used:>9,.0f}  {verdict}")
    late = trio.run(one_by_one, 2000)
    print(
        f"one event at a time: p50 {late[1000] * 1e3:.2f} ms, p99 {late[1980] * 1e3:.2f} ms"
        " (budget: 50 ms to a client, 15 of them for the frame)"
    )


if __name__ == "__main__":
    main()
