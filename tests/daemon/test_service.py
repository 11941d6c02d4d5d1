"""The daemon under a service manager: when it is ready, that it lives, and what agents get of it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import trio

from tests.fakes.live import Live


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[trio.socket.SocketType]:
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as endpoint:
        await endpoint.bind(str(tmp_path / "notify"))
        yield endpoint


async def told(manager: trio.socket.SocketType) -> list[str]:
    with trio.fail_after(60):
        return (await manager.recv(4096)).decode().split("\n")


async def test_it_says_when_it_is_ready_that_it_lives_and_that_it_ends(
    home: Live, manager: trio.socket.SocketType, tmp_path: Path
) -> None:
    home.more_env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(home.start)
        ready = await told(manager)
        # Not a moment later: whoever waits for this asks at once.
        facts = json.loads((home.state / "daemon.json").read_bytes())
        async with httpx2.AsyncClient(base_url=facts["url"]) as client:
            assert (await client.get("/api/health")).json()["ok"]
    assert home.process is not None
    assert ready == ["READY=1", f"MAINPID={home.process.pid}", f"STATUS=listening on port {home.port}"]
    assert [await told(manager) for _ in range(3)] == [["WATCHDOG=1"]] * 3

    await home.stop()
    last = await told(manager)
    while last == ["WATCHDOG=1"]:
        last = await told(manager)
    assert last == ["STOPPING=1"]


async def test_agents_do_not_get_the_managers_socket(
    home: Live, manager: trio.socket.SocketType, tmp_path: Path
) -> None:
    home.more_env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"}
    home.plays("one", {"shell": "env > seen.txt"})
    repository = home.repository()
    await home.start()

    sid = await home.run(repository, "scripted/one", allow="all")
    view = await home.reach(sid, "COMPLETED")

    seen = (Path(view["worktree"]) / "seen.txt").read_text()
    assert "RELAY_RUN" in seen
    assert "NOTIFY_SOCKET" not in seen
    assert "WATCHDOG" not in seen
    await home.stop()
