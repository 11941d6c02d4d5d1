from __future__ import annotations

import json
from itertools import pairwise

import pytest
from attrs import Factory, frozen

from relay.core.events import TokenUsage, TurnOutcome
from tests.fakes.claude import TALK, dialogue_of, names, played, printed, read_all, recording

ALL = names()
TALKS = names(TALK)
PLAN = ["Add the refund endpoint", "Write its tests", "Update the docs"]


@pytest.mark.parametrize("name", ALL)
class TestEveryRecording:
    def test_is_understood_whole(self, name: str) -> None:
        seen = played(name)
        assert seen.of("unknown") == []
        assert seen.of("output") == []

    def test_read_again_means_the_same(self, name: str) -> None:
        first, again = (read_all(dialogue_of(name), printed(name)) for _ in range(2))
        assert (first.events, first.writes) == (again.events, again.writes)

    def test_every_call_is_closed_once_when_its_turn_has_ended(self, name: str) -> None:
        seen = played(name)
        opened = [call.call_id for call in seen.of("tool_call")]
        closed = [result.call_id for result in seen.of("tool_result")]
        assert len(set(opened)) == len(opened)
        assert len(set(closed)) == len(closed)
        assert set(closed) <= set(opened)
        if seen.of("turn_ended"):
            assert set(closed) == set(opened)

    def test_the_agent_is_started_once(self, name: str) -> None:
        kinds = [event.kind for event in played(name).events]
        assert kinds.count("started") <= 1

    def test_an_error_is_never_spoken_by_the_agent(self, name: str) -> None:
        seen = played(name)
        errors = {ended.error.text for ended in seen.of("turn_ended") if ended.error}
        assert not errors & {said.text for said in seen.of("text")}


@pytest.mark.parametrize("name", TALKS)
class TestConversation:
    def test_writes_what_the_real_cli_was_sent(self, name: str) -> None:
        sent = [(step["key"], json.loads(step["line"])) for step in recording(name) if step["dir"] == "in"]
        assert [(write.key, json.loads(write.line)) for write in played(name).writes] == sent

    def test_the_output_alone_asks_for_the_same_writes(self, name: str) -> None:
        spontaneous = read_all(dialogue_of(name), printed(name)).writes
        sent = played(name).writes
        assert [write for write in sent if write in spontaneous] == spontaneous

    def test_no_turn_is_left_open(self, name: str) -> None:
        assert not played(name).turn_open


@frozen(kw_only=True)
class Case:
    name: str
    want_edited: list[str] = Factory(list)
    want_commands: list[tuple[str, int | None]] = Factory(list)
    want_plan: list[str] = Factory(list)
    want_said: str = ""
    want_spent: TokenUsage


WORK = [
    Case(
        name="work",
        want_edited=["$CWD/refund.py", "$CWD/refund.py"],
        want_commands=[("ls -1", 0)],
        want_plan=["completed", "in_progress", "pending"],
        want_said="Decision: refunds are keyed by order id. Next: write tests/test_refund.py.",
        want_spent=TokenUsage(input=2775, cached_input=15979, output=433),
    ),
    Case(
        name="talk_all",
        want_edited=["$CWD/refund.py", "$CWD/refund.py"],
        want_commands=[("ls -1", 0)],
        want_plan=["completed", "in_progress", "pending"],
        want_said="Decision: refunds are keyed by order id. Next: write tests/test_refund.py.",
        want_spent=TokenUsage(input=2654, cached_input=15306, output=433),
    ),
    Case(
        name="old_2_1_197_work",
        want_edited=["$CWD/refund.py", "$CWD/refund.py"],
        want_commands=[("ls -1", 0)],
        want_plan=["completed", "in_progress", "pending"],
        want_said="Decision: refunds are keyed by order id. Next: write tests/test_refund.py.",
        want_spent=TokenUsage(input=1951, cached_input=10837, output=453),
    ),
    Case(
        name="plan_todowrite",
        want_edited=["$CWD/refund.py"],
        want_plan=["completed", "in_progress", "pending"],
        want_said="The endpoint is in; the tests come next.",
        want_spent=TokenUsage(input=3189, cached_input=9548, output=310),
    ),
    Case(
        name="plan",  # the plan tool is switched off: its calls fail and plan nothing
        want_edited=["$CWD/refund.py"],
        want_said="The endpoint is in; the tests come next.",
        want_spent=TokenUsage(input=2746, cached_input=9686, output=310),
    ),
    Case(
        name="shell_fail",
        want_commands=[("echo broken >&2; exit 3", 3)],
        want_said="The command failed with exit code 3.",
        want_spent=TokenUsage(input=2561, cached_input=3231, output=69),
    ),
    Case(
        name="talk_subagent",
        want_commands=[("echo inner", None)],  # nothing but the output is told of a subagent's call
        want_said="The subagent looked.",
        want_spent=TokenUsage(input=5042, cached_input=5810, output=133),
    ),
    Case(
        name="thinking",
        want_said="The answer is 42.",
        want_spent=TokenUsage(input=2511, cached_input=337, output=41),
    ),
    Case(
        name="stdin_multiturn",
        want_said="Hello from the mock model. Nothing needed changing.",
        want_spent=TokenUsage(input=2544, cached_input=3185, output=38),
    ),
    Case(
        name="resume",  # the CLI's own totals go on from the resumed session's
        want_said="Hello from the mock model. Nothing needed changing.",
        want_spent=TokenUsage(input=32, cached_input=2857, output=19),
    ),
    Case(
        name="cut",
        want_said="This stream is cut off without its end.",
        want_spent=TokenUsage(input=5022, cached_input=674, output=20),
    ),
]


