"""The SessionSupervisor: one SessionActor a session, restarted from the store when it crashes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from attrs import define, evolve, field

from relay.actors.base import Address, RelayActor
from relay.actors.messages import (
    ActorCrashed,
    Answered,
    Begin,
    CommandSession,
    CreateSession,
    DescribeSessions,
    Recover,
    SessionChanged,
    TreeNode,
)
from relay.actors.session import SessionActor
from relay.actors.supervision import GiveUp, RestartCounter
from relay.core import asks, effects, reports
from relay.core.commands import Accepted
from relay.core.fsm import State
from relay.core.record import SessionRecord
from relay.core.wire import to_wire

RITES_RETRY_SECONDS = 5.0


@define
class _Child:
    """A session; `address` is None while it has no actor, and commands for it wait."""

    address: Address | None
    sid: str
    repository: str
    policy: Mapping[str, Any]
    changed: SessionChanged | None = None
    waiting: list[CommandSession] = field(factory=list)
    restarts: RestartCounter = field(factory=RestartCounter)

    @property
    def ended(self) -> bool:
        return self.changed is not None and self.changed.record.ended


class SessionSupervisorActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._children: dict[str, _Child] = {}
        self._policies: Mapping[str, Any] = {}
        self._giving_up: dict[str, str] = {}
        self._last: dict[str, SessionRecord] = {}

    def receive_Begin(self, message: Begin, sender: Address) -> None:
        """Take up what was not over."""
        self._policies = message.policies
        self.want(effects.ListUnfinished(key="unfinished"))

    def receive_UnfinishedListed(self, report: reports.UnfinishedListed, sender: Address) -> None:
        """Sessions of an earlier life."""
        for sid, repository in report.sessions:
            if sid not in self._children:
                self._recover(sid, repository, self._policies.get(repository, {}))
        for problem in report.problems:
            entry = effects.JournalEntry(
                repository="", session="", type="unreadable_session", at=report.at, data={"problem": problem}
            )
            self.send(self.wires.journal, asks.Record(entries=(entry,)))

    def receive_CreateSession(self, message: CreateSession, sender: Address) -> None:
        """A new session."""
        child = self._spawn(message.sid, message.repository, message.policy)
        self.send(child.address, message)

    def receive_CommandSession(self, message: CommandSession, sender: Address) -> None:
        """For one session; one that is over gets an actor again."""
        child = self._children.get(message.sid)
        if child is None or (child.address is None and child.ended):
            policy = child.policy if child else self._policies.get(message.repository, {})
            child = self._recover(message.sid, message.repository, policy, exists=child is not None)
        if child.address is None:
            child.waiting.append(message)
        else:
            self.send(child.address, message)

    def receive_DescribeSessions(self, message: DescribeSessions, sender: Address) -> None:
        """The live view."""
        views = [
            {**to_wire(child.changed.record), "live": dict(child.changed.live)}
            for child in self._children.values()
            if child.changed is not None
        ]
        answer = Accepted(data={"sessions": views})
        self.send(self.wires.facade, Answered(correlation=message.correlation, answer=answer))

    def receive_SessionChanged(self, message: SessionChanged, sender: Address) -> None:
        """What a session now is."""
        child = self._children.get(message.record.sid)
        if child is not None:
            child.changed = message

    def receive_ActorCrashed(self, message: ActorCrashed, sender: Address) -> None:
        """Restart from the store, or end that session as FAILED; its siblings never notice."""
        child = self._children.get(message.name)
        if child is None:
            return
        child.address = None
        decision = child.restarts.crashed(message.at)
        last = message.trace.strip().rpartition("\n")[2]
        data = {"actor": message.name, "message": message.message, "error": last}
        if isinstance(decision, GiveUp):
            data["givenUp"] = f"after {decision.restarts} restarts"
            self._giving_up[child.sid] = last
            self._give_up(child)
        else:
            when = message.at + timedelta(seconds=decision.delay)
            self.want(effects.SetTimer(key=f"restart:{child.sid}", at=when))
        entry = effects.JournalEntry(
            repository=child.repository, session=child.sid, type="actor_crashed", at=message.at, data=data
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,), sync=True))

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """A restart is due."""
        child = self._children.get(report.key.partition(":")[2])
        if child is not None and report.key.startswith("give-up:"):
            self._give_up(child)
            return
        if child is None or child.address is not None:
            return
        again = self._recover(child.sid, child.repository, child.policy)
        again.restarts = child.restarts
        for message in child.waiting:
            self.send(again.address, message)

    def receive_SessionLoaded(self, report: reports.SessionLoaded, sender: Address) -> None:
        """A session that keeps crashing: nothing of it is left alive, then it is FAILED with the reason."""
        reason = self._giving_up.get(report.record.sid)
        if reason is None:
            return
        record = evolve(
            report.record,
            state=State.FAILED,
            end_reason=f"Relay's own session actor keeps failing: {reason}",
            updated_at=report.at,
        )
        self._last[record.sid] = record
        run = record.run
        self.send(self.wires.pool, asks.LeaveTargets(sid=record.sid, at=report.at))
        if run is not None:
            self.send(self.wires.desk, asks.CloseApprovals(sid=record.sid, run=run.number, at=report.at))
        if run is None or run.ended_at is not None:
            self._bury(record.sid)
            return
        end = effects.EndChild(
            key=record.sid, record=report.record, run=run.number, target=run.target, idle=False
        )
        self.want(end)

    def receive_ChildGone(self, report: reports.ChildGone, sender: Address) -> None:
        """Nothing is left alive of a session that is given up."""
        record = self._last.get(report.key)
        if record is not None:
            runs = (*record.runs[:-1], evolve(record.runs[-1], ended_at=report.at, status=report.status))
            self._last[report.key] = evolve(record, runs=runs)
            self._bury(report.key)

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """The last rites of a session failed: try them again."""
        if report.key in self._giving_up:
            when = report.at + timedelta(seconds=RITES_RETRY_SECONDS)
            self.want(effects.SetTimer(key=f"give-up:{report.key}", at=when))

    def _bury(self, sid: str) -> None:
        record = self._last[sid]
        self.want(effects.SaveSession(key=sid, record=record))

    def receive_SessionSaved(self, report: reports.SessionSaved, sender: Address) -> None:
        """The session that was given up is over; asked for again, it gets an actor again."""
        record = self._last.pop(report.key, None)
        child = self._children.get(report.key)
        if record is None or child is None:
            return
        self._giving_up.pop(record.sid, None)
        child.changed = SessionChanged(record=record, live={})
        entry = effects.JournalEntry(
            repository=child.repository,
            session=record.sid,
            type="fsm",
            at=report.at,
            data={"to": record.state, "trigger": "fail", "endReason": record.end_reason},
        )
        self.send(self.wires.journal, asks.Record(entries=(entry,), sync=True))
        waiting, child.waiting = child.waiting, []
        for message in waiting:
            self.receive_CommandSession(message, sender)

    def _give_up(self, child: _Child) -> None:
        load = effects.LoadSession(key=child.sid, sid=child.sid, repository=child.repository)
        self.want(load)

    def tree(self) -> TreeNode:
        """This part of the live tree."""
        children = tuple(_node(child) for child in self._children.values())
        return TreeNode(name="sessions", state=f"{len(children)}", children=children)

    def receive_DescribeTree(self, message: Any, sender: Address) -> None:
        """This part of the live tree, to the root."""
        self.send(sender, self.tree())

    def _spawn(self, sid: str, repository: str, policy: Mapping[str, Any]) -> _Child:
        address = self.createActor(SessionActor)
        wires = self.wires
        wiring = evolve(wires, name=sid, supervisor=self.myAddress)
        self.send(address, wiring)
        child = _Child(address=address, sid=sid, repository=repository, policy=policy)
        self._children[sid] = child
        return child

    def _recover(
        self, sid: str, repository: str, policy: Mapping[str, Any], *, exists: bool = True
    ) -> _Child:
        child = self._spawn(sid, repository, policy)
        recover = Recover(sid=sid, repository=repository, policy=policy, at=self.now, exists=exists)
        self.send(child.address, recover)
        return child

    def child_exited(self, address: Address) -> None:
        """A session that could not begin has no actor any more."""
        for sid, child in tuple(self._children.items()):
            if child.address == address and child.changed is None and not child.restarts.crashes:
                del self._children[sid]


def _node(child: _Child) -> TreeNode:
    if child.changed is None:
        return TreeNode(name=child.sid, state="starting")
    record = child.changed.record
    run = record.run
    live = child.changed.live.get("alive", False)
    inner = (TreeNode(name=f"run-{run.number}", state=str(run.target)),) if run and live else ()
    return TreeNode(name=child.sid, state=record.state, children=inner)
