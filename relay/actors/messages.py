"""Every message of the actor system, grouped by who receives it; public ones first.

Requests are imperative, reports past tense. The values of `relay.core` that travel as they are
(commands, asks, effects, reports) are listed in `CATALOGUE` with the ones defined here; all of them
pickle and hold no shared mutable object.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

from attrs import field, frozen

from relay.core import asks, commands, effects, reports
from relay.core.commands import Answer, Command
from relay.core.events import Observed
from relay.core.record import Options, SessionRecord

# ---- public: from the facade ------------------------------------------------------------------


@frozen(kw_only=True)
class CreateSession:
    """To the root: begin a session. -> Answered. `facts`: `SessionFacts` on the wire, of adopted work."""

    correlation: str
    sid: str
    repository: str
    options: Options
    policy: Mapping[str, Any]
    at: datetime
    facts: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class CommandSession:
    """To the root: a command for one session. -> Answered."""

    correlation: str
    sid: str
    repository: str
    command: Command


@frozen(kw_only=True)
class DescribeSessions:
    """To the root: the live view of the sessions that have an actor. -> Answered."""

    correlation: str


@frozen(kw_only=True)
class DescribeProviders:
    """To the root: breakers and quotas. -> Answered."""

    correlation: str
    at: datetime


@frozen(kw_only=True)
class IsolateProvider:
    """To the root: take a target out of service, or (`isolated` false) put it back. -> Answered."""

    correlation: str
    target: str
    isolated: bool
    at: datetime


@frozen(kw_only=True)
class ListApprovals:
    """To the root: what waits for a person. -> Answered."""

    correlation: str


@frozen(kw_only=True)
class DecideApproval:
    """To the root: a person's answer. -> Answered."""

    correlation: str
    approval: str
    allowed: bool
    note: str
    by: str
    at: datetime


@frozen(kw_only=True)
class DescribeTree:
    """To the root: the live actor tree. -> Answered."""

    correlation: str


@frozen(kw_only=True)
class ClearAway:
    """To the root: clear away what is left of ended sessions. -> Answered.

    Args:
        dry_run: only tell what would go.
        keep_days: what ended within so many days is kept; None for the configured number.
    """

    correlation: str
    dry_run: bool
    keep_days: float | None = None


@frozen(kw_only=True)
class RecordEvent:
    """To the root: put an event of the daemon's own into the log."""

    entry: effects.JournalEntry


@frozen(kw_only=True)
class Answered:
    """To the facade: the answer to a request of this correlation id."""

    correlation: str
    answer: Answer


# ---- internal ---------------------------------------------------------------------------------


@frozen(kw_only=True)
class Begin:
    """To the root: start the tree; sessions that were not over are taken up again.

    Args:
        ambient_seconds: how often new agent sessions are looked for; 0: never.
        gc_enabled, gc_keep_days, gc_output_max_mb: the `[gc]` section of the user's own relay.toml.
    """

    at: datetime
    policies: Mapping[str, Any] = field(factory=dict)
    ambient_seconds: float = 0.0
    gc_enabled: bool = False
    gc_keep_days: float = 14.0
    gc_output_max_mb: float = 1024.0


@frozen(kw_only=True)
class Recover:
    """To a session actor: rebuild from the store.

    Args:
        exists: the store listed it, or it was seen before. Otherwise somebody named it, and it may be none.
    """

    sid: str
    repository: str
    policy: Mapping[str, Any]
    at: datetime
    exists: bool = True


@frozen(kw_only=True)
class Observe:
    """To a session, from its adapter: one batch of events per read. `known`: they are in the log."""

    run: int
    events: tuple[Observed, ...]
    known: bool = False


@frozen(kw_only=True)
class CaughtUp:
    """To a session, from its adapter: all that was known has been read again."""

    run: int
    at: datetime


@frozen(kw_only=True)
class SafePointReached:
    """To a session, from its adapter: no tool call is open."""

    run: int
    at: datetime


@frozen(kw_only=True)
class Said:
    """To a session, from its adapter: the message of this key has reached the agent."""

    run: int
    key: str
    at: datetime


@frozen(kw_only=True)
class SayRefused:
    """To a session, from its adapter: the agent takes no message now."""

    run: int
    key: str
    at: datetime


@frozen(kw_only=True)
class InterruptRefused:
    """To a session, from its adapter: only signals can stop this agent."""

    run: int
    at: datetime


@frozen(kw_only=True)
class ApprovalDecided:
    """To a session, from the desk: allowed or not, by a person or the clock."""

    sid: str
    run: int
    request_id: str
    allowed: bool
    note: str


@frozen(kw_only=True)
class SessionChanged:
    """To the session supervisor: what the session now is."""

    record: SessionRecord
    live: Mapping[str, Any]


@frozen(kw_only=True)
class ActorCrashed:
    """To a supervisor: a handler raised; the actor has ended itself.

    Args:
        name: the actor's name in the tree.
        message: the class of the message it was handling.
        trace: the traceback as text.
    """

    name: str
    message: str
    trace: str
    at: datetime


@frozen(kw_only=True)
class TreeNode:
    """One actor of the tree, for `relay status --tree`."""

    name: str
    state: str = ""
    children: tuple[TreeNode, ...] = ()


_HERE = (
    CreateSession,
    CommandSession,
    DescribeSessions,
    DescribeProviders,
    IsolateProvider,
    ListApprovals,
    DecideApproval,
    DescribeTree,
    ClearAway,
    RecordEvent,
    Answered,
    Begin,
    Recover,
    Observe,
    CaughtUp,
    SafePointReached,
    Said,
    SayRefused,
    InterruptRefused,
    ApprovalDecided,
    SessionChanged,
    ActorCrashed,
    TreeNode,
)

CATALOGUE: tuple[type[Any], ...] = (
    *_HERE,
    *get_args(commands.Command),
    *get_args(asks.Ask),
    *get_args(effects.Effect),
    *get_args(reports.Report),
)
