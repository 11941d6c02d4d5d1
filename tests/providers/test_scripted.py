from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    AgentTextDelta,
    AgentThinking,
    Channel,
    ErrorSignal,
    FailureClass,
    Notice,
    PermissionAsked,
    PlanItem,
    PlanUpdated,
    QuotaReported,
    QuotaWindow,
    RawOutput,
    Retrying,
    TaskStatus,
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UnknownRecord,
    UsageReported,
    UserText,
)
from relay.core.failures import classify
from relay.providers.protocol import Account, LaunchRequest
from relay.providers.scripted import Scripted
from tests.fakes.scenarios import request

NOON = datetime(2026, 10, 14, 12, 0, tzinfo=UTC)


def dialogue(**changes: Any) -> Any:
    return Scripted().dialogue(request("any", Path("/work"), **changes))


def line(**data: Any) -> bytes:
    return json.dumps(data).encode()


RECORDS: dict[str, tuple[dict[str, Any], AgentEvent]] = {
    "hello": (
        {"type": "hello", "session": "s.1", "model": "m", "cwd": "/w", "version": "1"},
        AgentStarted(native_id="s.1", model="m", cwd="/w", version="1"),
    ),
    "text": ({"type": "text", "text": "hi"}, AgentText(text="hi")),
    "delta": ({"type": "delta", "text": "h"}, AgentTextDelta(text="h")),
    "thinking": ({"type": "thinking", "text": "hm"}, AgentThinking(text="hm")),
    "user": ({"type": "user", "text": "u", "synthetic": True}, UserText(text="u", synthetic=True)),
    "notice": ({"type": "notice", "text": "n", "level": "warning"}, Notice(text="n", level="warning")),
    "turn started": ({"type": "turn_started", "turn": "turn-1"}, TurnStarted(turn_id="turn-1")),
    "tool call": (
        {"type": "tool_call", "id": "c", "tool": "Shell", "kind": "shell", "command": "ls", "detail": "ls"},
        ToolCall(call_id="c", tool="Shell", tool_kind=ToolKind.SHELL, command="ls", detail="ls"),
    ),
    "tool call of an unknown kind": (
        {"type": "tool_call", "id": "c", "tool": "X", "kind": "magic", "paths": ["a", 1]},
        ToolCall(call_id="c", tool="X", tool_kind=ToolKind.OTHER, paths=("a",)),
    ),
    "tool result": (
        {"type": "tool_result", "id": "c", "ok": False, "exit_code": 2, "output": "no"},
        ToolResult(call_id="c", ok=False, exit_code=2, output="no"),
    ),
    "denied tool result": (
        {"type": "tool_result", "id": "c", "ok": False, "denied": True},
        ToolResult(call_id="c", ok=False, denied=True),
    ),
    "plan": (
        {"type": "plan", "items": [{"text": "a", "status": "completed"}, {"text": "b", "status": "odd"}]},
        PlanUpdated(items=(PlanItem(text="a", status=TaskStatus.COMPLETED), PlanItem(text="b"))),
    ),
    "usage": (
        {"type": "usage", "input": 5, "cached": 3, "output": 2, "cost": 0.5},
        UsageReported(usage=TokenUsage(input=5, cached_input=3, output=2), cost_usd=0.5),
    ),
    "quota": (
        {"type": "quota", "windows": [{"name": "five_hour", "fraction": 0.9, "resets_at": 1791979200}]},
        QuotaReported(windows=(QuotaWindow(name="five_hour", fraction_used=0.9, resets_at=NOON),)),
    ),
    "permission": (
        {
            "type": "permission",
            "id": "ask-1",
            "call": "c",
            "tool": "AskUser",
            "kind": "ask",
            "question": "Which?",
            "options": ["a", "b"],
        },
        PermissionAsked(
            request_id="ask-1",
            tool="AskUser",
            tool_kind=ToolKind.ASK,
            call_id="c",
            question="Which?",
            options=("a", "b"),
        ),
    ),
    "retrying": (
        {
            "type": "retrying",
            "attempt": 2,
            "max": 5,
            "delay": 1.5,
            "error": {"code": "overloaded", "text": "t"},
        },
        Retrying(
            attempt=2,
            max_attempts=5,
            delay=1.5,
            error=ErrorSignal(channel=Channel.EVENT, text="t", code="overloaded"),
        ),
    ),
    "turn ended": (
        {"type": "turn_ended", "outcome": "completed", "text": "done"},
        TurnEnded(outcome=TurnOutcome.COMPLETED, text="done"),
    ),
    "turn failed": (
        {
            "type": "turn_ended",
            "outcome": "failed",
            "error": {"code": "usage_limit_reached", "status": 429, "text": "t", "resets_at": 1791979200},
        },
        TurnEnded(
            outcome=TurnOutcome.FAILED,
            error=ErrorSignal(
                channel=Channel.EVENT, text="t", code="usage_limit_reached", http_status=429, resets_at=NOON
            ),
        ),
    ),
    "turn with an unknown outcome": (
        {"type": "turn_ended", "outcome": "vanished"},
        TurnEnded(outcome=TurnOutcome.FAILED),
    ),
    "unknown": ({"type": "new", "a": 1}, UnknownRecord(record_type="new", record={"type": "new", "a": 1})),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_gives_its_event(name: str) -> None:
    data, want = RECORDS[name]
    assert dialogue().read(line(**data), "out").events == (want,)


def test_every_event_type_has_a_record() -> None:
    covered = {type(want) for _, want in RECORDS.values()} | {RawOutput}
    assert covered == set(AgentEvent.__args__)


@pytest.mark.parametrize(
    ("data", "stream", "want"),
    [
        (b"plain words", "out", (RawOutput(stream="out", text="plain words"),)),
        (b'{"type": "text"', "out", (RawOutput(stream="out", text='{"type": "text"'),)),
        (
            b'{"type": "text", "text": "x"}',
            "err",
            (RawOutput(stream="err", text='{"type": "text", "text": "x"}'),),
        ),
        (b"\xff", "err", (RawOutput(stream="err", text="\ufffd"),)),
        (b"  ", "out", ()),
    ],
)
def test_a_line_that_is_no_record_is_plain_output(data: bytes, stream: str, want: tuple[Any, ...]) -> None:
    assert dialogue().read(data, stream).events == want


def test_the_prompt_is_written_at_once_under_a_fixed_key() -> None:
    talk = dialogue(prompt="Add it")
    assert [(write.key, json.loads(write.line)) for write in talk.open()] == [
        ("prompt", {"type": "user", "text": "Add it", "key": "prompt"})
    ]
    assert talk.turn_open
    assert dialogue(prompt="").open() == ()


def test_a_turn_is_open_from_the_message_to_its_end() -> None:
    talk = dialogue(prompt="")
    assert not talk.turn_open
    assert talk.interrupt("i") == ()
    talk.say("Go", "k1")
    opened = [talk.turn_open]
    talk.read(line(type="turn_started", key="k1"), "out")
    opened.append(talk.turn_open)
    talk.say("And this", "k2")
    talk.read(line(type="turn_ended", outcome="completed"), "out")
    opened.append(talk.turn_open)
    talk.read(line(type="turn_started", key="k2"), "out")
    talk.read(line(type="turn_ended", outcome="completed"), "out")
    assert [*opened, talk.turn_open] == [True, True, True, False]


def test_reading_the_output_again_gives_the_same_state() -> None:
    output = [line(type="turn_started", key="prompt"), line(type="permission", id="ask-1", call="c")]
    first, again = dialogue(), dialogue()
    for talk in (first, again):
        talk.open()
        for data in output:
            talk.read(data, "out")
    assert first.answer("ask-1", True, "") == again.answer("ask-1", True, "")
    assert first.turn_open and again.turn_open


def test_only_an_open_question_is_answered() -> None:
    talk = dialogue()
    assert talk.answer("ask-1", True, "") == ()
    talk.read(line(type="permission", id="ask-1", call="c"), "out")
    (write,) = talk.answer("ask-1", False, "not now")
    assert (write.key, json.loads(write.line)) == (
        "answer:ask-1",
        {"type": "answer", "id": "ask-1", "allowed": False, "note": "not now"},
    )
    talk.read(line(type="tool_result", id="c", ok=False), "out")
    assert talk.answer("ask-1", True, "") == ()


def test_half_a_surrogate_pair_can_be_said() -> None:
    (write,) = dialogue().say("a\ud800b", "k")
    assert json.loads(write.line)["text"] == "a?b"


def test_the_agent_is_started_so_that_the_worktree_is_not_imported() -> None:
    spec = Scripted().launch(
        LaunchRequest(
            session_id="s-1",
            run=2,
            cwd="/w",
            prompt="p",
            args=("--scenario", "demo-first"),
            model="big",
            env={"PYTHONPATH": "/lib"},
            account=Account(config_dir="/home/a", env={"SCRIPTED_SCENARIO": "x"}),
        )
    )
    import relay

    assert spec.argv == (sys.executable, "-P", "-m", "relay.scripted_agent", "--scenario", "demo-first")
    assert spec.two_way
    assert spec.env == {
        "PYTHONPATH": os.pathsep.join((str(Path(relay.__file__).parent.parent), "/lib")),
        "SCRIPTED_SCENARIO": "x",
        "SCRIPTED_SESSION": "s-1.2",
        "SCRIPTED_MODEL": "big",
        "SCRIPTED_HOME": "/home/a",
    }


def test_a_configured_command_replaces_python_and_its_options() -> None:
    asked = request("demo-first", Path("/w"), command="/opt/agent")
    assert Scripted().launch(asked).argv == ("/opt/agent", "--scenario", "demo-first")


def test_its_session_cannot_be_resumed_elsewhere() -> None:
    assert Scripted().resume_files("s-1.1", "/w") is None


KINDS = {
    "usage_limit": FailureClass.USAGE_LIMIT,
    "rate_limit": FailureClass.RATE_LIMIT,
    "overload": FailureClass.OVERLOAD,
    "auth": FailureClass.AUTH,
    "context": FailureClass.CONTEXT_OVERFLOW,
    "refusal": FailureClass.REFUSAL,
    "network": FailureClass.NETWORK,
}
_TIMED = {FailureClass.USAGE_LIMIT, FailureClass.RATE_LIMIT, FailureClass.OVERLOAD, FailureClass.NETWORK}


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_is_judged_by_its_code_and_its_instant(kind: str) -> None:
    from relay.scripted_agent.trouble import error_of

    error = {**error_of(kind, 7500), "resets_at": int((NOON + timedelta(seconds=7500)).timestamp())}
    (ended,) = dialogue().read(line(type="turn_ended", outcome="failed", error=error), "out").events
    verdict = classify(ended.error, Scripted().wording, now=NOON, zone=UTC)
    want_reset = NOON + timedelta(seconds=7500) if KINDS[kind] in _TIMED else None
    assert (verdict.failure, verdict.resets_at) == (KINDS[kind], want_reset)


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_is_judged_by_its_words_alone_on_stderr(kind: str) -> None:
    from relay.scripted_agent.trouble import error_of

    signal = ErrorSignal(channel=Channel.STDERR, text=error_of(kind, 7500)["text"])
    verdict = classify(signal, Scripted().wording, now=NOON, zone=UTC)
    want_reset = NOON + timedelta(hours=2, minutes=5) if KINDS[kind] in _TIMED else None
    assert (verdict.failure, verdict.resets_at) == (KINDS[kind], want_reset)
