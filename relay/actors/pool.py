"""The ProviderPool: one breaker a target, and who can be used now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from relay.actors.base import Address, RelayActor
from relay.actors.messages import Answered, DescribeProviders, IsolateProvider
from relay.core import asks, circuit, effects, reports
from relay.core.chain import Target, parse_target
from relay.core.commands import Accepted, Refused
from relay.core.policies import CircuitPolicy
from relay.core.wire import from_wire, to_wire
from relay.errors import ConfigError


class ProviderPoolActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._breakers: dict[Target, circuit.Breaker] = {}
        self._probes: dict[Target, str] = {}
        self._policy = CircuitPolicy()

    def wired(self) -> None:
        """Ask for what an earlier life knew."""
        self.want(effects.LoadBreakers(key="breakers"))

    def receive_BreakersLoaded(self, report: reports.BreakersLoaded, sender: Address) -> None:
        """What an earlier life knew; a probe under way then is nobody's now."""
        for name, data in report.breakers:
            breaker = circuit.probe_lost(from_wire(data, circuit.Breaker))
            self._breakers.setdefault(_target(name), breaker)

    def receive_ChooseTarget(self, ask: asks.ChooseTarget, sender: Address) -> None:
        """The first of the wanted that can be used now."""
        over: list[tuple[Target, str]] = []
        wakes: list[datetime] = []
        for target in ask.wanted:
            if target == ask.insist:
                chosen = reports.TargetChosen(key=ask.key, at=ask.at, target=target)
                self._set(target, circuit.restore(ask.at), ask.at)
                self.send(sender, chosen)
                return
            breaker = self._breaker(target)
            if self._probes.get(target) == ask.sid:
                breaker = circuit.probe_lost(breaker)
            answer = circuit.admit(breaker, ask.at, threshold=ask.threshold)
            if isinstance(answer, circuit.Admitted):
                self._probes[target] = ask.sid
                self._set(target, answer.breaker, ask.at)
                chosen = reports.TargetChosen(key=ask.key, at=ask.at, target=target, passed_over=tuple(over))
                self.send(sender, chosen)
                return
            over.append((target, answer.reason))
            if answer.until is not None:
                wakes.append(answer.until)
        wake = min(wakes, default=None)
        self.send(
            sender,
            reports.TargetChosen(key=ask.key, at=ask.at, target=None, wake_at=wake, passed_over=tuple(over)),
        )

    def receive_NoteFailure(self, ask: asks.NoteFailure, sender: Address) -> None:
        """A turn or a start failed."""
        self._set(
            ask.target, circuit.failed(self._breaker(ask.target), ask.verdict, ask.at, self._policy), ask.at
        )

    def receive_NoteSuccess(self, ask: asks.NoteSuccess, sender: Address) -> None:
        """The target works."""
        self._set(ask.target, circuit.succeeded(self._breaker(ask.target), ask.at), ask.at)

    def receive_NoteQuota(self, ask: asks.NoteQuota, sender: Address) -> None:
        """What is left, as the provider tells it."""
        before = self._breaker(ask.target)
        after = circuit.quota_told(before, ask.windows, ask.at)
        if after.windows != before.windows:
            self._breakers[ask.target] = after
            self._tell("quota", ask.target, ask.at, {"windows": to_wire(after.windows)})

    def receive_IsolateProvider(self, message: IsolateProvider, sender: Address) -> None:
        """By hand."""
        try:
            target = _target(message.target)
        except ConfigError as error:
            refused = Refused(code=error.code, message=error.message, hint=error.hint)
            self.send(sender, Answered(correlation=message.correlation, answer=refused))
            return
        before = self._breaker(target)
        if message.isolated:
            after = circuit.isolate(before, "isolated by hand", message.at)
        else:
            after = circuit.restore(message.at)
        self._set(target, after, message.at)
        answer = Accepted(data=self._view(target))
        self.send(sender, Answered(correlation=message.correlation, answer=answer))

    def receive_DescribeProviders(self, message: DescribeProviders, sender: Address) -> None:
        """Breakers and quotas."""
        views = [self._view(target) for target in sorted(self._breakers)]
        answer = Accepted(data={"circuits": views})
        self.send(sender, Answered(correlation=message.correlation, answer=answer))

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """Breakers that can't be saved or read are a loss of memory, not of work: say it, go on."""
        entry = effects.JournalEntry(
            repository="",
            session="",
            type="effect_failed",
            at=report.at,
            data={"effect": report.effect, "message": report.message, "hint": report.hint},
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,)))

    def _breaker(self, target: Target) -> circuit.Breaker:
        return self._breakers.get(target, circuit.Breaker())

    def _set(self, target: Target, breaker: circuit.Breaker, at: datetime) -> None:
        before = self._breakers.get(target)
        self._breakers[target] = breaker
        if before is not None and before.state is breaker.state and before.open_until == breaker.open_until:
            return
        if before is None and breaker == circuit.Breaker():
            return
        if before is None and breaker.state is circuit.Circuit.CLOSED:
            return
        self._tell("circuit", target, at, self._view(target))
        saved = tuple((f"{t.provider}/{t.account}", to_wire(b)) for t, b in self._breakers.items())
        self.want(effects.SaveBreakers(key="save-breakers", breakers=saved))

    def _view(self, target: Target) -> dict[str, Any]:
        breaker = self._breaker(target)
        view = to_wire(breaker)
        view.update(
            target=str(target),
            provider=target.provider,
            account=target.account,
            state=breaker.state,
            fractionUsed=breaker.fraction_used,
        )
        return dict(view)

    def _tell(self, kind: str, target: Target, at: datetime, data: dict[str, Any]) -> None:
        entry = effects.JournalEntry(
            repository="", session="", type=kind, at=at, data={"target": str(target), **data}
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,)))


def _target(name: str) -> Target:
    provider, account = parse_target(name)
    return Target(provider=provider, account=account or "default")
