"""The session rules on the end of a turn: is the work accepted, and what follows when it failed."""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from relay.core import asks, effects, reports
from relay.core.events import FailureClass, TaskStatus, TurnEnded, Verdict
from relay.core.fsm import State, Trigger
from relay.core.record import AdoptMode
from relay.core.retry import AskUser, HandOff, Retry, Wait, decide
from relay.core.session_live import Outputs
from relay.core.session_steps import SessionSteps

MAX_VERIFY_FAILURES = 3
MAX_NUDGES = 1
MAX_OVERFLOWS = 2


class SessionEnds(SessionSteps):
    """See the module."""

    def _acted(self) -> None:
        """The turns that have ended so far are dealt with, also after a restart."""
        self._change(turns_acted=self._live.turns_ended)

    def _turn_completed(self, at: datetime) -> Outputs:
        outputs: Outputs = [asks.NoteSuccess(target=self._target(), at=at)]
        record = self.record
        self._change(attempts=0, refused=False)
        adopted = record.options.adopted
        if adopted is not None and adopted.mode is not AdoptMode.CONTINUE:
            # Once it has waited, it goes on like any other.
            heard = evolve(adopted, mode=AdoptMode.CONTINUE)
            self._change(options=evolve(record.options, adopted=heard))
            self._acted()
            wait = "the agent has read the brief and waits for your word: `relay reply`"
            return [*outputs, *self._hand_off(wait, at, hold=True, prefer=self._target())]
        if record.options.verify:
            return [*outputs, *self._verify()]
        self._acted()
        left = [item.text for item in self.facts.plan if item.status is not TaskStatus.COMPLETED]
        if left and record.nudges < MAX_NUDGES:
            self._change(nudges=record.nudges + 1)
            tasks = "\n".join(f"- {text}" for text in left)
            text = f"Your plan still has open items:\n{tasks}\nFinish them, or say why they are not needed."
            return [*outputs, *self._say(text, at)]
        note = f"; the agent left {len(left)} of its tasks open" if left else ""
        return [
            *outputs,
            *self._finish(Trigger.COMPLETE, f"the agent is done; nothing verified it{note}", at),
        ]

    def _verify(self) -> Outputs:
        record = self.record
        self._verifying = True
        return [
            effects.RunVerify(
                key=self._verify_key,
                record=record,
                commands=record.options.verify,
                timeout=record.options.verify_timeout,
            )
        ]

    @property
    def _verify_key(self) -> str:
        run = self.record.run
        return f"verify:{run.number if run else 0}:{self._live.turns_ended}"

    def _verified(self, report: reports.VerifyDone) -> Outputs:
        at = report.at
        checked = [
            {"command": c.command, "status": c.status, "seconds": round(c.seconds, 3), "passed": c.passed}
            for c in report.commands
        ]
        outputs = self._note(at, "verify", {"passed": report.passed, "commands": checked})
        stale = report.key != self._verify_key
        self._verifying = self._verifying and stale
        if stale or self._ahead.state is not State.RUNNING or self.record.ending:
            return outputs
        self._acted()
        if report.passed:
            self._change(verified=True, verify_failures=0)
            return [*outputs, *self._finish(Trigger.COMPLETE, "the acceptance commands passed", at)]
        return [*outputs, *self._not_accepted(report.commands[-1], at)]

    def _not_accepted(self, failed: reports.CommandChecked, at: datetime) -> Outputs:
        failures = self.record.verify_failures + 1
        self._change(verified=False, verify_failures=failures)
        how = "timed out" if failed.timed_out else f"ended with status {failed.status}"
        text = (
            f"The work is not accepted yet: `{failed.command}` {how}. Mend it, then finish.\n"
            f"The end of its output:\n\n{failed.output}"
        )
        if failures < MAX_VERIFY_FAILURES:
            return self._say(text, at)
        if self._has_fallback():
            reason = f"`{failed.command}` {how} after {failures} attempts of {self._target()}"
            self._change(verify_failures=0)
            self._queue(text)
            return self._hand_off(reason, at)
        reason = f"not accepted: `{failed.command}` {how} after {failures} attempts"
        return self._finish(Trigger.FAIL, reason, at)

    def _turn_failed(self, verdict: Verdict, ended: TurnEnded, at: datetime) -> Outputs:
        record = self.record
        target = self._target()
        outputs: Outputs = [self._failure_noted(target, verdict, at)]
        refused = verdict.failure is FailureClass.REFUSAL
        decision = decide(
            verdict,
            self.policy.retry,
            now=at,
            attempt=record.attempts,
            has_fallback=self._has_fallback() and not (refused and record.refused),
            random=self._chance,
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
                outputs += self._move_on(reason, verdict.failure, at)
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

    def _move_on(self, reason: str, failure: FailureClass, at: datetime) -> Outputs:
        if failure is not FailureClass.CONTEXT_OVERFLOW:
            return self._hand_off(reason, at, refused=failure is FailureClass.REFUSAL)
        attempts = self.record.attempts + 1
        if attempts <= MAX_OVERFLOWS:
            return self._hand_off(reason, at, fresh=True, attempts=attempts)
        if self._has_fallback():
            return self._hand_off(reason, at)
        wait = f"{reason}. Even a fresh start does not fit: make the task smaller, then resume."
        return self._hand_off(reason, at, hold=True, wait_reason=wait, prefer=self._target())

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
