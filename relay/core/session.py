"""The rules of one session: events, reports and commands in, effects and asks out.

Owned by the SessionActor, one instance each; pure, so that every order of events and a crash after
every step can be tried without an actor. A transition is saved before its state is entered
(`_fire` -> SaveSession -> `SessionSaved` -> the state's steps); triggers that come meanwhile wait
their turn. The rules stand in layers, each on the one before: `session_base` (record and transitions),
`session_steps`, `session_turns`, `session_reports`, and here what people and programs ask.
"""

from __future__ import annotations

from relay.core import asks, commands, effects
from relay.core.fsm import State, Trigger
from relay.core.session_live import Outputs, SessionPolicy
from relay.core.session_reports import SessionReports

__all__ = ["Outputs", "Session", "SessionPolicy"]


class Session(SessionReports):
    """One task, carried from agent to agent. See the module and `SessionBase`."""

    def command(self, command: commands.Command) -> tuple[commands.Answer, Outputs]:
        """What a person or program asks; the answer says whether it will be done."""
        at = command.at
        record = self.record
        name = type(command).__name__
        outputs = self._note(at, "command", {"command": name, "by": command.by})
        if isinstance(command, commands.Merge | commands.Discard):
            return self._close_work(command, outputs)
        if record.ended or record.ending:
            what = f"is already {record.state}" if record.ended else "is ending"
            hint = "`relay status` lists the sessions that are not over"
            return commands.Refused(code="conflict", message=f"{record.sid} {what}", hint=hint), []
        match command:
            case commands.Stop():
                outputs += self._finish(Trigger.STOP, f"stopped by {command.by}", at)
            case commands.HandOff():
                return self._command_hand_off(command, outputs)
            case commands.Pause():
                if record.hold:
                    return commands.Accepted(data={"state": record.state}), []
                if record.state is State.WAITING and not self._live.alive:
                    self._change(hold=True, wait_reason=f"paused by {command.by}")
                    cancel = effects.CancelTimer(key="wake")
                    return commands.Accepted(data={"state": record.state}), [
                        *outputs,
                        cancel,
                        *self._persist(),
                    ]
                reason = f"paused by {command.by}"
                if record.state in (State.RUNNING, State.RESUMING, State.WAITING):
                    outputs += self._hand_off(reason, at, hold=True, prefer=self._target())
                else:
                    self._change(hold=True, wait_reason=reason)
            case commands.Resume():
                return self._command_resume(command, outputs)
            case commands.Reply():
                return self._command_reply(command, outputs)
        return commands.Accepted(data={"state": self.record.state}), outputs

    def _command_hand_off(
        self, command: commands.HandOff, outputs: Outputs
    ) -> tuple[commands.Answer, Outputs]:
        record, to = self.record, command.to
        reason = f"asked for by {command.by}"
        if record.state in (State.RUNNING, State.RESUMING):
            if to is None and not self._has_fallback():
                message = f"{record.sid} has nobody to hand over to"
                hint = "name one: `relay handoff --to provider[/account]`"
                return commands.Refused(code="conflict", message=message, hint=hint), []
            outputs += self._hand_off(reason, command.at, prefer=to, insist=to is not None)
        elif record.state is State.WAITING:
            if self._live.gone:
                outputs += self._fire(
                    Trigger.WAKE,
                    command.at,
                    hold=False,
                    wake_at=None,
                    prefer=to,
                    insist=to is not None,
                    reason=reason,
                    skipped=(),
                )
            else:
                outputs += self._hand_off(reason, command.at, prefer=to, insist=to is not None)
        else:
            self._change(prefer=to or record.prefer, insist=to is not None, hold=False)
        return commands.Accepted(data={"state": self.record.state}), outputs

    def _command_resume(self, command: commands.Resume, outputs: Outputs) -> tuple[commands.Answer, Outputs]:
        record = self.record
        self._change(hold=False)
        if record.state is State.WAITING:
            # A person who says "go on" has a reason to think that it can: try, whatever the breaker says.
            self._change(prefer=record.prefer or self._target(), insist=True)
            outputs.append(effects.CancelTimer(key="wake"))
            outputs += self._wake(command.at)
        elif not record.hold:
            message = f"{record.sid} is {record.state}, not waiting"
            return commands.Refused(code="conflict", message=message), []
        return commands.Accepted(data={"state": self.record.state}), outputs

    def _command_reply(self, command: commands.Reply, outputs: Outputs) -> tuple[commands.Answer, Outputs]:
        at, record = command.at, self.record
        self.facts.replied(command.text)
        outputs += self._note(at, "reply", {"text": command.text, "by": command.by})
        for request_id, asked in tuple(self._live.permissions.items()):
            if asked.question:
                close = asks.CloseApprovals(sid=record.sid, run=record.runs[-1].number, at=at)
                answered = [*outputs, close, *self._answer(request_id, True, command.text)]
                return commands.Accepted(data={"answered": asked.question}), answered
        if record.state is State.RUNNING and self._live.alive:
            outputs += self._say(f"reply:{at.isoformat()}", command.text)
            return commands.Accepted(data={"state": record.state}), outputs
        self._change(replies=(*record.replies, command.text))
        if record.state is State.WAITING and record.hold:
            self._change(hold=False)
            outputs += self._wake(at)
            return commands.Accepted(data={"state": record.state}), outputs
        return commands.Accepted(data={"queued": True}), [*outputs, *self._persist()]

    def _close_work(
        self, command: commands.Merge | commands.Discard, outputs: Outputs
    ) -> tuple[commands.Answer, Outputs]:
        record = self.record
        verb = "merge" if isinstance(command, commands.Merge) else "discard"
        problem = ""
        if not record.ended:
            problem = f"{record.sid} is {record.state}; stop it before you {verb} it"
        elif record.discarded:
            problem = f"{record.sid} was discarded"
        elif not record.branch:
            problem = f"{record.sid} worked in place: there is no branch to {verb}"
        elif self._merging:
            problem = f"{record.sid} is being merged or discarded"
        if problem:
            return commands.Refused(code="conflict", message=problem), []
        self._merging = True
        if isinstance(command, commands.Merge):
            outputs.append(effects.MergeSession(key="merge", record=record))
        else:
            outputs.append(effects.DiscardSession(key="discard", record=record, force=command.force))
        return commands.Pending(key=verb), outputs
