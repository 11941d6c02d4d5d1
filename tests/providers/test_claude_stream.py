from __future__ import annotations

import json
from typing import Any

import pytest

from relay.core.events import (
    AgentStarted,
    AgentText,
    Notice,
    RawOutput,
    TokenUsage,
    ToolResult,
    TurnOutcome,
    TurnStarted,
    UnknownRecord,
    UsageReported,
    UserText,
)
from relay.providers.claude_stream import ENDED_WITH_TURN, ClaudeDialogue
from relay.providers.protocol import Write
from tests.fakes.claude import INIT, READY, feed, line, request, result, started

MESSAGE_ID = "11111111-1111-4111-8111-111111111111"


def assistant(*blocks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": "m", "content": list(blocks)}, **changes}


def used(call_id: str, tool: str = "Bash", **given_: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": tool, "input": given_}


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def can_use(request_id: str, tool: str = "Write", **given_: Any) -> dict[str, Any]:
    asks = {"subtype": "can_use_tool", "tool_name": tool, "input": given_, "tool_use_id": "t"}
    return {"type": "control_request", "request_id": request_id, "request": asks}


def told(writes: tuple[Write, ...] | None) -> list[dict[str, Any]]:
    assert writes is not None
    return [json.loads(write.line) for write in writes]


class TestOpening:
    def test_the_prompt_waits_for_the_answer_to_initialize(self) -> None:
        dialogue = ClaudeDialogue(request(prompt="Fix\nit \u2028 now"))
        (hello,) = dialogue.open()
        assert hello.key == "initialize"
        assert "\n" not in hello.line
        (prompt,) = dialogue.read(line(READY), "out").writes
        assert prompt.key == "prompt"
        assert json.loads(prompt.line)["message"] == {"role": "user", "content": "Fix\nit \u2028 now"}

    def test_the_prompt_is_sent_once(self) -> None:
        dialogue = started()
        assert dialogue.read(line(READY), "out").writes == ()

    def test_a_cli_that_refuses_initialize_gets_the_prompt_all_the_same(self) -> None:
        dialogue = ClaudeDialogue(request())
        dialogue.open()
        refused = {"subtype": "error", "request_id": "initialize", "error": "Unsupported"}
        reading = dialogue.read(line({"type": "control_response", "response": refused}), "out")
        assert [write.key for write in reading.writes] == ["prompt"]
        assert [event.kind for event in reading.events] == ["notice"]

    def test_messages_have_ids_of_their_run_and_key(self) -> None:
        def ids(**changes: Any) -> list[str]:
            dialogue = started(**changes)
            return [told(dialogue.say("Go on", key))[0]["uuid"] for key in ("a", "b")]

        assert ids() == ids()
        assert len({*ids(), *ids(run=2), *ids(session_id="other")}) == 6


class TestSaying:
    def test_nothing_can_be_said_before_the_prompt(self) -> None:
        dialogue = ClaudeDialogue(request())
        dialogue.open()
        assert dialogue.say("Wait", "r1") is None

    def test_a_message_is_taken_in_mid_turn_and_between_turns(self) -> None:
        dialogue = started()
        assert told(dialogue.say("Also the docs", "r1"))[0]["message"]["content"] == "Also the docs"
        feed(dialogue, result())
        assert [write.key for write in dialogue.say("More", "r2") or ()] == ["r2"]


class TestTurns:
    def test_a_later_init_begins_a_turn_and_not_an_agent(self) -> None:
        dialogue = ClaudeDialogue(request())
        dialogue.open()
        assert feed(dialogue, READY, INIT) == [
            AgentStarted(native_id="S", model="m", cwd="/w"),
            TurnStarted(),
        ]
        feed(dialogue, result())
        assert not dialogue.turn_open
        assert feed(dialogue, INIT) == [TurnStarted()]
        assert dialogue.turn_open

    def test_an_init_in_mid_turn_begins_none(self) -> None:
        assert feed(started(), INIT) == []

    def test_a_session_of_another_name_is_another(self) -> None:
        dialogue = started()
        feed(dialogue, result())
        assert feed(dialogue, {**INIT, "session_id": "T"})[0].native_id == "T"

    def test_what_is_open_ends_with_the_turn(self) -> None:
        dialogue = started()
        feed(dialogue, assistant(used("a"), used("b")))
        events = feed(dialogue, result(terminal_reason="aborted_tools", is_error=True))
        assert events[:2] == [
            ToolResult(call_id="a", ok=False, output=ENDED_WITH_TURN),
            ToolResult(call_id="b", ok=False, output=ENDED_WITH_TURN),
        ]
        late = {"type": "tool_result", "tool_use_id": "a", "content": "late"}
        assert feed(dialogue, {"type": "user", "message": {"content": [late]}}) == []

    @pytest.mark.parametrize(
        ("changes", "want"),
        [
            ({}, TurnOutcome.COMPLETED),
            ({"is_error": True}, TurnOutcome.FAILED),
            ({"subtype": "error_during_execution"}, TurnOutcome.COMPLETED),
            ({"api_error": "usage_limit_reached"}, TurnOutcome.FAILED),
            ({"terminal_reason": "prompt_too_long"}, TurnOutcome.FAILED),
            ({"terminal_reason": "hook_stopped"}, TurnOutcome.COMPLETED),
            ({"terminal_reason": "aborted_streaming", "is_error": True}, TurnOutcome.INTERRUPTED),
            ({"terminal_reason": "aborted_tools"}, TurnOutcome.INTERRUPTED),
        ],
    )
    def test_the_outcome_is_judged_by_flags_and_not_by_the_subtype(
        self, changes: dict[str, Any], want: TurnOutcome
    ) -> None:
        assert feed(started(), result(**changes))[-1].outcome is want

    def test_an_error_of_the_turn_before_is_forgotten(self) -> None:
        dialogue = started()
        feed(dialogue, assistant(said("API Error: 529"), error="server_error"), result(is_error=True))
        feed(dialogue, INIT)
        error = feed(dialogue, result(is_error=True, result=""))[-1].error
        assert (error.code, error.text) == (None, "the turn failed")

    def test_a_limit_that_was_lifted_gives_no_reset(self) -> None:
        dialogue = started()
        info = {"rateLimitType": "five_hour", "resetsAt": 1796198636}
        for status in ("rejected", "allowed"):
            feed(dialogue, {"type": "rate_limit_event", "rate_limit_info": {**info, "status": status}})
        error = feed(dialogue, result(is_error=True, api_error_status=429))[-1].error
        assert (error.code, error.resets_at) == (None, None)

    def test_a_bare_quota_event_is_a_heartbeat(self) -> None:
        assert feed(started(), {"type": "rate_limit_event"}) == []

    def test_without_model_usage_the_cost_is_the_totals_difference(self) -> None:
        dialogue = started()
        usage = {"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4}
        turns = [result(usage=usage, total_cost_usd=cost) for cost in (0.5, 0.75)]
        spent = TokenUsage(input=3, cached_input=4)
        assert [event for event in feed(dialogue, *turns) if event.kind == "usage"] == [
            UsageReported(usage=spent, cost_usd=0.5),
            UsageReported(usage=spent, cost_usd=0.25),
        ]

    def test_a_resumed_sessions_first_total_tells_no_cost(self) -> None:
        dialogue = started(native_id="S")
        turns = [result(usage={"input_tokens": 1}, total_cost_usd=cost) for cost in (7.5, 7.75)]
        reports = [event for event in feed(dialogue, *turns) if event.kind == "usage"]
        assert [report.cost_usd for report in reports] == [None, 0.25]


class TestWords:
    def test_an_error_in_the_agents_name_is_not_its_speech(self) -> None:
        dialogue = started()
        limit = assistant(said("You've hit your limit"), error="rate_limit")
        assert feed(dialogue, assistant(said("Working.")), limit) == [AgentText(text="Working.")]
        ended = feed(dialogue, result(is_error=True, result="You've hit your limit"))[-1]
        assert (ended.text, ended.error.text) == ("Working.", "You've hit your limit")

    def test_limits_in_the_agents_words_are_words(self) -> None:
        words = "You've hit your 5-hour limit \u00b7 resets 8am (UTC)"
        events = feed(started(), assistant(said(words)), result(result=words))
        assert events[0] == AgentText(text=words)
        assert events[-1].error is None

    def test_what_the_cli_itself_says_is_a_notice(self) -> None:
        record = {"type": "assistant", "message": {"model": "<synthetic>", "content": [said("Compacted.")]}}
        assert feed(started(), record) == [Notice(text="Compacted.")]

    def test_a_subagents_words_are_not_the_agents(self) -> None:
        dialogue = started()
        inner = assistant(said("inner"), used("b"), parent_tool_use_id="a")
        task = {"type": "user", "message": {"content": "do this"}, "parent_tool_use_id": "a"}
        events = feed(dialogue, assistant(said("outer"), used("a", "Task")), task, inner)
        assert [event.kind for event in events] == ["text", "tool_call", "tool_call"]
        assert feed(dialogue, result(terminal_reason="aborted_tools"))[-1].text == "outer"

    @pytest.mark.parametrize(
        ("record", "want"),
        [
            ({"message": {"content": "hello"}, "isReplay": True}, UserText(text="hello")),
            (
                {"message": {"content": [said("Resume directly.")]}, "isSynthetic": True},
                UserText(text="Resume directly.", synthetic=True),
            ),
            (
                {"message": {"content": [said("[Request interrupted by user]")]}},
                UserText(text="[Request interrupted by user]", synthetic=True),
            ),
        ],
    )
    def test_the_clis_own_nudges_are_told_from_the_users_words(self, record: Any, want: UserText) -> None:
        assert feed(started(), {"type": "user", **record}) == [want]


class TestPermissions:
    def test_an_allowed_tool_gets_the_input_it_asked_for(self) -> None:
        dialogue = started(allow="ask")
        (asked,) = feed(dialogue, can_use("q", file_path="/w/a.py", content="x"))
        assert (asked.request_id, asked.tool_kind, asked.paths) == ("q", "edit", ("/w/a.py",))
        (write,) = dialogue.answer("q", True, "")
        assert write.key == "answer:q"
        assert json.loads(write.line)["response"] == {
            "subtype": "success",
            "request_id": "q",
            "response": {"behavior": "allow", "updatedInput": {"file_path": "/w/a.py", "content": "x"}},
        }

    def test_a_refused_tool_is_told_why(self) -> None:
        dialogue = started(allow="ask")
        feed(dialogue, can_use("q"))
        assert told(dialogue.answer("q", False, "Not now"))[0]["response"]["response"] == {
            "behavior": "deny",
            "message": "Not now",
        }

    @pytest.mark.parametrize("allow", ["ask", "edits"])
    def test_edits_are_asked_for_and_judged_by_relay(self, allow: str) -> None:
        dialogue = started(allow=allow)
        reading = dialogue.read(line(can_use("q", file_path="/w/a.py")), "out")
        assert [event.kind for event in reading.events] == ["permission"]
        assert reading.writes == ()

    def test_all_is_allowed_at_once(self) -> None:
        reading = started(allow="all").read(line(can_use("q", "Bash", command="make")), "out")
        assert reading.events == ()
        assert [write.key for write in reading.writes] == ["allow:q"]
        assert told(reading.writes)[0]["response"]["response"]["updatedInput"] == {"command": "make"}

    def test_a_question_is_asked_even_when_all_is_allowed(self) -> None:
        questions = [
            {"question": "Which database?", "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}]},
            {"question": "Which port?", "options": []},
        ]
        dialogue = started(allow="all")
        (asked,) = feed(dialogue, can_use("q", "AskUserQuestion", questions=questions))
        assert asked.question == "Which database?\nWhich port?"
        assert asked.options == ("SQLite", "PostgreSQL")
        (write,) = dialogue.answer("q", True, "SQLite\n5432")
        answers = json.loads(write.line)["response"]["response"]["updatedInput"]["answers"]
        assert answers == {"Which database?": "SQLite", "Which port?": "5432"}

    def test_what_was_not_asked_is_not_answered(self) -> None:
        assert started().answer("q", True, "") == ()

    @pytest.mark.parametrize("end", [{"type": "control_cancel_request", "request_id": "q"}, result()])
    def test_a_request_taken_back_is_not_answered(self, end: dict[str, Any]) -> None:
        dialogue = started(allow="ask")
        feed(dialogue, can_use("q"), end)
        assert dialogue.answer("q", True, "") == ()

    def test_any_other_request_is_refused_rather_than_left_waiting(self) -> None:
        other = {"type": "control_request", "request_id": "h", "request": {"subtype": "hook_callback"}}
        reading = started().read(line(other), "out")
        assert [event.kind for event in reading.events] == ["unknown"]
        assert told(reading.writes)[0]["response"]["subtype"] == "error"
        assert told(reading.writes)[0]["response"]["request_id"] == "h"


class TestInterrupting:
    def test_an_open_turn_is_interrupted(self) -> None:
        (write,) = started().interrupt("i1")
        assert write.key == "i1"
        assert json.loads(write.line) == {
            "type": "control_request",
            "request_id": "i1",
            "request": {"subtype": "interrupt"},
        }

    def test_a_prompt_on_its_way_is_interrupted(self) -> None:
        dialogue = ClaudeDialogue(request())
        dialogue.open()
        assert dialogue.interrupt("i1") == ()
        feed(dialogue, READY)
        assert [write.key for write in dialogue.interrupt("i2")] == ["i2"]

    def test_an_idle_agent_is_not(self) -> None:
        dialogue = started()
        feed(dialogue, result())
        assert dialogue.interrupt("i1") == ()

    def test_messages_that_wait_are_dropped_first(self) -> None:
        dialogue = started()
        queued = {"type": "command_lifecycle", "command_uuid": MESSAGE_ID, "state": "queued"}
        feed(dialogue, queued)
        assert [write["request"] for write in told(dialogue.interrupt("i1"))] == [
            {"subtype": "cancel_async_message", "message_uuid": MESSAGE_ID},
            {"subtype": "interrupt"},
        ]
        feed(dialogue, {**queued, "state": "cancelled"})
        assert len(dialogue.interrupt("i2")) == 1

    def test_the_clis_answer_needs_no_event(self) -> None:
        done = {"subtype": "success", "request_id": "i1", "response": {"still_queued": []}}
        assert feed(started(), {"type": "control_response", "response": done}) == []


class TestLines:
    def test_stderr_is_passed_on(self) -> None:
        record = line(result(is_error=True))
        assert started().read(record, "err").events == (RawOutput(stream="err", text=record.decode()),)

    @pytest.mark.parametrize("data", [b"npm warn", b"\xff\xfe", b"[1]", b'{"type":"result"', b"\x00\x00"])
    def test_what_is_no_record_is_output(self, data: bytes) -> None:
        (event,) = started().read(data, "out").events
        assert event.kind == "output"

    @pytest.mark.parametrize("data", [b"", b"  "])
    def test_an_empty_line_is_nothing(self, data: bytes) -> None:
        assert started().read(data, "out").events == ()

    @pytest.mark.parametrize(
        ("record", "want"),
        [
            ({"type": "new_thing"}, "new_thing"),
            ({"type": "system", "subtype": "new_thing"}, "system/new_thing"),
            (assistant({"type": "new_block"}), "assistant/new_block"),
            ({"no": "type"}, ""),
        ],
    )
    def test_what_is_not_known_is_passed_on(self, record: dict[str, Any], want: str) -> None:
        assert feed(started(), record) == [UnknownRecord(record_type=want, record=record)]
