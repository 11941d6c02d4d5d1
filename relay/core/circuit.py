"""Circuit breakers: which login may be used now.

One `Breaker` a target, owned by the provider pool; pure functions over frozen values, clocks and chance
are arguments. A usage limit opens at once until its reset and is no failure; auth isolates; a refusal or a
full context never counts; other failures open after `failures` in a row for a growing time.

Turns that began before a breaker opened still end afterwards: their failures neither count nor shorten
the time it stays open, and their successes do not close what a usage limit opened.
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
OF_THE_TASK = frozenset({FailureClass.NONE, FailureClass.REFUSAL, FailureClass.CONTEXT_OVERFLOW})
"""They tell neither that the login works nor that it does not."""
JITTER = 0.2
"""By how much of itself a time that nobody stated grows at the most, so that not all try again at once."""


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
        opened_by: the kind of failure, when it is not closed; NONE if a person isolated it.
        windows: the quota as last told.
    """

    state: Circuit = Circuit.CLOSED
    open_until: datetime | None = None
    failures: int = 0
    openings: int = 0
    probe_until: datetime | None = None
    reason: str = ""
    opened_by: FailureClass = FailureClass.NONE
    windows: tuple[QuotaWindow, ...] = ()
    updated_at: datetime | None = None

    def open_at(self, now: datetime) -> bool:
        """Open, and not due for a probe yet."""
        return self.state is Circuit.OPEN and self.open_until is not None and now < self.open_until

    @property
    def probe_due(self) -> bool:
        """It was tried, and nobody tries it now."""
        return self.state is Circuit.HALF_OPEN and self.probe_until is None

    def fraction_used(self, now: datetime) -> float | None:
        """Of the fullest window that has not reset since it was told, if any was told."""
        return max((used for w in self.windows if (used := _used(w, now)) is not None), default=None)


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
    if breaker.open_at(now):
        return CircuitOpen(reason=breaker.reason or "open", until=breaker.open_until)
    if breaker.state is Circuit.HALF_OPEN and breaker.probe_until is not None and now < breaker.probe_until:
        return CircuitOpen(reason="one probe is under way", until=breaker.probe_until)
    for window in breaker.windows:
        used = _used(window, now) or 0.0
        if window.resets_at is not None and used >= threshold:
            return CircuitOpen(reason=f"{window.name} quota used to {used:.0%}", until=window.resets_at)
    if breaker.state is Circuit.CLOSED:
        return Admitted(breaker=breaker)
    return Admitted(breaker=_probing(breaker, now))


def _probing(breaker: Breaker, now: datetime) -> Breaker:
    return evolve(
        breaker, state=Circuit.HALF_OPEN, open_until=None, probe_until=now + PROBE_LEASE, updated_at=now
    )


def insisted(breaker: Breaker, now: datetime) -> Breaker:
    """The breaker when a person has one session use the target all the same.

    It is a probe. What a person took out of service stays so for all the others.
    """
    by_hand = breaker.state is Circuit.ISOLATED and breaker.opened_by is not FailureClass.AUTH
    return breaker if by_hand or breaker.state is Circuit.CLOSED else _probing(breaker, now)


def probe_lost(breaker: Breaker) -> Breaker:
    """The breaker when nobody waits for the probe under way any more: the next one may probe."""
    return evolve(breaker, probe_until=None) if breaker.state is Circuit.HALF_OPEN else breaker


def answered(breaker: Breaker, now: datetime) -> Breaker:
    """The breaker once the model answers a probe, whose turn may take an hour: others need not wait for it.

    The failures so far are kept: the next one opens it again at once, and for longer.
    """
    if breaker.state is not Circuit.HALF_OPEN:
        return breaker
    return evolve(
        breaker,
        state=Circuit.CLOSED,
        probe_until=None,
        reason="",
        opened_by=FailureClass.NONE,
        updated_at=now,
    )


def failed(
    breaker: Breaker, verdict: Verdict, now: datetime, policy: CircuitPolicy, *, chance: float = 0.0
) -> Breaker:
    """The breaker after a failed turn or start; one isolated by hand or by auth stays so.

    Args:
        chance: 0 to 1, for the jitter of a time that nobody stated.
    """
    if breaker.state is Circuit.ISOLATED:
        return breaker
    why = verdict.failure.value.replace("_", " ")
    match verdict.failure:
        case failure if failure in OF_THE_TASK:
            return probe_lost(breaker)
        case FailureClass.AUTH:
            return evolve(isolate(breaker, why, now), opened_by=FailureClass.AUTH)
        case FailureClass.USAGE_LIMIT:
            limited = breaker.opened_by is FailureClass.USAGE_LIMIT and breaker.open_at(now)
            if limited and verdict.resets_at is None:
                return breaker
            guess = UNKNOWN_RESET * (2 ** min(breaker.openings, 2)) * (1 + JITTER * chance)
            return _opened(breaker, verdict, now, verdict.resets_at or now + guess)
    if breaker.open_at(now):
        return breaker
    counted = evolve(breaker, failures=breaker.failures + 1, reason=why, updated_at=now)
    if counted.failures < policy.failures and breaker.state is not Circuit.HALF_OPEN:
        return counted
    wait = min(timedelta(seconds=policy.open_seconds) * (2 ** min(breaker.openings, 10)), LONGEST_OPEN)
    until = now + wait * (1 + JITTER * chance)
    return _opened(counted, verdict, now, max(until, verdict.resets_at or until))


def _opened(breaker: Breaker, verdict: Verdict, now: datetime, until: datetime) -> Breaker:
    """Open at least until then; of several that are told the latest holds."""
    already = breaker.open_at(now)
    until = max(until, now)
    if already and breaker.open_until is not None and breaker.open_until >= until:
        if breaker.opened_by is FailureClass.USAGE_LIMIT:
            return breaker
        until = breaker.open_until
    return evolve(
        breaker,
        state=Circuit.OPEN,
        open_until=until,
        probe_until=None,
        openings=breaker.openings + (0 if already else 1),
        reason=verdict.failure.value.replace("_", " "),
        opened_by=verdict.failure,
        updated_at=now,
    )


def succeeded(breaker: Breaker, now: datetime) -> Breaker:
    """The breaker after a turn that went well; one isolated by hand or by auth stays so."""
    if breaker.state is Circuit.ISOLATED:
        return breaker
    if breaker.opened_by is FailureClass.USAGE_LIMIT and breaker.open_at(now):
        return breaker
    return Breaker(windows=breaker.windows, updated_at=now)


def quota_told(breaker: Breaker, windows: tuple[QuotaWindow, ...], now: datetime) -> Breaker:
    """The breaker with what the provider says is left; windows are merged by name."""
    merged = {window.name: window for window in (*breaker.windows, *windows)}
    return evolve(breaker, windows=tuple(merged.values()), updated_at=now)


def isolate(breaker: Breaker, reason: str, now: datetime) -> Breaker:
    """Taken out of service by hand."""
    return evolve(
        breaker,
        state=Circuit.ISOLATED,
        reason=reason,
        open_until=None,
        probe_until=None,
        opened_by=FailureClass.NONE,
        updated_at=now,
    )


def restore(now: datetime) -> Breaker:
    """Put back into service by hand; what its quota was told to be is forgotten."""
    return Breaker(updated_at=now)


def _used(window: QuotaWindow, now: datetime) -> float | None:
    """What is used of a window; nothing is known of one that has reset since it was told."""
    if window.resets_at is not None and window.resets_at <= now:
        return None
    return window.fraction_used
