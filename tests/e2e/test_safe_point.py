"""A handoff by hand waits for the tool call that runs, but not for ever."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Stage, marked
from tests.fakes.llm.script import say, shell

pytestmark = pytest.mark.real_cli

WAITS = "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done; echo through > end.txt"


async def test_the_gate_waits_for_the_result(stage: Stage) -> None:
    stage.claude("main", shell(WAITS), say("The file is there."))
    heir = stage.codex("main", say("Nothing is left to do."))
    async with stage.daemon() as relay:
        sid = await relay.run("Wait for go", "claude", "codex", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        await relay.act(sid, "handoff")
        await relay.reach(sid, "PAUSING")
        (stage.worktree(sid) / "go").touch()
        await relay.reach(sid, "COMPLETED")
        assert [gate["forced"] for gate in await relay.events(sid, "gate")] == [False]
        assert stage.file(sid, "end.txt") == "through\n"
        order = [_name(event) for event in await relay.events(sid)]
        assert order.index("PAUSING") < order.index("tool_result") < order.index("gate")
    assert "end.txt" in stage.llm.requests(heir)[0].text


async def test_past_the_deadline_it_forces(stage: Stage) -> None:
    stage.settings["relay"] = "pause_deadline_seconds = 0.5"
    stage.claude("main", shell(WAITS), say("never asked for"))
    heir = stage.codex("main", say("It can't be done."))
    async with stage.daemon() as relay:
        sid = await relay.run("Wait for go", "claude", "codex", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        await relay.act(sid, "handoff")
        await relay.reach(sid, "COMPLETED")
        assert [gate["forced"] for gate in await relay.events(sid, "gate")] == [True]
        assert stage.file(sid, "begun.txt") == "begun\n"
        assert marked(sid) == []
    assert "begun.txt" in stage.llm.requests(heir)[0].text


async def test_a_command_of_codex_is_waited_for_too(stage: Stage) -> None:
    stage.codex("main", shell(WAITS), say("The file is there."))
    stage.claude("main", say("Nothing is left to do."))
    async with stage.daemon() as relay:
        sid = await relay.run("Wait for go", "codex", "claude", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        # Codex tells of a command about 0.2 s after it began.
        await relay.event(sid, "agent_event", kind="tool_call")
        await relay.act(sid, "handoff", to="claude")
        await relay.reach(sid, "PAUSING")
        (stage.worktree(sid) / "go").touch()
        await relay.reach(sid, "COMPLETED")
        assert [gate["forced"] for gate in await relay.events(sid, "gate")] == [False]
        assert stage.file(sid, "end.txt") == "through\n"


def _name(event: dict[str, object]) -> str:
    """What an entry of the log is about: a state, an agent's event, or the entry itself."""
    return str(event["to"] if event["type"] == "fsm" else event.get("kind", event["type"]))
