"""Circuit breakers: which login may be used now.

One `Breaker` a target, owned by the provider pool; pure functions over frozen values, clocks are
arguments. A usage limit opens at once until its reset and is no failure; auth isolates; a refusal or a
full context never counts; other failures open after `failures` in a row for a growing time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from attrs import evolve, frozen

from relay.core.events import FailureClass, QuotaWindow, Verdict
from relay.core.policies import CircuitPolicy

PROBE_LEASE = timedelta(minutes=10)
UNKNOWN_RESET = timedelta(minutes=15)
LONGEST_OPEN = timedelta(hours=1)


class Circuit(StrEnum):
    """State of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    ISOLATED = "isolated"


@frozen(kw_only=True)
class Breaker:
    """One target's breaker.

    Args:
        open_until: for OPEN: when one probe is let through.
        failures: in a row.
        openings: in a row, for the back-off.
        probe_until: for HALF_OPEN: until when the one probe under way keeps others out.
        reason: why it is not closed.
        windows: the quota as last told.
    """

    state: Circuit = Circuit.CLOSED
    open_until: datetime | None = None
    failures: int = 0
    openings: int = 0
    probe_until: datetime | None = None
    reason: str = ""
    windows: tuple[QuotaWindow, ...] = ()
    updated_at: datetime | None = None

    @property
    def fraction_used(self) -> float | None:
        """Of the fullest window, if any told."""
        return max((w.fraction_used for w in self.windows if w.fraction_used is not None), default=None)


@frozen(kw_only=True)
class Admitted:
    """The target can be used; `breaker` is its state from now on."""

    breaker: Breaker


@frozen(kw_only=True)
class CircuitOpen:
    """The target can't be used now; `until` is when it may be tried, if that is known."""

    reason: str
    until: datetime | None


def admit(breaker: Breaker, now: datetime, *, threshold: float = 1.0) -> Admitted | CircuitOpen:
    """May the target be used now? Letting a probe through is part of the answer.

    Args:
        threshold: a window used to this fraction or more that has not reset counts as open.
    """
    if breaker.state is Circuit.ISOLATED:
        return CircuitOpen(reason=breaker.reason or "isolated", until=None)
    if breaker.state is Circuit.OPEN and breaker.open_until is not None and now < breaker.open_until:
        return CircuitOpen(reason=breaker.reason or "open", until=breaker.open_until)
    if breaker.state is Circuit.HALF_OPEN and breaker.probe_until is not None and now < breaker.probe_until:
        return CircuitOpen(reason="one probe is under way", until=breaker.probe_until)
    for window in breaker.windows:
        used = window.fraction_used or 0.0
        ahead = window.resets_at is not None and window.resets_at > now
        if ahead and used >= threshold:
            return CircuitOpen(reason=f"{window.name} quota used to {used:.0%}", until=window.resets_at)
    if breaker.state is Circuit.CLOSED:
        return Admitted(breaker=breaker)
    return Admitted(
        breaker=evolve(
            breaker, state=Circuit.HALF_OPEN, open_until=None, probe_until=now + PROBE_LEASE, updated_at=now
        )
    )


def probe_lost(breaker: Breaker) -> Breaker:
    """The breaker when nobody waits for the probe under way any more: the next one may probe."""
    return evolve(breaker, probe_until=None) if breaker.state is Circuit.HALF_OPEN else breaker


def failed(breaker: Breaker, verdict: Verdict, now: datetime, policy: CircuitPolicy) -> Breaker:
    """The breaker after a failed turn or start; one isolated by hand or by auth stays so."""
    if breaker.state is Circuit.ISOLATED:
        return breaker
    why = verdict.failure.value.replace("_", " ")
    match verdict.failure:
        case FailureClass.NONE | FailureClass.REFUSAL | FailureClass.CONTEXT_OVERFLOW:
            return breaker
        case FailureClass.AUTH:
            return evolve(breaker, state=Circuit.ISOLATED, reason=why, open_until=None, updated_at=now)
        case FailureClass.USAGE_LIMIT:
            until = verdict.resets_at or now + UNKNOWN_RESET * (2 ** min(breaker.openings, 2))
            return evolve(
                breaker,
                state=Circuit.OPEN,
                open_until=max(until, now),
                openings=breaker.openings + 1,
                reason=why,
                updated_at=now,
            )
    failures = breaker.failures + 1
    if failures < policy.failures and breaker.state is not Circuit.HALF_OPEN:
        return evolve(breaker, failures=failures, reason=why, updated_at=now)
    wait = timedelta(seconds=policy.open_seconds) * (2 ** min(breaker.openings, 10))
    return evolve(
        breaker,
        state=Circuit.OPEN,
        open_until=now + min(wait, LONGEST_OPEN),
        failures=failures,
        openings=breaker.openings + 1,
        reason=why,
        updated_at=now,
    )


def succeeded(breaker: Breaker, now: datetime) -> Breaker:
    """The breaker after a turn that went well; one isolated by hand or by auth stays so."""
    if breaker.state is Circuit.ISOLATED:
        return breaker
    return Breaker(windows=breaker.windows, updated_at=now)


def quota_told(breaker: Breaker, windows: tuple[QuotaWindow, ...], now: datetime) -> Breaker:
    """The breaker with what the provider says is left; windows are merged by name."""
    merged = {window.name: window for window in (*breaker.windows, *windows)}
    return evolve(breaker, windows=tuple(merged.values()), updated_at=now)


def isolate(breaker: Breaker, reason: str, now: datetime) -> Breaker:
    """Taken out of service by hand."""
    return evolve(breaker, state=Circuit.ISOLATED, reason=reason, updated_at=now)


def restore(now: datetime) -> Breaker:
    """Put back into service by hand; what its quota was told to be is forgotten."""
    return Breaker(updated_at=now)
