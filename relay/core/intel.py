"""What is known of an agent session that Relay did not start: `SessionIntel`, lifted from its own store.

A value, redacted, the same for every provider. Made by `relay.core.lift`; shown by `relay detect`, turned
into a contract by adoption, and measured by the evaluation suite.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import field, frozen

from relay.core.tokens import TokenUsage

if TYPE_CHECKING:
    from relay.core.attempts import FailedAttempt
    from relay.core.events import PlanItem
    from relay.core.facts import CommandRun, LimitSeen


class Depth(StrEnum):
    """How thoroughly a session is read: for a line in a list, or for a brief."""

    LIST = "list"
    FULL = "full"


@frozen(kw_only=True)
class SpokenTurn:
    """Something that was said: by "user" or "agent", when, and its text, shortened."""

    role: str
    text: str
    at: datetime | None = None


@frozen(kw_only=True)
class SessionIntel:
    """See the module. Whatever a store does not tell keeps its default.

    Args:
        store: the name of the store that it was read from ("claude", "copilot-chat").
        home: the store's folder, absolute; of an account's own where there are several.
        native_id: the provider's own id of the session.
        path: the transcript, absolute; a database where there is no file of its own.
        cwd: the folder that the agent works in, absolute.
        branch, model, version: as last told; version is the CLI's.
        title: the store's own name for the session.
        first_prompt: as the user typed it; what wrapped it is removed.
        last_prompt: the newest one; "" when there was only one.
        plan: as it last stood.
        tasks_done, tasks_remaining: over all plans; the one in progress first.
        decisions, constraints: as agents stated them.
        rules: binding sentences of the user.
        files_read, files_changed: relative to `cwd`; files elsewhere stand in `files_outside`. Without a
            `cwd` what was read stands as it was named, and what was changed is elsewhere if it is absolute.
        commands: each once, with its last exit code.
        failed_attempts: what did not work, and why.
        cut_off: what was under way at the end, or when the last turn was stopped.
        skills, mcp_servers: names of those that were used or offered.
        tokens: each counted once.
        context_tokens, context_window: how full the context was at the last request, in tokens; 0: unknown.
        cost_usd: as the store tells it.
        message_count: prompts of the user and messages of the agent.
        limits: failures and used-up windows that were met.
        turn_open: the last prompt has not been answered to the end.
        last_message: the agent's.
        next_step: what the agent last said comes next.
        started_at, last_activity: aware instants.
        turns: the last of them, oldest first.
        subagents: how many were started.
        compactions: how often the conversation was summarised.
        forked_from: native id of the session that this one began as a copy of.
        parent: native id of the session whose subagent this is.
        skipped: (why, how many) records that could not be read: "torn", "malformed", "nul", "oversize",
            "duplicate", "unknown".
        dropped: (kind, how many) entries beyond the bounds of what is remembered.
        bytes_read: of the transcript.
    """

    store: str
    home: str
    native_id: str
    path: str
    cwd: str = ""
    branch: str = ""
    model: str = ""
    version: str = ""
    title: str = ""
    first_prompt: str = ""
    last_prompt: str = ""
    plan: tuple[PlanItem, ...] = ()
    tasks_done: tuple[str, ...] = ()
    tasks_remaining: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    files_outside: tuple[str, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    failed_attempts: tuple[FailedAttempt, ...] = ()
    cut_off: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    tokens: TokenUsage = field(factory=TokenUsage)
    context_tokens: int = 0
    context_window: int = 0
    cost_usd: float | None = None
    message_count: int = 0
    limits: tuple[LimitSeen, ...] = ()
    turn_open: bool = False
    last_message: str = ""
    next_step: str = ""
    started_at: datetime | None = None
    last_activity: datetime | None = None
    turns: tuple[SpokenTurn, ...] = ()
    subagents: int = 0
    compactions: int = 0
    forked_from: str = ""
    parent: str = ""
    skipped: tuple[tuple[str, int], ...] = ()
    dropped: tuple[tuple[str, int], ...] = ()
    bytes_read: int = 0
