"""What the HTTP headers of a refused request say about limits and waits.

Header names are taken apart by their parts (`...-remaining-requests`, `...-unified-status`), so that
each vendor's prefix is covered. The status header decides: a window that is nearly full blocks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from relay.core.error_facts import USAGE_CODE, Facts
from relay.core.reset_text import duration_rule, instant_rule, seconds_rule
from relay.core.resets import duration_of

_HEADER = re.compile(r"^\s*([A-Za-z][A-Za-z0-9-]{1,80}): *([^\r\n]{1,400}?) *$", re.MULTILINE)
_LIMITED = "rate_limited"


def header_facts(text: str, http_status: int | None) -> Facts:
    """The facts of header lines.

    Args:
        text: `name: value` lines.
        http_status: the response's status, if known; a used-up window counts only on a refusal.
    """
    headers = {name.lower(): value for name, value in _HEADER.findall(text[:32_768])}
    wait = _wait_of(headers.get("retry-after", ""))
    statuses = [(n, v.lower()) for n, v in headers.items() if "ratelimit" in n and n.endswith("-status")]
    main = [value for name, value in statuses if "overage" not in name and not re.search(r"-\d+[hd]-", name)]
    if "rejected" in main:
        rejected = [
            n.removesuffix("status") + "reset" for n, v in statuses if v == "rejected" and "overage" not in n
        ]
        return Facts(
            failed=True,
            codes=(USAGE_CODE,),
            until=_latest(headers.get(name, "") for name in rejected),
            wait=wait,
        )
    if main and http_status is None:
        return Facts(talk=True)
    spent = [n for n, v in headers.items() if "ratelimit" in n and "remaining" in n and _is_zero(v)]
    if spent:
        resets = [headers.get(name.replace("remaining", "reset"), "") for name in spent]
        longest = max((w for w in map(_wait_of, resets) if w), key=_seconds, default=None)
        return Facts(failed=True, codes=(_LIMITED,), until=_latest(resets), wait=longest or wait)
    full = [n for n, v in headers.items() if n.endswith("-used-percent") and _amount(v) >= 100]
    if full and http_status == 429:
        until = _latest(headers.get(name.removesuffix("used-percent") + "reset-at", "") for name in full)
        return Facts(failed=True, codes=(USAGE_CODE,), until=until, wait=wait)
    if wait:
        return Facts(failed=True, codes=(_LIMITED,) if http_status is None else (), wait=wait)
    return Facts(failed=http_status is not None and http_status >= 400, talk=http_status is None)


def _latest(values: Iterable[str]) -> str | None:
    """The rule of the last of the instants, whichever way each is written."""
    rules = [rule for rule in map(instant_rule, values) if rule]
    return max(rules, key=_instant, default=None)


def _instant(rule: str) -> float:
    kind, _, value = rule.partition(":")
    if kind == "iso":
        return datetime.fromisoformat(value).timestamp()
    return float(value) / (1000 if kind == "epoch_ms" else 1)


def _wait_of(value: str) -> str | None:
    if re.fullmatch(r"[0-9]{1,8}(?:\.[0-9]{1,6})?", value):
        return seconds_rule(float(value))
    return duration_rule(value)


def _seconds(rule: str) -> float:
    wait = duration_of(rule.removeprefix("in:"))
    return wait.total_seconds() if wait else 0.0


def _is_zero(value: str) -> bool:
    return _amount(value) == 0.0 and value[:1] == "0"


def _amount(value: str) -> float:
    found = re.match(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", value)
    return float(found[0]) if found else 0.0
