"""The agent as a real child over pipes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from relay.core.events import TaskStatus, ToolKind, TurnOutcome
from relay.providers.protocol import Account
from tests.fakes.scenarios import Agent, file_of, play, playing, request, scenario

BRIEF = """# Continue

## Goal
Add a temperature converter

## Do not redo
- Write converter.py
- Write test_converter.py

## Remaining tasks
- Document it in README.md
- Add a command line in cli.py
"""


def live(folder: Path, played: dict[str, Any], **changes: Any) -> AbstractAsyncContextManager[Agent]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return playing(request(file_of(folder, played), work, **changes))


def statuses(agent: Agent) -> list[str]:
    return [" ".join(item.status for item in plan.items) for plan in agent.of("plan")]


async def test_a_task_is_played_through(tmp_path: Path) -> None:
    agent, status = await play(
        tmp_path,
        scenario(
            {"think": "hm"},
            {"decide": "round to two decimals"},
            {"write": {"path": "lib/a.txt", "content": ["one", "two"]}},
            {"append": {"path": "lib/a.txt", "content": "three"}},
            {"edit": {"path": "lib/a.txt", "old": "two", "new": "2"}},
            {"read": "lib/a.txt"},
            {"shell": "echo out; echo err >&2; exit 3"},
            {"usage": {"input": 7, "cached": 2, "output": 1}},
            **{"finally": [{"say": {"text": "All of it is done", "stream": True}}]},
        ),
        model="big",
    )
    assert status == 0
    assert (tmp_path / "work/lib/a.txt").read_text("utf-8") == "one\n2\nthree"
    (started,) = agent.of("started")
    assert (started.native_id, started.model, started.cwd) == ("s-1.1", "big", str(tmp_path / "work"))
    assert statuses(agent) == ["pending", "in_progress", "completed"]
    assert agent.texts() == ["Decision: round to two decimals", "All of it is done"]
    assert "".join(delta.text for delta in agent.of("text_delta")) == "All of it is done"
    results = {result.call_id: result for result in agent.of("tool_result")}
    calls = [(call.tool_kind, results[call.call_id].ok) for call in agent.of("tool_call")]
    assert calls == [
        (ToolKind.EDIT, True),
        (ToolKind.EDIT, True),
        (ToolKind.EDIT, True),
        (ToolKind.READ, True),
        (ToolKind.SHELL, False),
    ]
    assert results["call-4"].output == "one\n2\nthree"
    assert (results["call-5"].exit_code, results["call-5"].output) == (3, "out\nerr\n")
    (ended,) = agent.of("turn_ended")
    assert (ended.outcome, ended.text, ended.error) == (TurnOutcome.COMPLETED, "All of it is done", None)
    assert agent.kinds()[-1] == "turn_ended"
    assert not agent.dialogue.turn_open


async def test_the_same_scenario_prints_the_same_lines(tmp_path: Path) -> None:
    played = scenario({"say": "a"}, {"write": {"path": "a", "content": "b"}}, {"garbage": {}})
    first, _ = await play(tmp_path, played)
    second, _ = await play(tmp_path, played)
    assert first.lines == second.lines


async def test_tools_that_fail_are_results_and_the_turn_goes_on(tmp_path: Path) -> None:
    agent, _ = await play(
        tmp_path,
        scenario({"read": "none"}, {"edit": {"path": "none", "old": "a", "new": ""}}, {"say": "went on"}),
    )
    assert [result.ok for result in agent.of("tool_result")] == [False, False]
    assert agent.texts() == ["went on"]


async def test_a_brief_leaves_only_what_remains(tmp_path: Path) -> None:
    agent, status = await play(tmp_path, "demo-second", prompt=BRIEF)
    assert status == 0
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["README.md", "cli.py"]
    done = [[item.status is TaskStatus.COMPLETED for item in plan.items] for plan in agent.of("plan")]
    assert (done[0], done[-1]) == ([True, True, False, False], [True, True, True, True])


async def test_the_two_demo_agents_finish_the_work_together(tmp_path: Path) -> None:
    first, _ = await play(tmp_path, "demo-first", prompt="Add a temperature converter")
    verify = partial(
        trio.run_process,
        [sys.executable, "-B", "-m", "unittest", "-q"],
        cwd=tmp_path / "work",
        capture_stderr=True,
        check=False,
    )
    unfinished = await verify()
    await play(tmp_path, "demo-second", prompt=BRIEF)
    finished = await verify()
    (ended,) = first.of("turn_ended")
    assert (ended.outcome, ended.error.code) == (TurnOutcome.FAILED, "usage_limit_reached")
    assert "Decision: round to two decimals" in first.texts()
    assert statuses(first)[-1] == "completed completed in_progress pending"
    assert unfinished.returncode == 1
    assert finished.returncode == 0, finished.stderr
    names = sorted(path.name for path in (tmp_path / "work").iterdir())
    assert names == ["README.md", "cli.py", "converter.py", "test_converter.py"]


async def test_a_limit_fails_the_turn_and_the_work_goes_on_when_it_is_lifted(tmp_path: Path) -> None:
    played = scenario(
        {"say": "before"},
        {"limit": {"kind": "usage_limit", "resets_in": 3600, "times": 2}},
        {"say": "after"},
    )
    before = datetime.now(UTC).timestamp()
    async with live(tmp_path, played) as agent:
        first = await agent.until("turn_ended", 1)
        await agent.say("continue", "again-1")
        second = await agent.until("turn_ended", 2)
        await agent.say("continue", "again-2")
        third = await agent.until("turn_ended", 3)
        await agent.end_input()
        assert await agent.ended() == 0
    assert [turn.outcome for turn in (first, second, third)] == [
        TurnOutcome.FAILED,
        TurnOutcome.FAILED,
        TurnOutcome.COMPLETED,
    ]
    assert (first.error.code, first.error.http_status) == ("usage_limit_reached", 429)
    assert first.error.text == "You've reached your usage limit. Resets in 1h"
    assert 3600 <= first.error.resets_at.timestamp() - before < 3700
    assert agent.texts() == ["before", "after"]


async def test_a_limit_that_was_met_is_lifted_for_a_new_process_of_the_account(tmp_path: Path) -> None:
    played = scenario({"limit": {"kind": "usage_limit"}}, {"say": "after"})
    account = Account(config_dir=str(tmp_path / "home"))
    outcomes = []
    for session, run in (("s-1", 1), ("s-1", 2), ("s-2", 1)):
        agent, _ = await play(tmp_path, played, account=account, session_id=session, run=run)
        outcomes.append(agent.of("turn_ended")[0].outcome.value)
    assert outcomes == ["failed", "completed", "failed"]


async def test_a_limit_on_stderr_ends_the_agent_in_mid_turn(tmp_path: Path) -> None:
    agent, status = await play(
        tmp_path, scenario({"limit": {"kind": "usage_limit", "resets_in": 7500, "channel": "stderr"}})
    )
    assert status == 1
    said = [line for stream, line in agent.lines if stream == "err"]
    assert said == [b"You've reached your usage limit. Resets in 2h 5m"]
    assert agent.of("turn_ended") == []
    assert agent.dialogue.turn_open


WAITS: dict[str, tuple[object, str, int]] = {
    "hang": ("hang", "text", 1),
    "sleep": ({"sleep": 600}, "text", 1),
    "slow tool": ({"slow_tool": 600}, "tool_call", 1),
    "command": ({"shell": "exec sleep 600"}, "tool_call", 1),
    "question": ({"ask": "Which?"}, "permission", 1),
    "flood": ({"flood": {"events": 1_000_000, "per_second": 5}}, "text", 2),
}
"""Name -> the step, and what is seen once it has begun, or when it is next."""


@pytest.mark.parametrize("name", WAITS)
async def test_an_interrupt_ends_the_turn_and_closes_its_calls(tmp_path: Path, name: str) -> None:
    step, begun, count = WAITS[name]
    async with live(tmp_path, scenario({"say": "waiting"}, step, {"say": "went on"})) as agent:
        await agent.until(begun, count)
        await agent.interrupt()
        ended = await agent.until("turn_ended")
        assert ended.outcome is TurnOutcome.INTERRUPTED
        opened = {call.call_id for call in agent.of("tool_call")}
        assert {result.call_id for result in agent.of("tool_result")} == opened
        await agent.say("continue", "go-on")
        await agent.until("turn_ended", 2)
        await agent.end_input()
        assert await agent.ended() == 0
    assert agent.texts()[-1] == "went on"


async def test_an_interrupt_between_turns_touches_no_later_turn(tmp_path: Path) -> None:
    async with live(tmp_path, scenario({"say": "a"}, on_reply=[{"sleep": 0.01}, {"say": "b"}])) as agent:
        await agent.until("turn_ended")
        assert agent.process.stdin is not None
        await agent.process.stdin.send_all(b'{"type": "interrupt"}\n')
        await agent.say("and?", "k")
        ended = await agent.until("turn_ended", 2)
    assert (ended.outcome, ended.text) == (TurnOutcome.COMPLETED, "b")


@pytest.mark.parametrize(
    ("allowed", "want_file", "want_output"),
    [(True, True, "a.txt is written"), (False, False, "not that one")],
)
async def test_a_permission_is_waited_for(
    tmp_path: Path, allowed: bool, want_file: bool, want_output: str
) -> None:
    played = scenario({"write": {"path": "a.txt", "content": "x", "ask": True}})
    async with live(tmp_path, played) as agent:
        asked = await agent.until("permission")
        assert (asked.request_id, asked.tool_kind, asked.paths) == ("ask-1", ToolKind.EDIT, ("a.txt",))
        assert not (tmp_path / "work/a.txt").exists()
        await agent.write(agent.dialogue.answer("ask-1", allowed, "not that one"))
        result = await agent.until("tool_result")
        await agent.until("turn_ended")
    assert (tmp_path / "work/a.txt").exists() is want_file
    assert (result.ok, result.denied, result.output) == (allowed, not allowed, want_output)


async def test_a_command_that_was_denied_does_not_run(tmp_path: Path) -> None:
    played = scenario({"shell": {"command": "touch ran", "ask": True}}, {"say": "went on"})
    async with live(tmp_path, played) as agent:
        asked = await agent.until("permission")
        await agent.write(agent.dialogue.answer(asked.request_id, False, ""))
        await agent.until("turn_ended")
    assert asked.command == "touch ran"
    assert not (tmp_path / "work/ran").exists()
    assert agent.texts() == ["went on"]


async def test_the_answer_to_a_question_is_the_calls_output(tmp_path: Path) -> None:
    played = scenario({"ask": {"question": "Which unit?", "options": ["C", "F"]}})
    async with live(tmp_path, played) as agent:
        asked = await agent.until("permission")
        await agent.write(agent.dialogue.answer(asked.request_id, True, "F"))
        result = await agent.until("tool_result")
    assert (asked.question, asked.options, result.output) == ("Which unit?", ("C", "F"), "F")


async def test_a_question_that_nobody_can_answer_any_more_is_denied(tmp_path: Path) -> None:
    agent, status = await play(tmp_path, scenario({"ask": "Which?"}, {"say": "went on"}))
    assert status == 0
    assert [result.denied for result in agent.of("tool_result")] == [True]
    assert agent.texts() == ["went on"]


async def test_later_messages_are_taken_up_in_order(tmp_path: Path) -> None:
    played = scenario({"say": "working"}, on_verify_failed=[{"say": "mended"}])
    async with live(tmp_path, played) as agent:
        await agent.say("The work is not accepted yet: `make test` failed.", "verify:1")
        await agent.say("Thank you", "reply:1")
        await agent.until("turn_ended", 3)
    assert agent.texts() == ["working", "mended", "ok"]


async def test_the_end_of_input_lets_a_turn_finish(tmp_path: Path) -> None:
    agent, status = await play(tmp_path, scenario({"sleep": 0.05}, {"say": "finished"}))
    assert (status, agent.texts()) == (0, ["finished"])


@pytest.mark.parametrize(("name", "want"), [("SIGTERM", 143), ("SIGINT", 130)])
async def test_a_signal_ends_it_at_once(tmp_path: Path, name: str, want: int) -> None:
    async with live(tmp_path, scenario({"say": "up"}, "hang")) as agent:
        await agent.until("text")
        agent.process.send_signal(getattr(signal, name))
        assert await agent.ended() == want
    assert agent.of("turn_ended") == []


ENDS: dict[str, tuple[object, int, int]] = {
    "crash": ({"crash": 7}, 7, 0),
    "exit": ({"exit": 4}, 4, 1),
    "killed": ("kill_self", 137, 0),
    "terminated": ({"kill_self": "TERM"}, 143, 0),
}


@pytest.mark.parametrize("name", ENDS)
async def test_it_can_end_badly(tmp_path: Path, name: str) -> None:
    step, want_status, want_turns_ended = ENDS[name]
    agent, status = await play(tmp_path, scenario(step, {"say": "never"}))
    assert (status, len(agent.of("turn_ended")), agent.texts()) == (want_status, want_turns_ended, [])


async def test_odd_output_is_passed_on(tmp_path: Path) -> None:
    agent, _ = await play(
        tmp_path,
        scenario(
            {"garbage": "no record"}, "unknown_record", {"big_line": 200_000}, {"flood": {"events": 600}}
        ),
    )
    assert [output.text for output in agent.of("output")] == ["no record"]
    assert [unknown.record_type for unknown in agent.of("unknown")] == ["from_the_future"]
    assert max(len(line) for _, line in agent.lines) == 200_000
    numbered = [text.split()[1] for text in agent.texts() if text.startswith("event ")]
    assert numbered == [str(number) for number in range(1, 601)]


@pytest.fixture
async def leftover(tmp_path: Path) -> AsyncIterator[psutil.Process]:
    """The process that a scripted agent left behind, in a session of its own."""
    command = f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 600"
    await play(
        tmp_path,
        scenario(
            {"spawn": {"command": command, "ignore_term": True, "new_session": True}},
            {"shell": f"until [ -e {tmp_path}/pid ]; do :; done"},
        ),
    )
    process = psutil.Process(int((tmp_path / "pid").read_text("utf-8")))
    yield process
    process.kill()


async def test_a_process_can_be_left_behind(leftover: psutil.Process) -> None:
    leftover.terminate()
    assert leftover.is_running()
    assert os.getsid(leftover.pid) == leftover.pid


async def test_its_commands_do_not_inherit_the_way_to_relay(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/json.py").write_text("raise SystemExit('the worktree was imported')", "utf-8")
    agent, status = await play(
        tmp_path,
        scenario({"shell": 'echo "[$PYTHONPATH]"'}),
        env={"PYTHONPATH": "/somewhere"},
    )
    assert status == 0
    assert [result.output for result in agent.of("tool_result")] == ["[/somewhere]\n"]


async def test_without_a_scenario_it_says_so(tmp_path: Path) -> None:
    agent, status = await play(tmp_path, "nowhere")
    assert status == 2
    said = [line.decode() for stream, line in agent.lines if stream == "err"]
    assert said == [
        "scripted agent: nowhere: No such file or directory; embedded scenarios: demo-first, demo-second"
    ]


async def test_input_that_is_no_message_is_noted(tmp_path: Path) -> None:
    async with live(tmp_path, scenario({"say": "a"})) as agent:
        assert agent.process.stdin is not None
        await agent.process.stdin.send_all(b"what?\n" + json.dumps({"type": "odd"}).encode() + b"\n")
        await agent.until("notice", 2)


async def test_a_message_that_comes_again_under_its_key_is_taken_once(tmp_path: Path) -> None:
    asked = request(file_of(tmp_path, scenario({"say": "done"})), tmp_path)
    async with playing(asked) as agent:
        await agent.until("turn_ended")
        again = agent.dialogue.say("and now?", "say:1")
        await agent.write((*again, *again))
        await agent.end_input()
        assert await agent.ended() == 0
        assert agent.texts() == ["done", "ok"]
