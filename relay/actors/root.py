"""The Root: creates the fixed actors, passes requests to who answers them, restarts what crashes."""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve
from thespian.actors import ActorExitRequest

from relay.actors.ambient import AmbientDetectorActor
from relay.actors.base import Address, RelayActor, Wiring
from relay.actors.desk import ApprovalDeskActor
from relay.actors.housekeeper import HousekeeperActor
from relay.actors.journal import HubActor, JournalActor
from relay.actors.messages import (
    ActorCrashed,
    Answered,
    Begin,
    ClearAway,
    CommandSession,
    CreateSession,
    DecideApproval,
    DescribeProviders,
    DescribeSessions,
    DescribeTree,
    IsolateProvider,
    ListApprovals,
    RecordEvent,
    TreeNode,
)
from relay.actors.pool import ProviderPoolActor
from relay.actors.sessions import SessionSupervisorActor
from relay.actors.supervision import GiveUp, RestartCounter
from relay.core import asks, effects, reports
from relay.core.commands import Accepted
from relay.core.wire import to_wire

_KINDS: dict[str, type[RelayActor]] = {
    "hub": HubActor,
    "journal": JournalActor,
    "pool": ProviderPoolActor,
    "desk": ApprovalDeskActor,
    "sessions": SessionSupervisorActor,
    "ambient": AmbientDetectorActor,
    "housekeeper": HousekeeperActor,
}


class RootActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._fixed: dict[str, Address] = {}
        self._restarts: dict[str, RestartCounter] = {}
        self._begin: Begin | None = None
        self._trees: list[str] = []

    def wired(self) -> None:
        """Create the fixed actors, in the order in which they need each other."""
        for name in _KINDS:
            self._create(name)

    def _create(self, name: str) -> None:
        self._fixed[name] = self.createActor(_KINDS[name])
        wiring = Wiring(
            name=name,
            supervisor=self.myAddress,
            port=self.wires.port,
            facade=self.wires.facade,
            journal=self._fixed.get("journal"),
            hub=self._fixed.get("hub"),
            pool=self._fixed.get("pool"),
            desk=self._fixed.get("desk"),
        )
        self.send(self._fixed[name], wiring)

    def receive_Begin(self, message: Begin, sender: Address) -> None:
        """Start the tree."""
        self._begin = message
        self._start(message)

    def _start(self, message: Begin) -> None:
        self.send(self._fixed["sessions"], message)
        self.send(self._fixed["ambient"], message)
        self.send(self._fixed["housekeeper"], message)

    def receive_CreateSession(self, message: CreateSession, sender: Address) -> None:
        """To the session supervisor. Its settings count also if the tree is started anew."""
        if self._begin is not None:
            policies = {**self._begin.policies, message.repository: message.policy}
            self._begin = evolve(self._begin, policies=policies)
        self.send(self._fixed["sessions"], message)

    def receive_CommandSession(self, message: CommandSession, sender: Address) -> None:
        """To the session supervisor."""
        self.send(self._fixed["sessions"], message)

    def receive_DescribeSessions(self, message: DescribeSessions, sender: Address) -> None:
        """To the session supervisor."""
        self.send(self._fixed["sessions"], message)

    def receive_DescribeProviders(self, message: DescribeProviders, sender: Address) -> None:
        """To the provider pool."""
        self.send(self._fixed["pool"], message)

    def receive_IsolateProvider(self, message: IsolateProvider, sender: Address) -> None:
        """To the provider pool."""
        self.send(self._fixed["pool"], message)

    def receive_ClearAway(self, message: ClearAway, sender: Address) -> None:
        """To the housekeeper."""
        self.send(self._fixed["housekeeper"], message)

    def receive_ListApprovals(self, message: ListApprovals, sender: Address) -> None:
        """To the approval desk."""
        self.send(self._fixed["desk"], message)

    def receive_DecideApproval(self, message: DecideApproval, sender: Address) -> None:
        """To the approval desk."""
        self.send(self._fixed["desk"], message)

    def receive_Answered(self, message: Answered, sender: Address) -> None:
        """An answer of a fixed actor, to the facade."""
        self.send(self.wires.facade, message)

    def receive_RecordEvent(self, message: RecordEvent, sender: Address) -> None:
        """To the journal."""
        self.send(self._fixed["journal"], asks.Record(entries=(message.entry,)))

    def receive_DescribeTree(self, message: DescribeTree, sender: Address) -> None:
        """The live tree: the sessions' part is asked for."""
        self._trees.append(message.correlation)
        self.send(self._fixed["sessions"], message)

    def receive_TreeNode(self, message: TreeNode, sender: Address) -> None:
        """The sessions' part of the tree has come."""
        fixed = tuple(TreeNode(name=name) for name in self._fixed if name != "sessions")
        tree = TreeNode(name="root", children=(*fixed, message))
        waiting, self._trees = self._trees, []
        for correlation in waiting:
            answer = Accepted(data={"tree": to_wire(tree)})
            self.send(self.wires.facade, Answered(correlation=correlation, answer=answer))

    def receive_ActorCrashed(self, message: ActorCrashed, sender: Address) -> None:
        """A fixed actor crashed: a new one, or the failure goes up and ends the daemon."""
        if message.name not in _KINDS:
            return
        decision = self._restarts.setdefault(message.name, RestartCounter()).crashed(message.at)
        if isinstance(decision, GiveUp):
            last = message.trace.strip().rpartition("\n")[2]
            self.want(effects.EndDaemon(key="end-daemon", reason=f"{message.name} keeps failing: {last}"))
            return
        when = message.at + timedelta(seconds=decision.delay)
        self.want(effects.SetTimer(key=f"restart:{message.name}", at=when))

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """A restart is due. Everybody knows its siblings by address, so the tree starts as a whole."""
        for address in self._fixed.values():
            self.send(address, ActorExitRequest())
        self.wired()
        if self._begin is not None:
            self._start(self._begin)
