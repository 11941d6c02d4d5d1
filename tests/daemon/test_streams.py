"""Much output and odd output through a real daemon: the session goes on, and memory stays bounded."""

from __future__ import annotations

import os
from typing import Any

import psutil
import pytest
import trio

from tests.fakes.live import ENDED, Live

MEGABYTES = int(os.environ.get("RELAY_STREAM_MB", "24"))
"""Of small lines; `make soak` takes a gigabyte."""
BOUND_MB = 400
"""What the daemon may grow by: the newest events are kept, and a line of 32 MiB is held some times over
while it is read and redacted. Measured with 64, 256 and 1 000 MB of small lines: 195, 255 and 305 MB."""
LINE = 2_000


class Peak:
    """The most memory that the daemon held, looked at all the time."""

    def __init__(self, home: Live) -> None:
        assert home.process is not None
        self._process = psutil.Process(home.process.pid)
        self.before = self.most = self._process.memory_info().rss

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._process.memory_info().rss)
            await trio.sleep(0.05)

    @property
    def grown_mb(self) -> float:
        return (self.most - self.before) / 2**20


async def played(home: Live, *steps: Any) -> tuple[dict[str, Any], list[dict[str, Any]], float]:
    """The session that plays these steps once it is over, its events, and by how much the daemon grew."""
    home.plays("one", *steps)
    repository = home.repository()
    await home.start()
    peak = Peak(home)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peak.watch)
        sid = await home.run(repository, "scripted/one", allow="all")

        async def over() -> Any:
            view = await home.get(f"/api/sessions/{sid}")
            return view if view["fsmState"] in ENDED else None

        with trio.fail_after(3000):
            view = None
            while view is None:
                view = await over()
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    return view, await home.get(f"/api/sessions/{sid}/events", limit=100), peak.grown_mb


async def test_many_small_lines(home: Live) -> None:
    count = MEGABYTES * 1_000_000 // LINE
    view, _, grown = await played(
        home, {"flood": {"events": count, "bytes": LINE}}, {"write": {"path": "a.txt", "content": "a\n"}}
    )

    assert view["fsmState"] == "COMPLETED", view["endReason"]
    assert grown < BOUND_MB
    await home.stop()


async def test_a_line_of_32_mib_and_one_beyond_it(home: Live) -> None:
    view, _, grown = await played(
        home,
        {"big_line": {"bytes": 32 * 2**20 - 200}},
        {"big_line": {"bytes": 40 * 2**20}},
        {"write": {"path": "a.txt", "content": "a\n"}},
        {"say": "still here"},
    )

    assert view["fsmState"] == "COMPLETED", view["endReason"]
    assert grown < 2 * BOUND_MB
    await home.stop()


async def test_a_flood_on_stderr(home: Live) -> None:
    flood = [{"stderr": {"text": f"warning {number} " + "x" * 50_000}} for number in range(200)]
    view, _, grown = await played(home, *flood, {"write": {"path": "a.txt", "content": "a\n"}})

    assert view["fsmState"] == "COMPLETED", view["endReason"]
    assert grown < BOUND_MB
    await home.stop()


ODD = {
    "U+2028": "one\u2028two\u2029three",
    "NULs": "a\0b\0\0c",
    "carriage returns": "a\r\nb\rc",
    "an emoji cut by reads": "\U0001f600" * 40_000,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
async def test_odd_characters_arrive_as_they_were_printed(home: Live, text: str) -> None:
    view, events, _ = await played(home, {"say": text}, {"write": {"path": "a.txt", "content": "a\n"}})

    assert view["fsmState"] == "COMPLETED", view["endReason"]
    said = [event["data"]["text"] for event in events if event["data"].get("kind") == "text"]
    assert text in said
    await home.stop()


async def test_an_agent_that_never_shows_a_sign_of_life_is_passed_over(home: Live) -> None:
    mute = home.root / "mute"
    mute.write_text("#!/bin/sh\nexec sleep 1000\n")
    mute.chmod(0o755)
    home.settings = f'[relay]\nheartbeat_seconds = 1\n[providers.claude]\ncommand = "{mute}"\n'
    home.plays("next", {"write": {"path": "a.txt", "content": "a\n"}})
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "claude", "scripted/next")

    async def over() -> Any:
        view = await home.get(f"/api/sessions/{sid}")
        return view if view["fsmState"] in ENDED else None

    view = await home.until("it is over", over)

    assert view["fsmState"] == "COMPLETED", view["endReason"]
    assert [run["provider"] for run in view["runs"]] == ["claude", "scripted"]
    assert "no sign of life within 1 s" in str(await home.get(f"/api/sessions/{sid}/events"))
    assert home.processes() == []
    await home.stop()
