"""Reset rules: their instants, and how they are read out of words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.reset_text import duration_rule, instant_rule, rule_in
from relay.core.resets import duration_of, instant_of, zone_named

NEW_YORK = ZoneInfo("America/New_York")
NOON = datetime(2026, 8, 16, 12, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


INSTANTS = {
    # name: rule, now, local zone, instant
    "epoch": ("epoch:1787000000", NOON, UTC, utc("2026-08-17T20:53:20")),
    "epoch past is due now": ("epoch:1760000400", NOON, UTC, NOON),
    "epoch zero is no time": ("epoch:0", NOON, UTC, None),
    "epoch of words is no time": ("epoch:soon", NOON, UTC, None),
    "epoch far off is no time": ("epoch:99999999999", NOON, UTC, None),
    "epoch in ms": ("epoch_ms:1787000000500", NOON, UTC, utc("2026-08-17T20:53:20.500")),
    "iso": ("iso:2026-09-01T00:00:00Z", NOON, UTC, utc("2026-09-01")),
    "wait": ("in:P2DT17H14M", NOON, UTC, utc("2026-08-19T05:14")),
    "wait of nothing": ("in:PT0S", NOON, UTC, NOON),
    "wait out of bounds": ("in:P999999999D", NOON, UTC, None),
    "clock today": ("clock:15:45;tz=local", NOON, UTC, utc("2026-08-16T15:45")),
    "clock tomorrow": ("clock:11:00;tz=local", NOON, UTC, utc("2026-08-17T11:00")),
    "clock in another zone": ("clock:22:00;tz=Europe/Berlin", NOON, UTC, utc("2026-08-16T20:00")),
    "clock of the local zone": ("clock:10:00;tz=local", NOON, NEW_YORK, utc("2026-08-16T14:00")),
    "clock over the date line": ("clock:00:30;tz=Pacific/Kiritimati", NOON, UTC, utc("2026-08-17T10:30")),
    "clock in a gap": (
        "clock:02:30;tz=America/New_York",
        utc("2026-03-08T05:00"),
        UTC,
        utc("2026-03-08T07:30"),
    ),
    "clock in a fold": (
        "clock:01:30;tz=America/New_York",
        utc("2026-11-01T04:00"),
        UTC,
        utc("2026-11-01T06:30"),
    ),
    "clock of no zone": ("clock:02:30;tz=Mars/Olympus", NOON, UTC, None),
    "weekday": ("weekday:Mon 00:00;tz=local", NOON, UTC, utc("2026-08-17T00:00")),
    "weekday today, later": ("weekday:Sun 18:00;tz=local", NOON, UTC, utc("2026-08-16T18:00")),
    "weekday today, passed": ("weekday:Sun 09:00;tz=local", NOON, UTC, utc("2026-08-23T09:00")),
    "weekday over the change of the clocks": (
        "weekday:Mon 00:00;tz=Europe/Paris",
        utc("2026-03-27T12:00"),
        UTC,
        utc("2026-03-29T22:00"),
    ),
    "date": ("date:09-01T00:00;tz=local", NOON, UTC, utc("2026-09-01")),
    "date over the year": ("date:01-02T08:00;tz=UTC", utc("2026-12-30T12:00"), UTC, utc("2027-01-02T08:00")),
    "date this morning is due": ("date:08-16T08:00;tz=UTC", NOON, UTC, NOON),
    "date too far off": ("date:09-21T08:00;tz=UTC", NOON, UTC, None),
    "date long passed": ("date:08-01T08:00;tz=UTC", NOON, UTC, None),
    "29 February": ("date:02-29T08:00;tz=UTC", utc("2028-02-20T00:00"), UTC, utc("2028-02-29T08:00")),
    "29 February of no leap year": ("date:02-29T08:00;tz=UTC", utc("2026-02-20T00:00"), UTC, None),
    "datetime": ("datetime:2026-11-17T00:00;tz=local", NOON, NEW_YORK, utc("2026-11-17T05:00")),
    "month": ("month-start:next;tz=UTC", NOON, UTC, utc("2026-09-01")),
    "month over the year": ("month-start:next;tz=UTC", utc("2026-12-31T23:59"), UTC, utc("2027-01-01")),
    "month on the first": ("month-start:next;tz=UTC", utc("2026-09-01"), UTC, utc("2026-10-01")),
    "probe": ("unknown:probe", NOON, UTC, None),
    "unknown kind": ("someday:maybe", NOON, UTC, None),
    "nothing": (None, NOON, UTC, None),
}


@pytest.mark.parametrize("name", INSTANTS)
def test_instant(name):
    rule, now, zone, want = INSTANTS[name]
    assert instant_of(rule, now=now, zone=zone, strict=True) == want


TEXTS = {
    # words, rule
    "resets 2am": "clock:02:00;tz=local",
    "resets 12am": "clock:00:00;tz=local",
    "resets 12pm": "clock:12:00;tz=local",
    "resets at 12:05 a.m.": "clock:00:05;tz=local",
    "resets at 21:10": "clock:21:10;tz=local",
    "resets 3pm PST": "clock:15:00;tz=America/Los_Angeles",
    "resets 3pm (utc)": "clock:15:00;tz=UTC",
    "resets 3pm (in a while)": "clock:15:00;tz=local",
    "resets 10pm (Nowhere/City)": "unknown:probe",
    "resets 45:99": None,
    "resets 13pm": None,
    "resets 7": None,
    "resets every day": None,
    "Your limit will reset at 3pm (America/Santiago).": "clock:15:00;tz=America/Santiago",
    "resets Jan 15, 8am (Europe/Berlin)": "date:01-15T08:00;tz=Europe/Berlin",
    "resets Sep 1 at 12:00am": "date:09-01T00:00;tz=local",
    "resets Feb 30, 8am": "unknown:probe",
    "resets on Tuesday 9am (UTC)": "weekday:Tue 09:00;tz=UTC",
    "resets Thursday": "weekday:Thu 00:00;tz=local",
    "try again at 7:58 PM.": "clock:19:58;tz=local",
    "try again at Jun 11th, 2026 12:27 AM.": "datetime:2026-06-11T00:27;tz=local",
    "try again at 11 juin 2026, 00:27": "datetime:2026-06-11T00:27;tz=local",
    "try again at 11. Dezember 2026, 00:27": "datetime:2026-12-11T00:27;tz=local",
    "try again after September 6, 2026, 11:15.": "datetime:2026-09-06T11:15;tz=local",
    "try again at 2026年6月11日 00:27": "datetime:2026-06-11T00:27;tz=local",
    "regain access on 2026-04-01 at 00:00 UTC.": "iso:2026-04-01T00:00:00Z",
    "resets at 2026-04-01T02:00:00+02:00": "iso:2026-04-01T00:00:00Z",
    "monthly cycle ends on 11/17/2025.": "datetime:2025-11-17T00:00;tz=local",
    "try again in 2 days 17 hours 14 minutes.": "in:P2DT17H14M",
    "try again in 58 hours.": "in:PT58H",
    "Refreshes in 6 days and 18 hours": "in:P6DT18H",
    "reset after 4h28m20s.": "in:PT4H28M20S",
    "reset after 5s.. Retrying after 6173ms...": "in:PT5S",
    "Please retry in 400s": "in:PT400S",
    "try again in 6ms": "in:PT0.006S",
    "try again in 1 week": "in:P7D",
    "try again in 0s": "in:PT0S",
    "try again in 5 models": None,
    "Retrying in 8 seconds…": "in:PT8S",
    "[retrying in 2h5m attempt #4]": "in:PT2H5M",
    "wait for limits to reset (every 5h and every week.)": None,
    "Please retry after a brief wait.": None,
    "limit reached|1760000400": "epoch:1760000400",
    "limit reached|1760000400000": "epoch_ms:1760000400000",
    "limit reached|0": "unknown:probe",
    "at 7:58 PM we met": None,
    "": None,
}


@pytest.mark.parametrize("text", TEXTS)
def test_rule_in_words(text):
    assert rule_in(text) == TEXTS[text]


def test_fields():
    assert duration_rule("6m0s") == "in:PT6M"
    assert duration_rule("120ms") == "in:PT0.12S"
    assert duration_rule("soon") is None
    assert instant_rule("1777420800000") == "epoch_ms:1777420800000"
    assert instant_rule("2026-01-27T12:00:00Z") == "iso:2026-01-27T12:00:00Z"
    assert instant_rule("tomorrow") is None


def test_zones_that_are_none():
    for name in ("", "Mars/Olympus", "../../etc/passwd", "America", "/etc/localtime", "a\0b"):
        assert zone_named(name) is None


@given(
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    zone=st.sampled_from(sorted(available_timezones())),
    now=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
)
def test_a_clock_is_at_most_a_day_away_and_shows_that_time(hour, minute, zone, now):
    found = instant_of(f"clock:{hour:02}:{minute:02};tz={zone}", now=now, zone=UTC, strict=True)
    assert found is not None
    assert now < found <= now + timedelta(hours=49)
    here = found.astimezone(ZoneInfo(zone))
    shown_later = (here - timedelta(hours=24)).time() <= here.time()
    assert (here.hour, here.minute) == (hour, minute) or shown_later


@given(st.integers(0, 60), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_a_printed_duration_comes_back_whole(days, hours, minutes, seconds):
    text = f"try again in {days} days {hours} hours {minutes} minutes {seconds} seconds"
    rule = rule_in(text)
    assert rule is not None
    want = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert duration_of(rule.removeprefix("in:")) == want


@given(rule=st.text(), now=st.datetimes(timezones=st.just(UTC)))
def test_any_rule_gives_an_instant_ahead_or_none(rule, now):
    for kind in ("", "epoch:", "in:", "clock:", "weekday:", "date:", "datetime:", "iso:", "month-start:"):
        found = instant_of(kind + rule, now=now, zone=UTC)
        assert found is None or found >= now
