"""What the session rules tell other actors, as values; sent as they are.

Down to the adapter of the current run, to the provider pool, to the approval desk and to the journal.
"""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

from relay.core.chain import Target
from relay.core.effects import JournalEntry, LastPlaces
from relay.core.events import PermissionAsked, QuotaWindow, Verdict
from relay.core.policies import CircuitPolicy
from relay.core.record import SessionRecord


@frozen(kw_only=True)
class AttachRun:
    """To a new adapter: talk with this run's child and report what it says.

    Args:
        places: events up to there are known; they come in a batch marked as known.
    """

    record: SessionRecord
    run: int
    places: LastPlaces
    at: datetime


@frozen(kw_only=True)
class DetachRun:
    """To an adapter: stop following; the run is over."""

    run: int


@frozen(kw_only=True)
class ReachSafePoint:
    """To the adapter: say SafePointReached as soon as no tool call is open."""

    run: int
    at: datetime


@frozen(kw_only=True)
class Say:
    """To the adapter: give the agent a message. Answered by Said or SayRefused."""

    run: int
    key: str
    text: str


@frozen(kw_only=True)
class Interrupt:
    """To the adapter: ask the agent to stop its turn. InterruptRefused where only signals can."""

    run: int
    key: str


@frozen(kw_only=True)
class AnswerPermission:
    """To the adapter: answer a PermissionAsked."""

    run: int
    request_id: str
    allowed: bool
    note: str = ""


@frozen(kw_only=True)
class ChooseTarget:
    """To the provider pool: the first of these that can be used now. -> TargetChosen.

    Args:
        threshold: a quota window used to this fraction rules a target out.
        insist: a person named this target: it is chosen whatever its breaker says.
    """

    key: str
    sid: str
    wanted: tuple[Target, ...]
    threshold: float
    at: datetime
    insist: Target | None = None


@frozen(kw_only=True)
class NoteFailure:
    """To the provider pool: a turn or a start on this target failed.

    Args:
        sid: whose turn or start.
        policy: when failures open the breaker, by the session's repository.
        chance: 0 to 1, for jitter.
    """

    sid: str
    target: Target
    verdict: Verdict
    at: datetime
    policy: CircuitPolicy = field(factory=CircuitPolicy)
    chance: float = 0.0


@frozen(kw_only=True)
class NoteAnswer:
    """To the provider pool: the target's model answers in a turn that is not over yet."""

    target: Target
    at: datetime


@frozen(kw_only=True)
class NoteSuccess:
    """To the provider pool: the target works."""

    target: Target
    at: datetime


@frozen(kw_only=True)
class NoteQuota:
    """To the provider pool: what the provider says is left."""

    target: Target
    windows: tuple[QuotaWindow, ...]
    at: datetime


@frozen(kw_only=True)
class LeaveTargets:
    """To the provider pool: this session uses and awaits no target; what it probed, another one may."""

    sid: str
    at: datetime


@frozen(kw_only=True)
class AwaitTargets:
    """To the provider pool: this session uses no target, and waits. -> TargetFree, when one is there sooner.

    Args:
        wanted: what it would go on with.
        until: when it asks anyway; None: it waits for one of these to be put back into service.
        threshold: as of ChooseTarget.
    """

    sid: str
    wanted: tuple[Target, ...]
    until: datetime | None
    threshold: float
    at: datetime


@frozen(kw_only=True)
class OpenApproval:
    """To the approval desk: ask a person. -> ApprovalDecided.

    Args:
        timeout: seconds after which the answer is no.
    """

    sid: str
    repository: str
    run: int
    target: Target
    asked: PermissionAsked
    at: datetime
    timeout: float = 300.0


@frozen(kw_only=True)
class CloseApprovals:
    """To the approval desk: nobody waits for these any more."""

    sid: str
    run: int
    at: datetime


@frozen(kw_only=True)
class Record:
    """To the journal: put these into the audit log. `sync`: and flush them to the disk."""

    entries: tuple[JournalEntry, ...]
    sync: bool = False


@frozen(kw_only=True)
class Confirm:
    """To the journal: say when all that was recorded for this log so far is in it. -> Recorded."""

    key: str
    repository: str
    at: datetime


ToAdapter = DetachRun | ReachSafePoint | Say | Interrupt | AnswerPermission
ToPool = ChooseTarget | NoteFailure | NoteAnswer | NoteSuccess | NoteQuota | LeaveTargets | AwaitTargets
ToDesk = OpenApproval | CloseApprovals
ToJournal = Record | Confirm
Ask = AttachRun | ToAdapter | ToPool | ToDesk | ToJournal
