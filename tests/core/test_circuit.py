"""Breakers: when a login can be used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relay.core.circuit import (
    Admitted,
    Breaker,
    Circuit,
    CircuitOpen,
    admit,
    answered,
    failed,
    insisted,
    isolate,
    quota_told,
    restore,
    succeeded,
)
from relay.core.events import FailureClass, QuotaWindow, Verdict
from relay.core.policies import CircuitPolicy

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICY = CircuitPolicy(failures=3, open_seconds=60)


def verdict(kind: FailureClass, resets_at: datetime | None = None) -> Verdict:
    return Verdict(failure=kind, resets_at=resets_at)


def test_a_usage_limit_opens_at_once_until_its_reset() -> None:
    reset = NOW + timedelta(hours=3)
    breaker = failed(Breaker(), verdict(FailureClass.USAGE_LIMIT, reset), NOW, POLICY)

    assert admit(breaker, NOW + timedelta(hours=2)) == CircuitOpen(reason="usage limit", until=reset)
    assert isinstance(admit(breaker, reset), Admitted)
    assert breaker.failures == 0


@pytest.mark.parametrize("kind", [FailureClass.OVERLOAD, FailureClass.NETWORK, FailureClass.OTHER])
def test_other_failures_open_after_three_in_a_row(kind: FailureClass) -> None:
    breaker = Breaker()
    for _ in range(2):
        breaker = failed(breaker, verdict(kind), NOW, POLICY)
        assert isinstance(admit(breaker, NOW), Admitted)
    breaker = failed(breaker, verdict(kind), NOW, POLICY)

    assert isinstance(admit(breaker, NOW + timedelta(seconds=59)), CircuitOpen)
    assert isinstance(admit(breaker, NOW + timedelta(seconds=60)), Admitted)


def test_a_success_between_begins_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(2):
        breaker = failed(breaker, verdict(FailureClass.OVERLOAD), NOW, POLICY)
    breaker = succeeded(breaker, NOW)
    breaker = failed(breaker, verdict(FailureClass.OVERLOAD), NOW, POLICY)

    assert isinstance(admit(breaker, NOW), Admitted)


@pytest.mark.parametrize("kind", [FailureClass.REFUSAL, FailureClass.CONTEXT_OVERFLOW, FailureClass.NONE])
def test_what_is_not_the_providers_fault_never_counts(kind: FailureClass) -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker = failed(breaker, verdict(kind), NOW, POLICY)

    assert breaker == Breaker()


def test_auth_isolates_until_it_is_restored_by_hand() -> None:
    breaker = failed(Breaker(), verdict(FailureClass.AUTH), NOW, POLICY)

    assert isinstance(admit(breaker, NOW + timedelta(days=365)), CircuitOpen)
    assert breaker.state is Circuit.ISOLATED
    assert succeeded(breaker, NOW) == breaker
    assert isinstance(admit(restore(NOW), NOW), Admitted)


def test_half_open_lets_exactly_one_probe_through() -> None:
    reset = NOW + timedelta(minutes=1)
    breaker = failed(Breaker(), verdict(FailureClass.USAGE_LIMIT, reset), NOW, POLICY)
    answers = []
    for _ in range(1000):
        answer = admit(breaker, reset)
        answers.append(answer)
        if isinstance(answer, Admitted):
            breaker = answer.breaker

    assert sum(isinstance(answer, Admitted) for answer in answers) == 1
    assert isinstance(admit(breaker, reset + timedelta(hours=1)), Admitted), "a lost probe must not stick"


def test_a_failed_probe_opens_again_for_longer() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker = failed(breaker, verdict(FailureClass.OVERLOAD), NOW, POLICY)
    at = NOW + timedelta(seconds=60)
    answer = admit(breaker, at)
    assert isinstance(answer, Admitted)
    breaker = failed(answer.breaker, verdict(FailureClass.OVERLOAD), at, POLICY)

    assert breaker.open_until == at + timedelta(seconds=120)


def test_a_window_used_to_the_threshold_rules_a_target_out_until_it_resets() -> None:
    reset = NOW + timedelta(hours=1)
    window = QuotaWindow(name="five_hour", fraction_used=0.9, resets_at=reset)
    breaker = quota_told(Breaker(), (window,), NOW)

    assert isinstance(admit(breaker, NOW, threshold=0.85), CircuitOpen)
    assert isinstance(admit(breaker, NOW, threshold=0.95), Admitted)
    assert isinstance(admit(breaker, reset, threshold=0.85), Admitted)


def test_isolated_by_hand() -> None:
    answer = admit(isolate(Breaker(), "isolated by hand", NOW), NOW)

    assert answer == CircuitOpen(reason="isolated by hand", until=None)


WEEKLY = NOW + timedelta(days=3)


def open_until(until: datetime) -> Breaker:
    return failed(Breaker(), verdict(FailureClass.USAGE_LIMIT, until), NOW, POLICY)


@pytest.mark.parametrize(
    "later",
    [
        verdict(FailureClass.USAGE_LIMIT),
        verdict(FailureClass.USAGE_LIMIT, NOW + timedelta(hours=1)),
        verdict(FailureClass.OVERLOAD),
        verdict(FailureClass.NETWORK),
    ],
)
def test_turns_that_began_before_do_not_shorten_the_wait(later: Verdict) -> None:
    breaker = open_until(WEEKLY)
    for _ in range(5):
        breaker = failed(breaker, later, NOW + timedelta(seconds=2), POLICY)

    assert breaker == open_until(WEEKLY)


def test_a_turn_that_began_before_and_went_well_does_not_end_a_usage_limit() -> None:
    breaker = succeeded(open_until(WEEKLY), NOW + timedelta(seconds=2))

    assert admit(breaker, NOW + timedelta(days=2)) == CircuitOpen(reason="usage limit", until=WEEKLY)
    assert succeeded(breaker, WEEKLY).state is Circuit.CLOSED


def test_a_success_ends_what_failures_opened() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker = failed(breaker, verdict(FailureClass.OVERLOAD), NOW, POLICY)

    assert isinstance(admit(succeeded(breaker, NOW), NOW), Admitted)


def test_several_sessions_that_meet_a_limit_together_count_as_one() -> None:
    together, alone = Breaker(), failed(Breaker(), verdict(FailureClass.USAGE_LIMIT), NOW, POLICY)
    for _ in range(5):
        together = failed(together, verdict(FailureClass.USAGE_LIMIT), NOW, POLICY)

    assert together.open_until == alone.open_until
    assert together.openings == 1


def test_a_later_reset_that_is_told_holds() -> None:
    breaker = open_until(NOW + timedelta(hours=1))

    assert failed(breaker, verdict(FailureClass.USAGE_LIMIT, WEEKLY), NOW, POLICY).open_until == WEEKLY


def test_a_wait_that_the_provider_asks_for_is_kept() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker = failed(breaker, verdict(FailureClass.RATE_LIMIT, NOW + timedelta(hours=2)), NOW, POLICY)

    assert breaker.open_until == NOW + timedelta(hours=2)


def test_times_that_nobody_stated_are_spread() -> None:
    limit = verdict(FailureClass.USAGE_LIMIT)
    soon, late = (failed(Breaker(), limit, NOW, POLICY, chance=chance) for chance in (0.0, 1.0))

    assert soon.open_until == NOW + timedelta(minutes=15)
    assert late.open_until == NOW + timedelta(minutes=18)
    told = verdict(FailureClass.USAGE_LIMIT, WEEKLY)
    assert failed(Breaker(), told, NOW, POLICY, chance=1.0).open_until == WEEKLY


@pytest.mark.parametrize("kind", [FailureClass.REFUSAL, FailureClass.CONTEXT_OVERFLOW, FailureClass.NONE])
def test_a_probe_whose_task_failed_lets_another_one_probe(kind: FailureClass) -> None:
    probing = admit(open_until(WEEKLY), WEEKLY)
    assert isinstance(probing, Admitted)
    breaker = failed(probing.breaker, verdict(kind), WEEKLY, POLICY)

    assert breaker.state is Circuit.HALF_OPEN
    assert isinstance(admit(breaker, WEEKLY), Admitted)


def test_an_answer_to_a_probe_lets_the_others_through_and_its_failure_opens_again() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker = failed(breaker, verdict(FailureClass.OVERLOAD), NOW, POLICY)
    at = NOW + timedelta(seconds=60)
    probing = admit(breaker, at)
    assert isinstance(probing, Admitted)
    breaker = answered(probing.breaker, at)
    assert isinstance(admit(breaker, at), Admitted)
    breaker = failed(breaker, verdict(FailureClass.OVERLOAD), at, POLICY)

    assert breaker.open_until == at + timedelta(seconds=120)


def test_nothing_is_said_of_a_window_that_has_reset_since() -> None:
    reset = NOW + timedelta(hours=1)
    windows = (
        QuotaWindow(name="five_hour", fraction_used=0.9, resets_at=reset),
        QuotaWindow(name="seven_day", fraction_used=0.4, resets_at=WEEKLY),
    )
    breaker = quota_told(Breaker(), windows, NOW)

    assert breaker.fraction_used(NOW) == 0.9
    assert breaker.fraction_used(reset) == 0.4
    assert breaker.fraction_used(WEEKLY) is None


@pytest.mark.parametrize(
    "shut",
    [open_until(WEEKLY), failed(Breaker(), verdict(FailureClass.AUTH), NOW, POLICY)],
    ids=["usage limit", "auth"],
)
def test_a_person_who_names_a_login_has_one_session_try_it_and_no_other(shut: Breaker) -> None:
    breaker = insisted(shut, NOW)

    assert isinstance(admit(breaker, NOW), CircuitOpen)
    assert succeeded(breaker, NOW).state is Circuit.CLOSED
    again = failed(breaker, verdict(FailureClass.USAGE_LIMIT, WEEKLY), NOW, POLICY)
    assert admit(again, NOW) == CircuitOpen(reason="usage limit", until=WEEKLY)


def test_what_a_person_isolated_stays_so_when_it_is_named_for_one_session() -> None:
    breaker = insisted(isolate(Breaker(), "isolated by hand", NOW), NOW)

    assert admit(succeeded(breaker, NOW), NOW) == CircuitOpen(reason="isolated by hand", until=None)
