"""Telling the service manager: where it listens, what it asked for, and when there is nothing to tell."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from relay.effects.notify import ServiceManager
from relay.errors import TimedOutError


@pytest.fixture
def endpoint() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.setblocking(False)
        yield bound


def said(endpoint: socket.socket) -> list[bytes]:
    told = []
    while True:
        try:
            told.append(endpoint.recv(4096))
        except BlockingIOError:
            return told


def test_several_states_are_one_datagram(endpoint: socket.socket, tmp_path: Path) -> None:
    endpoint.bind(str(tmp_path / "notify"))

    ServiceManager(address=str(tmp_path / "notify")).tell("READY=1", "STATUS=x")

    assert said(endpoint) == [b"READY=1\nSTATUS=x"]


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_a_socket_without_a_file(endpoint: socket.socket, tmp_path: Path) -> None:
    endpoint.bind(f"\0{tmp_path}")

    ServiceManager(address=f"@{tmp_path}").tell("READY=1")

    assert said(endpoint) == [b"READY=1"]


def test_a_manager_that_is_gone_or_does_not_read_stops_nothing(
    endpoint: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.effects.notify._SEND_SECONDS", 0.001)
    ServiceManager(address=str(tmp_path / "nobody")).tell("READY=1")
    ServiceManager().tell("READY=1")
    endpoint.bind(str(tmp_path / "notify"))

    for _ in range(2000):
        ServiceManager(address=str(tmp_path / "notify")).tell("STATUS=" + "x" * 4000)


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "400000"}, 0.4),
        ({"WATCHDOG_USEC": "400000", "WATCHDOG_PID": str(os.getpid())}, 0.4),
        ({"WATCHDOG_USEC": "400000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({"WATCHDOG_USEC": ""}, 0.0),
    ],
)
def test_what_the_environment_asks_for_is_taken_out_of_it(more: dict[str, str], seconds: float) -> None:
    env = {"PATH": "/bin", "NOTIFY_SOCKET": "@x", **more}

    assert ServiceManager.take(env) == ServiceManager(address="@x", watchdog_seconds=seconds)
    assert env == {"PATH": "/bin"}


@pytest.mark.parametrize("trouble", ["no answer", "a failure"])
async def test_the_watchdog_is_told_only_while_there_are_answers(
    endpoint: socket.socket, tmp_path: Path, autojump_clock: MockClock, trouble: str
) -> None:
    endpoint.bind(str(tmp_path / "notify"))
    manager = ServiceManager(address=str(tmp_path / "notify"), watchdog_seconds=60.0)
    well, ending = True, trio.Event()

    async def answers() -> None:
        if not well:
            if trouble == "a failure":
                raise TimedOutError("no answer within 30 s")
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.prove_alive, answers, ending)
        await trio.sleep(95)
        assert said(endpoint) == [b"WATCHDOG=1"] * 4
        well = False
        await trio.sleep(300)
        assert said(endpoint) == []
        well = True
        await trio.sleep(60)
        assert said(endpoint) == [b"WATCHDOG=1"] * 2
        ending.set()
