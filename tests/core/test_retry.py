"""What a failure leads to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from relay.core.events import FailureClass, Verdict
from relay.core.retry import (
    AskUser,
    Decision,
    GoOn,
    HandOff,
    Prefer,
    Retry,
    RetryPolicy,
    Wait,
    decide,
    explain,
)

NOW = datetime(2026, 8, 16, 12, tzinfo=UTC)
POLICY = RetryPolicy()
MARGIN = timedelta(seconds=30)


def verdict(failure, *, after=None, rule=None):
    at = None if after is None else NOW + after
    return Verdict(
        failure=FailureClass(failure), reset_rule=rule or (at and "clock"), resets_at=at, why="words"
    )


def next_step(what, *, policy=POLICY, attempt=0, fallback=True, random=0.5) -> Decision:
    return decide(what, policy, now=NOW, attempt=attempt, has_fallback=fallback, random=random)


HOURS = verdict("usage_limit", after=timedelta(hours=3))
SHORT = verdict("usage_limit", after=timedelta(seconds=90))
DUE = verdict("usage_limit", after=timedelta(0))
LONG = verdict("usage_limit", after=timedelta(days=3))
UNKNOWN = verdict("usage_limit", rule="unknown:probe")
NO_MONEY = verdict("usage_limit")
OVERLOAD = verdict("overload", rule="unknown:backoff")


class TestUsageLimit:
    def test_moves_on_where_someone_else_can_go_on(self):
        assert isinstance(next_step(HOURS), HandOff)

    def test_waits_for_the_reset_and_a_margin_where_nobody_can(self):
        step = next_step(HOURS, fallback=False)
        assert isinstance(step, Wait)
        assert step.until == NOW + timedelta(hours=3) + MARGIN

    def test_a_wait_beyond_the_bound_is_announced(self):
        step = next_step(LONG, fallback=False)
        assert isinstance(step, Wait)
        assert step.until == NOW + timedelta(days=3) + MARGIN
        assert "360 minutes" in step.why

    @pytest.mark.parametrize(
        ("prefer", "short", "hours", "days"),
        [
            (Prefer.WAIT_THEN_HANDOFF, Wait, HandOff, HandOff),
            (Prefer.HANDOFF, HandOff, HandOff, HandOff),
            (Prefer.WAIT, Wait, Wait, HandOff),
        ],
    )
    def test_preference_with_a_fallback(self, prefer, short, hours, days):
        policy = evolve(POLICY, prefer=prefer)
        got = tuple(type(next_step(what, policy=policy)) for what in (SHORT, HOURS, LONG))
        assert got == (short, hours, days)

    def test_without_a_time_it_probes_ever_less_often(self):
        waits = []
        for attempt in range(5):
            step = next_step(UNKNOWN, fallback=False, attempt=attempt)
            assert isinstance(step, Wait)
            waits.append((step.until - NOW) / timedelta(minutes=1))
        assert waits == [15, 30, 60, 60, 60]

    def test_one_that_is_due_gets_one_probe_at_once_and_then_moves_on(self):
        step = next_step(DUE)
        assert isinstance(step, Wait)
        assert step.until == NOW + MARGIN
        assert isinstance(next_step(DUE, attempt=1), HandOff)
        later = next_step(DUE, attempt=1, fallback=False)
        assert isinstance(later, Wait)
        assert later.until == NOW + timedelta(minutes=15)

    def test_an_empty_purse_is_not_waited_for(self):
        assert isinstance(next_step(NO_MONEY), HandOff)
        assert isinstance(next_step(NO_MONEY, fallback=False), AskUser)


class TestTransient:
    @pytest.mark.parametrize("failure", ["overload", "rate_limit_transient", "network"])
    def test_backs_off_in_place_even_with_a_fallback(self, failure):
        step = next_step(verdict(failure, rule="unknown:backoff"))
        assert step == Retry(at=NOW + timedelta(seconds=5), message="continue", why=getattr(step, "why", ""))

    def test_doubles_up_to_five_minutes(self):
        waits = []
        for attempt in range(8):
            step = next_step(OVERLOAD, attempt=attempt)
            assert isinstance(step, Retry)
            waits.append((step.at - NOW).total_seconds())
        assert waits == [5, 10, 20, 40, 80, 160, 300, 300]

    def test_jitter_stays_within_its_part(self):
        early, late = next_step(OVERLOAD, random=0.0), next_step(OVERLOAD, random=1.0)
        assert isinstance(early, Retry) and isinstance(late, Retry)
        assert (early.at - NOW, late.at - NOW) == (timedelta(seconds=4), timedelta(seconds=6))

    def test_never_before_what_the_provider_asks(self):
        step = next_step(verdict("rate_limit_transient", after=timedelta(seconds=100)), random=0.0)
        assert isinstance(step, Retry)
        assert step.at == NOW + timedelta(seconds=100)

    def test_a_long_wait_is_dearer_than_a_handoff(self):
        what = verdict("rate_limit_transient", after=timedelta(minutes=48))
        assert isinstance(next_step(what), HandOff)
        alone = next_step(what, fallback=False)
        assert isinstance(alone, Retry)
        assert alone.at >= NOW + timedelta(minutes=48)

    def test_moves_on_after_the_last_try(self):
        assert isinstance(next_step(OVERLOAD, attempt=7), Retry)
        assert isinstance(next_step(OVERLOAD, attempt=8), HandOff)
        assert isinstance(next_step(OVERLOAD, attempt=8, fallback=False), AskUser)

    def test_a_network_that_no_wait_mends(self):
        assert isinstance(next_step(verdict("network")), HandOff)
        assert isinstance(next_step(verdict("network"), fallback=False), AskUser)


@pytest.mark.parametrize(
    ("failure", "with_fallback", "alone"),
    [
        ("auth", AskUser, AskUser),
        ("context_overflow", HandOff, HandOff),
        ("refusal", HandOff, AskUser),
        ("other", Retry, Retry),
        ("none", GoOn, GoOn),
    ],
)
def test_the_other_classes(failure, with_fallback, alone):
    assert type(next_step(verdict(failure))) is with_fallback
    assert type(next_step(verdict(failure), fallback=False)) is alone


def test_an_unknown_failure_is_tried_once_more_only():
    assert isinstance(next_step(verdict("other"), attempt=1), HandOff)
    assert isinstance(next_step(verdict("other"), attempt=1, fallback=False), AskUser)


def test_switched_off_nothing_is_tried_again_or_waited_for():
    off = evolve(POLICY, enabled=False)
    for what in (HOURS, SHORT, OVERLOAD, verdict("other"), UNKNOWN):
        assert isinstance(next_step(what, policy=off), HandOff)
        assert isinstance(next_step(what, policy=off, fallback=False), AskUser)


EXPLAINED = {
    "handed off": (
        HOURS,
        True,
        "A usage limit, which resets at 2026-08-16 15:00:00 UTC (words). The work is handed off",
    ),
    "waited for": (HOURS, False, "The session waits until 2026-08-16 15:00:30 UTC"),
    "tried again": (OVERLOAD, True, "The same agent is asked again at 2026-08-16 12:00:05 UTC."),
    "asked about": (
        verdict("auth"),
        True,
        "The session stops and asks: the login was refused. Sign in again",
    ),
    "no failure": (verdict("none"), True, "No failure (words)."),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explained_in_a_sentence(name):
    what, fallback, want = EXPLAINED[name]
    assert want in explain(what, next_step(what, fallback=fallback))


@given(
    failure=st.sampled_from(FailureClass),
    rule=st.none() | st.sampled_from(["unknown:probe", "unknown:backoff", "epoch:1787000000"]),
    after=st.none() | st.timedeltas(timedelta(days=-400), timedelta(days=400)),
    attempt=st.integers(0, 10_000),
    has_fallback=st.booleans(),
    random=st.floats(0, 1),
    prefer=st.sampled_from(Prefer),
    enabled=st.booleans(),
)
def test_every_failure_leads_somewhere_and_never_into_the_past(
    failure, rule, after, attempt, has_fallback, random, prefer, enabled
):
    what = Verdict(failure=failure, reset_rule=rule, resets_at=None if after is None else NOW + after)
    policy = evolve(POLICY, prefer=prefer, enabled=enabled)
    step = next_step(what, policy=policy, attempt=attempt, fallback=has_fallback, random=random)
    assert explain(what, step).endswith(".")
    match step:
        case Retry():
            assert step.at >= NOW
            assert step.message == "continue"
        case Wait():
            assert step.until >= NOW
        case HandOff():
            assert has_fallback or failure is FailureClass.CONTEXT_OVERFLOW
        case GoOn():
            assert failure is FailureClass.NONE
