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
    failed,
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
