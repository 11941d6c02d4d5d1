"""The main job with the real CLIs: an agent hits its limit, and the next one finishes the task."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.harness import Relay, Stage
from tests.fakes.llm.script import edit, plan, read, say, shell, usage_limit, write

pytestmark = pytest.mark.real_cli

TASK = "Add greet.py with greet(name), shout.py with shout(name), and test both"
GREET = "def greet(name):\n    return 'Hello ' + name\n"
SHOUT = "from greet import greet\n\n\ndef shout(name):\n    return greet(name).upper()\n"
CHECK = "python3 -B -c \"import shout; assert shout.shout('Ada') == 'HELLO ADA!'\""

WRITE_GREET, WRITE_SHOUT = "Write greet.py", "Write shout.py"
FIRST_HALF = (
    plan((WRITE_GREET, "in_progress"), (WRITE_SHOUT, "pending")),
    write("greet.py", GREET),
    shell("python3 -B -c 'import greet; print(greet.greet(\"Ada\"))'"),
    plan((WRITE_GREET, "completed"), (WRITE_SHOUT, "in_progress")),
    usage_limit(),
)
SECOND_HALF = (
    read("greet.py"),
    write("shout.py", SHOUT),
    edit("greet.py", "    return 'Hello ' + name", "    return 'Hello ' + name + '!'"),
    say("Both functions are there."),
)


async def test_claude_to_codex_at_a_usage_limit(stage: Stage) -> None:
    stage.claude("main", *FIRST_HALF)
    heir = stage.codex("main", *SECOND_HALF)
    async with stage.daemon() as relay:
        sid = await relay.run(TASK, "claude", "codex", verify=[CHECK], allow="all")
        done = await relay.reach(sid, "COMPLETED")
        await finished_by_the_second(stage, relay, sid, done, ("claude/main", "codex/main"))
        told = stage.llm.requests(heir)[0].text
        await the_brief_said_it_all(relay, sid, told)


async def test_codex_to_claude_at_a_usage_limit(stage: Stage) -> None:
    stage.codex("main", *FIRST_HALF)
    heir = stage.claude("main", *SECOND_HALF)
    async with stage.daemon() as relay:
        sid = await relay.run(TASK, "codex", "claude", verify=[CHECK], allow="all")
        done = await relay.reach(sid, "COMPLETED")
        await finished_by_the_second(stage, relay, sid, done, ("codex/main", "claude/main"))
        told = stage.llm.requests(heir)[0].text
        await the_brief_said_it_all(relay, sid, told)


async def test_another_account_of_claude_resumes_the_conversation_itself(stage: Stage) -> None:
    first = stage.claude("one", *FIRST_HALF)
    heir = stage.claude("two", *SECOND_HALF)
    async with stage.daemon() as relay:
        sid = await relay.run(TASK, "claude/one", "claude/two", verify=[CHECK], allow="all")
        done = await relay.reach(sid, "COMPLETED")
        await finished_by_the_second(stage, relay, sid, done, ("claude/one", "claude/two"))
        dispatched = await relay.events(sid, "dispatched")
        assert [event["nativeResume"] for event in dispatched] == [False, True]
        assert done["runs"][0]["nativeId"] == done["runs"][1]["nativeId"]
    asked = stage.llm.requests(first)[-2].body["messages"]
    resumed = stage.llm.requests(heir)[0].body["messages"]
    assert tools_called(asked) == ["TodoWrite", "Write", "Bash"]
    assert tools_called(resumed) == [*tools_called(asked), "TodoWrite"]
    assert results(resumed)[: len(results(asked))] == results(asked)
    one, two = (stage.llm.requests(login)[0].headers["authorization"] for login in (first, heir))
    assert one != two


async def test_another_account_of_codex_resumes_the_thread_itself(stage: Stage) -> None:
    stage.codex("one", *FIRST_HALF)
    heir = stage.codex("two", *SECOND_HALF)
    async with stage.daemon() as relay:
        sid = await relay.run(TASK, "codex/one", "codex/two", verify=[CHECK], allow="all")
        done = await relay.reach(sid, "COMPLETED")
        await finished_by_the_second(stage, relay, sid, done, ("codex/one", "codex/two"))
        assert [event["nativeResume"] for event in await relay.events(sid, "dispatched")] == [False, True]
    resumed = stage.llm.requests(heir)[0].body["input"]
    calls = [item["name"] for item in resumed if item["type"] in ("function_call", "custom_tool_call")]
    assert calls == ["update_plan", "apply_patch", "exec_command", "update_plan"]


async def test_a_nearly_spent_window_hands_over_before_the_wall(stage: Stage) -> None:
    """The threshold: Claude Code reports 93 %, and no request is ever refused."""
    spent = stage.claude("main", write("greet.py", GREET, used=0.93), say("Next is shout.py."))
    stage.codex("main", *SECOND_HALF)
    async with stage.daemon() as relay:
        sid = await relay.run(TASK, "claude", "codex", verify=[CHECK], allow="all")
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == ["claude/main", "codex/main"]
        assert await relay.events(sid, "failure") == []
    assert len(stage.llm.requests(spent)) <= 2


async def test_everybody_spent_waits_for_the_first_reset(stage: Stage) -> None:
    stage.claude("main", write("greet.py", GREET), usage_limit(resets_in=7200))
    stage.codex("main", usage_limit(resets_in=3600))
    async with stage.daemon() as relay:
        sid = await relay.run(TASK, "claude", "codex", allow="all")
        waiting = await relay.reach(sid, "WAITING")
        assert waiting["wakeAt"]
        gone = await relay.events(sid, "child_gone")
        assert [event["run"] for event in gone] == [1, 2]
        assert stage.file(sid, "greet.py") == GREET
        await relay.act(sid, "stop")
        await relay.reach(sid, "STOPPED")


async def finished_by_the_second(
    stage: Stage, relay: Relay, sid: str, done: dict[str, Any], targets: tuple[str, str]
) -> None:
    """What every one of these handoffs comes to."""
    assert stage.file(sid, "greet.py") == GREET.replace("name\n", "name + '!'\n")
    assert stage.file(sid, "shout.py") == SHOUT
    assert tuple(run["target"] for run in done["runs"]) == targets
    assert done["verified"] is True
    assert done["handoffsDone"] == 1
    failure = await relay.event(sid, "failure")
    assert (failure["class"], failure["decision"]) == ("usage_limit", "HandOff")
    assert failure["resetsAt"]
    snapshots = await relay.events(sid, "snapshot")
    handed_over = snapshots[0]["commit"]
    assert stage.git("show", f"{handed_over}:greet.py") == GREET
    assert stage.git("rev-parse", f"relay/{sid}").strip() == snapshots[-1]["commit"] == done["snapshotCommit"]
    assert stage.git("merge-base", "--is-ancestor", handed_over, f"relay/{sid}") == ""
    states = [event["to"] for event in await relay.events(sid, "fsm")]
    handoff = ["PAUSING", "SNAPSHOTTED", "ENVELOPE_BUILT", "DISPATCHED", "RESUMING", "RUNNING"]
    assert states == [*handoff[2:], *handoff, "COMPLETED"]
    verdict = await relay.event(sid, "verify")
    assert verdict["passed"] is True


async def the_brief_said_it_all(relay: Relay, sid: str, told: str) -> None:
    """The contract as signed is what the second agent was told, and holds what it has to know."""
    contract = await relay.get("/api/contract", session=sid)
    assert contract["verified"] is True
    assert contract["markdown"].strip() in told
    assert TASK in told
    for line in (WRITE_GREET, WRITE_SHOUT, "greet.py", "import greet; print", CHECK):
        assert line in told, line
    assert told.index(WRITE_GREET) < told.index(WRITE_SHOUT)


def tools_called(messages: list[dict[str, Any]]) -> list[str]:
    return [block["name"] for block in _blocks(messages) if block["type"] == "tool_use"]


def results(messages: list[dict[str, Any]]) -> list[str]:
    return [str(block["content"]) for block in _blocks(messages) if block["type"] == "tool_result"]


def _blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        block for message in messages if isinstance(message["content"], list) for block in message["content"]
    ]
