"""Tokens, quota windows and errors as Codex reports them, in Relay's terms.

Pure; used by both dialogues of Codex. Field names as of codex-cli 0.171.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from relay.core.events import Channel, ErrorSignal, QuotaWindow, TokenUsage
from relay.providers.shapes import instant, integer, mapping, number, text

_WINDOWS = {300: "five_hour", 10080: "seven_day"}
_LIMIT_CODES = {"usageLimitExceeded", "rateLimitExceeded", "responseTooManyFailedAttempts"}
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_COUNT = re.compile(r"\b(\d{1,4})/(\d{1,4})\b")


def usage_of(counts: Mapping[str, Any]) -> TokenUsage:
    """Token counts of either spelling (inputTokens, input_tokens), each token once.

    Codex counts cached tokens among the input and reasoning among the output.
    """
    cached = integer(counts, "cachedInputTokens") or integer(counts, "cached_input_tokens")
    whole = integer(counts, "inputTokens") or integer(counts, "input_tokens")
    output = integer(counts, "outputTokens") or integer(counts, "output_tokens")
    return TokenUsage(input=max(0, whole - cached), cached_input=cached, output=output)


def less(total: TokenUsage, before: TokenUsage) -> TokenUsage:
    """What `total` has more than `before`; never negative."""
    return TokenUsage(
        input=max(0, total.input - before.input),
        cached_input=max(0, total.cached_input - before.cached_input),
        output=max(0, total.output - before.output),
    )


def windows_of(limits: Mapping[str, Any]) -> tuple[QuotaWindow, ...]:
    """The windows of one `rateLimits` snapshot.

    A window is known by its length, not by its slot: accounts with only a weekly limit have it in the
    first one. The windows of a limit other than the account's own ("codex"), such as one for a single
    model, carry its id before their name ("codex_other/five_hour").
    """
    limit_id = text(limits, "limitId")
    prefix = "" if limit_id in ("", "codex") else f"{limit_id}/"
    found = []
    for slot in ("primary", "secondary"):
        window = mapping(limits, slot)
        used = number(window, "usedPercent")
        if used is None:
            continue
        found.append(
            QuotaWindow(
                name=prefix + (_window_name(integer(window, "windowDurationMins")) or slot),
                fraction_used=used / 100,
                resets_at=instant(window, "resetsAt"),
                rejected=used >= 100,
            )
        )
    return tuple(found)


def _window_name(minutes: int) -> str:
    # Some servers round down and send 299 or 10079.
    return next((name for exact, name in _WINDOWS.items() if abs(exact - minutes) <= 1), str(minutes or ""))


def error_code(info: object) -> str | None:
    """codexErrorInfo as one word: itself, or the key of the object it is."""
    if isinstance(info, str) and info:
        return info
    if isinstance(info, Mapping):
        return next((key for key in info if isinstance(key, str)), None)
    return None


def error_of(error: Mapping[str, Any], windows: tuple[QuotaWindow, ...] = ()) -> ErrorSignal:
    """A turn's error; `windows` are the quota windows last seen, for the exact reset instant."""
    info = error.get("codexErrorInfo")
    code = error_code(info)
    message, details = text(error, "message"), text(error, "additionalDetails")
    if details and details not in message:
        message = f"{message} ({details})" if message else details
    status = number(mapping(info, code or ""), "httpStatusCode")
    return ErrorSignal(
        channel=Channel.EVENT,
        text=message,
        code=code,
        http_status=int(status) if status is not None else status_in(message),
        resets_at=last_reset(windows) if code in _LIMIT_CODES else None,
    )


def status_in(message: str) -> int | None:
    """The HTTP status that a message names ("unexpected status 401 Unauthorized: ...")."""
    found = _STATUS.search(message)
    return int(found[1]) if found else None


def attempts_in(message: str) -> tuple[int, int] | None:
    """The attempt and the most there will be in "Reconnecting... 2/5"."""
    found = _COUNT.search(message)
    return (int(found[1]), int(found[2])) if found else None


def last_reset(windows: tuple[QuotaWindow, ...]) -> datetime | None:
    """When the last of the used-up windows of the account starts anew."""
    instants = [window.resets_at for window in windows if window.rejected and window.resets_at]
    return max(instants, default=None)
