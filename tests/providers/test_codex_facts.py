from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from relay.core.events import QuotaWindow, TokenUsage
from relay.providers.codex_facts import attempts_in, error_of, last_reset, less, usage_of, windows_of


def window(used: float, minutes: int | None, resets: int | None = None) -> dict[str, Any]:
    return {"usedPercent": used, "windowDurationMins": minutes, "resetsAt": resets}


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        (
            {"limitId": "codex", "primary": window(1, 300), "secondary": window(2, 10080)},
            ["five_hour", "seven_day"],
        ),
        ({"primary": window(1, 10080), "secondary": None}, ["seven_day"]),
        ({"primary": window(1, 299), "secondary": window(1, 10079)}, ["five_hour", "seven_day"]),
        ({"primary": window(1, 1440)}, ["1440"]),
        ({"primary": window(1, None)}, ["primary"]),
        ({"limitId": "codex_other", "primary": window(1, 300)}, ["codex_other/five_hour"]),
        ({"primary": {"windowDurationMins": 300}}, []),
        ({}, []),
    ],
)
def test_a_window_is_named_by_its_length(limits: dict[str, Any], names: list[str]) -> None:
    assert [found.name for found in windows_of(limits)] == names


@pytest.mark.parametrize(("used", "rejected"), [(99, False), (99.9, False), (100, True), (104, True)])
def test_a_full_window_refuses(used: float, rejected: bool) -> None:
    (found,) = windows_of({"primary": window(used, 300, 1796200084)})
    assert (found.fraction_used, found.rejected) == (used / 100, rejected)
    assert found.resets_at == datetime.fromtimestamp(1796200084, UTC)


@pytest.mark.parametrize("resets", [0, None, 10**30, -(10**30)])
def test_a_reset_that_is_no_instant_is_unknown(resets: int | None) -> None:
    assert windows_of({"primary": window(100, 300, resets)})[0].resets_at is None


def test_the_last_of_the_full_windows_decides() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC)
    windows = (
        QuotaWindow(name="five_hour", rejected=True, resets_at=early),
        QuotaWindow(name="seven_day", rejected=True, resets_at=late),
        QuotaWindow(name="1440", rejected=False, resets_at=datetime(2027, 1, 1, tzinfo=UTC)),
    )
    assert last_reset(windows) == late
    assert last_reset(windows[2:]) is None


def test_tokens_are_counted_once() -> None:
    counts = {"inputTokens": 100, "cachedInputTokens": 60, "outputTokens": 9, "reasoningOutputTokens": 4}
    assert usage_of(counts) == TokenUsage(input=40, cached_input=60, output=9)
    assert usage_of({"inputTokens": 1, "cachedInputTokens": 5}) == TokenUsage(cached_input=5)


def test_a_difference_is_never_negative() -> None:
    assert less(TokenUsage(input=1, output=5), TokenUsage(input=3, output=2)) == TokenUsage(output=3)


@pytest.mark.parametrize(
    ("error", "code", "status", "words"),
    [
        ({"message": "m", "codexErrorInfo": "serverOverloaded"}, "serverOverloaded", None, "m"),
        (
            {"message": "m", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}},
            "httpConnectionFailed",
            401,
            "m",
        ),
        (
            {"message": "m", "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": None}}},
            "responseStreamDisconnected",
            None,
            "m",
        ),
        (
            {"message": "unexpected status 503 Busy", "codexErrorInfo": None},
            None,
            503,
            "unexpected status 503 Busy",
        ),
        ({"message": "last status: 429 Too Many"}, None, 429, "last status: 429 Too Many"),
        (
            {"message": "Reconnecting... 1/1", "additionalDetails": "why"},
            None,
            None,
            "Reconnecting... 1/1 (why)",
        ),
        ({"message": "why", "additionalDetails": "why"}, None, None, "why"),
        ({}, None, None, ""),
    ],
)
def test_errors(error: dict[str, Any], code: str | None, status: int | None, words: str) -> None:
    signal = error_of(error)
    assert (signal.code, signal.http_status, signal.text) == (code, status, words)


def test_only_a_limit_takes_the_windows_reset() -> None:
    windows = (QuotaWindow(name="five_hour", rejected=True, resets_at=datetime(2026, 1, 1, tzinfo=UTC)),)
    assert error_of({"codexErrorInfo": "usageLimitExceeded"}, windows).resets_at is not None
    assert error_of({"codexErrorInfo": "contextWindowExceeded"}, windows).resets_at is None


def test_attempts() -> None:
    assert attempts_in("Reconnecting... 2/5 (x)") == (2, 5)
    assert attempts_in("trying again") is None
