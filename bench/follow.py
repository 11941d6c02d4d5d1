"""How fast a run's output is followed: `python bench/follow.py [lines] [bytes per line]`.

Prints lines per second through `follow` for a file that is there already, the delay from a child's write to
the delivery with many runs at once, what a quiet follower costs, and what a scan of the processes costs.
Run by hand; the figures depend on the machine.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import trio

from relay.effects import child, processes, stop
from relay.effects.follow import OutputChunk, follow
from relay.effects.spool import RunFolder
from relay.effects.watch import Watch
from relay.providers.protocol import LaunchSpec

RUNS = 50
SETTLING = 40
# Tells the clock the daemon reads too, once every 50 ms.
TICK = "import time\nfor _ in range(80):\n  print(time.monotonic_ns(), flush=True)\n  time.sleep(0.05)"


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def throughput(home: Path, count: int, size: int) -> None:
    folder = RunFolder(home)
    folder.file("out").write_bytes((b"x" * (size - 1) + b"\n") * count)
    folder.file("err").write_bytes(b"")
    folder.file("exit").write_text("0\n")
    seen = 0

    async def deliver(chunk: OutputChunk) -> None:
        nonlocal seen
        seen += len(chunk.lines)

    began = time.perf_counter()
    await follow(folder, from_out=0, from_err=0, deliver=deliver)
    took = time.perf_counter() - began
    print(f"{seen} lines of {size} bytes: {seen / took:,.0f} lines/s, {seen * size / took / 1e6:,.0f} MB/s")


async def one(home: Path, number: int, argv: tuple[str, ...], watch: Watch | None, late: list[float]) -> None:
    folder = RunFolder(home / f"run-{number}")
    marker = f"relay-bench-{os.getpid()}-{number}"

    count = 0

    async def deliver(chunk: OutputChunk) -> None:
        nonlocal count
        now = time.monotonic_ns()
        count += len(chunk.lines)
        # The first lines come while all the other children are still being started.
        if count > SETTLING and chunk.stream == "out":
            late.extend((now - int(line.data)) / 1e6 for line in chunk.lines)

    try:
        spec = LaunchSpec(argv=argv, two_way=False)
        await child.start(folder, spec, cwd=str(home), marker=marker, fifo=None, base_env=os.environ)
        await follow(folder, from_out=0, from_err=0, deliver=deliver, watch=watch)
    finally:
        with trio.CancelScope(shield=True):
            await stop.end(folder, marker, ())


async def delay(home: Path, watched: bool) -> None:
    late: list[float] = []
    async with trio.open_nursery() as nursery:
        watch = await nursery.start(Watch().run) if watched else None
        async with trio.open_nursery() as runs:
            for number in range(RUNS):
                runs.start_soon(one, home, number, (sys.executable, "-S", "-c", TICK), watch, late)
        nursery.cancel_scope.cancel()
    late.sort()
    way = "inotify" if watched else "polling"
    half, most = late[len(late) // 2], late[len(late) * 99 // 100]
    print(f"{RUNS} runs, {way}: delay p50 {half:.1f} ms, p99 {most:.1f} ms")


async def quiet(home: Path, watched: bool) -> None:
    async with trio.open_nursery() as nursery:
        watch = await nursery.start(Watch().run) if watched else None
        for number in range(RUNS):
            nursery.start_soon(one, home, number, ("sleep", "1000"), watch, [])
        await trio.sleep(4)
        before = cpu()
        await trio.sleep(5)
        share = (cpu() - before) / 5
        nursery.cancel_scope.cancel()
    print(f"{RUNS} quiet runs, {'inotify' if watched else 'polling'}: {share:.2%} of a core")


async def scanning() -> None:
    began = time.perf_counter()
    found = await trio.to_thread.run_sync(processes.scan)
    took = time.perf_counter() - began
    print(f"scan of {len(found)} processes: {took * 1e3:.1f} ms")


async def main() -> None:
    count, size = (int(text) for text in [*sys.argv[1:], "1000000", "200"][:2])
    with tempfile.TemporaryDirectory() as home:
        await throughput(Path(home), count, size)
    await scanning()
    for measure in (delay, quiet):
        for watched in (True, False):
            with tempfile.TemporaryDirectory() as home:
                await measure(Path(home), watched)


if __name__ == "__main__":
    trio.run(main)
