"""What came of an effect, as values: the past tense of `relay.core.effects`.

`key` is the effect's; `at` is when it was done (aware). An effect that fails answers with
`EffectFailed`; it never disappears.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from relay.core.chain import Target
from relay.core.effects import JournalEntry, LastPlaces
from relay.core.facts import SessionFacts
from relay.core.framing import Line
from relay.core.record import SessionRecord


@frozen(kw_only=True)
class EffectFailed:
    """The effect could not be done.

    Args:
        effect: the effect's class name.
        code: code of the error (`relay.errors`).
        message: what is wrong.
        hint: what to do about it.
    """

    key: str
    at: datetime
    effect: str
    code: str
    message: str
    hint: str = ""


@frozen(kw_only=True)
class WorktreePrepared:
    """The session has a place to work."""

    key: str
    at: datetime
    repository: str
    worktree: str
    branch: str
    base_commit: str
    carried_files: int
    notes: tuple[str, ...]


@frozen(kw_only=True)
class SessionSaved:
    """The record is on disk."""

    key: str
    at: datetime


@frozen(kw_only=True)
class SessionLoaded:
    """A session as it was left.

    Args:
        unlogged: what was saved and did not come into the log any more: "session" (its beginning), "fsm"
            (that it came to the state it is in).
    """

    key: str
    at: datetime
    record: SessionRecord
    facts: SessionFacts
    places: LastPlaces
    note: str = ""
    unlogged: tuple[str, ...] = ()


@frozen(kw_only=True)
class ChildStarted:
    """The run's child is alive.

    Args:
        native_id: the native session it resumes, or "".
        found_alive: it ran already (a restart).
        drift: files that differ from the contract's manifest.
        notes: what the user should know.
    """

    key: str
    at: datetime
    run: int
    pid: int
    native_id: str = ""
    found_alive: bool = False
    drift: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class RunOpened:
    """A run about to be followed: what its dialogue was begun with.

    Args:
        prompt: the first message, as verified when the child was started.
        native_id: the native session it resumes, or "".
        model: model name, or "".
        command: the program from configuration, or "".
        args: additional arguments from configuration.
    """

    key: str
    at: datetime
    run: int
    prompt: str
    native_id: str = ""
    model: str = ""
    command: str = ""
    args: tuple[str, ...] = ()


@frozen(kw_only=True)
class OutputRead:
    """Lines that the child wrote to one of its streams ("out" or "err")."""

    key: str
    at: datetime
    run: int
    stream: str
    lines: tuple[Line, ...]


@frozen(kw_only=True)
class ChildEnded:
    """The CLI process has ended and its streams are drained.

    Args:
        status: exit status, 128+n for signal n, None when it is not known.
    """

    key: str
    at: datetime
    run: int
    status: int | None


@frozen(kw_only=True)
class ChildWritten:
    """The lines with these keys reached the child's stdin; `lost` is why the others did not."""

    key: str
    at: datetime
    run: int
    written: tuple[str, ...]
    lost: str = ""


@frozen(kw_only=True)
class ChildGone:
    """Nothing of the run is alive. `how` says which step ended it; `left` names what would not die."""

    key: str
    at: datetime
    run: int
    how: str
    status: int | None = None
    left: tuple[int, ...] = ()


@frozen(kw_only=True)
class ChangedFile:
    """A file of the session's work: its status letter, and lines added and removed."""

    path: str
    status: str
    added: int = 0
    removed: int = 0


@frozen(kw_only=True)
class FileDigest:
    """A file's hash for the contract's manifest."""

    path: str
    sha256: str
    modified: bool = True


