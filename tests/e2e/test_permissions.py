"""What an agent may not do unasked is asked, answered, and told to the agent; so are replies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.harness import Relay, Stage
from tests.fakes.llm.script import Step, say, shell, write

pytestmark = pytest.mark.real_cli

COMMAND = "printf ran > ran.txt"
STEPS = (write("asked.txt", "edits need no leave\n"), shell(COMMAND), say("I am done."))


async def asked(relay: Relay, sid: str) -> dict[str, Any]:
    """The request that waits for a person."""

    async def there() -> dict[str, Any] | None:
        return next((a for a in await relay.get("/api/approvals") if a["session"] == sid), None)

    return await relay.until("a request waits", there)


def agent(stage: Stage, name: str, *steps: Step) -> str:
    return stage.claude("main", *steps) if name == "claude" else stage.codex("main", *steps)


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_an_approved_command_runs(stage: Stage, name: str) -> None:
    agent(stage, name, *STEPS)
    async with stage.daemon() as relay:
        sid = await relay.run("Do both", name)
        request = await asked(relay, sid)
        assert COMMAND in request["command"]
        assert not (stage.worktree(sid) / "ran.txt").exists()
        await relay.post(f"/api/approvals/{request['id']}", approved=True)
        await relay.reach(sid, "COMPLETED")
        assert stage.file(sid, "ran.txt") == "ran"
        assert stage.file(sid, "asked.txt") == "edits need no leave\n"
        assert await relay.get("/api/approvals") == []


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_denied_command_does_not_run_and_the_agent_hears_of_it(stage: Stage, name: str) -> None:
    login = agent(stage, name, *STEPS)
    async with stage.daemon() as relay:
        sid = await relay.run("Do both", name)
        request = await asked(relay, sid)
        await relay.post(f"/api/approvals/{request['id']}", approved=False, note="not on my machine")
        await relay.reach(sid, "COMPLETED")
        assert not (stage.worktree(sid) / "ran.txt").exists()
        result = await relay.event(sid, "agent_event", kind="tool_result", denied=True)
        assert result["ok"] is False
    heard = stage.llm.requests(login)[-1].text
    assert ("not on my machine" if name == "claude" else "rejected") in heard


async def test_what_the_configuration_lists_is_not_asked(stage: Stage) -> None:
    stage.settings["approvals"] = 'commands = ["mkdir *"]'
    stage.claude("main", shell("mkdir made"), say("I am done."))
    async with stage.daemon() as relay:
        sid = await relay.run("Make a folder", "claude")
        await relay.reach(sid, "COMPLETED")
        assert (stage.worktree(sid) / "made").is_dir()


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_reply_in_the_middle_of_a_turn_reaches_the_agent(stage: Stage, name: str) -> None:
    waits = "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done"
    login = agent(stage, name, shell(waits), say("I will use blue."))
    async with stage.daemon() as relay:
        sid = await relay.run("Paint it", name, allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        await relay.act(sid, "reply", reply="Make it blue, please.")
        await relay.event(sid, "said")
        (stage.worktree(sid) / "go").touch()
        await relay.reach(sid, "COMPLETED")
        assert len(await relay.events(sid, "dispatched")) == 1
    told = [request.text for request in stage.llm.requests(login)]
    assert "Make it blue, please." not in told[0]
    assert "Make it blue, please." in told[-1]
