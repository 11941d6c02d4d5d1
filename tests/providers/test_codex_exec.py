from __future__ import annotations

import json

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from relay.core.events import PlanItem, TaskStatus, TokenUsage, ToolKind, TurnOutcome
from relay.providers.codex_exec import ExecDialogue
from tests.fakes.codex import names, printed, read_all, request

RECORDINGS = names("exec_")


def message(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@frozen(kw_only=True)
class Want:
    name: str
    outcome: TurnOutcome | None
    words: str = ""
    code: str | None = None
    status: int | None = None
    calls: tuple[tuple[str, ToolKind, bool, int | None], ...] = ()
    retries: int = 0


COMPLETED, FAILED = TurnOutcome.COMPLETED, TurnOutcome.FAILED
WANTED = [
    Want(
        name="exec_work",
        outcome=COMPLETED,
        calls=(
            ("shell", ToolKind.SHELL, True, 0),
            ("apply_patch", ToolKind.EDIT, True, None),
            ("apply_patch", ToolKind.EDIT, True, None),
        ),
    ),
    Want(name="exec_shell_fail", outcome=COMPLETED, calls=(("shell", ToolKind.SHELL, False, 3),)),
    Want(name="exec_mcp_config", outcome=COMPLETED, calls=(("mock.echo", ToolKind.MCP, True, None),)),
    Want(name="exec_thinking", outcome=COMPLETED),
    Want(name="exec_resume", outcome=COMPLETED),
    Want(name="exec_usage_limit", outcome=FAILED, words="You’ve hit your usage limit."),
    Want(name="exec_rate_limit", outcome=FAILED, words="exceeded retry limit", status=429, retries=1),
    Want(name="exec_unauthorized", outcome=FAILED, words="401 Unauthorized", status=401, retries=1),
    Want(name="exec_refusal", outcome=FAILED, words="without an answer", code="refusal_suspected"),
    Want(name="exec_sigint_tool", outcome=None),
]


def test_every_recording_has_its_expectation() -> None:
    assert sorted(want.name for want in WANTED) == RECORDINGS


@pytest.mark.parametrize("want", WANTED, ids=lambda want: want.name)
def test_what_a_recording_says(want: Want) -> None:
    played = read_all(ExecDialogue(request()), printed(want.name))
    assert [event.kind for event in played.events[:2]] == ["started", "turn_started"]
    assert played.of("unknown") == []
    assert played.writes == []
    assert len(played.of("retrying")) == want.retries
    if want.outcome is None:
        assert played.turn_open
        return
    results = {result.call_id: result for result in played.of("tool_result")}
    assert tuple(
        (call.tool, call.tool_kind, results[call.call_id].ok, results[call.call_id].exit_code)
        for call in played.of("tool_call")
    ) == (want.calls)
    ended = played.events[-1]
    assert (ended.kind, ended.outcome, played.turn_open) == ("turn_ended", want.outcome, False)
    if want.outcome is COMPLETED:
        assert ended.text == played.of("text")[-1].text
        assert ended.error is None
    else:
        assert want.words in ended.error.text
        assert (ended.error.code, ended.error.http_status) == (want.code, want.status)


@pytest.mark.parametrize("name", RECORDINGS)
def test_reading_it_again_gives_the_same(name: str) -> None:
    assert read_all(ExecDialogue(request()), printed(name)) == read_all(
        ExecDialogue(request()), printed(name)
    )


def test_the_plan_tells_done_from_not_done_and_is_told_when_it_changes() -> None:
    plans = read_all(ExecDialogue(request()), printed("exec_work")).of("plan")
    assert len(plans) == 2
    assert plans[1].items[:2] == (
        PlanItem(text="Add the refund endpoint", status=TaskStatus.COMPLETED),
        PlanItem(text="Write its tests", status=TaskStatus.PENDING),
    )


def test_usage_counts_cached_tokens_once() -> None:
    (spent,) = read_all(ExecDialogue(request()), printed("exec_work")).of("usage")
    assert spent.usage == TokenUsage(input=43732 - 43424, cached_input=43424, output=442)


def test_a_resumed_thread_does_not_report_its_whole_life_as_spent() -> None:
    played = read_all(ExecDialogue(request(native_id="T")), printed("exec_resume"))
    assert played.of("usage") == []


def test_reasoning_is_shown() -> None:
    (thought,) = read_all(ExecDialogue(request()), printed("exec_thinking")).of("thinking")
    assert thought.text == "The user wants a number. Six times seven is 42."


def test_a_warning_item_is_a_note() -> None:
    item = {"id": "item_0", "type": "error", "message": "unknown model"}
    (event,) = ExecDialogue(request()).read(message(type="item.completed", item=item), "out").events
    assert (event.kind, event.level, event.text) == ("notice", "warning", "unknown model")


def test_an_open_call_is_closed_when_the_turn_fails() -> None:
    played = read_all(
        ExecDialogue(request()),
        [*printed("exec_sigint_tool"), message(type="turn.failed", error={"message": "stream disconnected"})],
    )
    assert [(result.call_id, result.ok) for result in played.of("tool_result")] == [("item_0", False)]


def test_it_can_be_told_nothing() -> None:
    dialogue = ExecDialogue(request())
    assert dialogue.open() == ()
    assert dialogue.say("hello", "k") is None
    assert dialogue.interrupt("k") == ()
    assert dialogue.answer("0", True, "") == ()


@pytest.mark.parametrize(
    ("line", "stream", "kinds"),
    [
        (b"Reading additional input from stdin...", "err", ["output"]),
        (b"not json", "out", ["output"]),
        (b"", "out", []),
        (b'{"type":"brand.new"}', "out", ["unknown"]),
        (b'{"type":"item.completed","item":{"type":"hologram"}}', "out", ["unknown"]),
        (b'{"type":"error","message":"before any turn"}', "out", ["notice"]),
    ],
)
def test_odd_lines(line: bytes, stream: str, kinds: list[str]) -> None:
    assert [event.kind for event in ExecDialogue(request()).read(line, stream).events] == kinds


@given(
    line=st.sampled_from([line for name in RECORDINGS for line in printed(name)]),
    start=st.integers(0, 400),
    length=st.integers(0, 40),
    junk=st.binary(max_size=9),
)
def test_a_damaged_line_never_raises(line: bytes, start: int, length: int, junk: bytes) -> None:
    read_all(ExecDialogue(request()), [line[:start] + junk + line[start + length :], *printed("exec_work")])