@frozen(kw_only=True)
class SnapshotTaken:
    """The worktree is committed.

    Args:
        commit: the snapshot's commit ("" without a repository).
        made: False when nothing had changed since the last commit.
        changed: the work since the session's base.
        manifest: hashes of the changed files.
        left_out: paths too large for a snapshot.
        diff_stat: one line, as git words it.
    """

    key: str
    at: datetime
    number: int
    commit: str
    made: bool
    changed: tuple[ChangedFile, ...] = ()
    manifest: tuple[FileDigest, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diff_stat: str = ""


@frozen(kw_only=True)
class ContractSealed:
    """Both files of the contract are on disk and signed."""

    key: str
    at: datetime
    contract_id: str
    path: str


@frozen(kw_only=True)
class CommandChecked:
    """One acceptance command.

    Args:
        seconds: how long it ran.
        output: the end of what it printed, redacted.
        timed_out: it was ended at its deadline.
    """

    command: str
    status: int | None
    seconds: float
    output: str = ""
    timed_out: bool = False

    @property
    def passed(self) -> bool:
        """It exited with status 0 in time."""
        return self.status == 0 and not self.timed_out


@frozen(kw_only=True)
class VerifyDone:
    """The acceptance commands have run, up to the first that failed."""

    key: str
    at: datetime
    commands: tuple[CommandChecked, ...]

    @property
    def passed(self) -> bool:
        """All of them passed."""
        return all(command.passed for command in self.commands)


@frozen(kw_only=True)
class PathsLocated:
    """`outside` are those of the paths that lead out of the worktree, or into git's or Relay's folders."""

    key: str
    at: datetime
    outside: tuple[str, ...] = ()


@frozen(kw_only=True)
class TimerFired:
    """The instant of a timer has come."""

    key: str
    at: datetime


@frozen(kw_only=True)
class SessionMerged:
    """The session's branch is merged into the user's."""

    key: str
    at: datetime
    branch: str
    commit: str
    files: int


@frozen(kw_only=True)
class SessionDiscarded:
    """The session's worktree and branch are gone; `kept_as` is the ref that still holds the work.

    `hint` says how to get it back.
    """

    key: str
    at: datetime
    kept_as: str
    hint: str = ""


@frozen(kw_only=True)
class AuditAppended:
    """The entries are in their logs.

    Args:
        failed: entries that could not be written, with the reason in `problem`.
    """

    key: str
    at: datetime
    failed: tuple[JournalEntry, ...] = ()
    problem: str = ""


@frozen(kw_only=True)
class Recorded:
    """The journal's answer: all that was recorded for that log before is in it."""

    key: str
    at: datetime


@frozen(kw_only=True)
class NotRecorded:
    """The journal's word to who awaits `Recorded`: that log can't be written now; it is tried again."""

    key: str
    at: datetime
    problem: str


@frozen(kw_only=True)
class SequenceReserved:
    """Event numbers from `first` up to but not including `end` are ours."""

    key: str
    at: datetime
    first: int
    end: int


@frozen(kw_only=True)
class BreakersLoaded:
    """Breakers by target name, as `core.wire` writes them."""

    key: str
    at: datetime
    breakers: tuple[tuple[str, Mapping[str, Any]], ...]


@frozen(kw_only=True)
class UnfinishedListed:
    """Sessions to go on with: (session, repository) pairs; `problems` are sessions that can't be read."""

    key: str
    at: datetime
    sessions: tuple[tuple[str, str], ...]
    problems: tuple[str, ...] = ()


@frozen(kw_only=True)
class TargetChosen:
    """The provider pool's answer: where to go, or nobody now.

    Args:
        target: the choice, or None.
        wake_at: when the first of the candidates may be free again, if that is known.
        passed_over: (target, reason) of those that cannot be used now.
    """

    key: str
    at: datetime
    target: Target | None
    wake_at: datetime | None = None
    passed_over: tuple[tuple[Target, str], ...] = ()


@frozen(kw_only=True)
class TargetFree:
    """From the provider pool: a target that this session was refused may be free now."""

    key: str
    at: datetime


@frozen(kw_only=True)
class AmbientLoaded:
    """Keys of the agent sessions that were announced; None when none ever were looked for."""

    key: str
    at: datetime
    known: tuple[str, ...] | None


@frozen(kw_only=True)
class AgentSeen:
    """An agent session that is new.

    Args:
        key: the same for the same session at every survey.
        view: as `relay detect` shows it, with its `key`.
        announce: it is not one of Relay's own, nor a subagent's.
    """

    key: str
    view: Mapping[str, Any]
    announce: bool


@frozen(kw_only=True)
class AgentsSurveyed:
    """The agent sessions on this machine.

    Args:
        seen: keys of all of them.
        fresh: those that were not known and have begun.
        problems: what could not be looked at.
    """

    key: str
    at: datetime
    seen: tuple[str, ...]
    fresh: tuple[AgentSeen, ...] = ()
    problems: tuple[str, ...] = ()


@frozen(kw_only=True)
class GarbageItem:
    """Something that was looked at: what it is, what becomes of it and why; as in `relay.core.gc`.

    Args:
        remove: it goes, or would go.
        removed: it is gone now.
    """

    kind: str
    path: str
    session: str
    repository: str
    bytes: int
    remove: bool
    removed: bool
    why: str
    hint: str = ""


@frozen(kw_only=True)
class GarbageCollected:
    """What became of what is left of ended sessions.

    Args:
        audit_bytes: of all audit logs, which are kept.
    """

    key: str
    at: datetime
    items: tuple[GarbageItem, ...]
    problems: tuple[str, ...] = ()
    dry_run: bool = False
    audit_bytes: int = 0


Report = (
    EffectFailed
    | WorktreePrepared
    | SessionSaved
    | SessionLoaded
    | ChildStarted
    | RunOpened
    | OutputRead
    | ChildEnded
    | ChildWritten
    | ChildGone
    | SnapshotTaken
    | ContractSealed
    | VerifyDone
    | PathsLocated
    | TimerFired
    | SessionMerged
    | SessionDiscarded
    | AuditAppended
    | Recorded
    | NotRecorded
    | SequenceReserved
    | BreakersLoaded
    | UnfinishedListed
    | AmbientLoaded
    | AgentsSurveyed
    | GarbageCollected
    | TargetChosen
    | TargetFree
)
