"""The ProviderPool: one breaker a target, and who can be used now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from attrs import frozen

from relay.actors.base import Address, RelayActor
from relay.actors.messages import Answered, DescribeProviders, IsolateProvider
from relay.core import asks, circuit, effects, reports
from relay.core.chain import Target, parse_target
from relay.core.circuit import Breaker, Circuit
from relay.core.commands import Accepted, Refused
from relay.core.wire import from_wire, to_wire
from relay.errors import ConfigError

SAVE_QUOTA_SECONDS = 5.0
"""Quotas change with every answer of a model; they are put on disk this often at the most."""
SAVE_AGAIN_SECONDS = 60.0


@frozen(kw_only=True)
class _Waiting:
    """A session that waits for any of these."""

    session: Address
    wanted: frozenset[Target]


class ProviderPoolActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._breakers: dict[Target, Breaker] = {}
        self._probes: dict[Target, str] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._loaded = False
        self._early: list[tuple[asks.ToPool | IsolateProvider | DescribeProviders, Address]] = []
        self._save_due = False

    def wired(self) -> None:
        """Ask for what an earlier life knew."""
        self.want(effects.LoadBreakers(key="breakers"))

    def receive_BreakersLoaded(self, report: reports.BreakersLoaded, sender: Address) -> None:
        """What an earlier life knew; a probe under way then is nobody's now."""
        for name, data in report.breakers:
            try:
                self._breakers[_target(name)] = circuit.probe_lost(from_wire(data, Breaker))
            except ConfigError as error:
                self._problem(report.at, "LoadBreakers", f"the breaker of {name}: {error.message}", "")
        self._go_on()

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """Breakers that can't be saved or read are a loss of memory, not of work: say it, go on."""
        self._problem(report.at, report.effect, report.message, report.hint)
        if report.effect == "LoadBreakers":
            self._go_on()
        elif report.effect == "SaveBreakers":
            self._save_soon(report.at, SAVE_AGAIN_SECONDS)

    def _go_on(self) -> None:
        """What came before the breakers were read is answered now, by what they say."""
        self._loaded = True
        early, self._early = self._early, []
        for message, sender in early:
            self.receiveMessage(message, sender)

    def receive_ChooseTarget(self, ask: asks.ChooseTarget, sender: Address) -> None:
        """The first of the wanted that can be used now."""
        if self._comes_early(ask, sender):
            return
        self._release(ask.sid, ask.at)
        self._waiting.pop(ask.sid, None)
        over: list[tuple[Target, str]] = []
        wakes: list[datetime] = []
        for target in ask.wanted:
            if target == ask.insist:
                chosen = reports.TargetChosen(key=ask.key, at=ask.at, target=target)
                self._admit(target, circuit.insisted(self._breaker(target), ask.at), ask)
                self.send(sender, chosen)
                return
            answer = circuit.admit(self._breaker(target), ask.at, threshold=ask.threshold)
            if isinstance(answer, circuit.Admitted):
                self._admit(target, answer.breaker, ask)
                chosen = reports.TargetChosen(key=ask.key, at=ask.at, target=target, passed_over=tuple(over))
                self.send(sender, chosen)
                return
            over.append((target, answer.reason))
            if answer.until is not None:
                wakes.append(answer.until)
        wake = min(wakes, default=None)
        self._waiting[ask.sid] = _Waiting(session=sender, wanted=frozenset(ask.wanted))
        self.send(
            sender,
            reports.TargetChosen(key=ask.key, at=ask.at, target=None, wake_at=wake, passed_over=tuple(over)),
        )

    def _admit(self, target: Target, breaker: Breaker, ask: asks.ChooseTarget) -> None:
        if breaker.state is Circuit.HALF_OPEN:
            self._probes[target] = ask.sid
        self._set(target, breaker, ask.at)

    def receive_NoteFailure(self, ask: asks.NoteFailure, sender: Address) -> None:
        """A turn or a start failed."""
        if self._comes_early(ask, sender):
            return
        before, failure = self._breaker(ask.target), ask.verdict.failure
        if self._probes.get(ask.target, ask.sid) != ask.sid and failure in circuit.OF_THE_TASK:
            # It tells nothing of the login, nor of the probe that another session makes.
            return
        after = circuit.failed(before, ask.verdict, ask.at, ask.policy, chance=ask.chance)
        self._set(ask.target, after, ask.at)

    def receive_NoteAnswer(self, ask: asks.NoteAnswer, sender: Address) -> None:
        """The target's model answers: a probe has told what it was to tell."""
        if not self._comes_early(ask, sender):
            self._set(ask.target, circuit.answered(self._breaker(ask.target), ask.at), ask.at)

    def receive_NoteSuccess(self, ask: asks.NoteSuccess, sender: Address) -> None:
        """The target works."""
        if not self._comes_early(ask, sender):
            self._set(ask.target, circuit.succeeded(self._breaker(ask.target), ask.at), ask.at)

    def receive_NoteQuota(self, ask: asks.NoteQuota, sender: Address) -> None:
        """What is left, as the provider tells it."""
        if self._comes_early(ask, sender):
            return
        before = self._breaker(ask.target)
        after = circuit.quota_told(before, ask.windows, ask.at)
        if after.windows == before.windows:
            return
        self._breakers[ask.target] = after
        self._tell("quota", ask.target, ask.at, {"windows": to_wire(after.windows)})
        self._save_soon(ask.at)

    def receive_LeaveTargets(self, ask: asks.LeaveTargets, sender: Address) -> None:
        """A session stopped using what it used: who waits for the end of its probe can probe."""
        if self._comes_early(ask, sender):
            return
        self._release(ask.sid, ask.at)
        self._waiting.pop(ask.sid, None)

    def receive_AwaitTargets(self, ask: asks.AwaitTargets, sender: Address) -> None:
        """It waits: what was refused just now, or in an earlier life of it or of this actor."""
        if self._comes_early(ask, sender):
            return
        self._release(ask.sid, ask.at)
        self._waiting.pop(ask.sid, None)
        if any(self._is_free(target, ask) for target in ask.wanted):
            self.send(sender, reports.TargetFree(key="target-free", at=ask.at))
        else:
            self._waiting[ask.sid] = _Waiting(session=sender, wanted=frozenset(ask.wanted))

    def _is_free(self, target: Target, ask: asks.AwaitTargets) -> bool:
        """There is no reason to go on waiting for it; one that is closed may be waited for with reason."""
        breaker = self._breaker(target)
        if ask.until is not None and not breaker.probe_due:
            return False
        return isinstance(circuit.admit(breaker, ask.at, threshold=ask.threshold), circuit.Admitted)

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """Quotas and counts that changed are due to be put on disk."""
        if self._save_due:
            self._save()

    def receive_IsolateProvider(self, message: IsolateProvider, sender: Address) -> None:
        """By hand."""
        if self._comes_early(message, sender):
            return
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
        if not message.isolated:
            # Also those that its quota kept away, which are forgotten: no state has changed for them.
            self._wake(target, message.at)
        self._save()
        answer = Accepted(data=self._view(target, message.at))
        self.send(sender, Answered(correlation=message.correlation, answer=answer))

    def receive_DescribeProviders(self, message: DescribeProviders, sender: Address) -> None:
        """Breakers and quotas."""
        if self._comes_early(message, sender):
            return
        views = [self._view(target, message.at) for target in sorted(self._breakers)]
        answer = Accepted(data={"circuits": views})
        self.send(sender, Answered(correlation=message.correlation, answer=answer))

    def _comes_early(
        self, message: asks.ToPool | IsolateProvider | DescribeProviders, sender: Address
    ) -> bool:
        """Nothing is decided before it is known what an earlier life knew."""
        if not self._loaded:
            self._early.append((message, sender))
        return not self._loaded

    def _release(self, sid: str, at: datetime) -> None:
        """What this session probed, another one may."""
        for target in [target for target, prober in self._probes.items() if prober == sid]:
            self._set(target, circuit.probe_lost(self._breaker(target)), at)

    def _breaker(self, target: Target) -> Breaker:
        return self._breakers.get(target, Breaker())

    def _set(self, target: Target, breaker: Breaker, at: datetime) -> None:
        before = self._breaker(target)
        self._breakers[target] = breaker
        if breaker == before:
            return
        if breaker.state is not Circuit.HALF_OPEN or breaker.probe_until is None:
            self._probes.pop(target, None)
            if before.state is not Circuit.CLOSED and (breaker.state is Circuit.CLOSED or breaker.probe_due):
                self._wake(target, at)
        if before.state is breaker.state and before.open_until == breaker.open_until:
            if before.failures != breaker.failures:
                self._save_soon(at)
            return
        self._tell("circuit", target, at, self._view(target, at))
        self._save()

    def _wake(self, target: Target, at: datetime) -> None:
        """Those that wait for this target may ask again before the time that they were told."""
        for sid in [sid for sid, waiting in self._waiting.items() if target in waiting.wanted]:
            waiting = self._waiting.pop(sid)
            self.send(waiting.session, reports.TargetFree(key="target-free", at=at))

    def _save_soon(self, at: datetime, seconds: float = SAVE_QUOTA_SECONDS) -> None:
        if not self._save_due:
            self._save_due = True
            self.want(effects.SetTimer(key="save-breakers", at=at + timedelta(seconds=seconds)))

    def _save(self) -> None:
        self._save_due = False
        saved = tuple((f"{t.provider}/{t.account}", to_wire(b)) for t, b in self._breakers.items())
        self.want(effects.SaveBreakers(key="save-breakers", breakers=saved))

    def _view(self, target: Target, at: datetime) -> dict[str, Any]:
        breaker = self._breaker(target)
        view = to_wire(breaker)
        view.update(
            target=str(target),
            provider=target.provider,
            account=target.account,
            state=breaker.state,
            fractionUsed=breaker.fraction_used(at),
        )
        return dict(view)

    def _problem(self, at: datetime, effect: str, message: str, hint: str) -> None:
        entry = effects.JournalEntry(
            repository="",
            session="",
            type="effect_failed",
            at=at,
            data={"effect": effect, "message": message, "hint": hint},
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,)))

    def _tell(self, kind: str, target: Target, at: datetime, data: dict[str, Any]) -> None:
        entry = effects.JournalEntry(
            repository="", session="", type=kind, at=at, data={"target": str(target), **data}
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,)))


def _target(name: str) -> Target:
    provider, account = parse_target(name)
    return Target(provider=provider, account=account or "default")
