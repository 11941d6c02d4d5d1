"""What is known of a session's work, folded from its events.

Owned by the session rules; cheap per event and bounded in memory. Folding the same events in any
batches gives the same facts, so they are rebuilt from the audit log after a restart.
"""

from __future__ import annotations

import posixpath

from attrs import define, field, frozen

from relay.core.events import (
    AgentStarted,
    AgentText,
    Observed,
    PermissionAsked,
    PlanItem,
    PlanUpdated,
    TaskStatus,
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    UsageReported,
)
from relay.core.quoting import one_line, shorten
from relay.core.remarks import announced_next, constraints_in, decisions_in, rules_in

MOST = 200
"""Most entries of each kind that are kept; more are counted."""

TEXT = 4_000


@frozen(kw_only=True)
class CommandRun:
    """A shell command the agents ran: its last outcome and how often it ran."""

    command: str
    exit_code: int | None
    ok: bool
    times: int = 1


@frozen(kw_only=True)
class FailedAttempt:
    """Something that did not work: what, and the first line of why."""

    what: str
    why: str


@define
class SessionFacts:
    """See the module.

    Args:
        goal: the task as the user typed it.
        worktree: where the agents work; paths are kept relative to it.
        replies: what the user said since.
        plan: the agent's plan as it last stood, whichever agent.
        changed, read: files in the worktree.
        outside: files elsewhere that were changed.
        commands: by command.
        failures: by what was tried.
        decisions, constraints: as stated.
        last_message: of any agent.
        open_calls: tool calls without a result, by run and id.
        tokens: each counted once.
        models: of the runs, in order.
        questions: that agents asked.
        dropped: entries beyond the bounds, by kind.
    """

    goal: str
    worktree: str = ""
    replies: list[str] = field(factory=list)
    plan: tuple[PlanItem, ...] = ()
    changed: dict[str, None] = field(factory=dict)
    read: dict[str, None] = field(factory=dict)
    outside: dict[str, None] = field(factory=dict)
    commands: dict[str, CommandRun] = field(factory=dict)
    failures: dict[str, FailedAttempt] = field(factory=dict)
    decisions: dict[str, None] = field(factory=dict)
    constraints: dict[str, None] = field(factory=dict)
    last_message: str = ""
    next_step: str = ""
    open_calls: dict[str, ToolCall] = field(factory=dict)
    tokens: TokenUsage = field(factory=TokenUsage)
    models: list[str] = field(factory=list)
    questions: list[str] = field(factory=list)
    dropped: dict[str, int] = field(factory=dict)

    @classmethod
    def for_goal(cls, goal: str, *, worktree: str) -> SessionFacts:
        """The facts of a session that begins; binding sentences of the goal are constraints."""
        facts = cls(goal=goal, worktree=posixpath.normpath(worktree) if worktree else "")
        for rule in rules_in(goal):
            facts._keep("constraints", facts.constraints, rule)
        return facts

    def replied(self, text: str) -> None:
        """The user said something."""
        self.replies.append(shorten(text, TEXT))
        if len(self.replies) > MOST:
            del self.replies[0]
            self._drop("replies")
        for rule in rules_in(text):
            self._keep("constraints", self.constraints, rule)

    def fold(self, seen: Observed) -> None:
        """Take one event, in order."""
        event = seen.event
        match event:
            case ToolCall():
                self._called(event, seen.place.run)
            case ToolResult():
                self._resulted(event, seen.place.run)
            case AgentText():
                self._said(event.text)
            case PlanUpdated():
                self.plan = event.items[:MOST]
            case UsageReported():
                self.tokens = TokenUsage(
                    input=self.tokens.input + event.usage.input,
                    cached_input=self.tokens.cached_input + event.usage.cached_input,
                    output=self.tokens.output + event.usage.output,
                )
            case AgentStarted() if event.model and event.model not in self.models[-1:]:
                self.models.append(event.model)
            case PermissionAsked() if event.question:
                self.questions.append(one_line(event.question))
            case TurnEnded():
                if event.text and event.outcome is TurnOutcome.COMPLETED:
                    self._said(event.text)
                self.open_calls.clear()
            case _:
                pass

    def _said(self, text: str) -> None:
        if text.strip() == self.last_message.strip():
            return
        self.last_message = shorten(text, TEXT)
        self.next_step = announced_next(text) or self.next_step
        for decision in decisions_in(text):
            self._keep("decisions", self.decisions, decision)
        for constraint in constraints_in(text):
            self._keep("constraints", self.constraints, constraint)

    def _called(self, call: ToolCall, run: int) -> None:
        self.open_calls[f"{run}:{call.call_id}"] = call
        if call.tool_kind is ToolKind.READ:
            for path in call.paths:
                inside = self._relative(path)
                if inside is not None:
                    self._keep("read", self.read, inside)

    def _resulted(self, result: ToolResult, run: int) -> None:
        call = self.open_calls.pop(f"{run}:{result.call_id}", None)
        if call is None:
            return
        if call.tool_kind is ToolKind.EDIT:
            self._edited(call, result)
        elif call.tool_kind is ToolKind.SHELL and call.command:
            self._ran(call, result)
        elif not result.ok:
            self._failed(f"{call.tool} {call.detail}".strip(), result)

    def _edited(self, call: ToolCall, result: ToolResult) -> None:
        if not result.ok:
            self._failed(f"edit {', '.join(self._relative(p) or p for p in call.paths)}", result)
            return
        for path in call.paths:
            inside = self._relative(path)
            if inside is None:
                self._keep("outside", self.outside, path)
            else:
                self._keep("changed", self.changed, inside)
                self.failures.pop(f"edit {inside}", None)

    def _ran(self, call: ToolCall, result: ToolResult) -> None:
        command = one_line(call.command)
        before = self.commands.pop(command, None)
        ran = CommandRun(
            command=command,
            exit_code=result.exit_code,
            ok=result.ok and not result.exit_code,
            times=before.times + 1 if before else 1,
        )
        self.commands[command] = ran
        if len(self.commands) > MOST:
            del self.commands[next(iter(self.commands))]
            self._drop("commands")
        if ran.ok:
            self.failures.pop(f"run {command}", None)
        else:
            self._failed(f"run {command}", result)

    def _failed(self, what: str, result: ToolResult) -> None:
        if result.denied:
            why = "permission was denied"
        else:
            lines = [line for line in result.output.split("\n") if line.strip()]
            why = one_line(lines[-1] if lines else "no reason given", 200)
            if result.exit_code:
                why = f"exit code {result.exit_code}: {why}"
        self.failures.pop(what, None)
        self.failures[what] = FailedAttempt(what=one_line(what), why=why)
        if len(self.failures) > MOST:
            del self.failures[next(iter(self.failures))]
            self._drop("failures")

    def _relative(self, path: str) -> str | None:
        """The path from the worktree, or None when it lies elsewhere."""
        if not path.startswith("/"):
            inside = posixpath.normpath(path)
            return None if inside.startswith("..") else inside
        full = posixpath.normpath(path)
        root = self.worktree
        return full[len(root) + 1 :] if root and full.startswith(root + "/") else None

    def _keep(self, kind: str, entries: dict[str, None], entry: str) -> None:
        if entry in entries:
            return
        if len(entries) >= MOST:
            self._drop(kind)
            return
        entries[entry] = None

    def _drop(self, kind: str) -> None:
        self.dropped[kind] = self.dropped.get(kind, 0) + 1

    @property
    def done(self) -> tuple[str, ...]:
        """Completed items of the plan."""
        return tuple(item.text for item in self.plan if item.status is TaskStatus.COMPLETED)

    @property
    def remaining(self) -> tuple[str, ...]:
        """Items of the plan that are not completed, the one in progress first."""
        current = [item.text for item in self.plan if item.status is TaskStatus.IN_PROGRESS]
        return (*current, *(item.text for item in self.plan if item.status is TaskStatus.PENDING))
