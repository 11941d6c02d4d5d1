"""The SessionActor: turns messages into calls of the session rules, and their answers into sends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, get_args

from attrs import evolve
from thespian.actors import ActorExitRequest

from relay.actors.adapter import AdapterActor
from relay.actors.base import Address, RelayActor, Wiring
from relay.actors.messages import (
    Answered,
    ApprovalDecided,
    CaughtUp,
    CommandSession,
    CreateSession,
    InterruptRefused,
    Observe,
    Recover,
    SafePointReached,
    Said,
    SayRefused,
    SessionChanged,
)
from relay.core import asks, effects, reports
from relay.core.adoption import known_before, words_for
from relay.core.commands import Accepted, Pending, Refused
from relay.core.facts import SessionFacts
from relay.core.fsm import State
from relay.core.record import SessionRecord
from relay.core.redact import DEFAULT
from relay.core.session import Outputs, Session, SessionPolicy
from relay.core.session_base import begun_data
from relay.core.wire import from_wire

LOAD_RETRY_SECONDS = 30.0
_EFFECTS = get_args(effects.Effect)
_TO_ADAPTER = get_args(asks.ToAdapter)
_TO_POOL = get_args(asks.ToPool)
_TO_DESK = get_args(asks.ToDesk)
_REPORTS = get_args(reports.Report)


class SessionActor(RelayActor):
    """One session. See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._creating: CreateSession | None = None
        self._recovering: Recover | None = None
        self._rules: Session | None = None
        self._told: SessionChanged | None = None
        self._adapter: Address = None
        self._adapter_run = 0
        self._awaited: dict[str, tuple[str, Accepted | None]] = {}
        self._queued: list[CommandSession] = []
        self._unreadable = ""
        self._begun: effects.JournalEntry | None = None
        self._refused: Refused | None = None

    # -- life --------------------------------------------------------------------------------

    def receive_CreateSession(self, message: CreateSession, sender: Address) -> None:
        """A new session: first a place to work."""
        self._creating = message
        prepare = effects.PrepareWorktree(
            key="worktree",
            sid=message.sid,
            repository=message.repository,
            options=message.options,
            facts=message.facts,
        )
        self.want(prepare)

    def receive_WorktreePrepared(self, report: reports.WorktreePrepared, sender: Address) -> None:
        """The place stands: the session exists once it is saved."""
        asked = self._creating
        if asked is None or self._rules is not None:
            return
        record = SessionRecord(
            sid=asked.sid,
            repository=report.repository,
            worktree=report.worktree,
            branch=report.branch,
            options=asked.options,
            created_at=asked.at,
            updated_at=report.at,
            state=State.ENVELOPE_BUILT,
            base_commit=report.base_commit,
            notes=report.notes,
            replies=words_for(asked.options.adopted, report.worktree),
        )
        goal = DEFAULT.redact(asked.options.goal).text
        facts = known_before(_facts(asked.facts), goal, report.worktree)
        self._rules = Session(record, facts, from_wire(asked.policy, SessionPolicy))
        self._begun = effects.JournalEntry(
            repository=record.repository,
            session=record.sid,
            type="session",
            at=report.at,
            data={**begun_data(record), "carriedFiles": report.carried_files},
        )
        saving = self._rules.opened(report.at)
        created = Accepted(
            data={
                "sessionId": record.sid,
                "worktree": record.worktree,
                "branch": record.branch,
                "notes": list(record.notes),
            }
        )
        self._await_save(saving, asked.correlation, created)
        self._carry_out(saving)

    def receive_Recover(self, message: Recover, sender: Address) -> None:
        """A session of an earlier life, or after a crash of this actor: first, all of it is in the log."""
        self._recovering = message
        confirm = asks.Confirm(key="recover", repository=message.repository, at=message.at)
        self.send(self.wires.journal, confirm)

    def receive_Recorded(self, report: reports.Recorded, sender: Address) -> None:
        """The log holds what was recorded before."""
        if self._rules is not None:
            self._carry_out(self._rules.report(report))
        else:
            self._load()

    def _load(self) -> None:
        asked = self._recovering
        if asked is not None and self._rules is None:
            self.want(effects.LoadSession(key="load", sid=asked.sid, repository=asked.repository))

    def receive_SessionLoaded(self, report: reports.SessionLoaded, sender: Address) -> None:
        """Go on from where the record stands."""
        if self._recovering is None or self._rules is not None:
            return
        policy = from_wire(self._recovering.policy, SessionPolicy)
        self._rules = Session(report.record, report.facts, policy)
        self._carry_out(self._rules.recovered(report.places, report.at, report.unlogged))
        queued, self._queued = self._queued, []
        for message in queued:
            self.receive_CommandSession(message, self.wires.supervisor)

    # -- commands ----------------------------------------------------------------------------

    def receive_CommandSession(self, message: CommandSession, sender: Address) -> None:
        """A person or program asks."""
        if self._refused is not None:
            self.send(self.wires.facade, Answered(correlation=message.correlation, answer=self._refused))
            return
        if self._rules is None:
            self._queued.append(message)
            if self._unreadable:
                self._load()
            return
        answer, outputs = self._rules.command(message.command)
        if isinstance(answer, Pending):
            self._awaited[answer.key] = (message.correlation, None)
        elif not isinstance(answer, Accepted) or not self._await_save(outputs, message.correlation, answer):
            self.send(self.wires.facade, Answered(correlation=message.correlation, answer=answer))
        self._carry_out(outputs)

    def _await_save(self, outputs: Outputs, correlation: str, answer: Accepted) -> bool:
        """Answer once what was asked for is on disk, if it is being saved."""
        keys = [output.key for output in outputs if isinstance(output, effects.SaveSession)]
        if keys:
            self._awaited[keys[-1]] = (correlation, answer)
        return bool(keys)

    def receive_ApprovalDecided(self, message: ApprovalDecided, sender: Address) -> None:
        """The desk has an answer."""
        if self._rules is not None:
            rules = self._rules
            self._carry_out(
                rules.approval_decided(message.run, message.request_id, message.allowed, message.note)
            )

    # -- from the adapter --------------------------------------------------------------------

    def receive_Observe(self, message: Observe, sender: Address) -> None:
        """Events of the current run."""
        if self._rules is not None and message.run == self._adapter_run:
            self._carry_out(self._rules.observed(message.events, known=message.known))

    def receive_CaughtUp(self, message: CaughtUp, sender: Address) -> None:
        """All that was known has been read again."""
        if self._rules is not None and message.run == self._adapter_run:
            self._carry_out(self._rules.caught_up(message.at))

    def receive_SafePointReached(self, message: SafePointReached, sender: Address) -> None:
        """No tool call is open."""
        if self._rules is not None:
            self._carry_out(self._rules.safe_point(message.run, message.at))

    def receive_Said(self, message: Said, sender: Address) -> None:
        """The agent has the message."""
        if self._rules is not None:
            self._carry_out(self._rules.said(message.key, message.at))

    def receive_SayRefused(self, message: SayRefused, sender: Address) -> None:
        """The agent takes no message now."""
        if self._rules is not None and message.run == self._adapter_run:
            self._carry_out(self._rules.say_refused(message.key, message.at))

    def receive_InterruptRefused(self, message: InterruptRefused, sender: Address) -> None:
        """Only signals can stop this agent."""
        if self._rules is not None:
            self._carry_out(self._rules.interrupt_refused(message.at))

    # -- reports -----------------------------------------------------------------------------

    def receive_other(self, message: Any, sender: Address) -> None:
        """Reports go to the rules as they are."""
        if not isinstance(message, _REPORTS):
            super().receive_other(message, sender)
            return
        if self._rules is None:
            self._failed_to_begin(message)
            return
        if self._refused is not None:
            self._undone(message)
            return
        if self._begun is not None and self._not_begun(self._rules.record, message):
            return
        self._answer_awaited(message)
        self._carry_out(self._rules.report(message))

    def _failed_to_begin(self, report: reports.Report) -> None:
        if isinstance(report, reports.TimerFired):
            self._load()
        if not isinstance(report, reports.EffectFailed):
            return
        refused = Refused(code=report.code, message=report.message, hint=report.hint)
        waiting = [self._creating.correlation] if self._creating else []
        waiting += [message.correlation for message in self._queued]
        for correlation in waiting:
            self.send(self.wires.facade, Answered(correlation=correlation, answer=refused))
        unheard_of = self._recovering is not None and not self._recovering.exists
        if self._recovering is None or (unheard_of and report.code == "not_found"):
            self.send(self.myAddress, ActorExitRequest())
            return
        # Its agent may be at work: it must not be forgotten until the next start.
        self._queued = []
        if report.message != self._unreadable:
            self._unreadable = report.message
            data = {"problem": report.message, "unread": self._recovering.sid}
            entry = effects.JournalEntry(
                repository="", session="", type="unreadable_session", at=report.at, data=data
            )
            self.send(self.wires.journal, asks.Record(entries=(entry,)))
        again = report.at + timedelta(seconds=LOAD_RETRY_SECONDS)
        self.want(effects.SetTimer(key="load-again", at=again))

    def _not_begun(self, record: SessionRecord, report: reports.Report) -> bool:
        """A new session's first save: it is begun, or refused and what was made for it is taken away."""
        match report:
            case reports.SessionSaved() if self._begun is not None:
                begun, self._begun = self._begun, None
                self._carry_out([asks.Record(entries=(begun,))])
            case reports.EffectFailed(effect="SaveSession"):
                self._refused = Refused(code=report.code, message=report.message, hint=report.hint)
                undo = effects.UndoWorktree(
                    key="undo",
                    sid=record.sid,
                    repository=record.repository,
                    worktree=record.worktree,
                    branch=record.branch,
                )
                self.want(undo)
                return True
        return False

    def _undone(self, report: reports.Report) -> None:
        """Nothing of a refused session is left, or it is said what; then whoever asked is told."""
        if self._refused is None or report.key != "undo":
            return
        refused = self._refused
        if isinstance(report, reports.EffectFailed):
            left = f"What was made for it could not be taken away: {report.message}"
            refused = evolve(refused, hint=f"{refused.hint}. {left}".lstrip(". "))
        for correlation, _ in self._awaited.values():
            self.send(self.wires.facade, Answered(correlation=correlation, answer=refused))
        self._awaited.clear()
        self.send(self.myAddress, ActorExitRequest())

    def _answer_awaited(self, report: reports.Report) -> None:
        correlation, prepared = self._awaited.pop(report.key, ("", None))
        if not correlation:
            return
        match report:
            case reports.EffectFailed():
                answer: Accepted | Refused = Refused(
                    code=report.code, message=report.message, hint=report.hint
                )
            case reports.SessionMerged():
                data = {"branch": report.branch, "commit": report.commit, "files": report.files}
                answer = Accepted(data=data)
            case reports.SessionDiscarded():
                answer = Accepted(data={"keptAs": report.kept_as, "hint": report.hint})
            case _:
                answer = prepared or Accepted()
        self.send(self.wires.facade, Answered(correlation=correlation, answer=answer))

    # -- outputs -----------------------------------------------------------------------------

    def _carry_out(self, outputs: Outputs) -> None:
        for output in outputs:
            if isinstance(output, _EFFECTS):
                self.want(output)
            elif isinstance(output, asks.AttachRun):
                self._attach(output)
            elif isinstance(output, _TO_ADAPTER):
                if self._adapter is not None and output.run == self._adapter_run:
                    self.send(self._adapter, output)
                    if isinstance(output, asks.DetachRun):
                        self._retire_adapter()
            elif isinstance(output, _TO_POOL):
                self.send(self.wires.pool, output)
            elif isinstance(output, _TO_DESK):
                self.send(self.wires.desk, output)
            else:
                self.send(self.wires.journal, output)
        if self._rules is not None and self._begun is None:
            changed = SessionChanged(record=self._rules.record, live=self._rules.live_state)
            if changed != self._told:
                self._told = changed
                self.send(self.wires.supervisor, changed)

    def _attach(self, ask: asks.AttachRun) -> None:
        self._retire_adapter()
        self._adapter = self.createActor(AdapterActor)
        self._adapter_run = ask.run
        wires = self.wires
        name = f"{wires.name}/run-{ask.run}"
        wiring = Wiring(
            name=name, supervisor=self.myAddress, port=wires.port, facade=wires.facade, journal=wires.journal
        )
        self.send(self._adapter, wiring)
        self.send(self._adapter, ask)

    def receive_ActorCrashed(self, message: Any, sender: Address) -> None:
        """The adapter crashed: this session starts again from the store, adapter and all."""
        raise RuntimeError(f"{message.name} crashed on {message.message}")

    def _retire_adapter(self) -> None:
        if self._adapter is not None:
            self.send(self._adapter, ActorExitRequest())
            self._adapter = None


def _facts(wire: Mapping[str, Any] | None) -> SessionFacts | None:
    return None if wire is None else from_wire(wire, SessionFacts)
