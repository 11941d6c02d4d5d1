"""What an agent says and does, in one vocabulary for every provider.

A provider's dialogue turns each record of its CLI into zero or more of these values. They are what
the audit log holds, what clients see and what the contract is built from, so they carry facts, not
vendor shapes. All texts are redacted before they leave the adapter actor.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from attrs import field, frozen

# A word of this vocabulary too.
from relay.core.tokens import TokenUsage as TokenUsage


class FailureClass(StrEnum):
    """Why an agent could not go on; decides between waiting, handing off and asking."""

    USAGE_LIMIT = "usage_limit"
    RATE_LIMIT = "rate_limit_transient"
    OVERLOAD = "overload"
    AUTH = "auth"
    CONTEXT_OVERFLOW = "context_overflow"
    NETWORK = "network"
    REFUSAL = "refusal"
    NONE = "none"
    OTHER = "other"


class Channel(StrEnum):
    """Where a text was seen. Only the first five can carry a failure; spoken text never can."""

    EVENT = "stdout_json"
    STDERR = "stderr"
    HTTP_BODY = "http_body"
    HEADER = "header"
    TRANSCRIPT = "transcript"
    SPOKEN = "spoken"


@frozen(kw_only=True)
class ErrorSignal:
    """An error as the CLI reported it, before it is judged.

    Args:
        channel: where it was seen.
        text: the words, as printed.
        code: the provider's own error code ("usage_limit_reached", "server_overloaded"), if any.
        http_status: the HTTP status, if known.
        resets_at: an exact reset instant the provider gave (aware), if any.
        retry_after: seconds the provider asks to wait, if any.
        clean_end: the process ended with status 0 or has not ended; a stderr text counts only
            when this is false.
    """

    channel: Channel
    text: str
    code: str | None = None
    http_status: int | None = None
    resets_at: datetime | None = None
    retry_after: float | None = None
    clean_end: bool = False


@frozen(kw_only=True)
class Verdict:
    """An error, judged: its class and when the provider can be tried again.

    Args:
        failure: the class.
        reset_rule: the rule the instant was derived by, in the grammar of docs/providers.md
            ("epoch:...", "clock:08:03;tz=UTC", "unknown:probe"), or None.
        resets_at: the instant (aware), when the rule gives one.
        why: one line for the user: which channel and which words decided.
    """

    failure: FailureClass
    reset_rule: str | None = None
    resets_at: datetime | None = None
    why: str = ""


class ToolKind(StrEnum):
    """What a tool call does, whatever the provider calls the tool."""

    READ = "read"
    EDIT = "edit"
    SHELL = "shell"
    SEARCH = "search"
    WEB = "web"
    MCP = "mcp"
    PLAN = "plan"
    ASK = "ask"
    SUBAGENT = "subagent"
    OTHER = "other"


class TaskStatus(StrEnum):
    """Where one item of the agent's plan stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


@frozen(kw_only=True)
class PlanItem:
    """One item of the agent's todo list or plan."""

    text: str
    status: TaskStatus = TaskStatus.PENDING


@frozen(kw_only=True)
class QuotaWindow:
    """One window of a provider's quota.

    Args:
        name: "five_hour", "seven_day" or the window's minutes as text.
        fraction_used: 0 to 1, or None when the provider says only allowed or rejected.
        resets_at: when the window starts anew (aware).
        rejected: the provider refuses requests in this window now.
    """

    name: str
    fraction_used: float | None = None
    resets_at: datetime | None = None
    rejected: bool = False


@frozen(kw_only=True)
class AgentStarted:
    """The CLI is up and named its own session."""

    kind: ClassVar[str] = "started"
    native_id: str
    model: str = ""
    cwd: str = ""
    version: str = ""


@frozen(kw_only=True)
class AgentText:
    """A whole message of the agent."""

    kind: ClassVar[str] = "text"
    text: str


@frozen(kw_only=True)
class AgentTextDelta:
    """A piece of a message that will come whole later; shown live, never stored as fact."""

    kind: ClassVar[str] = "text_delta"
    text: str


@frozen(kw_only=True)
class AgentThinking:
    """The agent's reasoning, where the CLI shows it."""

    kind: ClassVar[str] = "thinking"
    text: str


@frozen(kw_only=True)
class UserText:
    """A message that the CLI echoes as the user's (the prompt, a reply, a nudge of the CLI)."""

    kind: ClassVar[str] = "user_text"
    text: str
    synthetic: bool = False