@pytest.mark.parametrize("case", WORK, ids=lambda case: case.name)
class TestWork:
    def test_names_the_files_edited(self, case: Case) -> None:
        calls = [call for call in played(case.name).of("tool_call") if call.tool_kind == "edit"]
        assert [path for call in calls for path in call.paths] == case.want_edited

    def test_names_the_commands_and_their_exit_codes(self, case: Case) -> None:
        seen = played(case.name)
        codes = {result.call_id: result.exit_code for result in seen.of("tool_result")}
        shell = [call for call in seen.of("tool_call") if call.tool_kind == "shell"]
        assert [(call.command, codes[call.call_id]) for call in shell] == case.want_commands

    def test_gives_the_whole_plan(self, case: Case) -> None:
        plans = played(case.name).of("plan")
        last = plans[-1].items if plans else ()
        assert [item.status for item in last] == case.want_plan
        assert [item.text for item in last] == (PLAN if case.want_plan else [])

    def test_ends_with_the_last_message(self, case: Case) -> None:
        ended = played(case.name).of("turn_ended")[-1]
        assert (ended.outcome, ended.text, ended.error) == (TurnOutcome.COMPLETED, case.want_said, None)

    def test_counts_every_token_once(self, case: Case) -> None:
        spent = [report.usage for report in played(case.name).of("usage")]
        assert case.want_spent == TokenUsage(
            input=sum(usage.input for usage in spent),
            cached_input=sum(usage.cached_input for usage in spent),
            output=sum(usage.output for usage in spent),
        )


def test_a_permission_refused_is_a_result_denied() -> None:
    for name in ("perm_default_denied", "talk_deny"):
        (result,) = played(name).of("tool_result")
        assert (result.ok, result.denied) == (False, True)


def test_a_tool_that_was_interrupted_was_not_denied() -> None:
    (result,) = played("talk_interrupt_tool").of("tool_result")
    assert (result.ok, result.denied) == (False, False)


def test_a_question_comes_with_its_options_and_is_answered_in_words() -> None:
    seen = played("talk_ask")
    (question,) = seen.of("permission")
    assert question.tool_kind == "ask"
    assert question.question == "Which database should the refund service use?"
    assert question.options == ("SQLite", "PostgreSQL")
    (result,) = seen.of("tool_result")
    assert '"Which database should the refund service use?"="PostgreSQL"' in result.output


def test_all_is_allowed_without_a_word() -> None:
    seen = played("talk_all")
    assert seen.of("permission") == []
    assert sum(write.key.startswith("allow:") for write in seen.writes) == 2
    assert all(result.ok for result in seen.of("tool_result"))


def test_a_reply_in_mid_turn_joins_it() -> None:
    seen = played("talk_reply_joins")
    assert [event.kind for event in seen.events].count("turn_started") == 1
    assert len(seen.of("turn_ended")) == 1


def test_an_interrupt_drops_a_reply_that_waits() -> None:
    seen = played("talk_reply_dropped")
    assert len(seen.of("turn_started")) == 1
    asked = [json.loads(write.line).get("request", {}).get("subtype") for write in seen.writes]
    assert asked == ["initialize", None, None, "cancel_async_message", "interrupt"]


def test_a_subagents_calls_name_its_own() -> None:
    outer, inner = played("talk_subagent").of("tool_call")
    assert (outer.tool_kind, inner.parent) == ("subagent", outer.call_id)
    assert [said.text for said in played("talk_subagent").of("text")][-1] == "The subagent looked."


def test_a_subagent_in_the_background_outlasts_the_turn() -> None:
    seen = played("talk_subagent_bg")
    assert [ended.outcome for ended in seen.of("turn_ended")] == [TurnOutcome.COMPLETED] * 2
    assert all(result.ok for result in seen.of("tool_result"))


def test_a_resumed_run_costs_what_it_cost() -> None:
    (report,) = played("resume").of("usage")
    assert report.cost_usd == pytest.approx(0.0010794)


def test_costs_of_turns_are_differences() -> None:
    first, second = played("stdin_multiturn").of("usage")
    assert first.cost_usd == pytest.approx(0.0104902)
    assert second.cost_usd == pytest.approx(0.0010828)


def test_pieces_of_text_come_before_the_whole() -> None:
    seen = played("stdin_replay")
    pieces = [event.kind for event in seen.events if event.kind.startswith("text")]
    assert pieces == ["text_delta"] * 8 + ["text"]
    assert "".join(piece.text for piece in seen.of("text_delta")) == seen.of("text")[0].text


def test_usage_comes_before_the_end_of_its_turn() -> None:
    for name in ALL:
        kinds = [event.kind for event in played(name).events]
        assert all(after == "turn_ended" for kind, after in pairwise(kinds) if kind == "usage")
