"""What an error's text holds besides words: the fields of the JSON records and bodies inside it.

A record of an agent's stream is either talk (a message, a tool's result, a healthy report), which can
never be a failure, or it says of itself that it is an error. Shapes are known by their fields, not by
who wrote them. Texts may be anything: nothing here raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from relay.core.reset_text import duration_rule, epoch_rule, instant_rule, seconds_rule
from relay.core.wording import plain_code

USAGE_CODE = "usage_limit_reached"

_DEEPEST = 10
_MOST_OBJECTS = 24
_LONGEST = 1 << 20
_DECODER = json.JSONDecoder(strict=False)

_TALK = re.compile(
    r"assistant|user|human|message|text|content|thinking|reasoning|tool|item|stream_event|agent_message"
)
_FAILED = re.compile(r"error|fail", re.IGNORECASE)
_FLAGS = ("isApiErrorMessage", "is_api_error_message", "api_error", "error")
_INNER = ("error", "payload", "params", "data", "turn", "event", "msg", "result")

_WORD_KEYS = {
    "message",
    "msg",
    "errormsg",
    "errormessage",
    "detail",
    "details",
    "description",
    "additionaldetails",
    "raw",
}
_CODE_KEYS = {
    "type",
    "code",
    "reason",
    "status",
    "name",
    "errorcode",
    "errortype",
    "errorclass",
    "apierror",
    "apierrortype",
    "quotaid",
    "limitsource",
    "terminalreason",
    "subtype",
    "error",
}
_STATUS_KEYS = {
    "code",
    "status",
    "statuscode",
    "httpstatus",
    "httpstatuscode",
    "apierrorstatus",
    "errorstatus",
}
_INSTANT_KEYS = {"resetsat", "resetat", "resettime", "xratelimitreset", "ratelimitreset"}
_SECONDS_KEYS = {"retryafter", "resetsinseconds", "retryafterseconds"}


@frozen(kw_only=True)
class Facts:
    """What a text's fields say.

    Args:
        failed: a record says of itself that it is an error.
        talk: a record is talk or a healthy report.
        codes: error codes, outermost first.
        status: the HTTP status, if told.
        words: the messages of records, and the text around them.
        until: reset rule of an instant that a field gives.
        wait: reset rule of a wait that a field gives.
    """

    failed: bool = False
    talk: bool = False
    codes: tuple[str, ...] = ()
    status: int | None = None
    words: str = ""
    until: str | None = None
    wait: str | None = None


@frozen
class _Found:
    codes: list[str] = field(factory=list)
    words: list[str] = field(factory=list)
    statuses: list[int] = field(factory=list)
    untils: list[str] = field(factory=list)
    waits: list[str] = field(factory=list)

    def facts(self) -> Facts:
        return Facts(
            failed=True,
            codes=tuple(dict.fromkeys(self.codes)),
            status=next(iter(self.statuses), None),
            words=" ".join(self.words),
            until=next(iter(self.untils), None),
            wait=next(iter(self.waits), None),
        )


def record_facts(text: str) -> Facts | None:
    """The facts of a text that is one JSON record as a whole; None when it is not."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    found = _decoded(stripped, 0)
    if found is None or stripped[found[1] :].strip():
        return None
    return _facts_of(found[0])


def inner_facts(text: str) -> Facts:
    """The facts of a text with JSON inside, such as `API Error: 429 {...}`; `words` is what is around it."""
    facts, words = Facts(), []
    place = 0
    for value, start, end in _objects(text):
        words.append(text[place:start])
        place = end
        inner = _facts_of(value)
        if inner.talk:
            continue
        words.append(inner.words)
        facts = Facts(
            failed=True,
            codes=facts.codes + inner.codes,
            status=facts.status or inner.status,
            until=facts.until or inner.until,
            wait=facts.wait or inner.wait,
        )
    words.append(text[place:])
    return evolve(facts, words=" ".join(" ".join(words).split()))


def _objects(text: str) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    place = 0
    for _ in range(_MOST_OBJECTS):
        start = text.find("{", place)
        if start < 0:
            return
        found = _decoded(text, start)
        place = found[1] if found else start + 1
        if found:
            yield found[0], start, found[1]


def _decoded(text: str, start: int) -> tuple[Mapping[str, Any], int] | None:
    if len(text) > _LONGEST:
        return None
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, Mapping) else None


def _facts_of(record: Mapping[str, Any]) -> Facts:
    limits = _limits_of(record)
    if limits is not None:
        return limits
    if not _says_error(record):
        return Facts(talk=True)
    found = _Found()
    _collect(record, found, 0)
    content = _inner(record, "message").get("content")
    if isinstance(content, list):
        found.words.extend(
            str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part
        )
    found.words.extend(record[key] for key in ("result", "text") if isinstance(record.get(key), str))
    return found.facts()


