"""The session rules on what an agent does: its events, and what follows when its turn is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from relay.core import asks, effects
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
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    Verdict,
)
from relay.core.facts import HANDING_OVER
from relay.core.fsm import State, Trigger
from relay.core.session_ends import SessionEnds
from relay.core.session_live import Outputs
from relay.core.wire import event_to_wire

SETTLE_SECONDS = 2.0
LONG_RETRY_SECONDS = 300.0
DECISIVE = (AgentStarted, TurnEnded, PermissionAsked, QuotaReported)
"""Events that the session may act on at once, by its record."""
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


class SessionTurns(SessionEnds):
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
            self._journaled(batch)
        for seen in batch:
            if not known:
                self.facts.fold(seen)
            outputs += self._see(seen.event, seen.at, known=known)
        self._settle_tokens()
        if not known:
            outputs += self._settle(batch[-1].at)
        return outputs

    def _journaled(self, batch: Sequence[Observed]) -> None:
        """How far the run has come into the log: where following it anew would go on."""
        last = {(place.run, place.stream): place for place in self._places.places}
        for seen in batch:
            if not isinstance(seen.event, AgentTextDelta):
                last[(seen.place.run, seen.place.stream)] = seen.place
        self._places = effects.LastPlaces(places=tuple(last.values()))

    def caught_up(self, at: datetime) -> Outputs:
        """All that was known of the run has been read again: act on what was not acted on."""
        if self.record.ending:
            return self._go_on_ending(at)
        if self._live.long_retry:
            self._live.near_limit = self._live.long_retry
        outputs: Outputs = []
        for asked in tuple(self._live.permissions.values()):
            outputs += self._judge(asked, at)
        if self.record.state is State.RUNNING and self._saving is None:
            outputs += self._say_unsaid(at)
        return [*outputs, *self._settle(at)]

    def _see(self, event: AgentEvent, at: datetime, *, known: bool) -> Outputs:
        live = self._live
        if isinstance(event, DECISIVE):
            self._settle_tokens()
        if isinstance(event, SIGNS_OF_LIFE):
            live.seen_life = True
            live.long_retry = ""
        match event:
            case AgentStarted():
                live.native_id = event.native_id
                run = self.record.run
                if run and event.native_id and run.native_id != event.native_id:
                    self._change_run(run.number, native_id=event.native_id)
                    return [] if known else self._persist()
            case TurnStarted():
                live.turn_open, live.turn_end = True, None
            case AgentText() | AgentThinking() | ToolCall() if not live.answered:
                live.answered = True
                return [] if known else [asks.NoteAnswer(target=self._target(), at=at)]
            case TurnEnded():
                return self._see_turn_end(event, at, known=known)
            case PermissionAsked():
                live.permissions[event.request_id] = event
                return [] if known else self._judge(event, at)
            case ToolResult():
                for request_id, asked in tuple(live.permissions.items()):
                    if asked.call_id == event.call_id:
                        del live.permissions[request_id]
            case UsageReported():
                live.tokens += event.usage.total
                live.tokens_changed = True
            case Retrying() if (event.delay or 0.0) >= LONG_RETRY_SECONDS:
                why = f"{self._target()} would wait {event.delay:.0f} s by itself"
                live.long_retry, live.near_limit = (why, live.near_limit) if known else ("", why)
            case QuotaReported():
                return self._check_quota(event, at)
        return []

    def _see_turn_end(self, event: TurnEnded, at: datetime, *, known: bool) -> Outputs:
        live = self._live
        live.turn_open = live.answered = False
        live.turns_ended += 1
        live.turn_end = event if live.turns_ended > self.record.turns_acted else None
        if event.outcome is TurnOutcome.COMPLETED:
            live.seen_life = True
        outputs: Outputs = []
        if live.permissions and not known:
            run = self.record.run
            outputs.append(asks.CloseApprovals(sid=self.record.sid, run=run.number if run else 0, at=at))
        live.permissions.clear()
        return [*outputs, *self._end_child(at)] if live.interrupting else outputs

    def _judge(self, asked: PermissionAsked, at: datetime) -> Outputs:
        record, run = self.record, self.record.run
        if run is None:
            return []
        if record.state is State.PAUSING:
            return self._answer(asked.request_id, False, HANDING_OVER)
        allow, root = record.options.allow, record.worktree
        if judge(asked, allow, self.policy.approvals, worktree=root) is Judgement.ASK:
            return self._ask_person(asked, at)
        if allow == "all" or not asked.paths:
            return self._answer(asked.request_id, True, "")
        # By their names the paths lie inside; a link may still lead out.
        return [effects.LocatePaths(key=self._paths_key(asked.request_id), root=root, paths=asked.paths)]

    def _paths_key(self, request_id: str) -> str:
        return f"paths:{self.record.run.number if self.record.run else 0}:{request_id}"

    def _located(self, key: str, inside: bool, at: datetime) -> Outputs:
        """Where the paths of a request lead is known, or (`inside` false) could not be found out."""
        for request_id, asked in self._live.permissions.items():
            if self._paths_key(request_id) == key:
                return self._answer(request_id, True, "") if inside else self._ask_person(asked, at)
        return []

    def _ask_person(self, asked: PermissionAsked, at: datetime) -> Outputs:
        record, run = self.record, self.record.run
        if run is None:
            return []
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
            self._live.near_limit = f"{target} has used {used:.0%} of its quota"
        return outputs

    def _settle_tokens(self) -> None:
        """What was spent goes into the record once for many events."""
        if not self._live.tokens_changed:
            return
        self._live.tokens_changed = False
        if self.record.run:
            self._change_run(self.record.run.number, tokens=self._live.tokens)
        self._check_cap()

    def _check_cap(self) -> None:
        target = self._target()
        cap = dict(self.policy.declared_caps).get(target.provider, 0)
        used = sum(r.tokens for r in self.record.runs if r.target == target) / cap if cap else 0.0
        if cap and used >= self.record.options.threshold:
            self._live.near_limit = f"{target} has used {used:.0%} of its declared cap"

    def _leave_early(self, at: datetime) -> Outputs:
        """Hand off before the wall, once a run."""
        reason, self._live.near_limit = self._live.near_limit, ""
        return self._hand_off(reason, at) if reason and self._has_fallback() else []

    def _settle(self, at: datetime) -> Outputs:
        """Act on what has been seen, once no transition is under way."""
        live, record = self._live, self.record
        if self._saving is not None or record.ended or record.ending or live.ending:
            return []
        if record.state not in (State.RUNNING, State.RESUMING):
            return []
        if record.hold:
            return self._hand_off(record.wait_reason, at, hold=True, prefer=self._target())
        if record.state is State.RESUMING:
            return self._settle_start(at)
        failed = live.turn_end is not None and live.turn_end.outcome is TurnOutcome.FAILED
        if record.replies and live.alive and not failed:
            return self._say_waiting(at)
        if self._verifying:
            return []
        if live.turn_end is None:
            return self._lost_agent(at) if live.drained else self._leave_early(at)
        if live.said_in_turn and live.alive:
            # The message came in mid-turn: the agent may begin another turn for it.
            live.said_in_turn = False
            return [effects.SetTimer(key="settle", at=at + timedelta(seconds=SETTLE_SECONDS))]
        ended, live.turn_end = live.turn_end, None
        match ended.outcome:
            case TurnOutcome.COMPLETED:
                return self._turn_completed(at)
            case TurnOutcome.FAILED:
                self._acted()
                return self._turn_failed(ended.verdict or Verdict(failure=FailureClass.OTHER), ended, at)
            case TurnOutcome.INTERRUPTED:
                self._acted()
                return self._hand_off("the agent was interrupted from outside", at, hold=True)

    def _lost_agent(self, at: datetime) -> Outputs:
        """The agent ended, and there is no turn's end to say why."""
        if any(saying.keep for saying in self.record.unsaid):
            return self._relaunch(at)
        verdict = Verdict(failure=FailureClass.OTHER, why="the agent ended unasked")
        return self._turn_failed(verdict, TurnEnded(outcome=TurnOutcome.FAILED), at)

    def _settle_start(self, at: datetime) -> Outputs:
        ended = self._live.turn_end
        failure = ended.verdict.failure if ended and ended.verdict else FailureClass.OTHER
        # An agent that was refused by its provider did come up.
        if self._live.seen_life or failure not in (FailureClass.OTHER, FailureClass.NONE):
            replies = self._untold()
            return [
                effects.CancelTimer(key="heartbeat"),
                *self._fire(
                    Trigger.HEARTBEAT,
                    at,
                    skipped=(),
                    prefer=None,
                    insist=False,
                    fresh=False,
                    replies=replies,
                ),
            ]
        if ended is None:
            return []
        return self._end_failed_start(ended.error.text if ended.error else "it ended at once", at)

    def _end_failed_start(self, why: str, at: datetime) -> Outputs:
        self._live.turn_end = None
        self._change(reason=f"{self._target()} did not start: {why[:200]}")
        outputs: Outputs = [effects.CancelTimer(key="heartbeat")]
        outputs += self._note(at, "start_failed", {"target": str(self._target()), "why": why[:500]})
        return [*outputs, *self._end_child(at)]

    def _start_failed(self, at: datetime) -> Outputs:
        run = self.record.run
        if run is None:
            return []
        if self._live.found and run.status is None:
            # Agent and shim are gone without a status: the machine went down, and the target is not to blame.
            reason = f"{run.target} was gone before it showed life, as when the machine goes down"
            return self._fire(Trigger.START_FAILED, at, prefer=run.target, reason=reason)
        verdict = Verdict(failure=FailureClass.OTHER, why=self.record.reason)
        outputs: Outputs = [self._failure_noted(run.target, verdict, at)]
        if run.native_resume:
            changes: dict[str, Any] = {"fresh": True, "prefer": run.target}
        else:
            changes = {"skipped": (*self.record.skipped, run.target), "prefer": None}
        return [*outputs, *self._fire(Trigger.START_FAILED, at, **changes)]
