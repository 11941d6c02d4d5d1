"""What Claude Code reports about itself: tokens and cost, quota windows, retries and how a turn ended.

Pure functions used by the dialogue. Shapes as printed by Claude Code 2.1.332 and, where said, 2.1.197.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from relay.core.events import (
    Channel,
    ErrorSignal,
    QuotaWindow,
    Retrying,
    TokenUsage,
    TurnOutcome,
    UsageReported,
)
from relay.providers.shapes import instant, integer, items, mapping, number, text

_FAILED = {
    "api_error",
    "blocking_limit",
    "budget_exhausted",
    "image_error",
    "malformed_tool_use_exhausted",
    "max_turns",
    "model_error",
    "prompt_too_long",
    "rapid_refill_breaker",
}
"""Terminal reasons that are failures, also when `is_error` is not set."""

_UNSPECIFIC = {"", "api_error", "completed", "model_error"}
"""Terminal reasons that say less than the error's own name."""


def usage_of(result: Mapping[str, Any], cost_before: float | None) -> UsageReported | None:
    """What the turn that `result` ends has spent, or None when nothing.

    `model_usage_since_last_result` counts every model, subagents and turns that were cut short, and is
    the run's own also when the session was resumed; `usage` leaves all of that out, and `total_cost_usd`
    goes on from the resumed session's. 2.1.197 has only these two.

    Args:
        result: the result record.
        cost_before: `total_cost_usd` of the result before it, in dollars; None when that is not known.
    """
    models = mapping(result, "model_usage_since_last_result")
    if isinstance(result.get("model_usage_since_last_result"), Mapping):
        usage = TokenUsage(
            input=_sum(models.values(), "inputTokens") + _sum(models.values(), "cacheCreationInputTokens"),
            cached_input=_sum(models.values(), "cacheReadInputTokens"),
            output=_sum(models.values(), "outputTokens"),
        )
        cost: float | None = sum(number(model, "costUSD") or 0 for model in models.values())
    else:
        spent, total = mapping(result, "usage"), number(result, "total_cost_usd")
        usage = TokenUsage(
            input=integer(spent, "input_tokens") + integer(spent, "cache_creation_input_tokens"),
            cached_input=integer(spent, "cache_read_input_tokens"),
            output=integer(spent, "output_tokens"),
        )
        cost = None if total is None or cost_before is None else max(0.0, total - cost_before)
    return UsageReported(usage=usage, cost_usd=cost) if usage.total or cost else None


def windows_of(info: Mapping[str, Any]) -> tuple[QuotaWindow, ...]:
    """The windows that a `rate_limit_info` tells of; none for a bare one.

    2.1.197 tells only the window that decides.
    """
    windows = {
        name: _window(name, told)
        for name, told in mapping(info, "unifiedWindows").items()
        if isinstance(told, Mapping)
    }
    deciding = text(info, "rateLimitType")
    if deciding and deciding not in windows:
        windows[deciding] = _window(deciding, info)
    return tuple(windows.values())


def is_rejected(info: Mapping[str, Any]) -> bool:
    """The provider refuses requests; a status of `allowed` or `allowed_warning` is a heartbeat."""
    return text(info, "status") == "rejected"


def retry_of(record: Mapping[str, Any]) -> Retrying:
    """What an `api_retry` record tells."""
    word, status, delay = (
        text(record, "error"),
        number(record, "error_status"),
        number(record, "retry_delay_ms"),
    )
    error = ErrorSignal(
        channel=Channel.EVENT,
        text=" ".join(part for part in ("API error", str(int(status)) if status else "", word) if part),
        code=word or None,
        http_status=int(status) if status else None,
    )
    return Retrying(
        attempt=integer(record, "attempt"),
        max_attempts=integer(record, "max_retries") or None,
        delay=None if delay is None else delay / 1000,
        error=error,
    )


def outcome_of(result: Mapping[str, Any]) -> TurnOutcome:
    """How the turn ended: by `terminal_reason`, `is_error` and `api_error`, never by the subtype, which is
    "success" for most failures."""
    reason = text(result, "terminal_reason")
    if reason.startswith("aborted_"):
        return TurnOutcome.INTERRUPTED
    failed = result.get("is_error") is True or bool(text(result, "api_error")) or reason in _FAILED
    return TurnOutcome.FAILED if failed else TurnOutcome.COMPLETED


def error_of(result: Mapping[str, Any], said: Mapping[str, Any], limit: Mapping[str, Any]) -> ErrorSignal:
    """The error of a failed turn.

    Args:
        result: the result record.
        said: the turn's last assistant record that carried an API error, or an empty one.
        limit: the `rate_limit_info` that is in force when it rejects, or an empty one.
    """
    status = integer(result, "api_error_status") or integer(said, "api_error_status") or None
    code = _code(result, said)
    if not limit:
        limit = mapping(mapping(said, "api_error_params"), "rate_limit_info")
    limited = status == 429 or code in ("usage_limit_reached", "rate_limit")
    rejected = limited and is_rejected(limit)
    return ErrorSignal(
        channel=Channel.EVENT,
        text=_words(result, said),
        # 2.1.197 names no `api_error`; that a window rejects says the same.
        code="usage_limit_reached" if rejected else code,
        http_status=status,
        resets_at=instant(limit, "resetsAt") if rejected else None,
    )


def _code(result: Mapping[str, Any], said: Mapping[str, Any]) -> str | None:
    reason = text(result, "terminal_reason")
    return (
        text(result, "api_error")
        or text(said, "api_error")
        or ("refusal" if text(result, "stop_reason") == "refusal" else "")
        or ("" if reason in _UNSPECIFIC else reason)
        or text(said, "error")
        or text(result, "api_error_type")
        or (text(result, "subtype") if text(result, "subtype").startswith("error") else "")
        or None
    )


def _words(result: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    errors = [word for word in items(result, "errors") if isinstance(word, str) and word]
    spoken = [text(block, "text") for block in items(mapping(said, "message"), "content")]
    found = text(result, "result") or "\n".join(errors) or "\n".join(word for word in spoken if word)
    reason = text(result, "terminal_reason")
    return found or ("the turn failed" if reason in _UNSPECIFIC else f"the turn failed: {reason}")


def _window(name: str, told: Mapping[str, Any]) -> QuotaWindow:
    used = number(told, "utilization")
    return QuotaWindow(
        name=name,
        fraction_used=None if used is None else min(1.0, max(0.0, float(used))),
        resets_at=instant(told, "resetsAt"),
        rejected=is_rejected(told),
    )


def _sum(models: Iterable[Any], key: str) -> int:
    return sum(integer(model, key) for model in models)