def _says_error(record: Mapping[str, Any]) -> bool:
    told = record.get("type")
    kind = told if isinstance(told, str) else ""
    if kind == "user" or record.get("role") == "user":
        return False
    message = _inner(record, "message")
    if any(record.get(flag) for flag in _FLAGS if flag != "error" or not _is_tool(kind)):
        return True
    if message.get("model") == "<synthetic>" or record.get("is_error") is True:
        return not _is_tool(kind)
    if "is_error" in record or "isApiErrorMessage" in record or "content" in message or "role" in record:
        return False
    if _TALK.match(kind):
        return False
    if _FAILED.search(kind) or record.get("finishReason") == "error":
        return True
    if any(isinstance(record.get(key), Mapping) and _has_error(record[key]) for key in _INNER):
        return True
    # A bare error body: {"message": ..., "code": ...}.
    return not kind and any(isinstance(record.get(key), str) for key in ("message", "error_msg", "detail"))


def _is_tool(kind: str) -> bool:
    return kind.startswith(("tool", "item"))


def _has_error(value: Mapping[str, Any]) -> bool:
    told = value.get("type")
    kind = told if isinstance(told, str) else ""
    return "error" in kind or (bool(value.get("error")) and not _TALK.match(kind))


def _limits_of(record: Mapping[str, Any]) -> Facts | None:
    """Quota reports: a failure only where a window is refused or used up."""
    info = _inner(record, "rate_limit_info")
    if info or record.get("type") == "rate_limit_event":
        if info.get("status") != "rejected":
            return Facts(talk=True)
        windows = [w for w in _inner(info, "unifiedWindows").values() if isinstance(w, Mapping)]
        refused = [w.get("resetsAt") for w in windows if w.get("status") == "rejected"]
        return _limited([*refused, info.get("resetsAt")])
    for holder in (record, _inner(record, "payload"), _inner(record, "params")):
        limits = _inner(holder, "rate_limits") or _inner(holder, "rateLimits")
        if limits and not holder.get("error"):
            full = [w for w in limits.values() if isinstance(w, Mapping) and _used(w) >= 100]
            return (
                _limited([w.get("resets_at", w.get("resetsAt")) for w in full]) if full else Facts(talk=True)
            )
    return None


def _limited(instants: list[Any]) -> Facts:
    # With several windows refused, the last one to start anew decides.
    known = [value for value in instants if isinstance(value, int | float) and epoch_rule(value)]
    until = epoch_rule(max(known)) if known else None
    return Facts(failed=True, codes=(USAGE_CODE,), until=until)


def _used(window: Mapping[str, Any]) -> float:
    used = window.get("used_percent", window.get("usedPercent"))
    return float(used) if isinstance(used, int | float) else 0.0


def _inner(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}


def _collect(value: object, found: _Found, depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for part in value:
            _collect(part, found, depth + 1)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _take(plain_code(str(key)), inner, found, depth)


def _take(key: str, value: object, found: _Found, depth: int) -> None:
    if isinstance(value, Mapping | list):
        if key.endswith("errorinfo") and isinstance(value, Mapping):
            found.codes.extend(str(name) for name in value)
        if key == "errors" and isinstance(value, list):
            found.words.extend(part for part in value if isinstance(part, str))
        if key != "usage":
            _collect(value, found, depth + 1)
        return
    if isinstance(value, bool) or value is None:
        return
    number = _number(value)
    if key in _STATUS_KEYS and number is not None and 400 <= number < 600:
        found.statuses.append(int(number))
    elif key in _INSTANT_KEYS:
        _add(found.untils, epoch_rule(number) if number is not None else instant_rule(str(value)))
    elif key in _SECONDS_KEYS and number is not None:
        _add(found.waits, seconds_rule(number))
    elif key in ("retrydelayms", "retryafterms") and number is not None:
        _add(found.waits, seconds_rule(number / 1000))
    elif key == "retrydelay":
        _add(found.waits, duration_rule(str(value)))
    elif isinstance(value, str):
        _take_text(key, value, found, depth)


def _take_text(key: str, value: str, found: _Found, depth: int) -> None:
    nested = "{" in value and (key in _WORD_KEYS or key in ("responsebody", "body", "error"))
    if nested:
        for inner, _, _ in _objects(value):
            _collect(inner, found, depth + 1)
    if (key in _CODE_KEYS or key.endswith("errorinfo")) and " " not in value and len(value) <= 120:
        found.codes.append(value)
    elif key in _WORD_KEYS or key == "error":
        found.words.append(value)


def _add(rules: list[str], rule: str | None) -> None:
    if rule:
        rules.append(rule)


def _number(value: object) -> float | None:
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", value):
        return None
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except OverflowError:
        return None
