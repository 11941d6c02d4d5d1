"""The session rules on what an agent does: its events, and what follows when its turn is over."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from relay.core import asks, effects, reports
from relay.core.approval import Judgement, judge
from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    AgentTextDelta,
    AgentThinking,
    FailureClass,
    Observed,
    PermissionAsked,
    PlanUpdated,
    QuotaReported,
    Retrying,
    TaskStatus,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    Verdict,
)
from relay.core.fsm import State, Trigger
from relay.core.retry import AskUser, HandOff, Retry, Wait, decide
from relay.core.session_live import Outputs
from relay.core.session_steps import SessionSteps
from relay.core.wire import event_to_wire

MAX_VERIFY_FAILURES = 3
MAX_NUDGES = 1
SETTLE_SECONDS = 2.0
LONG_RETRY_SECONDS = 300.0
SIGNS_OF_LIFE = (
    AgentStarted,
    TurnStarted,
    AgentText,
    AgentTextDelta,
    AgentThinking,
    ToolCall,
    PlanUpdated,
    PermissionAsked,
)


class SessionTurns(SessionSteps):
    """See the module."""

    def observed(self, batch: Sequence[Observed], *, known: bool = False) -> Outputs:
        """Events of the current run, in order. `known`: they are in the log already (a restart)."""
        if not batch:
            return []
        outputs: Outputs = []
        if not known:
            entries = tuple(
                self._entry(o.at, "agent_event", event_to_wire(o, str(self._target())))
                for o in batch
                if not isinstance(o.event, AgentTextDelta)
            )
            outputs.append(asks.Record(entries=entries))
        for seen in batch:
            if not known:
                self.facts.fold(seen)
            outputs += self._see(seen.event, seen.at, known=known)
        if not known:
            outputs += self._settle(batch[-1].at)
        return outputs

    def caught_up(self, at: datetime) -> Outputs:
        """All that was known of the run has been read again: act on what was not acted on."""
        outputs: Outputs = []
        for asked in tuple(self._live.permissions.values()):
            outputs += self._judge(asked, at)
        return [*outputs, *self._settle(at)]

    def _see(self, event: AgentEvent, at: datetime, *, known: bool) -> Outputs:
        live = self._live
        if isinstance(event, SIGNS_OF_LIFE):
            live.seen_life = True
        match event:
            case AgentStarted():
                live.native_id = event.native_id
                run = self.record.run
                if run and event.native_id and run.native_id != event.native_id:
                    self._change_run(run.number, native_id=event.native_id)
                    return [] if known else self._persist()
            case TurnStarted():
                live.turn_open, live.turn_end = True, None
            case TurnEnded():
                live.turn_open, live.turn_end = False, event
                if live.interrupting and not known:
                    return self._end_child(at)
            case PermissionAsked():
                live.permissions[event.request_id] = event
                return [] if known else self._judge(event, at)
            case ToolResult():
                for request_id, asked in tuple(live.permissions.items()):
                    if asked.call_id == event.call_id:
                        del live.permissions[request_id]
            case UsageReported():
                live.tokens += event.usage.total
                if self.record.run:
                    self._change_run(self.record.run.number, tokens=live.tokens)
                return [] if known else self._check_cap(at)
            case Retrying() if not known and (event.delay or 0.0) >= LONG_RETRY_SECONDS:
                return self._near_limit(f"{self._target()} would wait {event.delay:.0f} s by itself", at)
            case QuotaReported() if not known:
                return self._check_quota(event, at)
        return []

    def _judge(self, asked: PermissionAsked, at: datetime) -> Outputs:
        record, run = self.record, self.record.run
        if run is None:
            return []
        if record.state is State.PAUSING:
            return self._answer(asked.request_id, False, "Relay is handing this task over; do not go on.")
        allow, root = record.options.allow, record.worktree
        if judge(asked, allow, self.policy.approvals, worktree=root) is Judgement.ALLOW:
            return self._answer(asked.request_id, True, "")
        return [
            asks.OpenApproval(
                sid=record.sid,
                repository=record.repository,
                run=run.number,
                target=run.target,
                asked=asked,
                at=at,
                timeout=self.policy.approvals.timeout_seconds,
            )
        ]

    def _answer(self, request_id: str, allowed: bool, note: str) -> Outputs:
        run = self.record.run
        if run is None or self._live.permissions.pop(request_id, None) is None:
            return []
        return [asks.AnswerPermission(run=run.number, request_id=request_id, allowed=allowed, note=note)]

    def approval_decided(self, run: int, request_id: str, allowed: bool, note: str) -> Outputs:
        """A person, or the clock, answered a permission request."""
        if self.record.run is None or self.record.run.number != run:
            return []
        return self._answer(request_id, allowed, note)

    def _check_quota(self, event: QuotaReported, at: datetime) -> Outputs:
        target = self._target()
        outputs: Outputs = [asks.NoteQuota(target=target, windows=event.windows, at=at)]
        used = max((w.fraction_used for w in event.windows if w.fraction_used is not None), default=0.0)
        if used >= self.record.options.threshold and not any(w.rejected for w in event.windows):
            outputs += self._near_limit(f"{target} has used {used:.0%} of its quota", at)
        return outputs

    def _check_cap(self, at: datetime) -> Outputs:
        target = self._target()
        cap = dict(self.policy.declared_caps).get(target.provider, 0)
        if not cap:
            return []
        used = sum(r.tokens for r in self.record.runs if r.target == target) / cap
        if used < self.record.options.threshold:
            return []
        return self._near_limit(f"{target} has used {used:.0%} of its declared cap", at)

    def _near_limit(self, reason: str, at: datetime) -> Outputs:
        if self._live.quota_told or self.record.state is not State.RUNNING or not self._has_fallback():
            return []
        self._live.quota_told = True
        return self._hand_off(reason, at)

    def _settle(self, at: datetime) -> Outputs:
        """Act on what has been seen, once no transition is under way."""
        live, record = self._live, self.record
        if self._saving is not None or record.ended:
            return []
        if record.state is State.RESUMING:
            return self._settle_start(at)
        if record.state is not State.RUNNING or record.ending:
            return []
        if record.replies and live.alive:
            return self._say_waiting()
        if live.turn_end is None or self._verifying:
            return []
        if live.said_in_turn and live.alive:
            # The message came in mid-turn: the agent may begin another turn for it.
            live.said_in_turn = False
            return [effects.SetTimer(key="settle", at=at + timedelta(seconds=SETTLE_SECONDS))]
        ended, live.turn_end = live.turn_end, None
        match ended.outcome:
            case TurnOutcome.COMPLETED:
                return self._turn_completed(at)
            case TurnOutcome.FAILED:
                return self._turn_failed(ended.verdict or Verdict(failure=FailureClass.OTHER), ended, at)
            case TurnOutcome.INTERRUPTED:
                return self._hand_off("the agent was interrupted from outside", at, hold=True)

    def _untold(self) -> tuple[str, ...]:
        """Replies that the current run's first message does not hold."""
        run = self.record.run
        return self.record.replies[run.told :] if run else self.record.replies

    def _say_waiting(self) -> Outputs:
        run = self.record.run
        text = "\n\n".join(self.record.replies)
        key = f"waiting:{run.number if run else 0}:{zlib.crc32(text.encode()):08x}"
        self._change(replies=())
        return [*self._say(key, text), *self._persist()]

    def _settle_start(self, at: datetime) -> Outputs:
        if self._live.seen_life:
            return [
                effects.CancelTimer(key="heartbeat"),
                *self._fire(
                    Trigger.HEARTBEAT,
                    at,
                    skipped=(),
                    prefer=None,
                    insist=False,
                    fresh=False,
                    replies=self._untold(),
                ),
            ]
        ended = self._live.turn_end
        if ended is None:
            return []
        failure = ended.verdict.failure if ended.verdict else FailureClass.OTHER
        if failure not in (FailureClass.OTHER, FailureClass.NONE):
            return [effects.CancelTimer(key="heartbeat"), *self._fire(Trigger.HEARTBEAT, at)]
        return self._end_failed_start(ended.error.text if ended.error else "it ended at once", at)

    def _end_failed_start(self, why: str, at: datetime) -> Outputs:
        self._live.turn_end = None
        self._change(reason=f"{self._target()} did not start: {why[:200]}")
        outputs: Outputs = [effects.CancelTimer(key="heartbeat")]
        outputs += self._note(at, "start_failed", {"target": str(self._target()), "why": why[:500]})
        return [*outputs, *(self._end_child(at) if not self._live.gone else self._start_failed(at))]

    def _start_failed(self, at: datetime) -> Outputs:
        run = self.record.run
        if run is None:
            return []
        verdict = Verdict(failure=FailureClass.OTHER, why=self.record.reason)
        outputs: Outputs = [asks.NoteFailure(target=run.target, verdict=verdict, at=at)]
        if run.native_resume:
            changes: dict[str, Any] = {"fresh": True, "prefer": run.target}
        else:
            changes = {"skipped": (*self.record.skipped, run.target), "prefer": None}
        return [*outputs, *self._fire(Trigger.START_FAILED, at, **changes)]

    def _turn_completed(self, at: datetime) -> Outputs:
        outputs: Outputs = [asks.NoteSuccess(target=self._target(), at=at)]
        record = self.record
        self._change(attempts=0)
        if record.options.verify:
            self._verifying = True
            verify = effects.RunVerify(
                key="verify",
                record=record,
                commands=record.options.verify,
                timeout=record.options.verify_timeout,
            )
            return [*outputs, verify]
        left = [item.text for item in self.facts.plan if item.status is not TaskStatus.COMPLETED]
        if left and record.nudges < MAX_NUDGES:
            self._change(nudges=record.nudges + 1)
            tasks = "\n".join(f"- {text}" for text in left)
            text = f"Your plan still has open items:\n{tasks}\nFinish them, or say why they are not needed."
            return [*outputs, *self._persist(), *self._say(f"nudge:{record.nudges + 1}", text)]
        note = f"; the agent left {len(left)} of its tasks open" if left else ""
        return [
            *outputs,
            *self._finish(Trigger.COMPLETE, f"the agent is done; nothing verified it{note}", at),
        ]

    def _verified(self, report: reports.VerifyDone) -> Outputs:
        self._verifying = False
        at = report.at
        checked = [
            {"command": c.command, "status": c.status, "seconds": round(c.seconds, 3), "passed": c.passed}
            for c in report.commands
        ]
        outputs = self._note(at, "verify", {"passed": report.passed, "commands": checked})
        if self.record.state is not State.RUNNING or self.record.ending:
            return outputs
        if report.passed:
            self._change(verified=True, verify_failures=0)
            return [*outputs, *self._finish(Trigger.COMPLETE, "the acceptance commands passed", at)]
        failures = self.record.verify_failures + 1
        self._change(verified=False, verify_failures=failures)
        failed = report.commands[-1]
        how = "timed out" if failed.timed_out else f"ended with status {failed.status}"
        if failures < MAX_VERIFY_FAILURES:
            text = (
                f"The work is not accepted yet: `{failed.command}` {how}. Mend it, then finish.\n"
                f"The end of its output:\n\n{failed.output}"
            )
            return [*outputs, *self._persist(), *self._say(f"verify:{failures}", text)]
        if self._has_fallback():
            reason = f"`{failed.command}` {how} after {failures} attempts of {self._target()}"
            self._change(verify_failures=0)
            return [*outputs, *self._hand_off(reason, at)]
        reason = f"not accepted: `{failed.command}` {how} after {failures} attempts"
        return [*outputs, *self._finish(Trigger.FAIL, reason, at)]

    def _turn_failed(self, verdict: Verdict, ended: TurnEnded, at: datetime) -> Outputs:
        record = self.record
        target = self._target()
        outputs: Outputs = [asks.NoteFailure(target=target, verdict=verdict, at=at)]
        chance = zlib.crc32(f"{record.sid}:{record.attempts}".encode()) / 2**32
        decision = decide(
            verdict,
            self.policy.retry,
            now=at,
            attempt=record.attempts,
            has_fallback=self._has_fallback(),
            random=chance,
        )
        words = ended.error.text.strip() if ended.error else ""
        outputs += self._note(
            at,
            "failure",
            {
                "target": str(target),
                "class": verdict.failure,
                "resetsAt": verdict.resets_at.isoformat() if verdict.resets_at else None,
                "why": verdict.why,
                "text": words[:500],
                "decision": type(decision).__name__,
            },
        )
        reason = f"{target}: {verdict.failure.replace('_', ' ')}" + (f" ({words[:160]})" if words else "")
        match decision:
            case Retry():
                outputs += self._ask_again(reason, decision.at, at)
            case HandOff():
                fresh = verdict.failure is FailureClass.CONTEXT_OVERFLOW
                outputs += self._hand_off(reason, at, fresh=fresh)
            case Wait():
                attempts = record.attempts + 1
                outputs += self._hand_off(
                    reason, at, wake_at=decision.until, prefer=target, attempts=attempts
                )
            case AskUser():
                wait = f"{reason}. {decision.hint}".strip()
                outputs += self._hand_off(reason, at, hold=True, wait_reason=wait, prefer=target)
            case _:
                outputs += self._hand_off(reason, at)
        return outputs

    def _ask_again(self, reason: str, when: datetime, at: datetime) -> Outputs:
        attempts = self.record.attempts + 1
        if self._live.alive:
            return self._fire(
                Trigger.BACK_OFF,
                at,
                reason=reason,
                wait_reason=reason,
                wake_at=when,
                in_place_retry=True,
                attempts=attempts,
            )
        return self._hand_off(reason, at, wake_at=when, prefer=self._target(), attempts=attempts)
