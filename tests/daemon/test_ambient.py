"""The daemon notices agents that others start: once each, also across a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.fakes.live import Event, Live, collect
from tests.fakes.stores import place


def is_ambient(event: Event) -> bool:
    return event["type"] == "ambient"


async def surveyed(home: Live) -> None:
    """Until the daemon has looked for the first time, and knows what was there before it."""

    async def there() -> bool:
        return await trio.Path(home.state / "ambient.json").exists()

    await home.until("the first survey", there)


async def announced(home: Live) -> list[str]:
    """Whose sessions this daemon has announced since it started."""
    return [event["data"]["provider"] for event in await home.get("/api/events") if is_ambient(event)]


async def test_a_new_agent_session_is_announced_once_and_not_again_after_a_kill(
    home: Live, tmp_path: Path
) -> None:
    home.settings = "[detect]\ninterval_seconds = 1\n"
    home.account("one", {})
    place("claude/plan_todowrite", tmp_path)
    await home.start()
    await surveyed(home)
    seen: list[dict[str, Any]] = []
    async with home.watching() as ws:
        _, cwd = place("codex/plan", tmp_path)
        await collect(ws, seen, is_ambient)
    [told] = [event["data"] for event in seen if is_ambient(event)]
    assert (told["provider"], told["folder"], told["todosLeft"]) == ("codex", str(cwd), 2)
    assert told["takeOver"] == f"relay detect --adopt {told['id']} --start"
    await home.kill()

    place("claude/limit_midway", tmp_path)
    await home.start()
    async with home.watching() as ws:
        place("gemini/tool_edit", tmp_path)

        async def both() -> bool:
            return {"claude", "gemini"} <= set(await announced(home))

        await home.until("what came while no daemon ran, and what came later, is announced", both)
    assert sorted(await announced(home)) == ["claude", "gemini"]
    await home.stop()


async def test_nothing_is_announced_where_it_is_switched_off(home: Live, tmp_path: Path) -> None:
    home.settings = "[detect]\nambient = false\ninterval_seconds = 1\n"
    home.plays("one")
    repository = home.repository()
    await home.start()
    place("codex/plan", tmp_path)
    sid = await home.run(repository, "scripted/one")
    await home.reach(sid, "COMPLETED")

    assert await announced(home) == []
    assert not (home.state / "ambient.json").exists()
    agents = (await home.get("/api/detect", sinceHours=43000))["agents"]
    assert [agent["provider"] for agent in agents if agent["path"]] == ["codex"]
    await home.stop()
