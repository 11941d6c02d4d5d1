from __future__ import annotations

from datetime import UTC, datetime

import pytest
from attrs import frozen

from relay.core.events import Channel, FailureClass, TurnOutcome
from relay.core.retry import classify
from relay.providers.wordings import WORDINGS
from tests.fakes.claude import played


@frozen(kw_only=True)
class Failure:
    name: str
    want_code: str | None
    want_status: int | None
    want_class: FailureClass
    want_words: str
    want_reset: datetime | None = None


F = FailureClass
FAILURES = [
    Failure(
        name="usage_limit",
        want_code="usage_limit_reached",
        want_status=429,
        want_class=F.USAGE_LIMIT,
        want_words="You've hit your 5-hour limit",
        want_reset=datetime(2026, 12, 2, 8, 3, 56, tzinfo=UTC),
    ),
    Failure(
        name="usage_limit_weekly",
        want_code="usage_limit_reached",
        want_status=429,
        want_class=F.USAGE_LIMIT,
        want_words="You've hit your weekly limit",
        want_reset=datetime(2026, 12, 6, 5, 3, 57, tzinfo=UTC),
    ),
    Failure(
        name="limit_midway",
        want_code="usage_limit_reached",
        want_status=429,
        want_class=F.USAGE_LIMIT,
        want_words="You've hit your 5-hour limit",
        want_reset=datetime(2026, 12, 2, 8, 3, 59, tzinfo=UTC),
    ),
    Failure(
        name="old_2_1_197_usage_limit",
        want_code="usage_limit_reached",
        want_status=429,
        want_class=F.USAGE_LIMIT,
        want_words="You've hit your session limit",
        want_reset=datetime(2026, 12, 2, 8, 34, 4, tzinfo=UTC),
    ),
    Failure(
        name="usage_limit_apikey",
        want_code="rate_limit",
        want_status=429,
        want_class=F.RATE_LIMIT,
        want_words="API Error: Request rejected (429)",
    ),
    Failure(
        name="rate_limit",
        want_code="rate_limit",
        want_status=429,
        want_class=F.RATE_LIMIT,
        want_words="API Error: Request rejected (429)",
    ),
    Failure(
        name="overloaded",
        want_code="server_error",
        want_status=529,
        want_class=F.OVERLOAD,
        want_words="API Error: 529 Overloaded",
    ),
    Failure(
        name="old_2_1_197_overloaded",
        want_code="server_error",
        want_status=529,
        want_class=F.OVERLOAD,
        want_words="API Error: 529 Overloaded",
    ),
    Failure(
        name="server_error",
        want_code="server_error",
        want_status=500,
        want_class=F.OVERLOAD,
        want_words="API Error: 500",
    ),
    Failure(
        name="unauthorized",
        want_code="authentication_failed",
        want_status=401,
        want_class=F.AUTH,
        want_words="Invalid API key",
    ),
    Failure(
        name="forbidden",
        want_code="authentication_failed",
        want_status=403,
        want_class=F.AUTH,
        want_words="Failed to authenticate",
    ),
    Failure(
        name="no_auth",
        want_code="authentication_failed",
        want_status=None,
        want_class=F.AUTH,
        want_words="Not logged in",
    ),
    Failure(
        name="no_credit",
        want_code="billing_error",
        want_status=400,
        want_class=F.USAGE_LIMIT,
        want_words="Credit balance is too low",
    ),
    Failure(
        name="context_full",
        want_code="prompt_too_long",
        want_status=400,
        want_class=F.CONTEXT_OVERFLOW,
        want_words="Prompt is too long",
    ),
    Failure(
        name="bad_model",
        want_code="model_not_found",
        want_status=404,
        want_class=F.OTHER,
        want_words="There's an issue with the selected model",
    ),
    Failure(
        name="refusal",
        want_code="refusal",
        want_status=None,
        want_class=F.REFUSAL,
        want_words="API Error: Opus 5.5's safeguards",
    ),
    Failure(
        name="refusal_text",
        want_code="refusal",
        want_status=None,
        want_class=F.REFUSAL,
        want_words="API Error: Opus 5.5's safeguards",
    ),
    Failure(
        name="old_2_1_197_refusal",
        want_code="refusal",
        want_status=None,
        want_class=F.REFUSAL,
        want_words="API Error: Claude Code is unable to respond",
    ),
    Failure(
        name="max_tokens",
        want_code="max_output_tokens",
        want_status=None,
        want_class=F.OTHER,
        want_words="API Error: Claude's response exceeded",
    ),
    Failure(
        name="max_turns",
        want_code="max_turns",
        want_status=None,
        want_class=F.OTHER,
        want_words="Reached maximum number of turns",
    ),
    Failure(
        name="max_budget",
        want_code="budget_exhausted",
        want_status=None,
        want_class=F.OTHER,
        want_words="Reached maximum budget",
    ),
]


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_a_failed_turn_tells_why_and_until_when(case: Failure) -> None:
    (ended,) = played(case.name).of("turn_ended")
    error = ended.error
    assert ended.outcome is TurnOutcome.FAILED
    assert (error.channel, error.code, error.http_status) == (Channel.EVENT, case.want_code, case.want_status)
    assert error.text.startswith(case.want_words)
    assert error.resets_at == case.want_reset
    now = datetime(2026, 12, 2, 5, 3, tzinfo=UTC)
    assert classify(error, WORDINGS["claude"], now=now, zone=UTC).failure is case.want_class


