"""Reads the reset time out of an error's words, as a rule of `relay.core.resets`.

One parser for every provider. A time counts only behind words that announce it ("resets", "try again
at", "regain access on"), and the fuller forms are tried first, so that a date is never cut down to its
clock. Text comes with straight quotes and single spaces (`relay.core.error_text.flatten`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from relay.core.resets import PROBE, zone_named

_LEAD = re.compile(
    r"\b(?:(?P<again>retrying)|resets?|refreshes|renews|try again|retry|regain access|available again"
    r"|wait|ends|expires|until)\b[: ]{0,2}(?:(?:at|on|in|after|for|until|by)\b[: ]{0,2}){0,2}~?",
    re.IGNORECASE,
)
_PIPE_EPOCH = re.compile(r"\blimit reached ?\| ?(?P<digits>[0-9]{1,14})", re.IGNORECASE)

_CLOCK = (
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?(?::[0-9]{2})?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?(?![0-9:])"
)
_ZONE = r"(?: ?\((?P<zone>[A-Za-z][\w/+-]{0,63})\)| (?P<short>(?-i:UTC|GMT|[PECM][SD]?T|CEST|BST))\b)?"
_MONTH = r"(?P<month>[^\W\d_]{3,12})\.?"
_JOIN = r"(?:,? (?:at )?|, )"

_ISO = re.compile(
    r"(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(?:Z|[+-][0-9]{2}:?[0-9]{2}))", re.IGNORECASE
)
_PATTERNS = (
    (
        "numeric",
        r"(?P<year>[0-9]{4})-(?P<monthnr>[0-9]{1,2})-(?P<day>[0-9]{1,2})(?:(?:,? (?:at )?|T)"
        + _CLOCK
        + ")?"
        + _ZONE,
    ),
    (
        "numeric",
        r"(?P<monthnr>[0-9]{1,2})/(?P<day>[0-9]{1,2})/(?P<year>[0-9]{4})(?:" + _JOIN + _CLOCK + ")?" + _ZONE,
    ),
    (
        "numeric",
        r"(?P<year>[0-9]{4}) ?年 ?(?P<monthnr>[0-9]{1,2}) ?月 ?(?P<day>[0-9]{1,2}) ?日(?: ?"
        + _CLOCK
        + ")?"
        + _ZONE,
    ),
    (
        "named",
        _MONTH
        + r" (?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?:,? (?P<year>[0-9]{4})\b)?(?:"
        + _JOIN
        + _CLOCK
        + ")?"
        + _ZONE,
    ),
    (
        "named",
        r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th|\.)? (?:de )?"
        + _MONTH
        + r"(?:,? (?:de )?(?P<year>[0-9]{4})\b)?(?:"
        + _JOIN
        + _CLOCK
        + ")?"
        + _ZONE,
    ),
    (
        "weekday",
        r"(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday)?\b(?:"
        + _JOIN
        + _CLOCK
        + ")?"
        + _ZONE,
    ),
    ("clock", _CLOCK + _ZONE),
)
_FORMS = (("iso", _ISO), *((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _PATTERNS))
_QUANTITY = re.compile(
    r"(?P<count>[0-9]{1,9}(?:\.[0-9]{1,9})?) ?"
    r"(?P<unit>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)(?![a-z])"
    r"(?:,? and |, | )?",
    re.IGNORECASE,
)
_UNITS = {"w": "D", "d": "D", "h": "H", "m": "M", "s": "S"}
# First letters, in the languages whose month names a CLI was seen to print or plausibly does.
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan ene gen",
            "feb fév fev",
            "mar mär mrz",
            "apr avr abr",
            "may mai mag",
            "jun giu juin",
            "jul lug juil",
            "aug aoû aou ago",
            "sep set",
            "oct okt ott out",
            "nov",
            "dec dez déc dic",
        ),
        start=1,
    )
    for name in names.split()
}


def rule_in(text: str) -> str | None:
    """The reset rule that the words tell: "unknown:probe" when they tell one that cannot be read.

    None when they tell none. Never raises.
    """
    piped = _PIPE_EPOCH.search(text)
    if piped:
        return epoch_rule(piped["digits"]) or PROBE
    later = None
    for lead in _LEAD.finditer(text):
        rule = _rule_at(text, lead.end())
        if rule is None:
            continue
        if lead["again"] is None:
            return rule
        # "Your quota will reset after 5s. Retrying after 6173ms": the limit's own time comes first.
        later = later or rule
    return later


def epoch_rule(number: str | float) -> str | None:
    """A rule for a number that should be an epoch, in seconds or milliseconds; None when it cannot be."""
    try:
        value = float(number)
    except (ValueError, OverflowError):
        return None
    if 1e9 <= value < 2e11:
        return f"epoch:{value:.0f}"
    return f"epoch_ms:{value:.0f}" if 1e12 <= value < 2e14 else None


def instant_rule(text: str) -> str | None:
    """A rule for a field that holds an instant: an epoch in seconds or milliseconds, or ISO with a zone."""
    if re.fullmatch(r"[0-9]{9,14}(?:\.[0-9]{1,9})?", text):
        return epoch_rule(text)
    found = _ISO.fullmatch(text)
    return _iso_rule(found[0]) if found else None


def duration_rule(text: str) -> str | None:
    """A rule for a duration as printed (`6m0s`, `58 hours`, `9.816s`, `6ms`), its units kept."""
    return _duration_at(text, 0)


def seconds_rule(seconds: float) -> str | None:
    """A rule for a wait in seconds."""
    return f"in:PT{_number(seconds)}S" if 0 <= seconds < 1e9 else None


def _rule_at(text: str, start: int) -> str | None:
    for name, form in _FORMS:
        found = form.match(text, start)
        if found is None:
            continue
        rule = _form_rule(name, found)
        if rule is not None:
            return rule
    return _duration_at(text, start)


def _form_rule(name: str, found: re.Match[str]) -> str | None:
    parts: dict[str, str | None] = found.groupdict()
    if name == "iso":
        return _iso_rule(parts["iso"] or "")
    if name == "named" and _month_number(parts["month"]) is None:
        return None
    clock = _clock(parts)
    if clock is None:
        return None
    zone = _zone_name(parts)
    if zone is None:
        return PROBE
    match name:
        case "numeric" | "named":
            return _date_rule(parts, clock, zone)
        case "weekday":
            return f"weekday:{(parts['weekday'] or '').capitalize()} {clock};tz={zone}"
    return f"clock:{clock};tz={zone}"


def _date_rule(parts: dict[str, str | None], clock: str, zone: str) -> str:
    month = int(parts.get("monthnr") or 0) or _month_number(parts.get("month")) or 0
    day, year = int(parts["day"] or 0), int(parts["year"] or 2000)
    try:
        datetime(year, month, day)
    except ValueError:
        return PROBE
    if not parts["year"]:
        return f"date:{month:02}-{day:02}T{clock};tz={zone}"
    if zone == "UTC":
        return f"iso:{year:04}-{month:02}-{day:02}T{clock}:00Z"
    return f"datetime:{year:04}-{month:02}-{day:02}T{clock};tz={zone}"


def _month_number(name: str | None) -> int | None:
    letters = (name or "").lower()
    return _MONTHS.get(letters[:4]) or _MONTHS.get(letters[:3])


def _iso_rule(text: str) -> str:
    try:
        found = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return PROBE
    return f"iso:{found.isoformat().replace('+00:00', 'Z')}"


def _clock(parts: dict[str, str | None]) -> str | None:
    """HH:MM; midnight where only a day was told; None where the digits are no clock."""
    if parts["hour"] is None:
        return "00:00"
    hour, minute, half = int(parts["hour"]), int(parts["minute"] or 0), (parts["half"] or "").lower()
    if not half and parts["minute"] is None:
        return None
    if minute > 59 or hour > (12 if half else 23):
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02}:{minute:02}"


def _zone_name(parts: dict[str, str | None]) -> str | None:
    """The zone's name in a rule; None when the text names one that does not exist."""
    named = (parts["zone"] or parts["short"] or "").strip()
    if not named or named.lower() in ("local", "local time"):
        return "local"
    zone = zone_named(named)
    return None if zone is None else getattr(zone, "key", named)


def _duration_at(text: str, start: int) -> str | None:
    amounts: dict[str, float] = {}
    place = start
    while found := _QUANTITY.match(text, place):
        unit, count = found["unit"].lower(), float(found["count"])
        if unit.startswith(("ms", "milli")):
            unit, count = "s", count / 1000
        elif unit.startswith("w"):
            count *= 7
        key = _UNITS[unit[0]]
        amounts[key] = amounts.get(key, 0.0) + count
        place = found.end()
    if not amounts:
        return None
    told = {key: amount for key, amount in amounts.items() if amount} or {"S": 0.0}
    days = f"{_number(told['D'])}D" if "D" in told else ""
    rest = "".join(f"{_number(told[key])}{key}" for key in "HMS" if key in told)
    return f"in:P{days}T{rest}" if rest else f"in:P{days}"


def _number(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".") or "0"
