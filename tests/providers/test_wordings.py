"""Every error text of the collection gets its class, its reset rule and its instant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from relay.core.events import Channel, ErrorSignal, FailureClass, Verdict
from relay.core.retry import classify
from relay.providers.wordings import WORDINGS, wording_of

COLLECTION = Path(__file__).parent.parent / "fixtures" / "errors" / "error_texts.jsonl"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in COLLECTION.read_text(encoding="utf-8").split("\n") if line
]
NOON = datetime(2026, 8, 16, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def judge(provider: str, text: str, channel: str = "stdout_json", **facts: Any) -> Verdict:
    signal = ErrorSignal(channel=Channel(channel), text=text, **facts)
    return classify(signal, wording_of(provider), now=NOON, zone=UTC)


@pytest.mark.parametrize("dated", [False, True], ids=["undated", "dated"])
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_collected_text(row: dict[str, Any], dated: bool) -> None:
    vector = row.get("vector")
    now = datetime.fromisoformat(vector["now"]) if vector else NOON
    verdict = classify(
        ErrorSignal(channel=Channel(row["channel"]), text=row["text"]),
        wording_of(row["provider"]),
        now=now,
        zone=ZoneInfo(vector["tz"]) if vector else UTC,
        printed_at=now if dated else None,
    )
    assert (verdict.failure, verdict.reset_rule) == (row["class"], row["reset"])
    if vector:
        assert verdict.resets_at == datetime.fromisoformat(vector["expect"])


FAILURES = [row for row in ROWS if row["class"] != "none"]
WORDS_ALONE = [
    row for row in FAILURES if row["channel"] in ("stdout_json", "stderr") and row["text"][0] != "{"
]


@pytest.mark.parametrize("row", FAILURES, ids=[row["id"] for row in FAILURES])
def test_the_same_words_spoken_are_no_failure(row: dict[str, Any]) -> None:
    talk = [
        {
            "type": "assistant",
            "message": {"model": "some-model", "content": [{"type": "text", "text": row["text"]}]},
        },
        {"type": "user", "message": {"content": row["text"]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": row["text"]},
        {"type": "tool_result", "is_error": True, "content": row["text"]},
        {"type": "item.completed", "item": {"type": "agent_message", "text": row["text"]}},
        {"type": "item.completed", "item": {"type": "command_execution", "aggregated_output": row["text"]}},
    ]
    for record in talk:
        for channel in ("stdout_json", "transcript", "stderr"):
            assert judge(row["provider"], json.dumps(record), channel).failure is FailureClass.NONE
    assert judge(row["provider"], row["text"], "spoken").failure is FailureClass.NONE


QUOTING = {
    "in a sentence": "The log says: {} so I added a parser for it.",
    "in quotes": 'I found "{}" in the documentation.',
    "in a list": "- handles `{}`",
    "in code": '    raise LimitReached("{}")',
    "in a table": "| 1 | {} |",
    "in a diff": '+    "{}",',
    "in a heading": "# {}",
    "in a quotation": "> {}",
    "in a search result": "src/limits.py:12: {}",
    "in a test's name": "PASS test {}",
}


@pytest.mark.parametrize("how", QUOTING)
def test_words_quoted_by_an_agent_are_no_failure(how: str) -> None:
    heard = [
        row["id"]
        for row in WORDS_ALONE
        if judge(row["provider"], QUOTING[how].format(row["text"])).failure != "none"
    ]
    assert heard == []


@pytest.mark.parametrize("provider", WORDINGS)
def test_lookalikes_are_no_failure_under_any_table(provider: str) -> None:
    lookalikes = [row for row in ROWS if row["provider"] == "any"]
    assert len(lookalikes) > 15
    wrong = [
        row["id"] for row in lookalikes if judge(provider, row["text"], row["channel"]).failure != "none"
    ]
    assert wrong == []


STDERR_LINES = {
    "with a time stamp": "2026-08-16T11:59:00.123Z ERROR some_crate::client: {}",
    "after other lines": "Reading input\nsome note\n{}",
    "with a sign": "⚠ {}",
    "before a stack trace": "{}\n    at run (index.js:10:3)\n",
    "in colour": "\x1b[31m{}\x1b[0m",
}


@pytest.mark.parametrize("how", STDERR_LINES)
def test_stderr_around_the_words_changes_nothing(how: str) -> None:
    wrong = []
    for row in FAILURES:
        if row["channel"] == "stderr" and row["id"] != "enc_year_roll":
            verdict = judge(row["provider"], STDERR_LINES[how].format(row["text"]), "stderr")
            if (verdict.failure, verdict.reset_rule) != (row["class"], row["reset"]):
                wrong.append(row["id"])
    assert wrong == []


OTHER_WORDS = [
    # provider, text, class, rule: forms that no collected text has as it stands
    ("claude", "You've hit your 5-hour limit · resets 8:03am (UTC)", "usage_limit", "clock:08:03;tz=UTC"),
    ("claude", "You've hit your weekly limit · resets Dec 6, 5:03am (UTC)", "usage_limit", "unknown:probe"),
    (
        "claude",
        "You've hit your Sonnet limit · resets 9pm (Asia/Tokyo)",
        "usage_limit",
        "clock:21:00;tz=Asia/Tokyo",
    ),
    ("claude", "You’ve hit your session limit · resets 12am", "usage_limit", "clock:00:00;tz=local"),
    ("claude", "You've hit your limit · resets Tuesday 9am (UTC)", "usage_limit", "weekday:Tue 09:00;tz=UTC"),
    ("claude", "API Error: 529 Overloaded. This is a server-side issue", "overload", "unknown:backoff"),
    ("claude", "API Error: Opus 5.5's safeguards flagged this message (https://x)", "refusal", None),
    ("claude", "Prompt is too long · the request is ~208310 tokens (limit 200000)", "context_overflow", None),
    ("claude", "Not logged in · Please run /login", "auth", None),
    ("claude", "Invalid API key · Fix external API key", "auth", None),
    ("claude", "Failed to authenticate: OAuth token revoked. Please log in again.", "auth", None),
    (
        "codex",
        "You’ve hit your usage limit. Visit x or try again at 8:24 AM.",
        "usage_limit",
        "clock:08:24;tz=local",
    ),
    (
        "codex",
        "You've hit your usage limit. try again at Dec 6th, 2026 5:24 AM.",
        "usage_limit",
        "datetime:2026-12-06T05:24;tz=local",
    ),
    ("codex", "unexpected status 401 Unauthorized: whatever the vendor says", "auth", None),
    ("codex", "stream disconnected before completion: eof", "network", "unknown:backoff"),
    ("codex", "Missing environment variable: `MOCK_API_KEY`.", "auth", None),
    (
        "gemini",
        "[API Error: The model is overloaded. Please try again later.]",
        "overload",
        "unknown:backoff",
    ),
    (
        "gemini",
        "You have exhausted your capacity on this model. Your quota will reset after 6m1s.",
        "usage_limit",
        "in:PT6M1S",
    ),
    (
        "gemini",
        "You have exhausted your capacity on this model. Your quota will reset after 4m59s.",
        "rate_limit_transient",
        "in:PT4M59S",
    ),
    ("qwen", "[API Error: 403 The free tier of the model has been exhausted.]", "usage_limit", None),
    (
        "copilot",
        "Sorry, you've hit a rate limit. Please try again in 40 seconds.",
        "rate_limit_transient",
        "in:PT40S",
    ),
    ("opencode", "Rate Limited [retrying in 2h5m attempt #4]", "rate_limit_transient", "in:PT2H5M"),
    (
        "unheard-of",
        "Error: You have reached your weekly usage limit. Try again in 3 days.",
        "usage_limit",
        "in:P3D",
    ),
    (
        "unheard-of",
        "litellm.RateLimitError: OpenAIException - Rate limit reached for x",
        "rate_limit_transient",
        "unknown:backoff",
    ),
]


@pytest.mark.parametrize(
    ("provider", "text", "want_class", "want_rule"), OTHER_WORDS, ids=lambda v: str(v)[:40]
)
def test_patterns_generalise(provider: str, text: str, want_class: str, want_rule: str | None) -> None:
    verdict = judge(provider, text)
    assert (verdict.failure, verdict.reset_rule) == (want_class, want_rule)


def test_a_provider_without_a_table_gets_the_common_words() -> None:
    assert wording_of("nobody").phrases == ()
    assert judge("nobody", "API Error: 529 Overloaded").failure is FailureClass.OVERLOAD


def test_a_daily_quota_is_not_over_with_the_throttle_that_rides_along() -> None:
    body = {
        "error": {
            "code": 429,
            "message": "Quota exceeded. Please retry in 38.2s.",
            "details": [
                {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                {"retryDelay": "38.2s"},
            ],
        }
    }
    verdict = judge("gemini", json.dumps(body), "http_body")
    assert (verdict.failure, verdict.reset_rule) == ("usage_limit", "clock:00:00;tz=America/Los_Angeles")


def test_a_code_of_the_empty_purse_and_the_full_plan_is_told_apart_by_its_words() -> None:
    plan = judge("codex", "You've hit your usage limit. Try again later.", code="usageLimitExceeded")
    purse = judge("codex", "Quota exceeded. Check your plan and billing details.", code="usageLimitExceeded")
    assert (plan.failure, plan.reset_rule) == ("usage_limit", "unknown:probe")
    assert (purse.failure, purse.reset_rule) == ("usage_limit", None)


def test_a_turn_that_ended_without_an_answer_is_a_refusal() -> None:
    verdict = judge("codex", "the turn ended without an answer", code="refusal_suspected")
    assert verdict.failure is FailureClass.REFUSAL


def test_the_local_zone_is_that_of_the_cli() -> None:
    signal = ErrorSignal(channel=Channel.EVENT, text="You've hit your usage limit. try again at 3:51 PM.")
    verdict = classify(signal, wording_of("codex"), now=NOON, zone=BERLIN, printed_at=NOON)
    assert verdict.resets_at == datetime(2026, 8, 16, 13, 51, tzinfo=UTC)
