"""What the rules want done in the world, as values.

An actor sends one of these to the effects port together with its own address; the answer is a report
of `relay.core.reports` with the same `key`. Every effect is idempotent: asked for again after a crash,
it finds what is already done. `key` is unique among what an actor has under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen

from relay.core.chain import Target
from relay.core.contract import Contract
from relay.core.events import Place
from relay.core.record import Options, SessionRecord


@frozen(kw_only=True)
class WriteLine:
    """One line for a child's stdin, known by its key (see `providers.protocol.Write`)."""

    key: str
    line: str


@frozen(kw_only=True)
class PrepareWorktree:
    """Look at the repository and make the session's worktree. -> WorktreePrepared.

    Args:
        facts: what is known already of work that is adopted: `SessionFacts` on the wire.
    """

    key: str
    sid: str
    repository: str
    options: Options
    facts: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class SaveSession:
    """Put the record on disk. -> SessionSaved."""

    key: str
    record: SessionRecord


@frozen(kw_only=True)
class LoadSession:
    """Read the record, the facts and the last journaled places of a session. -> SessionLoaded."""

    key: str
    sid: str
    repository: str


@frozen(kw_only=True)
class Opening:
    """What the next agent is told.

    Args:
        text: the first message when there is no contract: the task itself.
        contract_id: verify this contract and tell its brief instead.
        resume_native: try the provider's own resume of this native session first.
        resume_from: the target whose session that is.
        resume_home: the folder that it lies in, where that is not `resume_from`'s own; "" otherwise.
        resume_cwd: the folder that it worked in, where that is not the session's worktree; "" otherwise.
        postscript: user messages that no agent has received yet.
    """

    text: str = ""
    contract_id: str = ""
    resume_native: str = ""
    resume_from: Target | None = None
    resume_home: str = ""
    resume_cwd: str = ""
    postscript: tuple[str, ...] = ()


@frozen(kw_only=True)
class StartChild:
    """Verify what is injected, then start run `run` unless it is alive already. -> ChildStarted."""

    key: str
    record: SessionRecord
    run: int
    target: Target
    opening: Opening


@frozen(kw_only=True)
class FollowChild:
    """Deliver the run's output to the asking actor until it has ended.
    -> RunOpened, OutputRead..., ChildEnded."""

    key: str
    record: SessionRecord
    run: int


@frozen(kw_only=True)
class StopFollowing:
    """Stop delivering the run's output. No answer."""

    key: str
    follow_key: str


@frozen(kw_only=True)
class WriteChild:
    """Write lines to the child's stdin, each at most once. -> ChildWritten."""

    key: str
    record: SessionRecord
    run: int
    lines: tuple[WriteLine, ...]


@frozen(kw_only=True)
class EndChild:
    """Leave nothing of the run alive. `idle`: between turns, so an end of input may do. -> ChildGone."""

    key: str
    record: SessionRecord
    run: int
    target: Target
    idle: bool


@frozen(kw_only=True)
class SealRun:
    """Rewrite the finished run's output files in redacted form. No answer."""

    key: str
    record: SessionRecord
    run: int


@frozen(kw_only=True)
class TakeSnapshot:
    """Commit the worktree on the session's branch. -> SnapshotTaken."""

    key: str
    record: SessionRecord
    number: int
    message: str


@frozen(kw_only=True)
class SealContract:
    """Sign the contract, render nothing anew, write both files. -> ContractSealed."""

    key: str
    record: SessionRecord
    contract: Contract


@frozen(kw_only=True)
class RunVerify:
    """Run the acceptance commands in the worktree. -> VerifyDone."""

    key: str
    record: SessionRecord
    commands: tuple[str, ...]
    timeout: float


@frozen(kw_only=True)
class LocatePaths:
    """Where these paths really lead, links followed. -> PathsLocated.

    Args:
        root: the worktree, absolute.
        paths: absolute, or relative to it.
    """

    key: str
    root: str
    paths: tuple[str, ...]


@frozen(kw_only=True)
class SetTimer:
    """Report back at an instant (plus up to `jitter` seconds). Replaces one of the same key. -> TimerFired.

    Args:
        through_sleep: the instant is the wall clock's (a quota's reset): a machine that slept past it, or
            whose clock was set past it, is told at once. Otherwise only time counts in which the machine is
            awake (an agent's heartbeat, an answer that is awaited): the agent slept too.
    """

    key: str
    at: datetime
    jitter: float = 0.0
    through_sleep: bool = False


@frozen(kw_only=True)
class CancelTimer:
    """Forget a timer. No answer."""

    key: str


