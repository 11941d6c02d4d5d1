"""The daemon dies at any moment: agents go on, and the next daemon follows them without losing a word."""

from __future__ import annotations

import threading

import pytest

from tests.e2e.harness import Stage, marked
from tests.fakes.llm.script import say, shell, usage_limit, write

WAITS = "echo begun > begun.txt; until [ -e go ]; do sleep 0.05; done"


async def test_a_killed_daemon_disturbs_no_agent_and_loses_no_event(stage: Stage) -> None:
    steps = [
        {"write": {"path": "begun.txt", "content": "begun\n"}},
        {"flood": {"events": 2000, "per_second": 1000}},
    ]
    stage.scripted("one", tasks=[{"name": "Talk", "steps": steps}])
    async with stage.daemon(killed=True) as relay:
        sid = await relay.run("Talk", "scripted/one")
        await relay.appears(stage.worktree(sid) / "begun.txt")
        running = marked(sid)
        assert running
    async with stage.daemon(follows=[sid]) as relay:
        done = await relay.reach(sid, "COMPLETED")
        assert len(done["runs"]) == 1
        told = [e["text"] for e in await relay.events(sid, "agent_event") if e["kind"] == "text"]
        assert [text.split()[1] for text in told] == [str(number) for number in range(1, 2001)]
        assert len(await relay.events(sid, "dispatched")) == 1


async def test_what_an_agent_did_without_a_daemon_is_read_afterwards(stage: Stage) -> None:
    steps = [{"write": {"path": "begun.txt", "content": "begun\n"}}, {"shell": WAITS}]
    limit = {"limit": {"kind": "usage_limit", "resets_in": 7200}}
    stage.scripted("one", tasks=[{"name": "Begin", "steps": [*steps, limit]}])
    stage.scripted("two", tasks=[{"name": "Begin", "steps": [{"say": "I saw it through."}]}])
    async with stage.daemon(killed=True) as relay:
        sid = await relay.run("Begin", "scripted/one", "scripted/two", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
    (stage.worktree(sid) / "go").touch()
    async with stage.daemon(follows=[sid]) as relay:
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == ["scripted/one", "scripted/two"]
        assert len(await relay.events(sid, "failure")) == 1


@pytest.mark.real_cli
async def test_claude_is_followed_by_the_next_daemon_up_to_its_limit(stage: Stage) -> None:
    stage.claude("main", shell(WAITS), write("after.txt", "after\n"), usage_limit())
    heir = stage.codex("main", say("All was done already."))
    async with stage.daemon(killed=True) as relay:
        sid = await relay.run("Wait for go", "claude", "codex", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
    (stage.worktree(sid) / "go").touch()
    async with stage.daemon(follows=[sid]) as relay:
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == ["claude/main", "codex/main"]
        assert stage.file(sid, "after.txt") == "after\n"
        calls = [e["callId"] for e in await relay.events(sid, "agent_event") if e["kind"] == "tool_call"]
        assert len(calls) == len(set(calls)) == 2
    assert "after.txt" in stage.llm.requests(heir)[0].text


@pytest.mark.real_cli
async def test_codex_is_followed_by_the_next_daemon_in_the_middle_of_a_message(stage: Stage) -> None:
    hold = threading.Event()
    login = stage.codex("main", say("Half of this was said before, half after.", hold=hold))
    async with stage.daemon(killed=True) as relay:
        sid = await relay.run("Speak", "codex", allow="all")
        await relay.event(sid, "agent_event", kind="turn_started")

        async def asked() -> bool:
            return bool(stage.llm.requests(login))

        await relay.until("the model is asked", asked)
    hold.set()
    async with stage.daemon(follows=[sid]) as relay:
        await relay.reach(sid, "COMPLETED")
        told = [e["text"] for e in await relay.events(sid, "agent_event") if e["kind"] == "text"]
        assert told == ["Half of this was said before, half after."]
    assert len(stage.llm.requests(login)) == 1


async def test_a_stopped_daemon_leaves_the_agent_running_for_the_next(stage: Stage) -> None:
    stage.scripted("one", tasks=[{"name": "Wait", "steps": [{"shell": WAITS}]}])
    async with stage.daemon(leaves_sessions=True) as relay:
        sid = await relay.run("Wait", "scripted/one", allow="all")
        await relay.appears(stage.worktree(sid) / "begun.txt")
    assert marked(sid)
    (stage.worktree(sid) / "go").touch()
    async with stage.daemon(follows=[sid]) as relay:
        done = await relay.reach(sid, "COMPLETED")
        assert len(done["runs"]) == 1
