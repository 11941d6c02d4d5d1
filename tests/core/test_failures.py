"""What is exact beats words, the channel beats everything, and no text is too odd."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay.core.error_text import flatten
from relay.core.events import Channel, ErrorSignal, FailureClass
from relay.core.failures import as_failed, classify, failure_counts_against_breaker
from relay.core.wording import Wording, says

NOW = datetime(2026, 8, 16, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=3)
WORDING = Wording(
    codes={"plan_used_up": FailureClass.USAGE_LIMIT, "noMoney": FailureClass.USAGE_LIMIT},
    code_resets={"no_money": "none"},
    phrases=(
        says(FailureClass.NONE, r"tea time\b"),
        says(FailureClass.RATE_LIMIT, r"slow down, friend\b", usage_over=300),
        says(FailureClass.USAGE_LIMIT, r"kitchen closed\b", reset="clock:00:00;tz=UTC"),
    ),
)


def judge(text="", channel=Channel.EVENT, *, now=NOW, zone=UTC, printed_at=None, **facts):
    signal = ErrorSignal(channel=channel, text=text, **facts)
    return classify(signal, WORDING, now=now, zone=zone, printed_at=printed_at)


STATUSES = {
    "unauthorized": (401, "The model is overloaded", "auth"),
    "payment": (402, "please pay", "usage_limit"),
    "forbidden": (403, "no", "auth"),
    "forbidden region": (403, "Country, region, or territory not supported", "network"),
    "too large": (413, "rate limit exceeded", "context_overflow"),
    "throttled": (429, "nope", "rate_limit_transient"),
    "throttled by a plan": (429, "You've hit your usage limit.", "usage_limit"),
    "throttled by size": (
        429,
        "Request too large for gpt-x on tokens per min (TPM): Limit 1",
        "context_overflow",
    ),
    "bad request": (400, "what?", "other"),
    "spend limit in a bad request": (400, "You have reached your specified API usage limits.", "usage_limit"),
    "server": (500, "boom", "overload"),
    "overloaded": (529, "rate limit exceeded", "overload"),
    "gateway": (504, "x", "overload"),
}


@pytest.mark.parametrize("name", STATUSES)
def test_http_status(name):
    status, text, want_class = STATUSES[name]
    assert judge(text, http_status=status).failure == want_class


def test_a_providers_code_beats_the_words_however_it_is_spelt():
    for code in ("plan_used_up", "planUsedUp", "PLAN-USED-UP"):
        assert judge("The model is overloaded", code=code).failure is FailureClass.USAGE_LIMIT


def test_a_code_whose_limit_no_wait_clears():
    verdict = judge("sorry, try again in 5 minutes", code="noMoney")
    assert (verdict.failure, verdict.reset_rule, verdict.resets_at) == ("usage_limit", None, None)


def test_an_exact_instant_beats_the_clock_in_the_text():
    verdict = judge("You've hit your usage limit. try again at 8:24 PM.", resets_at=LATER)
    assert (verdict.reset_rule, verdict.resets_at) == (f"epoch:{int(LATER.timestamp())}", LATER)


def test_an_exact_instant_that_has_passed_is_due_now():
    assert judge("You've hit your usage limit.", resets_at=NOW - timedelta(hours=1)).resets_at == NOW


def test_retry_after_beats_the_text():
    verdict = judge("rate limit exceeded, try again in 2s", retry_after=40, http_status=429)
    assert (verdict.reset_rule, verdict.resets_at) == ("in:PT40S", NOW + timedelta(seconds=40))


def test_a_throttle_with_a_long_wait_is_a_usage_limit():
    assert judge("Slow down, friend. Try again in 5m0s").failure is FailureClass.RATE_LIMIT
    assert judge("Slow down, friend. Try again in 5m1s").failure is FailureClass.USAGE_LIMIT


def test_a_usage_limit_over_in_a_moment_told_no_time():
    assert judge("You've hit your usage limit. It will reset in 0s").reset_rule == "unknown:probe"


def test_words_known_as_no_failure_win():
    assert judge("tea time, the model is overloaded", http_status=503).failure is FailureClass.NONE


def test_the_rule_of_a_phrase_holds_when_no_time_is_told():
    verdict = judge("Kitchen closed.")
    assert (verdict.reset_rule, verdict.resets_at) == (
        "clock:00:00;tz=UTC",
        datetime(2026, 8, 17, tzinfo=UTC),
    )


class TestChannel:
    banner = "You've hit your usage limit. Try again later."

    def test_spoken_is_never_a_failure_even_with_codes(self):
        assert judge(self.banner, Channel.SPOKEN, code="plan_used_up", http_status=429).failure == "none"

    def test_stderr_counts_only_when_the_process_did_not_end_well(self):
        assert judge(self.banner, Channel.STDERR, clean_end=True).failure is FailureClass.NONE
        assert judge(self.banner, Channel.STDERR).failure is FailureClass.USAGE_LIMIT

    def test_the_last_error_on_stderr_counts(self):
        text = f"Error: {self.banner}\nworking\nError: Not logged in"
        assert judge(text, Channel.STDERR).failure is FailureClass.AUTH

    def test_stderr_of_a_failed_process_without_an_error_says_nothing(self):
        assert judge("Reading input from stdin", Channel.STDERR).failure is FailureClass.NONE
        assert judge("Error: cannot find module x", Channel.STDERR).failure is FailureClass.OTHER

    def test_only_a_refused_window_in_headers_blocks(self):
        nearly = (
            "anthropic-ratelimit-unified-status: allowed\nanthropic-ratelimit-unified-7d-utilization: 0.99"
        )
        assert judge(nearly, Channel.HEADER).failure is FailureClass.NONE
        windows = {"5h": 1787000000, "7d": 1787200000}
        refused = "\n".join(
            f"A-RateLimit-Unified-{name}-Status: rejected\na-ratelimit-unified-{name}-reset: {at}"
            for name, at in windows.items()
        )
        refused += "\na-ratelimit-unified-status: rejected\nRetry-After: 60"
        verdict = judge(refused, Channel.HEADER)
        assert (verdict.failure, verdict.reset_rule) == ("usage_limit", "epoch:1787200000")

    def test_headers_of_a_throttle_take_the_longest_of_the_spent_dimensions(self):
        text = (
            "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1m0s\n"
            "x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 6m0s\n"
            "x-ratelimit-remaining-images: 5\nx-ratelimit-reset-images: 9h"
        )
        assert judge(text, Channel.HEADER).reset_rule == "in:PT6M"

    def test_healthy_headers_say_nothing(self):
        assert judge("content-type: application/json", Channel.HEADER).failure is FailureClass.NONE


RECORDS = {
    "quota report, fine": (
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
        "none",
        None,
    ),
    "quota report, bare": ({"type": "rate_limit_event"}, "none", None),
    "quota report, overage refused": (
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "overageStatus": "rejected"}},
        "none",
        None,
    ),
    "quota report, two windows refused": (
        {
            "type": "rate_limit_event",
            "rate_limit_info": {
                "status": "rejected",
                "resetsAt": 1787000000,
                "unifiedWindows": {
                    "five_hour": {"status": "rejected", "resetsAt": 1787000000},
                    "seven_day": {"status": "rejected", "resetsAt": 1787200000},
                },
            },
        },
        "usage_limit",
        "epoch:1787200000",
    ),
    "windows with room": (
        {
            "type": "event_msg",
            "payload": {"rate_limits": {"primary": {"used_percent": 99.0, "resets_at": 1787000000}}},
        },
        "none",
        None,
    ),
    "flagged message": (
        {
            "type": "assistant",
            "error": "rate_limit",
            "message": {
                "content": [{"type": "text", "text": "You've hit your usage limit · resets 9pm (UTC)"}]
            },
        },
        "usage_limit",
        "clock:21:00;tz=UTC",
    ),
    "synthetic message": (
        {
            "type": "assistant",
            "message": {
                "model": "<synthetic>",
                "content": [{"type": "text", "text": "API Error: 529 Overloaded"}],
            },
        },
        "overload",
        "unknown:backoff",
    ),
    "failed result": (
        {
            "is_error": True,
            "subtype": "success",
            "api_error_status": 529,
            "result": "API Error: x",
            "type": "result",
        },
        "overload",
        "unknown:backoff",
    ),
    "failed result of unknown kind": ({"type": "result", "is_error": True, "result": "?"}, "other", None),
    "error with the body as text inside": (
        {
            "type": "error",
            "error": {
                "name": "APIError",
                "data": {
                    "message": "no",
                    "statusCode": 429,
                    "responseHeaders": {"retry-after": "30"},
                    "responseBody": json.dumps({"error": {"code": "insufficient_quota"}}),
                },
            },
        },
        "usage_limit",
        None,
    ),
    "reset in the body": (
        {"error": {"type": "usage_limit_reached", "resets_at": 1787000000, "resets_in_seconds": 99}},
        "usage_limit",
        "epoch:1787000000",
    ),
    "code as an object": (
        {
            "type": "event_msg",
            "payload": {
                "type": "task_complete",
                "error": {"message": "x", "codex_error_info": {"server_overloaded": {}}},
            },
        },
        "overload",
        "unknown:backoff",
    ),
    "failed tool": (
        {"type": "tool_use", "part": {"state": {"status": "error", "error": "rate limit exceeded"}}},
        "none",
        None,
    ),
    "unknown record": ({"type": "something_new", "value": 1}, "none", None),
}


@pytest.mark.parametrize("name", RECORDS)
def test_json_records(name):
    record, want_class, want_rule = RECORDS[name]
    verdict = judge(json.dumps(record))
    assert (verdict.failure, verdict.reset_rule) == (want_class, want_rule)


def test_json_cut_in_the_middle_is_read_as_words():
    text = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overlo'
    assert judge(text).failure is FailureClass.OVERLOAD


def test_a_turn_known_to_have_failed_is_at_least_of_unknown_kind():
    assert as_failed(judge("who knows")).failure is FailureClass.OTHER
    assert as_failed(judge("The model is overloaded")).failure is FailureClass.OVERLOAD


def test_what_counts_against_a_breaker():
    counted = {failure for failure in FailureClass if failure_counts_against_breaker(failure)}
    assert counted == {"rate_limit_transient", "overload", "network", "other"}


class TestClockThatHasPassed:
    """Of words whose time of printing is not known."""

    def at(self, hour, minute, text, **more):
        now = datetime(2026, 8, 16, hour, minute, tzinfo=UTC)
        return judge(text, now=now, **more).resets_at, now

    def test_is_due_now(self):
        at, now = self.at(17, 0, "You've hit your usage limit · resets 3pm (UTC)")
        assert at == now

    def test_is_tomorrows_across_midnight(self):
        at, _ = self.at(23, 50, "You've hit your usage limit · resets 12:10am (UTC)")
        assert at == datetime(2026, 8, 17, 0, 10, tzinfo=UTC)

    def test_is_tomorrows_when_the_words_are_new(self):
        printed = datetime(2026, 8, 16, 16, 59, tzinfo=UTC)
        at, _ = self.at(17, 0, "You've hit your usage limit · resets 3pm (UTC)", printed_at=printed)
        assert at == datetime(2026, 8, 17, 15, 0, tzinfo=UTC)

    def test_is_tomorrows_for_a_weekly_limit(self):
        at, _ = self.at(17, 0, "You've hit your weekly limit · resets 3pm (UTC)")
        assert at == datetime(2026, 8, 17, 15, 0, tzinfo=UTC)

    def test_words_found_late_count_from_their_printing(self):
        printed = datetime(2026, 8, 16, 14, 0, tzinfo=UTC)
        at, now = self.at(17, 0, "You've hit your usage limit · resets 3pm (UTC)", printed_at=printed)
        assert at == now
        at, _ = self.at(17, 0, "You've hit your usage limit. try again in 4 hours", printed_at=printed)
        assert at == datetime(2026, 8, 16, 18, 0, tzinfo=UTC)


PIECES = st.sampled_from(
    [
        "You've hit your usage limit",
        " · resets ",
        "try again in ",
        "try again at ",
        "Jan 31, ",
        "Feb 30, ",
        "12:99am",
        "0:00pm",
        "99999999999 days",
        "9" * 40,
        "|0",
        "|1760000400",
        "(Mars/Olympus)",
        "(../../etc)",
        "(America)",
        " UTC",
        "API Error: ",
        "429 ",
        '{"error":',
        '{"type":"result","is_error":true}',
        "{" * 50,
        "}",
        "[",
        '"',
        "\\",
        "\ud800",
        "\x00",
        "\n",
        "resets 2026-13-45 ",
        "ends on 99/99/9999",
        "mon 25:00",
        "1e999",
        "NaN",
        "retryDelay",
        "\u202f",
        "\u2028",
    ]
)
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=())), st.lists(PIECES, max_size=12).map("".join)
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "error",
                    "message",
                    "code",
                    "status",
                    "rate_limit_info",
                    "rate_limits",
                    "resetsAt",
                    "unifiedWindows",
                    "content",
                    "is_error",
                    "retryDelay",
                    "resets_at",
                    "primary",
                    "used_percent",
                    "payload",
                    "result",
                    "retry_after",
                    "errors",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])


@given(
    text=ANY_TEXT | ANY_JSON.map(json.dumps),
    channel=st.sampled_from(Channel),
    code=st.none() | st.text(max_size=20),
    http_status=st.none() | st.integers(),
    retry_after=st.none() | st.floats(),
    resets_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    now=st.datetimes(timezones=st.just(UTC)),
    zone=ZONES,
    clean_end=st.booleans(),
)
@example("[" * 200_000, Channel.HTTP_BODY, None, None, None, None, NOW, UTC, False)
@example("{" + '"a":{' * 100_000, Channel.EVENT, None, None, None, None, NOW, UTC, False)
@example('{"error":{"code":' + "9" * 5000 + "}}", Channel.HTTP_BODY, None, None, None, None, NOW, UTC, False)
def test_any_text_is_judged(text, channel, code, http_status, retry_after, resets_at, now, zone, clean_end):
    signal = ErrorSignal(
        channel=channel,
        text=text,
        code=code,
        http_status=http_status,
        retry_after=retry_after,
        resets_at=resets_at,
        clean_end=clean_end,
    )
    verdict = classify(signal, WORDING, now=now, zone=zone)
    assert verdict.failure in FailureClass
    assert verdict.resets_at is None or verdict.resets_at >= now
    assert verdict.resets_at is None or verdict.reset_rule is not None
    verdict.why.encode()
    if channel is Channel.SPOKEN or (channel is Channel.STDERR and clean_end):
        assert verdict.failure is FailureClass.NONE


def test_flattening_joins_wrapped_lines_and_straightens_quotes():
    assert (
        flatten("\x1b[1mYou\u2019ve\u00a0hit\r\n   your\tlimit\u200b\x1b[0m").text == "You've hit your limit"
    )


PROSE = [
    "Rate limit exceeded handling added to client.py",
    "Usage limit reached messages are now parsed.",
    "Error handling for 429 Too Many Requests is in place.",
    "Unauthorized access returns 401 in the test",
    "The model is overloaded with parameters, so I split it.",
    "Connection refused by the dev server, starting it now.",
    "Prompt is too long to fit in the header, shortening.",
    "Quota exceeded errors now map to 429.",
    "Not logged in users are redirected.",
]


@pytest.mark.parametrize("text", PROSE)
def test_a_sentence_that_begins_like_an_error_and_goes_on_is_none(text):
    assert judge(text).failure is FailureClass.NONE
