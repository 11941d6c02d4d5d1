"""Failures that are no usage limit, interrupted messages, and what is said while nobody listens."""

from __future__ import annotations

import threading

import pytest

from tests.e2e.harness import Stage
from tests.fakes.llm.script import overloaded, say, shell, unauthorized, usage_limit, write

pytestmark = pytest.mark.real_cli


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_an_overload_is_waited_out_in_the_same_conversation(stage: Stage, name: str) -> None:
    stage.settings["retry"] = "backoff_seconds = 0.2\nretry_message = 'Go on, please.'"
    # Each CLI tries once more by itself.
    steps = (write("a.txt", "a\n"), overloaded(), overloaded(), say("I am done."))
    login = stage.claude("main", *steps) if name == "claude" else stage.codex("main", *steps)
    stage.scripted("spare")
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt", name, "scripted/spare")
        done = await relay.reach(sid, "COMPLETED")
        assert len(done["runs"]) == 1
        failure = await relay.event(sid, "failure")
        assert (failure["class"], failure["decision"]) == ("overload", "Retry")
        assert stage.file(sid, "a.txt") == "a\n"
    assert "Go on, please." in stage.llm.requests(login)[-1].text


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_refused_login_waits_for_the_user(stage: Stage, name: str) -> None:
    steps = (write("a.txt", "a\n"), unauthorized())
    login = stage.claude("main", *steps) if name == "claude" else stage.codex("main", *steps)
    stage.scripted("spare")
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt", name, "scripted/spare")
        waiting = await relay.reach(sid, "WAITING")
        assert "Sign in again" in waiting["waitReason"]
        assert waiting["wakeAt"] is None
        assert stage.file(sid, "a.txt") == "a\n"
        stage.llm.script(login, say("I am done."))
        await relay.act(sid, "resume")
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == [f"{name}/main"] * 2
        assert [run["nativeResume"] for run in done["runs"]] == [False, True]


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_message_is_interrupted_and_the_other_account_goes_on(stage: Stage, name: str) -> None:
    hold = threading.Event()
    steps = (write("a.txt", "a\n"), say("This message never ends.", hold=hold))
    account = stage.claude if name == "claude" else stage.codex
    first, heir = account("one", *steps), account("two", say("I am done."))
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt", f"{name}/one", f"{name}/two")

        async def speaks() -> bool:
            return len(stage.llm.requests(first)) == 2

        await relay.until("the message has begun", speaks)
        await relay.act(sid, "handoff")
        done = await relay.reach(sid, "COMPLETED")
        assert [run["nativeResume"] for run in done["runs"]] == [False, True]
        ended = await relay.event(sid, "agent_event", kind="turn_ended")
        assert ended["outcome"] == "interrupted"
    assert "Now a.txt." in stage.llm.requests(heir)[0].text


async def test_a_conversation_that_cannot_be_resumed_is_told_by_the_brief(stage: Stage) -> None:
    """The first account's rollout is gone when the second one is started."""
    waits = "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done"
    stage.codex("one", shell(waits), usage_limit())
    heir = stage.codex("two", say("I am done."))
    async with stage.daemon() as relay:
        sid = await relay.run("Wait for go", "codex/one", "codex/two", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        (stage.home / "codex-one" / "sessions").rename(stage.home / "elsewhere")
        (stage.worktree(sid) / "go").touch()
        await relay.reach(sid, "COMPLETED")
        dispatched = (await relay.events(sid, "dispatched"))[-1]
        assert dispatched["nativeResume"] is False
        assert "brief" in " ".join(dispatched["notes"])
        contract = await relay.get("/api/contract", session=sid)
    assert contract["markdown"].strip() in stage.llm.requests(heir)[0].text


async def test_what_is_said_during_a_pause_is_told_at_once_when_it_goes_on(stage: Stage) -> None:
    waits = "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done"
    login = stage.claude("main", shell(waits), say("I wait."))
    async with stage.daemon() as relay:
        sid = await relay.run("Paint it", "claude", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        await relay.act(sid, "pause")
        await relay.reach(sid, "PAUSING")
        (stage.worktree(sid) / "go").touch()
        await relay.reach(sid, "WAITING")
        before = len(stage.llm.requests(login))
        await relay.act(sid, "reply", reply="Make it blue, please.")
        await relay.reach(sid, "COMPLETED")
    told = stage.llm.requests(login)[before].text
    assert told.count("Make it blue, please.") == 1


async def test_two_agents_work_side_by_side_in_one_repository(stage: Stage) -> None:
    stage.claude("main", write("a.txt", "of claude\n"), say("I am done."))
    stage.codex("main", write("a.txt", "of codex\n"), say("I am done."))
    async with stage.daemon() as relay:
        one = await relay.run("Write a.txt", "claude")
        two = await relay.run("Write a.txt", "codex")
        await relay.reach(one, "COMPLETED")
        await relay.reach(two, "COMPLETED")
        assert stage.file(one, "a.txt") == "of claude\n"
        assert stage.file(two, "a.txt") == "of codex\n"
