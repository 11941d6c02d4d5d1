"""Work that real CLIs began without Relay: found, adopted, and finished by another or by their own resume."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from tests.e2e.harness import _QUIET, Relay, Stage, _token
from tests.e2e.test_handoff import (
    CHECK,
    FIRST_HALF,
    GREET,
    SECOND_HALF,
    SHOUT,
    TASK,
    WRITE_GREET,
    WRITE_SHOUT,
)
from tests.fakes.llm.script import plan, say, shell, write

pytestmark = pytest.mark.real_cli


async def by_hand(stage: Stage, program: str, login: str, prompt: str) -> None:
    """What a user does at a terminal, in the checkout: one run of the CLI to its end."""
    cli = str(stage.find_cli(program))
    folder = str(stage.home / login)
    env = {"PATH": os.environ["PATH"], "HOME": str(stage.home), "LANG": "C.UTF-8", "TZ": "UTC"}
    if program == "claude":
        env |= {
            **_QUIET,
            "CLAUDE_CONFIG_DIR": folder,
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": stage.llm.url(login),
            "CLAUDE_CODE_OAUTH_TOKEN": _token(login),
        }
        words = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            prompt,
        ]
    else:
        env |= {"CODEX_HOME": folder, "FAKE_API_KEY": _token(login)}
        words = ["exec", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt]
    with trio.fail_after(120):
        await trio.run_process(
            [cli, *words],
            cwd=stage.repo,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


async def adopted(relay: Relay, **body: Any) -> dict[str, Any]:
    """Adopt the newest session; the answer."""
    answer = dict(await relay.post("/api/detect/adopt", id="latest", **body))
    if answer["sessionId"]:
        relay.sids.append(answer["sessionId"])
    return answer


async def finished_from_a_brief(stage: Stage, relay: Relay, heir: str, store: str, target: str) -> None:
    # Without a transcript: processes of other tests, or of whoever else uses this machine.
    listed = [agent for agent in (await relay.get("/api/detect"))["agents"] if agent["path"]]
    assert [(agent["provider"], agent["goal"], agent["status"]) for agent in listed] == [
        (store, TASK, "active")
    ]
    assert listed[0]["folder"] == str(stage.repo)
    assert (listed[0]["todosDone"], listed[0]["todosLeft"], listed[0]["filesTouched"]) == (1, 1, 1)
    before = stage.checkout()

    answer = await adopted(relay, target=target, start=True, allow="all", verify=[CHECK])

    assert "startError" not in answer
    assert answer["hfsScore"] == 1.0
    done = await relay.reach(answer["sessionId"], "COMPLETED")
    assert [run["provider"] for run in done["runs"]] == [target]
    assert stage.file(done["sessionId"], "shout.py") == SHOUT
    assert stage.file(done["sessionId"], "greet.py") == GREET.replace("name\n", "name + '!'\n")
    assert done["hfsHistory"][0] == 1.0
    told = stage.llm.requests(heir)[0].text
    for words in (TASK, WRITE_GREET, WRITE_SHOUT, "greet.py", str(stage.repo)):
        assert words in told, words
    assert told.index("Do not redo") < told.index("Remaining tasks")
    assert stage.checkout() == before
    brief = Path(answer["path"])
    assert brief.parent == stage.repo / ".relay" / "adopted"
    assert brief.read_text() == answer["markdown"]  # noqa: ASYNC240
    assert json.loads(Path(answer["contractPath"]).read_text())["taskGoal"] == TASK  # noqa: ASYNC240


async def test_codex_finishes_what_claude_began(stage: Stage) -> None:
    login = stage.claude("main", *FIRST_HALF)
    heir = stage.codex("main", *SECOND_HALF)
    await by_hand(stage, "claude", login, TASK)
    async with stage.daemon() as relay:
        await finished_from_a_brief(stage, relay, heir, "claude", "codex")


async def test_claude_finishes_what_codex_began(stage: Stage) -> None:
    login = stage.codex("main", *FIRST_HALF)
    heir = stage.claude("main", *SECOND_HALF)
    await by_hand(stage, "codex", login, TASK)
    async with stage.daemon() as relay:
        await finished_from_a_brief(stage, relay, heir, "codex", "claude")


HALF = (
    plan((WRITE_GREET, "in_progress"), (WRITE_SHOUT, "pending")),
    write("greet.py", GREET),
    plan((WRITE_GREET, "completed"), (WRITE_SHOUT, "in_progress")),
    say("greet.py is there; shout.py comes next."),
)


async def test_claude_is_resumed_under_a_second_account(stage: Stage) -> None:
    login = stage.claude("one", *HALF)
    heir = stage.claude("two", *SECOND_HALF)
    await by_hand(stage, "claude", login, TASK)
    transcripts = {path: path.read_bytes() for path in (stage.home / login).rglob("projects/*/*.jsonl")}
    assert len(transcripts) == 1
    async with stage.daemon() as relay:
        answer = await adopted(relay, target="claude/two", start=True, allow="all", verify=[CHECK])
        assert answer["nativeResume"]
        done = await relay.reach(answer["sessionId"], "COMPLETED")
        assert [run["nativeResume"] for run in done["runs"]] == [True]
        assert done["runs"][0]["nativeId"] == answer["id"]
        assert stage.file(done["sessionId"], "shout.py") == SHOUT
        worktree = done["worktree"]
    resumed = stage.llm.requests(heir)[0].body["messages"]
    calls = [
        (block["name"], block["input"].get("file_path"))
        for message in resumed
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_use"
    ]
    assert [name for name, _ in calls] == ["TodoWrite", "Write", "TodoWrite"]
    # In the copy the worktree stands where the user's checkout stood.
    assert calls[1][1] == f"{worktree}/greet.py"
    assert {path: path.read_bytes() for path in transcripts} == transcripts


async def test_claude_is_resumed_where_its_folder_was_moved(stage: Stage) -> None:
    login = stage.claude("main", *HALF, *SECOND_HALF)
    await by_hand(stage, "claude", login, TASK)
    left = stage.repo
    stage.project = "moved"
    left.rename(stage.repo)
    async with stage.daemon() as relay:
        answer = await adopted(
            relay, folder=str(stage.repo), target="claude", start=True, allow="all", verify=[CHECK]
        )
        assert answer["nativeResume"]
        done = await relay.reach(answer["sessionId"], "COMPLETED")
        assert done["runs"][0]["nativeId"] == answer["id"]
        assert stage.file(done["sessionId"], "shout.py") == SHOUT
        assert stage.file(done["sessionId"], "greet.py") == GREET.replace("name\n", "name + '!'\n")
        assert not await trio.Path(left).exists()


async def test_codex_is_resumed_in_its_own_home(stage: Stage) -> None:
    login = stage.codex("main", *HALF, *SECOND_HALF)
    await by_hand(stage, "codex", login, TASK)
    async with stage.daemon() as relay:
        answer = await adopted(relay, start=True, allow="all", verify=[CHECK])
        assert answer["target"] == "codex/main"
        done = await relay.reach(answer["sessionId"], "COMPLETED")
        assert [run["nativeResume"] for run in done["runs"]] == [True]
        assert done["runs"][0]["nativeId"] == answer["id"]
        assert stage.file(done["sessionId"], "shout.py") == SHOUT


INSTALL = "npm install --version; echo started > started.txt; sleep 300"


@pytest.mark.parametrize(("own", "other"), [("claude", "codex"), ("codex", "claude")])
async def test_a_running_agent_is_left_alone_until_it_is_paused(stage: Stage, own: str, other: str) -> None:
    half = (plan((WRITE_GREET, "completed"), (WRITE_SHOUT, "in_progress")), write("greet.py", GREET))
    login = getattr(stage, own)("main", *half, shell(INSTALL), say("Never said."))
    getattr(stage, other)("main", *SECOND_HALF)
    async with stage.daemon(touches_checkout=True) as relay, trio.open_nursery() as nursery:
        nursery.start_soon(by_hand, stage, own, login, TASK)
        await relay.appears(stage.repo / "started.txt")
        found = (await relay.get("/api/detect"))["agents"]
        [agent] = [each for each in found if each["folder"] == str(stage.repo)]
        assert (agent["provider"], agent["status"], agent["turnOpen"]) == (own, "running", True)

        looked = await adopted(relay)

        assert psutil.pid_exists(agent["pid"])
        assert any("is left alone" in note for note in looked["notes"])

        answer = await adopted(relay, target=other, start=True, pause=True, allow="all", verify=[CHECK])

        assert f"the agent (pid {agent['pid']}) was ended" in answer["notes"]
        assert f"Ran {INSTALL}" not in answer["markdown"]
        assert f"run {INSTALL}: " in answer["markdown"]
        await relay.reach(answer["sessionId"], "COMPLETED")


async def test_the_brief_alone_and_a_dry_run(stage: Stage) -> None:
    login = stage.claude("main", *HALF)
    await by_hand(stage, "claude", login, TASK)
    async with stage.daemon() as relay:
        dry = await adopted(relay, dryRun=True)
        assert TASK in dry["markdown"]
        assert (dry["path"], dry["started"]) == ("", False)
        assert not (stage.repo / ".relay" / "adopted").exists()
        written = await adopted(relay)
        assert Path(written["path"]).exists()  # noqa: ASYNC240
        assert await relay.get("/api/sessions") == []


async def test_an_agent_told_to_wait_reads_the_brief_and_waits(stage: Stage) -> None:
    login = stage.claude("main", *HALF)
    heir = stage.codex("main", say("The task is greeting; shout.py remains. I wait."), *SECOND_HALF)
    await by_hand(stage, "claude", login, TASK)
    async with stage.daemon() as relay:
        answer = await adopted(relay, target="codex", start=True, allow="all", verify=[CHECK], mode="brief")
        waiting = await relay.reach(answer["sessionId"], "WAITING")
        assert "relay reply" in waiting["waitReason"]
        assert "Do not change anything yet" in stage.llm.requests(heir)[0].text
        await relay.act(answer["sessionId"], "reply", reply="Go on.")
        done = await relay.reach(answer["sessionId"], "COMPLETED")
        assert stage.file(done["sessionId"], "shout.py") == SHOUT
