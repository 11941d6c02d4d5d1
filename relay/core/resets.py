"""When a provider can be tried again: a small language of reset rules, and the instants they give.

A rule is kept as text, so that the log and the user see how an instant came about. Instants of days,
clocks and dates are worked out in the rule's zone; `tz=local` is the zone of the CLI's process.

    epoch:1760000400              seconds; epoch_ms: milliseconds
    iso:2026-04-01T00:00:00Z      an instant
    in:PT4H28M20S                 from when the words were printed
    clock:22:00;tz=Europe/Berlin  the next such wall clock
    weekday:Mon 00:00;tz=local    the next such day
    date:01-15T08:00;tz=local     without a year: within 35 days
    datetime:2026-06-11T00:27;tz=local
    month-start:next;tz=UTC       midnight on the first
    unknown:probe                 a real limit without a time: try in 15, 30, 60 minutes
    unknown:backoff               transient: back off
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

PROBE = "unknown:probe"
BACKOFF = "unknown:backoff"

YEARLESS_WITHIN = timedelta(days=35)
LONGEST_WAIT = timedelta(days=400)
JUST_PAST = timedelta(days=1)
MIDNIGHT_WINDOW = timedelta(hours=12)

_WEEKDAYS = {"mon": 0, "tue": 1, "wed": 2, "thu": 3, "fri": 4, "sat": 5, "sun": 6}
_ABBREVIATIONS = {
    "utc": "UTC",
    "gmt": "UTC",
    "z": "UTC",
    "pst": "America/Los_Angeles",
    "pdt": "America/Los_Angeles",
    "pt": "America/Los_Angeles",
    "est": "America/New_York",
    "edt": "America/New_York",
    "et": "America/New_York",
    "cst": "America/Chicago",
    "cdt": "America/Chicago",
    "mst": "America/Denver",
    "mdt": "America/Denver",
    "bst": "Europe/London",
    "cet": "Europe/Berlin",
    "cest": "Europe/Berlin",
}
_DURATION = re.compile(
    r"P(?:(?P<days>[0-9.]{1,12})D)?"
    r"(?:T(?:(?P<hours>[0-9.]{1,12})H)?(?:(?P<minutes>[0-9.]{1,12})M)?(?:(?P<seconds>[0-9.]{1,16})S)?)?"
)


def zone_named(name: str) -> tzinfo | None:
    """The zone of an IANA name or a common abbreviation; None when there is none of that name."""
    known = _ABBREVIATIONS.get(name.strip().lower(), name.strip())
    try:
        return ZoneInfo(known)
    except (OSError, ValueError, KeyError):
        # A missing zone, a folder's name, a path that leads out, a NUL byte.
        return None


def instant_of(
    rule: str | None, *, now: datetime, zone: tzinfo, printed_at: datetime | None = None, strict: bool = False
) -> datetime | None:
    """The instant a rule gives, never before `now`: what is past is due now.

    Args:
        rule: a rule of this module's grammar.
        now: aware.
        zone: what `tz=local` means.
        printed_at: when the words were printed, if that is known; None: `now` stands for it.
        strict: a clock always means the next one. Otherwise, with `printed_at` unknown, a clock that
            passed within the last twelve hours is taken to be that of an older text and due now; one
            that passed longer ago is tomorrow's (23:50, "resets 12:10am").

    Returns:
        An aware instant, or None when the rule tells no time or one out of bounds. Never raises.
    """
    if not rule:
        return None
    kind, _, rest = rule.partition(":")
    value, _, tz_name = rest.partition(";tz=")
    local = zone if tz_name in ("", "local") else zone_named(tz_name)
    if local is None:
        return None
    anchor = printed_at or now
    found: datetime | None
    try:
        match kind:
            case "clock":
                nearest = printed_at is None and not strict
                found = _next_clock(value, anchor, local, nearest=nearest)
            case "weekday":
                found = _next_weekday(value, anchor, local)
            case "date":
                found = _next_date(value, anchor, local)
            case "month-start":
                found = _month_start(anchor, local)
            case _:
                found = _absolute(kind, value, anchor, local)
        if found is None:
            return None
        found = found.astimezone(UTC)
        return None if found - now > LONGEST_WAIT else max(found, now.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def _absolute(kind: str, value: str, anchor: datetime, zone: tzinfo) -> datetime | None:
    match kind:
        case "epoch":
            return _epoch(float(value))
        case "epoch_ms":
            return _epoch(float(value) / 1000)
        case "iso":
            found = datetime.fromisoformat(value)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        case "in":
            wait = duration_of(value)
            return None if wait is None else anchor + wait
        case "datetime":
            naive = datetime.fromisoformat(value)
            return at_wall(naive.date(), naive.time(), zone)
    return None


def duration_of(text: str) -> timedelta | None:
    """An ISO duration of days, hours, minutes and seconds (`P2DT17H14M`, `PT0.5S`)."""
    found = _DURATION.fullmatch(text)
    if found is None or text in ("P", "PT"):
        return None
    try:
        return timedelta(**{unit: float(value) for unit, value in found.groupdict().items() if value})
    except (ValueError, OverflowError):
        return None


def at_wall(day: date, clock: time, zone: tzinfo) -> datetime:
    """A wall clock as an instant; where summer time skips or repeats it, the later of the two."""
    naive = datetime.combine(day, clock)
    return max(naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))


def _epoch(seconds: float) -> datetime | None:
    # 0, or a small number, is a placeholder and no instant.
    return datetime.fromtimestamp(seconds, UTC) if 1e9 <= seconds < 2e11 else None


def _next_clock(value: str, anchor: datetime, zone: tzinfo, *, nearest: bool) -> datetime:
    clock, today = time.fromisoformat(value), anchor.astimezone(zone).date()
    found = at_wall(today, clock, zone)
    if found > anchor:
        return found
    if nearest and anchor - found < MIDNIGHT_WINDOW:
        return found
    return at_wall(today + timedelta(days=1), clock, zone)


def _next_weekday(value: str, anchor: datetime, zone: tzinfo) -> datetime | None:
    name, _, wall = value.partition(" ")
    wanted = _WEEKDAYS.get(name[:3].lower())
    if wanted is None:
        return None
    clock, today = time.fromisoformat(wall), anchor.astimezone(zone).date()
    # Whole days on the calendar: steps of 24 hours would drift an hour over a change of summer time.
    for ahead in range(8):
        day = today + timedelta(days=ahead)
        found = at_wall(day, clock, zone)
        if day.weekday() == wanted and found > anchor:
            return found
    return None


def _next_date(value: str, anchor: datetime, zone: tzinfo) -> datetime | None:
    month_day, _, wall = value.partition("T")
    month, day = (int(part) for part in month_day.split("-"))
    clock, year = time.fromisoformat(wall), anchor.astimezone(zone).year
    for candidate in (year - 1, year, year + 1):
        try:
            found = at_wall(date(candidate, month, day), clock, zone)
        except ValueError:
            continue  # 29 February
        if -JUST_PAST <= found - anchor <= YEARLESS_WITHIN:
            return found
    return None


def _month_start(anchor: datetime, zone: tzinfo) -> datetime:
    here = anchor.astimezone(zone).date()
    first = (here.replace(day=1) + timedelta(days=32)).replace(day=1)
    return at_wall(first, time(), zone)