@frozen(kw_only=True)
class ToolCall:
    """A tool call was opened; it is open until the ToolResult of the same `call_id`.

    Args:
        call_id: unique within the run.
        tool: the provider's name of the tool.
        tool_kind: what it does.
        paths: files it names, absolute or relative to the worktree.
        command: the shell command, for SHELL.
        detail: one line for people.
        parent: call id of the subagent's tool call this one belongs to, if any.
    """

    kind: ClassVar[str] = "tool_call"
    call_id: str
    tool: str
    tool_kind: ToolKind
    paths: tuple[str, ...] = ()
    command: str = ""
    detail: str = ""
    parent: str = ""


@frozen(kw_only=True)
class ToolResult:
    """A tool call was closed.

    Args:
        exit_code: for SHELL, when the CLI tells it.
        output: what the agent saw, cut to 4 KiB.
        denied: it did not run because permission was refused.
    """

    kind: ClassVar[str] = "tool_result"
    call_id: str
    ok: bool
    exit_code: int | None = None
    output: str = ""
    denied: bool = False


@frozen(kw_only=True)
class PlanUpdated:
    """The agent's whole plan, as it now stands; replaces the previous one."""

    kind: ClassVar[str] = "plan"
    items: tuple[PlanItem, ...]


@frozen(kw_only=True)
class UsageReported:
    """Tokens spent since the last UsageReported of this run (a difference, never a running total)."""

    kind: ClassVar[str] = "usage"
    usage: TokenUsage
    cost_usd: float | None = None


@frozen(kw_only=True)
class QuotaReported:
    """What the provider says is left."""

    kind: ClassVar[str] = "quota"
    windows: tuple[QuotaWindow, ...]


@frozen(kw_only=True)
class PermissionAsked:
    """The agent waits for permission; answered by `Dialogue.answer(request_id, ...)`.

    Args:
        request_id: the provider's id, as text.
        tool_kind: what would be done.
        paths: files it would write.
        command: the shell command it would run.
        question: for ASK: what the agent wants to know; `options` are its choices.
    """

    kind: ClassVar[str] = "permission"
    request_id: str
    tool: str
    tool_kind: ToolKind
    call_id: str = ""
    paths: tuple[str, ...] = ()
    command: str = ""
    detail: str = ""
    question: str = ""
    options: tuple[str, ...] = ()


@frozen(kw_only=True)
class Retrying:
    """The CLI retries by itself; `delay` in seconds."""

    kind: ClassVar[str] = "retrying"
    attempt: int
    max_attempts: int | None = None
    delay: float | None = None
    error: ErrorSignal | None = None


@frozen(kw_only=True)
class TurnStarted:
    """The agent began to work on a message."""

    kind: ClassVar[str] = "turn_started"
    turn_id: str = ""


class TurnOutcome(StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@frozen(kw_only=True)
class TurnEnded:
    """The agent's turn is over.

    Args:
        outcome: how.
        text: its last message.
        error: what the CLI reported, for FAILED.
        verdict: the error judged; the adapter actor fills it in.
    """

    kind: ClassVar[str] = "turn_ended"
    outcome: TurnOutcome
    text: str = ""
    error: ErrorSignal | None = None
    verdict: Verdict | None = None


@frozen(kw_only=True)
class Notice:
    """A warning or note of the CLI that changes nothing."""

    kind: ClassVar[str] = "notice"
    text: str
    level: str = "info"


@frozen(kw_only=True)
class RawOutput:
    """A line that is no record: plain text on stdout, a line of stderr, or an oversize line."""

    kind: ClassVar[str] = "output"
    stream: str
    text: str
    cut: bool = False


@frozen(kw_only=True)
class UnknownRecord:
    """A record of a type this version does not know; passed on, never an error."""

    kind: ClassVar[str] = "unknown"
    record_type: str
    record: Mapping[str, Any] = field(factory=dict)


AgentEvent = (
    AgentStarted
    | AgentText
    | AgentTextDelta
    | AgentThinking
    | UserText
    | ToolCall
    | ToolResult
    | PlanUpdated
    | UsageReported
    | QuotaReported
    | PermissionAsked
    | Retrying
    | TurnStarted
    | TurnEnded
    | Notice
    | RawOutput
    | UnknownRecord
)
"""Every event type; `event.kind` is its stable name on the wire."""


@frozen(kw_only=True, order=True)
class Place:
    """Where an event stood in its run's output: its identity when the file is followed again.

    Args:
        run: number of the run within the session, from 1.
        stream: "out" or "err".
        offset: byte offset behind the event's line in that file.
        index: the event's number among those of the same line.
    """

    run: int
    stream: str
    offset: int
    index: int = 0


@frozen(kw_only=True)
class Observed:
    """An event with its place and the instant it was read (aware)."""

    place: Place
    at: datetime
    event: AgentEvent
