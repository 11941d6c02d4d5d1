"""The breaker against a model of it: any order of asks, outcomes, restarts and clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from relay.core import circuit
from relay.core.circuit import Admitted, Breaker, Circuit, CircuitOpen
from relay.core.events import FailureClass, Verdict
from relay.core.policies import CircuitPolicy
from relay.core.wire import from_wire, to_wire

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICY = CircuitPolicy(failures=3, open_seconds=60)
COUNTED = (FailureClass.OVERLOAD, FailureClass.NETWORK, FailureClass.RATE_LIMIT, FailureClass.OTHER)
UNCOUNTED = (FailureClass.REFUSAL, FailureClass.CONTEXT_OVERFLOW, FailureClass.NONE)


class BreakerModel(RuleBasedStateMachine):
    """What a reader of the documentation would expect, kept beside the real one."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.real = Breaker()
        self.state = "closed"
        self.in_a_row = 0
        self.used_up = False
        self.by_hand = False
        self.not_before: datetime | None = None
        self.probe_ends: datetime | None = None

    @initialize()
    def begin(self) -> None:
        assert isinstance(circuit.admit(self.real, self.now), Admitted)

    @rule(seconds=st.one_of(st.integers(0, 200), st.integers(0, 100_000), st.integers(-90_000, 0)))
    def time_passes_or_the_clock_is_set(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def somebody_asks(self) -> None:
        answer = circuit.admit(self.real, self.now)
        may = {
            "closed": True,
            "isolated": False,
            "open": self.not_before is not None and self.now >= self.not_before,
            "probing": self.probe_ends is None or self.now >= self.probe_ends,
        }[self.state]
        assert isinstance(answer, Admitted) == may
        if isinstance(answer, CircuitOpen):
            assert answer.reason
            assert answer.until is None or answer.until > self.now
            return
        self.real = answer.breaker
        if self.state != "closed":
            self.state, self.probe_ends = "probing", self.now + circuit.PROBE_LEASE

    @rule(callers=st.integers(2, 1000))
    def many_ask_at_once(self, callers: int) -> None:
        before = self.state
        admitted = 0
        for _ in range(callers):
            answer = circuit.admit(self.real, self.now)
            if isinstance(answer, Admitted):
                admitted += 1
                self.real = answer.breaker
        if before == "closed":
            assert admitted == callers
        else:
            assert admitted <= 1
        if admitted and before != "closed":
            self.state, self.probe_ends = "probing", self.now + circuit.PROBE_LEASE

    @property
    def shut(self) -> bool:
        """Open, and the instant until which it stays so has not come."""
        return self.state == "open" and self.not_before is not None and self.now < self.not_before

    @rule(kind=st.sampled_from(COUNTED), chance=st.floats(0, 1), retry_after=st.integers(0, 20_000))
    def it_fails(self, kind: FailureClass, chance: float, retry_after: int) -> None:
        told = self.now + timedelta(seconds=retry_after) if retry_after else None
        before, shut = self.real, self.shut
        verdict = Verdict(failure=kind, resets_at=told)
        self.real = circuit.failed(before, verdict, self.now, POLICY, chance=chance)
        if self.state == "isolated" or shut:
            assert self.real == before
            return
        self.in_a_row += 1
        if self.state == "probing" or self.in_a_row >= POLICY.failures:
            self.state, self.used_up = "open", False
            assert self.real.open_until is not None
            wait = self.real.open_until - self.now
            longest = max(circuit.LONGEST_OPEN * 1.2, timedelta(seconds=retry_after))
            assert timedelta(seconds=max(POLICY.open_seconds, retry_after)) <= wait <= longest
            self.not_before = self.real.open_until

    @rule(kind=st.sampled_from(UNCOUNTED))
    def the_task_fails(self, kind: FailureClass) -> None:
        before = self.real
        self.real = circuit.failed(self.real, Verdict(failure=kind), self.now, POLICY)
        if self.state == "probing":
            # It told nothing: somebody else may probe.
            self.probe_ends = None
        else:
            assert self.real == before

    @rule(hours=st.one_of(st.none(), st.integers(-2, 200)), chance=st.floats(0, 1))
    def it_is_used_up(self, hours: int | None, chance: float) -> None:
        resets = None if hours is None else self.now + timedelta(hours=hours)
        verdict = Verdict(failure=FailureClass.USAGE_LIMIT, resets_at=resets)
        before, shut, standing = self.real, self.shut, self.not_before
        self.real = circuit.failed(before, verdict, self.now, POLICY, chance=chance)
        if self.state == "isolated":
            return
        self.state, self.used_up = "open", True
        assert self.real.failures == before.failures
        assert self.real.openings == before.openings + (0 if shut else 1)
        assert self.real.open_until is not None
        earliest = self.now if resets is None else max(resets, self.now)
        latest = self.now + timedelta(hours=1.2) if resets is None else earliest
        if shut and standing is not None:
            earliest, latest = max(earliest, standing), max(latest, standing)
        assert earliest <= self.real.open_until <= latest
        assert resets is not None or self.real.open_until > self.now
        self.not_before = self.real.open_until

    @rule()
    def the_model_answers(self) -> None:
        failures, openings = self.real.failures, self.real.openings
        self.real = circuit.answered(self.real, self.now)
        assert (self.real.failures, self.real.openings) == (failures, openings)
        if self.state == "probing":
            self.state = "closed"

    @rule()
    def the_login_is_refused(self) -> None:
        self.real = circuit.failed(self.real, Verdict(failure=FailureClass.AUTH), self.now, POLICY)
        if self.state != "isolated":
            self.state, self.by_hand = "isolated", False

    @rule()
    def it_goes_well(self) -> None:
        before, shut = self.real, self.shut
        self.real = circuit.succeeded(before, self.now)
        if self.state == "isolated" or (shut and self.used_up):
            assert self.real == before
        else:
            self.state, self.in_a_row = "closed", 0

    @rule()
    def the_prober_goes_away(self) -> None:
        self.real = circuit.probe_lost(self.real)
        if self.state == "probing":
            self.probe_ends = None

    @rule()
    def a_person_isolates(self) -> None:
        self.real = circuit.isolate(self.real, "by hand", self.now)
        self.state, self.by_hand = "isolated", True

    @rule()
    def a_person_insists(self) -> None:
        before = self.real
        self.real = circuit.insisted(self.real, self.now)
        if self.state == "closed" or (self.state == "isolated" and self.by_hand):
            assert self.real == before
        else:
            self.state, self.probe_ends = "probing", self.now + circuit.PROBE_LEASE

    @rule()
    def a_person_restores(self) -> None:
        self.real = circuit.restore(self.now)
        self.state, self.in_a_row = "closed", 0

    @rule()
    def the_daemon_restarts(self) -> None:
        kept = from_wire(to_wire(self.real), Breaker)
        assert kept == self.real
        self.real = circuit.probe_lost(kept)
        if self.state == "probing":
            self.probe_ends = None

    @invariant()
    def it_says_what_it_is(self) -> None:
        shown = {
            "closed": Circuit.CLOSED,
            "isolated": Circuit.ISOLATED,
            "open": Circuit.OPEN,
            "probing": Circuit.HALF_OPEN,
        }
        assert self.real.state is shown[self.state]
        assert self.real.reason or self.state in ("closed", "probing")

    @invariant()
    def nobody_is_kept_out_for_ever(self) -> None:
        """Unless isolated, there is an instant from which on it can be tried."""
        if self.state == "isolated":
            return
        far = self.now + timedelta(days=400)
        assert isinstance(circuit.admit(self.real, far), Admitted)


TestBreakerModel = BreakerModel.TestCase
TestBreakerModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
