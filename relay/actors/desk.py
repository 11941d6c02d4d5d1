"""The ApprovalDesk: permission requests that wait for a person, and the clock that answers for them."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve, frozen

from relay.actors.base import Address, RelayActor
from relay.actors.messages import Answered, ApprovalDecided, DecideApproval, ListApprovals
from relay.core import asks, effects, reports
from relay.core.commands import Accepted, Refused
from relay.core.wire import to_wire

DEFAULT_TIMEOUT = 300.0


@frozen(kw_only=True)
class _Open:
    ask: asks.OpenApproval
    session: Address
    until: datetime


class ApprovalDeskActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, _Open] = {}

    def receive_OpenApproval(self, ask: asks.OpenApproval, sender: Address) -> None:
        """A session has a question."""
        approval = approval_id(ask)
        if approval in self._open:
            # The session asks anew after a restart of its own: it gets the answer.
            self._open[approval] = evolve(self._open[approval], session=sender)
            return
        until = ask.at + timedelta(seconds=ask.timeout)
        self._open[approval] = _Open(ask=ask, session=sender, until=until)
        self.want(effects.SetTimer(key=f"approval:{approval}", at=until))
        self._tell(ask, ask.at, {"status": "open", **self._view(approval)})

    def receive_CloseApprovals(self, ask: asks.CloseApprovals, sender: Address) -> None:
        """Nobody waits for the answers any more."""
        for approval, held in tuple(self._open.items()):
            if (held.ask.sid, held.ask.run) == (ask.sid, ask.run):
                del self._open[approval]
                self.want(effects.CancelTimer(key=f"approval:{approval}"))
                self._tell(held.ask, ask.at, {"id": approval, "status": "closed"})

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """Unanswered for too long: no."""
        approval = report.key.partition(":")[2]
        if approval in self._open:
            self._decide(approval, False, "nobody answered in time", "the clock", report.at)

    def receive_DecideApproval(self, message: DecideApproval, sender: Address) -> None:
        """A person's answer."""
        matches = [a for a in self._open if a == message.approval or a.startswith(message.approval)]
        if len(matches) != 1:
            many = "more than one open approval begins" if matches else "no open approval"
            refused = Refused(
                code="conflict" if matches else "not_found",
                message=f"{many} with id {message.approval!r}",
                hint="`relay approvals` lists those that wait",
            )
            self.send(sender, Answered(correlation=message.correlation, answer=refused))
            return
        self._decide(matches[0], message.allowed, message.note, message.by, message.at)
        done = Accepted(data={"id": matches[0], "approved": message.allowed})
        self.send(sender, Answered(correlation=message.correlation, answer=done))

    def receive_ListApprovals(self, message: ListApprovals, sender: Address) -> None:
        """What waits for a person."""
        views = [self._view(approval) for approval in self._open]
        answer = Accepted(data={"approvals": views})
        self.send(sender, Answered(correlation=message.correlation, answer=answer))

    def _decide(self, approval: str, allowed: bool, note: str, by: str, at: datetime) -> None:
        held = self._open.pop(approval)
        self.want(effects.CancelTimer(key=f"approval:{approval}"))
        decided = ApprovalDecided(
            sid=held.ask.sid,
            run=held.ask.run,
            request_id=held.ask.asked.request_id,
            allowed=allowed,
            note=note,
        )
        self.send(held.session, decided)
        status = "approved" if allowed else "denied"
        self._tell(held.ask, at, {"id": approval, "status": status, "by": by, "note": note})

    def _view(self, approval: str) -> dict[str, Any]:
        held = self._open[approval]
        asked = to_wire(held.ask.asked)
        return {
            **asked,
            "id": approval,
            "session": held.ask.sid,
            "target": str(held.ask.target),
            "askedAt": held.ask.at.isoformat(),
            "deniedAt": held.until.isoformat(),
        }

    def _tell(self, ask: asks.OpenApproval, at: datetime, data: dict[str, Any]) -> None:
        entry = effects.JournalEntry(
            repository=ask.repository, session=ask.sid, type="approval", at=at, data=data
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,)))


def approval_id(ask: asks.OpenApproval) -> str:
    """The same id whenever the same request is seen again."""
    seed = f"{ask.sid}:{ask.run}:{ask.asked.request_id}"
    return "a-" + hashlib.sha256(seed.encode()).hexdigest()[:8]
