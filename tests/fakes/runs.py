"""Real runs for tests: started as Relay starts them, and proven to be gone afterwards."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from relay.core.framing import LINE_LIMIT, Line
from relay.effects import child, processes, stop
from relay.effects.follow import OutputChunk, RunEnded, follow
from relay.effects.spool import RunFolder
from relay.effects.watch import Watch
from relay.providers.protocol import LaunchSpec

CHILDREN = Path(__file__).parent / "children"


def python(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs one of the little programs in tests/fakes/children."""
    return (sys.executable, "-S", str(CHILDREN / f"{name}.py"), *arguments)


class Run:
    """One run in a folder of the test's own, and what was delivered of it."""

    def __init__(self, home: Path) -> None:
        self.marker = f"relay-test-{uuid.uuid4().hex}"
        self.folder = RunFolder(home / "sessions" / "s-1" / "run-1")
        self.fifo = home / "state" / "run.fifo"
        self.cwd = home / "work"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.chunks: list[OutputChunk] = []
        self._news = trio.Event()

    async def start(
        self, *argv: str, two_way: bool = False, env: dict[str, str] | None = None, shell: str = child.SHELL
    ) -> child.ChildStarted:
        return await child.start(
            self.folder,
            LaunchSpec(argv=argv, two_way=two_way, env=env or {}),
            cwd=str(self.cwd),
            marker=self.marker,
            fifo=self.fifo if two_way else None,
            base_env=os.environ,
            shell=shell,
        )

    async def follow(
        self, from_out: int = 0, from_err: int = 0, watch: Watch | None = None, limit: int = LINE_LIMIT
    ) -> RunEnded:
        return await follow(
            self.folder, from_out=from_out, from_err=from_err, deliver=self.deliver, watch=watch, limit=limit
        )

    async def deliver(self, chunk: OutputChunk) -> None:
        self.chunks.append(chunk)
        self._news.set()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until what was delivered fulfils a condition."""
        with trio.fail_after(30):
            while not ready():
                self._news = trio.Event()
                await self._news.wait()

    def lines(self, stream: str = "out") -> list[Line]:
        return [line for chunk in self.chunks if chunk.stream == stream for line in chunk.lines]

    def texts(self, stream: str = "out") -> list[str]:
        return [line.data.decode() for line in self.lines(stream)]

    async def alive(self) -> list[int]:
        return [who.pid for who in await processes.carrying(self.marker)]


@asynccontextmanager
async def a_run(home: Path) -> AsyncIterator[Run]:
    """A run; at the end nothing of it may be left, also when the test failed."""
    run = Run(home)
    try:
        yield run
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 30):
            ended = await stop.end(run.folder, run.marker, (), term_grace=0.0)
    assert ended.left == ()
    assert await run.alive() == []
    assert not run.fifo.exists()
