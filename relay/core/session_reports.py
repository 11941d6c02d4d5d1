"""The session rules on what came of effects, and how a session begins or is taken up again."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve

from relay.core import asks, effects, reports
from relay.core.fsm import State, Step, Trigger, redo
from relay.core.record import Run
from relay.core.session_base import OVER
from relay.core.session_live import LiveRun, Outputs
from relay.core.session_steps import WAKE_JITTER
from relay.core.session_turns import SessionTurns

SAVE_RETRY_SECONDS = 5.0
EFFECT_RETRY_SECONDS = 30.0
CONTRACT_REFUSED = ("integrity", "pair_incomplete", "newer_format", "not_found")
"""Codes of a contract that must not be injected: the session ends and says so."""


class SessionReports(SessionTurns):
    """See the module."""

    def opened(self, at: datetime) -> Outputs:
        """A new session whose worktree stands: save it and look for its first agent.

        Of work that is adopted, a contract is written first.
        """
        if self.record.options.adopted is not None:
            self._change(state=State.SNAPSHOTTED)
            return self._move(self.record, (Step.SEAL_CONTRACT,), Trigger.SNAPSHOT_TAKEN)
        return self._move(self.record, (Step.CHOOSE_TARGET,), Trigger.WAKE)

    def recovered(self, places: effects.LastPlaces, at: datetime, unlogged: tuple[str, ...] = ()) -> Outputs:
        """A session found on disk after a restart: do its state's steps again."""
        self._places = places
        outputs = self._catch_up_log(unlogged, at)
        outputs += self._note(at, "session", {"recovered": True, "state": self.record.state})
        run = self.record.run
        if run is not None and self.record.state is not State.DISPATCHED:
            self._live.found = True
            self._live.gone = run.ended_at is not None
            # Until its output has been read again, it counts as working.
            self._live.alive = self._live.turn_open = not self._live.gone
        if self.record.ended:
            return [*outputs, *self._wind_up(at)]
        for step in redo(self.record.state):
            outputs += self._take(step, at)
        self._live.starting_again = self._live.starting
        if self.record.ending and self._live.gone:
            outputs += self._go_on_ending(at)
        return outputs

    def report(self, report: reports.Report) -> Outputs:
        """What came of an effect."""
        at = report.at
        match report:
            case reports.SessionSaved():
                return self._saved(report.key, at)
            case reports.PathsLocated():
                return self._located(report.key, not report.outside, at)
            case reports.NotRecorded():
                self._problem = f"the audit log can't be written: {report.problem}"
            case reports.Recorded() if report.key == OVER:
                return self._seal_runs()
            case reports.Recorded():
                return self._left(at) if report.key == self._gone_key else []
            case reports.TargetFree():
                return self._target_free(at)
            case reports.TargetChosen():
                return self._chosen(report)
            case reports.ChildStarted():
                return self._started(report)
            case reports.ChildEnded():
                return self._ended(report)
            case reports.ChildGone():
                return self._gone(report)
            case reports.SnapshotTaken():
                return self._snapshot_taken(report)
            case reports.ContractSealed():
                data = {"id": report.contract_id, "path": report.path, "hfsScore": self._fidelity}
                changes = {
                    "contract_id": report.contract_id,
                    "fidelity": (*self.record.fidelity, self._fidelity),
                }
                outputs = self._note(at, "contract", data)
                return [*outputs, *self._fire(Trigger.CONTRACT_SEALED, at, **changes)]
            case reports.VerifyDone():
                return self._verified(report)
            case reports.TimerFired():
                return self._timer(report.key, at)
            case reports.SessionMerged():
                self._merging = False
                self._change(merged_into=report.branch)
                data = {"branch": report.branch, "commit": report.commit, "files": report.files}
                return [*self._note(at, "merged", data), *self._persist()]
            case reports.SessionDiscarded():
                self._merging = False
                self._change(discarded=True)
                return [*self._note(at, "discarded", {"keptAs": report.kept_as}), *self._persist()]
            case reports.EffectFailed():
                return self._failed(report)
        return []

    def _chosen(self, report: reports.TargetChosen) -> Outputs:
        at, record = report.at, self.record
        if record.state is not State.ENVELOPE_BUILT or self._saving is not None:
            return []
        if record.ending:
            return self._go_on_ending(at)
        if record.hold:
            return self._fire(Trigger.HOLD, at)
        if report.target is None:
            over = "; ".join(f"{target}: {why}" for target, why in report.passed_over)
            wait = f"nobody to go on with now ({over})" if over else "nobody to go on with"
            if record.reason:
                wait = f"{wait}; {record.reason}"
            hold = report.wake_at is None
            return self._fire(
                Trigger.HOLD,
                at,
                wake_at=report.wake_at,
                wait_reason=wait,
                hold=hold,
                blocked=hold and bool(over),
                skipped=(),
            )
        before, record = record.run, self._without_unsaid(record)
        run = Run(number=before.number + 1 if before else 1, target=report.target, told=len(record.replies))
        if before and before.target.provider == run.target.provider and before.native_id and not record.fresh:
            run = evolve(run, native_resume=True, native_id=before.native_id)
        elif before is None and (native := self._adopted_native(run)):
            run = evolve(run, native_resume=True, native_id=native)
        handed = before is not None and before.target != run.target
        return self._fire(
            Trigger.TARGET_CHOSEN,
            at,
            runs=(*record.runs, run),
            handoffs=record.handoffs + (1 if handed else 0),
            attempts=0 if handed else record.attempts,
            replies=record.replies,
            unsaid=record.unsaid,
            turns_acted=record.turns_acted,
            wake_at=None,
            wait_reason="",
        )

    def _target_free(self, at: datetime) -> Outputs:
        """What it waits for may be there sooner than it was told, also while it only begins to wait."""
        record = self._ahead
        held = record.hold and not record.blocked
        if record.state is not State.WAITING or held or record.in_place_retry or record.ending:
            return []
        self._change(wake_at=at, hold=False, blocked=False)
        wake = effects.SetTimer(key="wake", at=at, jitter=WAKE_JITTER, through_sleep=True)
        return [*self._persist(), *([] if self._saving else [wake])]

    def _adopted_native(self, run: Run) -> str:
        """The adopted session's own id, when the first agent can resume it."""
        adopted = self.record.options.adopted
        if adopted is None or self.record.fresh or not adopted.resumed_by(run.target):
            return ""
        return adopted.native_id

    def _started(self, report: reports.ChildStarted) -> Outputs:
        run = self.record.run
        if run is None or run.number != report.run:
            return []
        live = self._live
        live.starting, live.alive, live.gone = False, True, False
        live.found = report.found_alive
        # Its first message is on its way.
        live.turn_open = True
        live.native_id = report.native_id
        data = {
            "run": report.run,
            "target": str(run.target),
            "pid": report.pid,
            "nativeResume": bool(report.native_id),
            "drift": list(report.drift),
            "notes": list(report.notes),
        }
        self._change_run(run.number, started_at=report.at, native_resume=bool(report.native_id))
        outputs = self._note(report.at, "dispatched", data)
        if self.record.ending:
            return [*outputs, *self._follow(report.at), *self._end_child(report.at)]
        return [*outputs, *self._fire(Trigger.CHILD_STARTED, report.at)]

    def _ended(self, report: reports.ChildEnded) -> Outputs:
        run = self.record.run
        if run is None or run.number != report.run:
            return []
        live = self._live
        live.alive, live.turn_open, live.drained = False, False, True
        self._change_run(run.number, status=report.status)
        outputs = self._note(report.at, "child_ended", {"run": report.run, "status": report.status})
        if live.end is not None:
            return [*outputs, *self._bring_in(report.at)]
        if self._saving is None and (self.record.state is State.PAUSING or self.record.ending):
            return [*outputs, *self._end_child(report.at)]
        return [*outputs, *self._settle(report.at)]

    def _gone(self, report: reports.ChildGone) -> Outputs:
        """Nothing of the run is alive; what it printed is brought into the log before it is left."""
        run, live = self.record.run, self._live
        if run is None or run.number != report.run or live.gone or live.end is not None:
            return []
        live.alive, live.turn_open, live.end = False, False, report
        return [] if live.attached and not live.drained else self._bring_in(report.at)

    @property
    def _gone_key(self) -> str:
        run = self.record.run
        return f"gone:{run.number if run else 0}"

    def _bring_in(self, at: datetime) -> Outputs:
        end = self._live.end
        if end is None:
            return []
        data = {"run": end.run, "how": end.how, "left": list(end.left)}
        entry = self._entry(at, "child_gone", data)
        confirm = asks.Confirm(key=self._gone_key, repository=self.record.repository, at=at)
        return [asks.Record(entries=(entry,), sync=True), confirm]

    def _left(self, at: datetime) -> Outputs:
        run, live, end = self.record.run, self._live, self._live.end
        if run is None or end is None:
            return []
        live.gone, live.ending, live.end = True, False, None
        self._places = effects.LastPlaces()
        status = run.status if end.status is None else end.status
        self._change_run(run.number, ended_at=end.at, status=status, why_ended=run.why_ended or end.how)
        outputs: Outputs = [asks.DetachRun(run=run.number)]
        if end.left:
            pids = ", ".join(str(pid) for pid in end.left)
            reason = f"processes of {run.target} would not end: {pids}; end them by hand"
            self._change(ending=Trigger.FAIL.value, end_reason=reason)
        if self.record.ended:
            return [*outputs, *self._persist()]
        failure, live.start_failure = live.start_failure, None
        if failure is not None:
            return [*outputs, *self._start_given_up(failure, at)]
        if self._saving is not None:
            # The steps of the state that is being saved find it gone.
            return outputs
        if self.record.ending or self.record.state is State.PAUSING:
            return [*outputs, *self._take_snapshot()]
        if self.record.state is State.RESUMING:
            return [*outputs, *self._start_failed(at)]
        return outputs

    def _snapshot_taken(self, report: reports.SnapshotTaken) -> Outputs:
        at = report.at
        self._snapshot, self._snapshotting = report, False
        # One that was made before a crash is found made: the commit says whether it is new.
        new = report.commit != (self.record.snapshot_commit or self.record.base_commit)
        number = max(self.record.snapshots, report.number) if new else self.record.snapshots
        changes = {"snapshots": number, "snapshot_commit": report.commit}
        outputs = self._note(
            at,
            "snapshot",
            {
                "number": report.number,
                "commit": report.commit,
                "made": report.made,
                "files": len(report.changed),
                "diffStat": report.diff_stat,
                "leftOut": list(report.left_out),
                "notes": list(report.notes),
            },
        )
        if self.record.ending:
            return [*outputs, *self._fire(Trigger(self.record.ending), at, **changes)]
        if self.record.state is State.SNAPSHOTTED:
            return [*outputs, *self._seal_contract(at)]
        return [*outputs, *self._fire(Trigger.SNAPSHOT_TAKEN, at, **changes)]

    def _timer(self, key: str, at: datetime) -> Outputs:
        record = self.record
        match key:
            case "gate":
                return self._pass_gate(at, forced=True)
            case "interrupt" if self._live.interrupting:
                return self._end_child(at)
            case "heartbeat" if self._no_life:
                seconds = round(record.options.heartbeat)
                return self._end_failed_start(f"no sign of life within {seconds} s", at)
            case "wake" if record.state is State.WAITING and not record.hold:
                return self._wake(at)
            case "settle":
                return self._settle(at)
            case "save-again":
                return self._save_again()
            case "snapshot-again" if self._saving is None and not record.ended:
                due = record.ending or record.state in (State.PAUSING, State.SNAPSHOTTED)
                return self._take_snapshot() if due and self._live.gone else []
            case "end-again" if record.run and self._live.ending and self._live.end is None:
                if self._saving is None:
                    return [self._end_effect(record.run)]
                return [effects.SetTimer(key=key, at=at + timedelta(seconds=SAVE_RETRY_SECONDS))]
            case "follow-again":
                return self._follow(at)
            case "seal-again" if self._saving is None and record.state is State.SNAPSHOTTED:
                return self._seal_contract(at)
        return []

    @property
    def _no_life(self) -> bool:
        """The agent is awaited, and nothing has been decided about it."""
        live = self._live
        waits = self.record.state is State.RESUMING and self._saving is None
        return waits and not live.seen_life and not live.ending

    def _failed(self, report: reports.EffectFailed) -> Outputs:
        at = report.at
        data = {"effect": report.effect, "code": report.code, "message": report.message, "hint": report.hint}
        outputs = self._note(at, "effect_failed", data)
        later = at + timedelta(seconds=EFFECT_RETRY_SECONDS)
        self._problem = f"{report.message}. {report.hint}".strip(". ")
        match report.effect:
            case "SaveSession":
                soon = at + timedelta(seconds=SAVE_RETRY_SECONDS)
                return [*outputs, effects.SetTimer(key="save-again", at=soon)]
            case "StartChild":
                return [*outputs, *self._not_started(report)]
            case "TakeSnapshot":
                self._snapshotting = False
                self._change(wait_reason=f"the snapshot failed: {report.message}")
                return [*outputs, effects.SetTimer(key="snapshot-again", at=later)]
            case "SealContract":
                self._change(wait_reason=f"the contract could not be written: {report.message}")
                return [*outputs, effects.SetTimer(key="seal-again", at=later)]
            case "LocatePaths":
                return [*outputs, *self._located(report.key, False, at)]
            case "RunVerify":
                return [*outputs, *self._not_verified(report)]
            case "EndChild":
                self._change(wait_reason=f"the agent would not end: {report.message}")
                return [*outputs, effects.SetTimer(key="end-again", at=later)]
            case "FollowChild":
                return [*outputs, *self._not_followed(at)]
            case "WriteChild":
                reason = f"{self._target()} can't be told anything: {report.message}"
                return [*outputs, *self._hand_off(reason, at, prefer=self._target())]
            case "MergeSession" | "DiscardSession":
                self._merging = False
        return outputs

    def _not_started(self, report: reports.EffectFailed) -> Outputs:
        """Something of it may run all the same: an earlier life's child, or what a failed start left."""
        at, run, live = report.at, self.record.run, self._live
        live.starting, live.gone, live.turn_open, live.start_failure = False, False, True, report
        if run is None:
            return []
        self._change_run(run.number, why_ended=f"not started: {report.message}")
        follow = self._follow(at) if live.starting_again else []
        return [*follow, *self._end_child(at)]

    def _start_given_up(self, failure: reports.EffectFailed, at: datetime) -> Outputs:
        if failure.code in CONTRACT_REFUSED:
            return self._fire(Trigger.FAIL, at, end_reason=f"the contract is refused: {failure.message}")
        self._change(reason=f"{self._target()} could not be started: {failure.message}")
        return self._take_snapshot() if self.record.ending else self._start_failed(at)

    def _not_verified(self, report: reports.EffectFailed) -> Outputs:
        if report.key != self._verify_key:
            return []
        self._verifying = False
        self._acted()
        reason = f"the acceptance commands could not be run: {report.message}"
        return self._hand_off(reason, report.at, hold=True, prefer=self._target())

    def _not_followed(self, at: datetime) -> Outputs:
        """Its output can't be read now: try again, but do not let that keep it from being ended."""
        live = self._live
        live.attached = False
        if live.end is not None:
            return self._bring_in(at)
        if live.ending:
            return []
        if self.record.state is State.PAUSING or self.record.ending:
            return self._end_child(at)
        self._live = LiveRun(alive=True, gone=False, turn_open=True)
        return [effects.SetTimer(key="follow-again", at=at + timedelta(seconds=EFFECT_RETRY_SECONDS))]