@pytest.mark.parametrize("name", ["overloaded_stream", "resume_unknown"])
def test_a_failure_without_a_name_is_a_failure(name: str) -> None:
    (ended,) = played(name).of("turn_ended")
    assert ended.outcome is TurnOutcome.FAILED
    assert ended.error.code == "error_during_execution"


@pytest.mark.parametrize(
    "name",
    [
        "sigint_text",
        "sigint_tool",
        "stdin_interrupt",
        "talk_interrupt",
        "talk_interrupt_tool",
        "talk_interrupt_asked",
        "talk_reply_dropped",
    ],
)
def test_an_interrupted_turn_is_no_failure(name: str) -> None:
    ended = played(name).of("turn_ended")[0]
    assert (ended.outcome, ended.error) == (TurnOutcome.INTERRUPTED, None)


@pytest.mark.parametrize("name", ["sigterm_tool", "sigkill_tool"])
def test_a_killed_run_leaves_its_turn_open(name: str) -> None:
    seen = played(name)
    assert seen.of("turn_ended") == []
    assert seen.turn_open


@pytest.mark.parametrize("name", ["overloaded_once", "rate_limit_once", "cut"])
def test_a_retry_that_helps_is_no_failure(name: str) -> None:
    seen = played(name)
    assert len(seen.of("retrying")) == 1
    assert [ended.outcome for ended in seen.of("turn_ended")] == [TurnOutcome.COMPLETED]


def test_a_retry_tells_its_delay_in_seconds() -> None:
    first, second = played("overloaded").of("retrying")
    assert (first.attempt, first.max_attempts, first.delay) == (1, 2, 0.596)
    assert (second.attempt, second.error.code, second.error.http_status) == (2, "overloaded", 529)


def windows(name: str) -> list[tuple[str, float | None, bool]]:
    reports = played(name).of("quota")
    return [(window.name, window.fraction_used, window.rejected) for window in reports[-1].windows]


def test_quota_windows_go_by_name() -> None:
    assert windows("text_oauth") == [("five_hour", 0.34, False), ("seven_day", 0.61, False)]
    assert windows("near_limit") == [("five_hour", 0.93, False), ("seven_day", 0.61, False)]
    assert windows("usage_limit") == [("five_hour", 1.0, True), ("seven_day", 0.61, False)]
    assert windows("usage_limit_weekly") == [("five_hour", 0.4, False), ("seven_day", 1.0, True)]
    assert windows("old_2_1_197_usage_limit") == [("five_hour", None, True)]
