from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import Factory, frozen
from hypothesis import given
from hypothesis import strategies as st

from relay.core.events import (
    AgentStarted,
    AgentText,
    Notice,
    PlanItem,
    RawOutput,
    TaskStatus,
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnOutcome,
    UnknownRecord,
    UsageReported,
)
from relay.providers.codex_app_server import AppServerDialogue
from tests.fakes.codex import names, play, printed, read_all, recording, request

RECORDINGS = names("appserver_")
RESUMED = {
    "appserver_resume_unknown": "01a23535-0000-7000-8000-000000000000",
    "appserver_resume": next(
        json.loads(line)["result"]["thread"]["id"]
        for line in printed("appserver_resume")
        if b'"id":"thread"' in line[:20]
    ),
}
ALLOWED = {
    "appserver_usage_limit": "all",
    "appserver_usage_limit_weekly": "all",
    "appserver_background": "all",
    "appserver_decline_shell": "ask",
    "appserver_decline_patch": "ask",
}


def dialogue_of(name: str) -> AppServerDialogue:
    return AppServerDialogue(request(native_id=RESUMED.get(name), allow=ALLOWED.get(name, "edits")))


def message(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def started(**changes: Any) -> AppServerDialogue:
    """A dialogue whose thread "T" is up and in turn "U"."""
    dialogue = AppServerDialogue(request(**changes))
    dialogue.open()
    dialogue.read(message(id="initialize", result={"userAgent": "relay/0.171.0 (Linux)"}), "out")
    dialogue.read(message(id="thread", result={"thread": {"id": "T"}, "model": "gpt-5.5"}), "out")
    dialogue.read(
        message(method="turn/started", params={"threadId": "T", "turn": {"id": "U", "status": "inProgress"}}),
        "out",
    )
    return dialogue


def completed(status: str = "completed", **turn: Any) -> bytes:
    return message(method="turn/completed", params={"threadId": "T", "turn": {"status": status, **turn}})


@pytest.mark.parametrize("name", RECORDINGS)
class TestRecording:
    def test_writes_what_the_real_server_was_sent(self, name: str) -> None:
        sent = [step["line"] for step in recording(name) if step["dir"] == "in"]
        assert [json.loads(write.line) for write in play(dialogue_of(name), name).writes] == [
            json.loads(line) for line in sent
        ]

    def test_reading_it_again_gives_the_same(self, name: str) -> None:
        assert play(dialogue_of(name), name) == play(dialogue_of(name), name)

    def test_the_output_alone_rebuilds_events_and_state(self, name: str) -> None:
        played, again = play(dialogue_of(name), name), read_all(dialogue_of(name), printed(name))
        assert again.events == played.events
        assert again.turn_open == played.turn_open
        asked = {step["do"][-1] for step in recording(name) if step["dir"] == "do"}
        assert {write.key for write in again.writes} | asked >= {
            write.key for write in played.writes if not write.key.startswith("answer:")
        }

    def test_every_record_is_known_and_every_call_closed(self, name: str) -> None:
        played = play(dialogue_of(name), name)
        assert played.of("unknown") == []
        assert played.of("output") == []
        calls = [event.call_id for event in played.of("tool_call")]
        assert calls == [event.call_id for event in played.of("tool_result")]
        assert len(set(calls)) == len(calls)
        assert not played.turn_open


def test_work_tells_the_whole_story() -> None:
    played = play(dialogue_of("appserver_work"), "appserver_work")
    assert [event.kind for event in played.events if event.kind not in ("text_delta", "quota", "usage")] == [
        "started",
        "turn_started",
        "user_text",
        "plan",
        *("tool_call", "permission", "tool_result") * 3,
        "plan",
        "text",
        "turn_ended",
    ]
    begun = played.of("started")[0]
    assert (begun.model, begun.cwd, begun.version) == ("gpt-5.5", "$CWD", "0.171.0")
    shell, add, change = played.of("tool_call")
    assert (shell.tool_kind, shell.command) == (ToolKind.SHELL, "ls -1")
    assert (add.tool_kind, add.paths) == (ToolKind.EDIT, ("$CWD/refund.py",))
    assert change.paths == ("$CWD/refund.py",)
    first = played.of("tool_result")[0]
    assert (first.ok, first.exit_code, first.output) == (True, 0, "README.md\n")
    assert [(ask.request_id, ask.tool_kind, ask.command, ask.paths) for ask in played.of("permission")] == [
        ("0", ToolKind.SHELL, "ls -1", ()),
        ("1", ToolKind.EDIT, "", ("$CWD/refund.py",)),
        ("2", ToolKind.EDIT, "", ("$CWD/refund.py",)),
    ]
    assert played.of("plan")[-1].items == (
        PlanItem(text="Add the refund endpoint", status=TaskStatus.COMPLETED),
        PlanItem(text="Write its tests", status=TaskStatus.IN_PROGRESS),
        PlanItem(text="Update the docs", status=TaskStatus.PENDING),
    )
    last = json.loads([line for line in printed("appserver_work") if b"tokenUsage/updated" in line][-1])
    total = last["params"]["tokenUsage"]["total"]
    assert sum(event.usage.total for event in played.of("usage")) == total["totalTokens"]
    assert {window.name: window.fraction_used for window in played.of("quota")[-1].windows} == {
        "five_hour": 0.34,
        "seven_day": 0.61,
    }
    ended = played.of("turn_ended")[0]
    assert ended.outcome is TurnOutcome.COMPLETED
    assert ended.text == "Decision: refunds are keyed by order id. Next: write tests/test_refund.py."


@frozen(kw_only=True)
class End:
    name: str
    outcome: TurnOutcome
    code: str | None = None
    status: int | None = None
    words: str = ""
    resets_in_window: str = ""
    retries: list[tuple[int, int | None]] = Factory(list)


FAILED, INTERRUPTED, COMPLETED = TurnOutcome.FAILED, TurnOutcome.INTERRUPTED, TurnOutcome.COMPLETED
ENDS = [
    End(
        name="appserver_usage_limit",
        outcome=FAILED,
        code="usageLimitExceeded",
        words="You’ve hit your usage limit.",
        resets_in_window="five_hour",
    ),
    End(
        name="appserver_usage_limit_weekly",
        outcome=FAILED,
        code="usageLimitExceeded",
        words="You’ve hit your usage limit.",
        resets_in_window="seven_day",
    ),
    End(
        name="appserver_rate_limit",
        outcome=FAILED,
        code="responseTooManyFailedAttempts",
        status=429,
        words="exceeded retry limit",
        retries=[(1, 1)],
    ),
    End(
        name="appserver_overloaded",
        outcome=FAILED,
        code="serverOverloaded",
        words="Selected model is at capacity",
        retries=[(1, 1)],
    ),
    End(
        name="appserver_unauthorized",
        outcome=FAILED,
        code="httpConnectionFailed",
        status=401,
        words="unexpected status 401 Unauthorized",
        retries=[(1, 1)],
    ),
    End(name="appserver_refusal", outcome=FAILED, code="refusal_suspected", words="without an answer"),
    End(name="appserver_resume_unknown", outcome=FAILED, code="resume_failed", words="no rollout found"),
    End(name="appserver_interrupt", outcome=INTERRUPTED),
    End(name="appserver_reply", outcome=INTERRUPTED),
    End(name="appserver_thinking", outcome=COMPLETED),
]


@pytest.mark.parametrize("want", ENDS, ids=lambda want: want.name)
def test_how_a_turn_ends(want: End) -> None:
    played = play(dialogue_of(want.name), want.name)
    (ended,) = played.of("turn_ended")
    assert ended.outcome is want.outcome
    assert [(retry.attempt, retry.max_attempts) for retry in played.of("retrying")] == want.retries
    if want.code is None:
        assert ended.error is None
        return
    assert (ended.error.code, ended.error.http_status) == (want.code, want.status)
    assert want.words in ended.error.text
    if want.resets_in_window:
        windows = {window.name: window for window in played.of("quota")[-1].windows}
        assert windows[want.resets_in_window].rejected
        assert ended.error.resets_at == windows[want.resets_in_window].resets_at
    else:
        assert ended.error.resets_at is None


@pytest.mark.parametrize("name", ["appserver_decline_shell", "appserver_decline_patch"])
def test_a_declined_call_is_denied_and_the_turn_goes_on(name: str) -> None:
    played = play(dialogue_of(name), name)
    (result,) = played.of("tool_result")
    assert (result.ok, result.denied) == (False, True)
    assert played.of("turn_ended")[0].outcome is TurnOutcome.COMPLETED


def test_a_resumed_thread_keeps_its_id_and_its_earlier_tokens_are_not_spent_again() -> None:
    played = play(dialogue_of("appserver_resume"), "appserver_resume")
    assert played.of("started")[0].native_id == RESUMED["appserver_resume"]
    counts = [
        json.loads(line)["params"]["tokenUsage"]
        for line in printed("appserver_resume")
        if b"tokenUsage/updated" in line
    ]
    assert sum(event.usage.total for event in played.of("usage")) == (
        counts[-1]["total"]["totalTokens"] - counts[0]["total"]["totalTokens"]
    )


def test_a_reply_in_mid_turn_joins_the_turn() -> None:
    played = play(dialogue_of("appserver_reply"), "appserver_reply")
    assert [event.text for event in played.of("user_text")] == ["Add a refund flow", "Also update the docs"]
    assert len(played.of("turn_started")) == 1


def test_a_message_after_the_turn_starts_another() -> None:
    played = play(dialogue_of("appserver_two_turns"), "appserver_two_turns")
    assert [event.outcome for event in played.of("turn_ended")] == [TurnOutcome.COMPLETED] * 2


def test_a_command_left_running_is_closed_with_the_turn() -> None:
    played = play(dialogue_of("appserver_background"), "appserver_background")
    assert [(result.ok, result.exit_code) for result in played.of("tool_result")] == [(False, None)]


def test_an_mcp_tool_is_asked_for_by_its_name() -> None:
    played = play(dialogue_of("appserver_mcp"), "appserver_mcp")
    (ask,), (call,), (result,) = played.of("permission"), played.of("tool_call"), played.of("tool_result")
    assert (ask.tool_kind, ask.tool, ask.question) == (ToolKind.MCP, "mock.echo", "")
    assert (call.tool, call.detail, result.output) == ("mock.echo", '{"text":"ping"}', "echo: ping")


class TestRequests:
    @pytest.mark.parametrize(
        ("allow", "policy", "sandbox"),
        [
            ("ask", "untrusted", "workspace-write"),
            ("edits", "untrusted", "workspace-write"),
            ("all", "never", "danger-full-access"),
            ("nonsense", "untrusted", "workspace-write"),
        ],
    )
    def test_what_the_agent_may_do(self, allow: str, policy: str, sandbox: str) -> None:
        dialogue = AppServerDialogue(request(allow=allow, model="gpt-5.5"))
        writes = dialogue.read(message(id="initialize", result={}), "out").writes
        assert [write.key for write in writes] == ["initialized", "thread"]
        assert json.loads(writes[1].line) == {
            "id": "thread",
            "method": "thread/start",
            "params": {"cwd": "$CWD", "approvalPolicy": policy, "sandbox": sandbox, "model": "gpt-5.5"},
        }

    def test_nothing_can_be_said_before_there_is_a_thread(self) -> None:
        dialogue = AppServerDialogue(request())
        assert dialogue.say("hello", "k") is None
        assert dialogue.interrupt("k") == ()
        assert dialogue.answer("0", True, "") == ()

    def test_no_prompt_starts_no_turn(self) -> None:
        dialogue = AppServerDialogue(request(prompt="", native_id="T"))
        reading = dialogue.read(message(id="thread", result={"thread": {"id": "T"}}), "out")
        assert reading.writes == ()
        assert not dialogue.turn_open

    def test_half_a_surrogate_pair_does_not_stop_a_message(self) -> None:
        writes = started().say("cut \ud83d here", "k")
        assert writes is not None
        assert json.loads(writes[0].line)["params"]["input"] == [{"type": "text", "text": "cut ? here"}]

    def test_a_refused_message_outside_a_turn_ends_as_a_failure(self) -> None:
        dialogue = started()
        dialogue.read(completed(), "out")
        reading = dialogue.read(message(id="say:1", error={"code": -32600, "message": "no"}), "out")
        (ended,) = reading.events
        assert (ended.kind, ended.error.code) == ("turn_ended", "start_failed")

    def test_an_interrupt_that_comes_too_late_is_a_note(self) -> None:
        dialogue = started()
        (write,) = dialogue.interrupt("stop:1")
        assert write.key == "stop:1"
        dialogue.read(completed(), "out")
        late = message(id=json.loads(write.line)["id"], error={"code": -32600, "message": "no active turn"})
        assert dialogue.read(late, "out").events == (Notice(text="no active turn", level="warning"),)

    def test_a_request_of_the_server_that_relay_does_not_know_is_refused(self) -> None:
        reading = started().read(message(id=0, method="attestation/generate", params={}), "out")
        assert [event.kind for event in reading.events] == ["unknown"]
        assert [
            (w.key, json.loads(w.line)["id"], json.loads(w.line)["error"]["code"]) for w in reading.writes
        ] == [("answer:0", 0, -32601)]

    def test_a_request_that_was_resolved_is_not_answered(self) -> None:
        dialogue = started()
        ask = {"threadId": "T", "itemId": "c", "command": "ls"}
        dialogue.read(message(id=0, method="item/commandExecution/requestApproval", params=ask), "out")
        assert dialogue.answer("0", True, "") != ()
        dialogue.read(
            message(method="serverRequest/resolved", params={"threadId": "T", "requestId": 0}), "out"
        )
        assert dialogue.answer("0", True, "") == ()


class TestNotifications:
    def test_a_subagents_turn_is_not_the_sessions(self) -> None:
        dialogue = started()
        spawn = {"type": "collabAgentToolCall", "id": "a", "tool": "spawnAgent", "receiverThreadIds": ["X"]}
        shell = {"type": "commandExecution", "id": "b", "command": "ls"}
        said = {"type": "agentMessage", "id": "m", "text": "I am a subagent"}
        dialogue.read(message(method="item/started", params={"threadId": "T", "item": spawn}), "out")
        lines = [
            message(method="turn/started", params={"threadId": "X", "turn": {"id": "V"}}),
            message(method="item/started", params={"threadId": "X", "item": shell}),
            message(method="item/completed", params={"threadId": "X", "item": said}),
            message(method="turn/completed", params={"threadId": "X", "turn": {"status": "completed"}}),
        ]
        events = [event for line in lines for event in dialogue.read(line, "out").events]
        assert events == [
            ToolCall(
                call_id="b", tool="shell", tool_kind=ToolKind.SHELL, command="ls", detail="ls", parent="a"
            )
        ]
        assert dialogue.turn_open

    def test_a_completed_call_that_was_never_started_is_opened_and_closed(self) -> None:
        item = {"type": "commandExecution", "id": "c", "command": "ls", "status": "declined"}
        events = started().read(
            message(method="item/completed", params={"threadId": "T", "item": item}), "out"
        )
        assert [event.kind for event in events.events] == ["tool_call", "tool_result"]

    def test_a_call_that_ends_after_its_turn_is_not_told_twice(self) -> None:
        dialogue = started()
        item = {"type": "commandExecution", "id": "c", "command": "sleep 9"}
        dialogue.read(message(method="item/started", params={"threadId": "T", "item": item}), "out")
        ended = dialogue.read(completed(), "out").events
        assert ended[0] == ToolResult(call_id="c", ok=False)
        done = {**item, "status": "completed", "exitCode": 0}
        late = message(method="item/completed", params={"threadId": "T", "item": done})
        assert dialogue.read(late, "out").events == ()

    def test_the_error_of_a_failed_turn_may_have_come_before_it(self) -> None:
        dialogue = started()
        error = {"message": "too much", "codexErrorInfo": "contextWindowExceeded"}
        params = {"threadId": "T", "error": error, "willRetry": False}
        assert dialogue.read(message(method="error", params=params), "out").events == ()
        (ended,) = dialogue.read(completed("failed"), "out").events
        assert (ended.error.code, ended.error.text) == ("contextWindowExceeded", "too much")

    def test_a_used_up_window_of_another_model_is_not_the_accounts_reset(self) -> None:
        dialogue = started()
        for limit, used, resets in (("codex", 100, 2000), ("codex_other", 100, 9000)):
            limits = {
                "limitId": limit,
                "primary": {"usedPercent": used, "windowDurationMins": 300, "resetsAt": resets},
            }
            dialogue.read(message(method="account/rateLimits/updated", params={"rateLimits": limits}), "out")
        error = {"message": "limit", "codexErrorInfo": "usageLimitExceeded"}
        (ended,) = dialogue.read(completed("failed", error=error), "out").events
        assert ended.error.resets_at == datetime.fromtimestamp(2000, UTC)

    def test_spending_is_a_difference_for_each_thread(self) -> None:
        dialogue = started()

        def spent(thread: str, whole: int, cached: int, output: int) -> tuple[Any, ...]:
            total = {"inputTokens": whole, "cachedInputTokens": cached, "outputTokens": output}
            params = {"threadId": thread, "tokenUsage": {"total": total, "last": total}}
            return dialogue.read(message(method="thread/tokenUsage/updated", params=params), "out").events

        assert spent("T", 100, 60, 7) == (
            UsageReported(usage=TokenUsage(input=40, cached_input=60, output=7)),
        )
        assert spent("X", 10, 0, 1) == (UsageReported(usage=TokenUsage(input=10, output=1)),)
        assert spent("T", 130, 80, 9) == (
            UsageReported(usage=TokenUsage(input=10, cached_input=20, output=2)),
        )
        assert spent("T", 130, 80, 9) == ()

    @pytest.mark.parametrize(
        ("line", "stream", "want"),
        [
            (b"panic: oh no", "out", (RawOutput(stream="out", text="panic: oh no"),)),
            (b"WARN x\xff", "err", (RawOutput(stream="err", text="WARN x\ufffd"),)),
            (b"   ", "err", ()),
            (b'{"id":1,"result":{}}', "err", (RawOutput(stream="err", text='{"id":1,"result":{}}'),)),
            (b"{}", "out", (UnknownRecord(record_type="", record={}),)),
            (
                b'{"method":"brand/new","params":{}}',
                "out",
                (UnknownRecord(record_type="brand/new", record={"method": "brand/new", "params": {}}),),
            ),
            (
                b'{"method":"configWarning","params":{"summary":"s"}}',
                "out",
                (Notice(text="s", level="warning"),),
            ),
        ],
    )
    def test_odd_lines(self, line: bytes, stream: str, want: tuple[Any, ...]) -> None:
        assert AppServerDialogue(request()).read(line, stream).events == want

    def test_an_unknown_item_is_passed_on(self) -> None:
        line = message(method="item/completed", params={"threadId": "T", "item": {"type": "hologram"}})
        (event,) = started().read(line, "out").events
        assert (event.kind, event.record_type) == ("unknown", "item/hologram")

    def test_the_thread_names_itself(self) -> None:
        dialogue = AppServerDialogue(request())
        dialogue.read(message(id="initialize", result={"userAgent": "relay/9.9.9 (Linux)"}), "out")
        thread = {"thread": {"id": "T", "cwd": "/w", "cliVersion": "0.1"}, "model": "m"}
        assert dialogue.read(message(id="thread", result=thread), "out").events == (
            AgentStarted(native_id="T", model="m", cwd="/w", version="9.9.9"),
        )

    def test_separators_inside_a_text_are_kept(self) -> None:
        item = {"type": "agentMessage", "id": "m", "text": "a\u2028b"}
        line = json.dumps({"method": "item/completed", "params": {"item": item}}, ensure_ascii=False).encode()
        assert started().read(line, "out").events == (AgentText(text="a\u2028b"),)


LINES = [line for name in RECORDINGS for line in printed(name)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def replace_one(data: Any, draw: st.DataObject) -> Any:
    """The same value with one part of it, at any depth, exchanged for something else."""
    if isinstance(data, dict) and data and draw.draw(st.integers(0, 4)):
        key = draw.draw(st.sampled_from(sorted(data)))
        return {**data, key: replace_one(data[key], draw)}
    if isinstance(data, list) and data and draw.draw(st.integers(0, 4)):
        return [replace_one(data[0], draw), *data[1:]]
    return draw.draw(VALUES)


@given(data=st.data())
def test_a_mistyped_record_never_raises(data: st.DataObject) -> None:
    dialogue = started()
    for _ in range(3):
        broken = replace_one(json.loads(data.draw(st.sampled_from(LINES))), data)
        dialogue.read(json.dumps(broken).encode(), "out")
    dialogue.read(completed(), "out")


@given(
    line=st.sampled_from(LINES),
    start=st.integers(0, 400),
    length=st.integers(0, 40),
    junk=st.binary(max_size=9),
)
def test_a_damaged_line_never_raises(line: bytes, start: int, length: int, junk: bytes) -> None:
    started().read(line[:start] + junk + line[start + length :], "out")
