"""The session rules' steps: gate, end of a child, snapshot, contract, choice, start, ending."""

from __future__ import annotations

from datetime import datetime, timedelta

from relay.core import asks, effects
from relay.core.chain import Target, candidates
from relay.core.facts import HANDING_OVER
from relay.core.fidelity import score
from relay.core.fsm import Step, Trigger
from relay.core.opening import contract_for, opening_for
from relay.core.record import Run
from relay.core.session_live import LiveRun, Outputs
from relay.core.session_talk import SessionTalk

INTERRUPT_GRACE_SECONDS = 5.0
WAKE_JITTER = 5.0
"""Seconds over which those that wait for the same instant are spread."""


class SessionSteps(SessionTalk):
    """See the module."""

    def _take(self, step: Step, at: datetime) -> Outputs:
        match step:
            case Step.REACH_SAFE_POINT:
                return self._reach_safe_point(at)
            case Step.SEAL_CONTRACT:
                return self._seal_contract(at)
            case Step.CHOOSE_TARGET:
                return self._choose_target(at)
            case Step.START_CHILD:
                return self._start_child()
            case Step.FOLLOW_CHILD:
                return self._follow(at)
            case Step.AWAIT_HEARTBEAT:
                deadline = at + timedelta(seconds=self.record.options.heartbeat)
                return [effects.SetTimer(key="heartbeat", at=deadline)]
            case Step.SET_WAKE:
                return self._set_wake(at)
            case Step.SAY_RETRY:
                return self._say_unsaid(at)
            case Step.END_CHILD:
                run = self.record.run
                return [] if run is None or self._live.gone else [self._end_effect(run)]

    def _reach_safe_point(self, at: datetime) -> Outputs:
        run = self.record.run
        if run is None or self._live.gone:
            return self._take_snapshot()
        if not self._live.alive:
            return self._end_child(at)
        deadline = at + timedelta(seconds=self.record.options.pause_deadline)
        self._live.gate_open = True
        outputs: Outputs = [
            effects.SetTimer(key="gate", at=deadline),
            asks.ReachSafePoint(run=run.number, at=at),
        ]
        for request_id in tuple(self._live.permissions):
            outputs += self._answer(request_id, False, HANDING_OVER)
        return outputs

    def _pass_gate(self, at: datetime, *, forced: bool) -> Outputs:
        run = self.record.run
        if not self._live.gate_open or run is None:
            return []
        self._live.gate_open = False
        outputs: Outputs = [effects.CancelTimer(key="gate")]
        outputs += self._note(at, "gate", {"run": run.number, "forced": forced})
        return [*outputs, *self._quieten(at)]

    def _quieten(self, at: datetime) -> Outputs:
        """Interrupt an open turn and wait for its end; then end the child."""
        run = self.record.run
        if run is None or self._live.gone or self._live.ending:
            return []
        if not (self._live.alive and self._live.turn_open):
            return self._end_child(at)
        self._live.interrupting = True
        deadline = at + timedelta(seconds=INTERRUPT_GRACE_SECONDS)
        return [
            effects.SetTimer(key="interrupt", at=deadline),
            asks.Interrupt(run=run.number, key=f"interrupt:{run.number}"),
        ]

    def _end_child(self, at: datetime) -> Outputs:
        run = self.record.run
        if run is None or self._live.gone or self._live.ending:
            return []
        self._live.ending = True
        self._live.interrupting = False
        close = asks.CloseApprovals(sid=self.record.sid, run=run.number, at=at)
        return [effects.CancelTimer(key="interrupt"), close, self._end_effect(run)]

    def _end_effect(self, run: Run) -> effects.EndChild:
        return effects.EndChild(
            key=f"end:{run.number}",
            record=self.record,
            run=run.number,
            target=run.target,
            idle=not self._live.turn_open,
        )

    def _take_snapshot(self) -> Outputs:
        if self._snapshotting:
            return []
        self._snapshotting = True
        number = self.record.snapshots + 1
        run = self.record.run
        who = f" after {run.target}" if run else ""
        why = self.record.end_reason if self.record.ending else self.record.reason
        message = f"Relay snapshot {number} of {self.record.sid}{who}\n\n{why}".strip()
        return [effects.TakeSnapshot(key="snapshot", record=self.record, number=number, message=message)]

    def _seal_contract(self, at: datetime) -> Outputs:
        if self._snapshot is None:
            return self._take_snapshot()
        contract = contract_for(self.record, self.facts, self._snapshot, at)
        paths = tuple(change.path for change in self._snapshot.changed)
        self._fidelity = score(contract, self.facts, files=paths).score
        return [effects.SealContract(key="seal", record=self.record, contract=contract)]

    def _choose_target(self, at: datetime) -> Outputs:
        record = self.record
        if record.ending:
            return self._go_on_ending(at)
        if record.hold or (record.wake_at is not None and record.wake_at > at):
            return self._fire(Trigger.HOLD, at)
        return [
            asks.ChooseTarget(
                key="choose",
                sid=record.sid,
                wanted=self._wanted(),
                insist=record.prefer if record.insist else None,
                threshold=record.options.threshold,
                at=at,
            )
        ]

    def _wanted(self) -> tuple[Target, ...]:
        """Who may go on, the first choice first."""
        record = self.record
        current = record.run.target if record.run else None
        wanted = candidates(record.options.chain, current, include_current=record.fresh)
        if record.handoffs >= record.options.max_handoffs and current is not None:
            wanted = (current,)
        if record.prefer is not None:
            wanted = (record.prefer, *(t for t in wanted if t != record.prefer))
        elif current is not None and current not in wanted:
            wanted = (*wanted, current)
        return tuple(target for target in wanted if target not in record.skipped)

    def _start_child(self) -> Outputs:
        run = self.record.run
        if run is None:
            return []
        self._live = LiveRun(starting=True)
        # A start that failed just before a crash is tried again.
        self._change_run(run.number, ended_at=None, why_ended="")
        opening = opening_for(self.record)
        return [
            effects.StartChild(
                key=f"start:{run.number}",
                record=self.record,
                run=run.number,
                target=run.target,
                opening=opening,
            )
        ]

    def _follow(self, at: datetime) -> Outputs:
        run = self.record.run
        if run is None or run.ended_at is not None or self._live.attached:
            return []
        self._live.attached = True
        return [asks.AttachRun(record=self.record, run=run.number, places=self._places, at=at)]

    def _set_wake(self, at: datetime) -> Outputs:
        record = self.record
        if record.hold and not record.blocked:
            return [asks.LeaveTargets(sid=record.sid, at=at)]
        if record.in_place_retry:
            return [effects.SetTimer(key="wake", at=record.wake_at or at, through_sleep=True)]
        if record.blocked:
            return [self._await_targets(self._wanted(), None, at)]
        # Held no more, and the crash came before it was woken: at once.
        jitter = 0.0 if record.wake_at is None else WAKE_JITTER
        wake = record.wake_at or at
        wanted = self._wanted() if record.prefer is None else (record.prefer,)
        timer = effects.SetTimer(key="wake", at=wake, jitter=jitter, through_sleep=True)
        return [self._await_targets(wanted, wake, at), timer]

    def _await_targets(
        self, wanted: tuple[Target, ...], until: datetime | None, at: datetime
    ) -> asks.AwaitTargets:
        sid, threshold = self.record.sid, self.record.options.threshold
        return asks.AwaitTargets(sid=sid, wanted=wanted, until=until, threshold=threshold, at=at)

    def _seal_runs(self) -> Outputs:
        return [
            effects.SealRun(key=f"seal-run:{run.number}", record=self.record, run=run.number)
            for run in self.record.runs
        ]

    def _finish(self, trigger: Trigger, reason: str, at: datetime) -> Outputs:
        if self.record.ending or self.record.ended:
            return []
        self._change(ending=trigger.value, end_reason=reason)
        return [*self._persist(), *self._go_on_ending(at)]

    def _go_on_ending(self, at: datetime) -> Outputs:
        """End the child, commit what it left, enter the terminal state."""
        if self._saving is not None or self._live.starting:
            return []
        if self.record.run is None or self._live.gone:
            return self._take_snapshot()
        self._live.gate_open = False
        return [*self._follow(at), *self._quieten(at)]

    def safe_point(self, run: int, at: datetime) -> Outputs:
        """The adapter: no tool call is open."""
        if self.record.run is None or self.record.run.number != run:
            return []
        return self._pass_gate(at, forced=False)

    def interrupt_refused(self, at: datetime) -> Outputs:
        """The adapter: this agent can only be signalled."""
        return self._end_child(at) if self._live.interrupting else []

    def _wake(self, at: datetime) -> Outputs:
        if self.record.in_place_retry and self._live.alive:
            again = self._saying(self.policy.retry.retry_message, keep=False)
            return self._fire(
                Trigger.ASK_AGAIN, at, wake_at=None, in_place_retry=False, wait_reason="", **again
            )
        if not self._live.gone:
            return self._hand_off(self.record.reason, at, prefer=self._target(), insist=self.record.insist)
        woken = {"wake_at": None, "in_place_retry": False, "hold": False, "blocked": False, "wait_reason": ""}
        return self._fire(Trigger.WAKE, at, **woken)
