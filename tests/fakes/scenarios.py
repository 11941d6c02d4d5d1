"""The scripted agent as a real child over pipes, driven by its provider's own dialogue."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from relay.core.events import AgentEvent
from relay.providers.protocol import Account, LaunchRequest, Write
from relay.providers.scripted import Scripted


def scenario(*steps: object, **more: Any) -> dict[str, Any]:
    """A scenario of one task, named "Do it", and whatever else is given."""
    return {"tasks": [{"name": "Do it", "steps": list(steps)}], **more}


def file_of(folder: Path, played: Mapping[str, Any]) -> str:
    """The scenario as a file in `folder`; its path."""
    path = folder / "scenario.json"
    path.write_text(json.dumps(played), "utf-8")
    return str(path)


def request(scenario_name: str, cwd: Path, **changes: Any) -> LaunchRequest:
    """A launch request that plays a scenario."""
    fixed: dict[str, Any] = {
        "session_id": "s-1",
        "run": 1,
        "cwd": str(cwd),
        "prompt": "Do the task",
        "args": ("--scenario", scenario_name),
    }
    return LaunchRequest(**{**fixed, **changes})


class Agent:
    """A running agent, and what it has said so far."""

    def __init__(self, asked: LaunchRequest, process: trio.Process) -> None:
        self.dialogue = Scripted().dialogue(asked)
        self.process = process
        self.events: list[AgentEvent] = []
        self.lines: list[tuple[str, bytes]] = []
        self._news = trio.Event()

    async def write(self, writes: tuple[Write, ...] | None) -> None:
        assert self.process.stdin is not None
        for write in writes or ():
            await self.process.stdin.send_all(write.line.encode() + b"\n")

    async def say(self, text: str, key: str) -> None:
        await self.write(self.dialogue.say(text, key))

    async def interrupt(self) -> None:
        await self.write(self.dialogue.interrupt("stop"))

    async def end_input(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def until(self, kind: str, count: int = 1) -> Any:
        """Wait until so many events of a kind have come; the last of them."""
        await self._until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    async def ended(self) -> int:
        """Wait for the agent's end; its exit status as a shell gives it."""
        with trio.fail_after(30):
            status = await self.process.wait()
        return 128 - status if status < 0 else status

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def texts(self) -> list[str]:
        return [event.text for event in self.of("text")]

    async def _until(self, ready: Callable[[], bool]) -> None:
        with trio.fail_after(30):
            while not ready():
                self._news = trio.Event()
                await self._news.wait()

    async def read(self, stream: str, source: Any) -> None:
        rest = b""
        async with source:
            async for piece in source:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    reading = self.dialogue.read(line, stream)
                    self.lines.append((stream, line))
                    self.events += reading.events
                self._news.set()


@asynccontextmanager
async def playing(asked: LaunchRequest, *, open_at_once: bool = True) -> AsyncIterator[Agent]:
    """An agent that plays; it is gone afterwards. Its output is read to the end."""
    spec = Scripted().launch(asked)
    env = {key: value for key, value in os.environ.items() if key not in spec.unset} | dict(spec.env)
    process = await trio.lowlevel.open_process(
        spec.argv,
        stdin=-1,
        stdout=-1,
        stderr=-1,
        cwd=asked.cwd,
        env=env,
    )
    agent = Agent(asked, process)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.read, "out", process.stdout)
        nursery.start_soon(agent.read, "err", process.stderr)
        try:
            if open_at_once:
                await agent.write(agent.dialogue.open())
            yield agent
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await process.wait()


async def play(
    folder: Path, played: Mapping[str, Any] | str, *, account: Account | None = None, **changes: Any
) -> tuple[Agent, int]:
    """Play a scenario through with one message and the end of input; the agent and its exit status.

    The working folder is `folder / "work"`.
    """
    work = folder / "work"
    work.mkdir(exist_ok=True)
    name = played if isinstance(played, str) else file_of(folder, played)
    asked = request(name, work, account=account or Account(), **changes)
    async with playing(asked) as agent:
        await agent.end_input()
        status = await agent.ended()
    return agent, status
