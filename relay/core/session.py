"""The rules of one session: events, reports and commands in, effects and asks out.

Owned by the SessionActor, one instance each; pure, so that every order of events and a crash after
every step can be tried without an actor. A transition is saved before its state is entered
(`_fire` -> SaveSession -> `SessionSaved` -> the state's steps); triggers that come meanwhile wait
their turn. The rules stand in layers, each on the one before: `session_base` (record and transitions),
`session_talk`, `session_steps`, `session_ends`, `session_turns`, `session_reports`, and here what people
and programs ask.
"""

from __future__ import annotations

from typing import Any

from relay.core import asks, commands, effects
from relay.core.fsm import State, Trigger
from relay.core.redact import DEFAULT
from relay.core.session_live import Outputs, SessionPolicy
from relay.core.session_reports import SessionReports

__all__ = ["Outputs", "Session", "SessionPolicy"]


class Session(SessionReports):
    """One task, carried from agent to agent. See the module and `SessionBase`."""

    def command(self, command: commands.Command) -> tuple[commands.Answer, Outputs]:
        """What a person or program asks; the answer says whether it will be done.

        It is decided by the state that is being saved, where one is.
        """
        at, record = command.at, self._ahead
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
                outputs += self._command_pause(command)
            case commands.Resume():
                return self._command_resume(command, outputs)
            case commands.Reply():
                return self._command_reply(command, outputs)
        return commands.Accepted(data={"state": self.record.state}), outputs

    def _command_pause(self, command: commands.Pause) -> Outputs:
        record = self._ahead
        reason = f"paused by {command.by}"
        if record.hold and not record.blocked:
            return []
        if record.state in (State.RUNNING, State.RESUMING):
            return self._hand_off(reason, command.at, hold=True, prefer=self._target())
        if record.state is State.WAITING and not self._live.gone:
            return self._hand_off(reason, command.at, hold=True, prefer=self._target())
        self._change(hold=True, blocked=False, wait_reason=reason)
        return [effects.CancelTimer(key="wake"), *self._persist()]

    def _command_hand_off(
        self, command: commands.HandOff, outputs: Outputs
    ) -> tuple[commands.Answer, Outputs]:
        record, to = self._ahead, command.to
        reason = f"asked for by {command.by}"
        named: dict[str, Any] = {"prefer": to, "insist": to is not None}
        running = record.state in (State.RUNNING, State.RESUMING)
        if running and to is None and not self._has_fallback():
            message = f"{record.sid} has nobody to hand over to"
            hint = "name one: `relay handoff --to provider[/account]`"
            return commands.Refused(code="conflict", message=message, hint=hint), []
        if running or (record.state is State.WAITING and not self._live.gone):
            outputs += self._hand_off(reason, command.at, prefer=to, insist=to is not None)
        elif record.state is State.WAITING:
            outputs.append(effects.CancelTimer(key="wake"))
            changes = {
                "hold": False,
                "blocked": False,
                "wake_at": None,
                "reason": reason,
                "skipped": (),
                **named,
            }
            outputs += self._fire(Trigger.WAKE, command.at, **changes)
        elif to is not None and record.state in (State.ENVELOPE_BUILT, State.DISPATCHED):
            message = f"{record.sid} is just being handed over"
            hint = "say it again when the next agent runs"
            return commands.Refused(code="conflict", message=message, hint=hint), []
        else:
            if to is not None:
                self._change(**named)
            self._change(hold=False)
            outputs += self._persist()
        return commands.Accepted(data={"state": self.record.state}), outputs

    def _command_resume(self, command: commands.Resume, outputs: Outputs) -> tuple[commands.Answer, Outputs]:
        record = self._ahead
        if record.state is not State.WAITING and not record.hold:
            message = f"{record.sid} is {record.state}, not waiting"
            return commands.Refused(code="conflict", message=message), []
        self._change(hold=False)
        if record.state is State.WAITING:
            # A person who says "go on" has a reason to think that it can: try, whatever the breaker says.
            self._change(prefer=record.prefer or self._target(), insist=True)
            outputs.append(effects.CancelTimer(key="wake"))
            outputs += self._wake(command.at)
        else:
            outputs += self._persist()
        return commands.Accepted(data={"state": self.record.state}), outputs

    def _command_reply(self, command: commands.Reply, outputs: Outputs) -> tuple[commands.Answer, Outputs]:
        at, record = command.at, self._ahead
        shown = DEFAULT.redact(command.text).text
        self.facts.replied(shown)
        outputs += self._note(at, "reply", {"text": shown, "by": command.by})
        for request_id, asked in tuple(self._live.permissions.items()):
            if asked.question:
                close = asks.CloseApprovals(sid=record.sid, run=record.runs[-1].number, at=at)
                answered = [*outputs, close, *self._answer(request_id, True, command.text)]
                return commands.Accepted(data={"answered": asked.question}), answered
        if record.state is State.RUNNING and self._saving is None and self._live.alive:
            return commands.Accepted(data={"state": record.state}), [*outputs, *self._say(command.text, at)]
        self._queue(command.text)
        outputs += self._persist()
        if record.state is State.WAITING and record.hold:
            self._change(hold=False)
            outputs += self._wake(at)
        return commands.Accepted(data={"queued": True}), outputs

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