@frozen(kw_only=True)
class MergeSession:
    """Merge the session's branch into the user's checkout. -> SessionMerged."""

    key: str
    record: SessionRecord


@frozen(kw_only=True)
class DiscardSession:
    """Remove the session's worktree and branch. -> SessionDiscarded."""

    key: str
    record: SessionRecord
    force: bool = False


@frozen(kw_only=True)
class UndoWorktree:
    """Take away what was made for a session that could not be saved. -> SessionDiscarded."""

    key: str
    sid: str
    repository: str
    worktree: str
    branch: str


@frozen(kw_only=True)
class JournalEntry:
    """One line of a repository's audit log.

    Args:
        repository: root of the user's checkout, or "" for the daemon's own log.
        session: the session, or "".
        type: the event's type on the wire ("agent_event", "fsm", "quota", ...).
        data: JSON values.
        seq: number of the event in this user's stream; 0 until the journal assigns it.
        at: when it happened.
    """

    repository: str
    session: str
    type: str
    at: datetime
    data: Mapping[str, Any] = field(factory=dict)
    seq: int = 0

    def numbered(self, seq: int) -> JournalEntry:
        """The same with its number. One for every event, so without `attrs.evolve`, which takes longer."""
        return JournalEntry(
            repository=self.repository,
            session=self.session,
            type=self.type,
            at=self.at,
            data=self.data,
            seq=seq,
        )


@frozen(kw_only=True)
class AppendAudit:
    """Append to the audit logs, in order. `sync`: flush to the disk. -> AuditAppended."""

    key: str
    entries: tuple[JournalEntry, ...]
    sync: bool


@frozen(kw_only=True)
class ReserveSequence:
    """Reserve a block of event numbers. -> SequenceReserved."""

    key: str
    count: int


@frozen(kw_only=True)
class Broadcast:
    """Hand durable events to whoever listens. No answer."""

    key: str
    entries: tuple[JournalEntry, ...]


@frozen(kw_only=True)
class SaveBreakers:
    """Put the providers' breakers on disk. No answer on success."""

    key: str
    breakers: tuple[tuple[str, Mapping[str, Any]], ...]


@frozen(kw_only=True)
class LoadBreakers:
    """Read the providers' breakers as an earlier life left them. -> BreakersLoaded."""

    key: str


@frozen(kw_only=True)
class LoadAmbient:
    """Read which agent sessions were announced. -> AmbientLoaded."""

    key: str


@frozen(kw_only=True)
class SaveAmbient:
    """Remember which agent sessions were announced. No answer on success."""

    key: str
    known: tuple[str, ...]


@frozen(kw_only=True)
class SurveyAgents:
    """List the agent sessions on this machine. -> AgentsSurveyed.

    Args:
        known: keys of those that need not be read.
        first: none needs to be read.
    """

    key: str
    known: tuple[str, ...]
    first: bool = False


@frozen(kw_only=True)
class CollectGarbage:
    """Clear away what is left of ended sessions. -> GarbageCollected.

    Args:
        dry_run: only look.
        keep_days, output_max_bytes: as in `relay.core.gc.GcPolicy`.
    """

    key: str
    dry_run: bool
    keep_days: float
    output_max_bytes: int


@frozen(kw_only=True)
class EndDaemon:
    """End the daemon with a failure: its own machinery keeps failing. No answer."""

    key: str
    reason: str


@frozen(kw_only=True)
class ListUnfinished:
    """Find the sessions that were not over when the daemon ended. -> UnfinishedListed."""

    key: str


@frozen(kw_only=True)
class LastPlaces:
    """How far a run's streams have been journaled; events up to there are known already."""

    places: tuple[Place, ...] = ()

    def known(self, place: Place) -> bool:
        """The event at this place is in the log."""
        return any(
            (last.run, last.stream) == (place.run, place.stream)
            and (place.offset, place.index) <= (last.offset, last.index)
            for last in self.places
        )


Effect = (
    PrepareWorktree
    | SaveSession
    | LoadSession
    | StartChild
    | FollowChild
    | StopFollowing
    | WriteChild
    | EndChild
    | SealRun
    | TakeSnapshot
    | SealContract
    | RunVerify
    | LocatePaths
    | SetTimer
    | CancelTimer
    | MergeSession
    | DiscardSession
    | UndoWorktree
    | AppendAudit
    | ReserveSequence
    | Broadcast
    | SaveBreakers
    | LoadBreakers
    | LoadAmbient
    | SaveAmbient
    | SurveyAgents
    | CollectGarbage
    | EndDaemon
    | ListUnfinished
)
