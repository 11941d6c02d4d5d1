"""What a session is, durably: the content of fsm.json.

Owned by the session rules, saved before a state is entered, read by the API and at a restart.
Everything a restarted daemon needs stands here or can be read from the run folders and the audit log.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from relay.core.chain import Target
from relay.core.fsm import TERMINAL, State

FORMAT_VERSION = 1


class AdoptMode(StrEnum):
    """What the first agent does with work that was adopted."""

    CONTINUE = "continue"
    """Go on with it."""
    BRIEF = "brief"
    """Take note of it and wait for the user's word."""
    ASK = "ask"
    """Ask what is unclear before anything is changed."""


@frozen(kw_only=True)
class Adopted:
    """The agent session, not of Relay's, that a session goes on from.

    Args:
        store: where it was found.
        native_id: its own id.
        target: whose login it was, if Relay knows the provider.
        home: the store's folder, absolute.
        cwd: the folder it worked in, absolute.
        resume: may be resumed natively, when the first agent is of the same provider.
        mode: what the first agent does.
        brief_chars: most characters of the first brief; None for the default.
    """

    store: str
    native_id: str
    target: Target | None
    home: str
    cwd: str
    resume: bool = False
    mode: AdoptMode = AdoptMode.CONTINUE
    brief_chars: int | None = None

    def resumed_by(self, target: Target) -> bool:
        """Whether this agent resumes it natively, when it is the session's first."""
        return self.resume and self.target is not None and self.target.provider == target.provider


@frozen(kw_only=True)
class Options:
    """What the user asked for when the session was created.

    Args:
        goal: the task, as typed.
        chain: providers and accounts in the user's order.
        allow: "ask", "edits" or "all".
        verify: acceptance commands, run by the shell in the worktree.
        verify_timeout: seconds for each of them.
        threshold: fraction of a quota window (0 to 1) at which to hand off before the wall.
        max_handoffs: how often the session may change agents.
        carry: take the checkout's uncommitted changes along.
        in_place: work in the user's own folder instead of a worktree.
        model: model name for every provider, or "".
        pause_deadline: seconds a running tool call is waited for before a handoff forces.
        heartbeat: seconds until a started agent must have shown a sign of life.
        max_file_mb: larger files stay out of snapshots.
        task_id: the user's or pipeline's name for the task.
        adopted: the session of somebody else's that this one goes on from.
    """

    goal: str
    chain: tuple[Target, ...]
    allow: str = "edits"
    verify: tuple[str, ...] = ()
    verify_timeout: float = 900.0
    threshold: float = 0.85
    max_handoffs: int = 8
    carry: bool = True
    in_place: bool = False
    model: str = ""
    pause_deadline: float = 30.0
    heartbeat: float = 120.0
    max_file_mb: int = 50
    task_id: str = ""
    adopted: Adopted | None = None


@frozen(kw_only=True)
class Run:
    """One child process of the session.

    Args:
        number: from 1; names the run folder.
        target: whose login.
        native_id: the provider's own session id, once it named it.
        native_resume: the run resumed the provider's own session rather than reading a brief.
        started_at: when its child was started, if it was.
        ended_at: when its child was gone.
        status: the child's exit status, if known.
        tokens: tokens it spent.
        told: how many of the session's waiting replies its first message holds.
        why_ended: one line.
    """

    number: int
    target: Target
    native_id: str = ""
    native_resume: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None
    status: int | None = None
    tokens: int = 0
    told: int = 0
    why_ended: str = ""


@frozen(kw_only=True)
class Saying:
    """A message for the agent, known by its key, so that it is written once.

    Args:
        key: unique within the session.
        text: what it is told.
        keep: the next run is to be told, should this one not receive it.
    """

    key: str
    text: str
    keep: bool = True


@frozen(kw_only=True)
class SessionRecord:
    """The whole durable state of a session.

    Args:
        sid: "s-" and letters and digits.
        repository: root of the user's checkout, absolute.
        worktree: where the agents work, absolute.
        branch: the session's branch, "" without a repository.
        base_commit: what the work is measured against (the carried commit, if changes were carried).
        notes: what preparing the worktree had to say.
        state: of the state machine.
        runs: every child so far; the last one is the current.
        handoffs: how often the session has changed agents.
        reason: why the handoff under way, or the last one, was begun.
        snapshots: how many snapshots were taken.
        snapshot_commit: the newest one.
        contract_id: the newest contract.
        hold: wait until a person resumes.
        blocked: held only since every login that it could go on with is out of service.
        wake_at: when a wait is over by itself.
        wait_reason: why it waits, for people.
        in_place_retry: the agent stayed up and is asked again at `wake_at`.
        attempts: failures in a row that were answered by asking again.
        prefer: the target the user or a retry named for the next run.
        insist: the user named `prefer`, so it is tried whatever its breaker says.
        fresh: the next run must not resume a native session.
        skipped: targets that could not be started in this round of dispatching.
        replies: messages that no agent has received yet.
        unsaid: messages for the current run that are not known to have reached it.
        said: how many messages there were; numbers their keys.
        turns_acted: ends of turns of the current run that were acted on.
        verify_failures: verify runs in a row that failed.
        nudges: how often an agent with open tasks was asked to go on.
        refused: the model refused and the task was handed on for it.
        verified: True when the acceptance commands passed on the final work; None without commands.
        ending: the terminal trigger being carried out ("stop"), so that a crash does not forget it.
        end_reason: why the session ended, for people.
        fidelity: score of each contract so far (0 to 1).
        merged_into: branch the work was merged into, if it was.
        discarded: the worktree and branch were removed.
    """

    sid: str
    repository: str
    worktree: str
    branch: str
    options: Options
    created_at: datetime
    updated_at: datetime
    state: State = State.DISPATCHED
    base_commit: str = ""
    notes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    handoffs: int = 0
    reason: str = ""
    snapshots: int = 0
    snapshot_commit: str = ""
    contract_id: str = ""
    hold: bool = False
    blocked: bool = False
    wake_at: datetime | None = None
    wait_reason: str = ""
    in_place_retry: bool = False
    attempts: int = 0
    prefer: Target | None = None
    insist: bool = False
    fresh: bool = False
    skipped: tuple[Target, ...] = ()
    replies: tuple[str, ...] = ()
    unsaid: tuple[Saying, ...] = ()
    said: int = 0
    turns_acted: int = 0
    verify_failures: int = 0
    nudges: int = 0
    refused: bool = False
    verified: bool | None = None
    ending: str = ""
    end_reason: str = ""
    fidelity: tuple[float, ...] = ()
    merged_into: str = ""
    discarded: bool = False

    @property
    def ended(self) -> bool:
        """The session is over."""
        return self.state in TERMINAL

    @property
    def run(self) -> Run | None:
        """The current run."""
        return self.runs[-1] if self.runs else None

    @property
    def tokens(self) -> int:
        """Tokens of all runs."""
        return sum(run.tokens for run in self.runs)
