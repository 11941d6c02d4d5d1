"""What is known of a session's work, folded from its events.

Owned by the session rules; cheap per event and bounded in memory. Folding the same events in any
batches gives the same facts, so they are rebuilt from the audit log after a restart. What the user says
comes through `replied` alone: a CLI echoes briefs and Relay's own nudges as if the user had said them.
All texts were redacted before they came here.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TypeVar

from attrs import define, evolve, field, frozen

from relay.core.attempts import CUT_OFF, LINE, FailedAttempt, OpenCall, reason_of, what_of
from relay.core.events import (
    AgentStarted,
    AgentText,
    FailureClass,
    Observed,
    PermissionAsked,
    PlanItem,
    PlanUpdated,
    QuotaReported,
    TaskStatus,
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
)
from relay.core.paths import inside, is_absolute, normal
from relay.core.quoting import clean, one_line, shorten, valid
from relay.core.remarks import announced_next, constraints_in, decisions_in, rules_in

T = TypeVar("T")

MOST = 200
"""Most entries of each kind that are kept; more are counted in `dropped`."""
MOST_FILES = 2_000
FEW = 20
"""Most runs, limits and questions that are kept."""
TEXT = 4_000
"""Most characters of a reply or of the last message."""

HANDING_OVER = "Relay is handing this task over; do not go on."
"""What an agent is told that asks for permission while it is being stopped."""

_LOOKS = re.compile(r"(?:\S*/)?(?:grep|egrep|fgrep|rg|diff|cmp|test|\[|which|pgrep)\s|git (?:diff|grep)\b")
"""Commands that answer "no" with exit code 1."""
_LASTING = (ToolKind.EDIT, ToolKind.SHELL, ToolKind.MCP)
"""What can leave something behind when it is cut off."""


@frozen(kw_only=True)
class CommandRun:
    """A shell command the agents ran: its last outcome and how often it ran."""

    command: str
    exit_code: int | None
    ok: bool
    times: int = 1


@frozen(kw_only=True)
class LimitSeen:
    """A failure or a used-up quota window that an agent met."""

    run: int
    failure: FailureClass
    why: str
    resets_at: datetime | None = None


@frozen(kw_only=True)
class RunSeen:
    """What a run told of itself, and the tokens it reported, each counted once."""

    run: int
    model: str = ""
    native_id: str = ""
    version: str = ""
    tokens: TokenUsage = field(factory=TokenUsage)


@define
class SessionFacts:
    """See the module.

    Args:
        goal: the task as the user typed it.
        worktree: where the agents work; paths are kept relative to it, and as they are told while it is "".
        replies: what the user said since, oldest first.
        plan: the agent's plan as it last stood, whichever agent.
        finished: items that were completed in a plan before this one.
        changed, read: files in the worktree.
        outside: files elsewhere that were changed.
        commands: by command, the latest last.
        failures: by what was tried, the latest last.
        rules: binding sentences of the user.
        decisions, constraints: as agents stated them.
        last_message: of any agent.
        next_step: what an agent last said comes next.
        open_calls: tool calls under way, by run and id.
        cut_off: those that were under way when the last turn was stopped.
        tokens: of all runs, each counted once.
        runs: one after the other.
        limits, questions: that agents met and asked, the latest last.
        dropped: entries beyond the bounds, by kind.
    """

    goal: str
    worktree: str = ""
    replies: list[str] = field(factory=list)
    plan: tuple[PlanItem, ...] = ()
    finished: dict[str, None] = field(factory=dict)
    changed: dict[str, None] = field(factory=dict)
    read: dict[str, None] = field(factory=dict)
    outside: dict[str, None] = field(factory=dict)
    commands: dict[str, CommandRun] = field(factory=dict)
    failures: dict[str, FailedAttempt] = field(factory=dict)
    rules: dict[str, None] = field(factory=dict)
    decisions: dict[str, None] = field(factory=dict)
    constraints: dict[str, None] = field(factory=dict)
    last_message: str = ""
    next_step: str = ""
    open_calls: dict[str, OpenCall] = field(factory=dict)
    cut_off: tuple[OpenCall, ...] = ()
    tokens: TokenUsage = field(factory=TokenUsage)
    runs: tuple[RunSeen, ...] = ()
    limits: list[LimitSeen] = field(factory=list)
    questions: list[str] = field(factory=list)
    dropped: dict[str, int] = field(factory=dict)

    @classmethod
    def for_goal(cls, goal: str, *, worktree: str) -> SessionFacts:
        """The facts of a session that begins; binding sentences of the goal are rules."""
        facts = cls(goal=goal, worktree=normal(worktree))
        for rule in rules_in(goal):
            facts._keep("rules", facts.rules, rule)
        return facts

    def replied(self, text: str) -> None:
        """The user said something."""
        self._append("replies", self.replies, shorten(clean(text), TEXT), MOST)
        for rule in rules_in(text):
            self._keep("rules", self.rules, rule)

    def fold(self, seen: Observed) -> None:
        """Take one event, in order."""
        event, run = seen.event, seen.place.run
        match event:
            case ToolCall():
                self._called(event, run)
            case ToolResult():
                self._resulted(event, run)
            case AgentText():
                self._said(event.text)
            case PlanUpdated():
                self._planned(event.items)
            case UsageReported():
                self.tokens = _sum(self.tokens, event.usage)
                spent = self._run(run)
                self._change_run(evolve(spent, tokens=_sum(spent.tokens, event.usage)))
            case AgentStarted():
                self._started(event, run)
            case TurnStarted():
                self._settle_cut_off()
            case TurnEnded():
                self._turn_ended(event, run)
            case QuotaReported():
                for window in event.windows:
                    if window.rejected:
                        why = f"the {one_line(window.name, 60)} window is used up"
                        self._limit(run, FailureClass.USAGE_LIMIT, why, window.resets_at)
            case PermissionAsked() if event.question:
                self._append("questions", self.questions, one_line(event.question, LINE), FEW)
            case _:
                pass

    def _started(self, event: AgentStarted, run: int) -> None:
        known = self._run(run)
        self._change_run(
            evolve(
                known,
                model=one_line(event.model, LINE) or known.model,
                native_id=one_line(event.native_id, LINE) or known.native_id,
                version=one_line(event.version, LINE) or known.version,
            )
        )
        left = [key for key, call in self.open_calls.items() if call.run != run]
        self.cut_off += tuple(self.open_calls.pop(key) for key in left)
        self._settle_cut_off()

    def _turn_ended(self, event: TurnEnded, run: int) -> None:
        if event.text and event.outcome is TurnOutcome.COMPLETED:
            self._said(event.text)
        if event.outcome is not TurnOutcome.COMPLETED:
            lasting = (call for call in self.open_calls.values() if call.tool_kind in _LASTING)
            self.cut_off = (*self.cut_off, *lasting)[-FEW:]
        self.open_calls.clear()
        verdict = event.verdict
        if verdict is not None and verdict.failure is not FailureClass.NONE:
            self._limit(run, verdict.failure, one_line(verdict.why, LINE), verdict.resets_at)

    def _settle_cut_off(self) -> None:
        """Somebody works again: what was cut off before is now an attempt that did not work."""
        for call in self.cut_off:
            if call.tool_kind in _LASTING:
                self._fail(what_of(call), CUT_OFF)
        self.cut_off = ()

    def _planned(self, items: tuple[PlanItem, ...]) -> None:
        texts = [one_line(item.text, LINE) for item in items]
        named = [
            item if item.text == text else evolve(item, text=text)
            for item, text in zip(items, texts, strict=True)
        ]
        named = [item for item in named if item.text]
        new = _bounded(named)
        if len(named) > len(new):
            self._drop("plan", len(named) - len(new))
        # A list that is emptied with work left is one that was lost: the tasks are kept.
        if not new and self.remaining:
            return
        listed = {item.text for item in new}
        for text in self.done:
            if text not in listed:
                self._keep("finished", self.finished, text)
        for text in listed:
            self.finished.pop(text, None)
        self.plan = new

    def _said(self, text: str) -> None:
        said = shorten(clean(text).strip(), TEXT)
        if not said or said == self.last_message:
            return
        self.last_message = said
        self.next_step = announced_next(text) or self.next_step
        for decision in decisions_in(text):
            self._keep("decisions", self.decisions, decision)
        for constraint in constraints_in(text):
            self._keep("constraints", self.constraints, constraint)

    def _called(self, call: ToolCall, run: int) -> None:
        paths = tuple(valid(path[:4096]) for path in call.paths[:MOST])
        self.open_calls[f"{run}:{call.call_id}"] = OpenCall(
            run=run,
            tool=one_line(call.tool, 80),
            tool_kind=call.tool_kind,
            paths=tuple(inside(path, self.worktree) or normal(path) for path in paths),
            command=one_line(call.command, LINE),
            detail=one_line(call.detail, LINE),
        )
        self._bound("open_calls", self.open_calls)
        if call.tool_kind is ToolKind.READ:
            for path in paths:
                self.note_read(path)

    def _resulted(self, result: ToolResult, run: int) -> None:
        call = self.open_calls.pop(f"{run}:{result.call_id}", None)
        if call is None:
            return
        if not result.ok and result.exit_code is None and HANDING_OVER in result.output:
            # Relay's own doing: the next agent is free to try it.
            return
        if result.denied:
            self._fail(what_of(call), "permission was denied")
        elif call.tool_kind is ToolKind.EDIT:
            self._edited(call, result)
        elif call.tool_kind is ToolKind.SHELL and call.command:
            self._ran(call, result)
        elif call.tool_kind in (*_LASTING, ToolKind.OTHER):
            if result.ok:
                self.failures.pop(what_of(call), None)
            else:
                self._fail(what_of(call), reason_of(result))

    def _edited(self, call: OpenCall, result: ToolResult) -> None:
        if not result.ok:
            self._fail(what_of(call), reason_of(result))
            return
        self.failures.pop(what_of(call), None)
        for path in call.paths:
            self.failures.pop(f"edit {path}", None)
            self.note_changed(path)

    def note_read(self, path: str) -> None:
        """A file was read; `path` is absolute, or relative to the worktree."""
        is_untold = not self.worktree and is_absolute(path)
        within = normal(path) if is_untold else inside(path, self.worktree)
        if within:
            self._keep("read", self.read, within, MOST_FILES)

    def note_changed(self, path: str) -> None:
        """A file was changed; `path` is absolute, or relative to the worktree."""
        within = inside(path, self.worktree)
        if within is None:
            self._keep("outside", self.outside, normal(path))
        else:
            self._keep("changed", self.changed, within, MOST_FILES)

    def _ran(self, call: OpenCall, result: ToolResult) -> None:
        command = call.command
        before = self.commands.pop(command, None)
        ran = CommandRun(
            command=command,
            exit_code=result.exit_code,
            ok=result.ok and not result.exit_code,
            times=before.times + 1 if before else 1,
        )
        self.commands[command] = ran
        self._bound("commands", self.commands)
        if ran.ok or (result.exit_code == 1 and _LOOKS.match(command)):
            self.failures.pop(what_of(call), None)
        else:
            self._fail(what_of(call), reason_of(result))

    def _fail(self, what: str, why: str) -> None:
        self.failures.pop(what, None)
        self.failures[what] = FailedAttempt(what=what, why=why)
        self._bound("failures", self.failures)

    def _limit(self, run: int, failure: FailureClass, why: str, resets_at: datetime | None) -> None:
        seen = LimitSeen(run=run, failure=failure, why=why, resets_at=resets_at)
        if seen not in self.limits:
            self._append("limits", self.limits, seen, FEW)

    def _run(self, run: int) -> RunSeen:
        return next((seen for seen in reversed(self.runs) if seen.run == run), RunSeen(run=run))

    def _change_run(self, changed: RunSeen) -> None:
        others = tuple(seen for seen in self.runs if seen.run != changed.run)
        self.runs = (*others, changed)[-FEW:]

    def _keep(self, kind: str, entries: dict[str, None], entry: str, most: int = MOST) -> None:
        if entry in entries:
            return
        if len(entries) >= most:
            self._drop(kind)
            return
        entries[entry] = None

    def _bound(self, kind: str, entries: dict[str, T]) -> None:
        if len(entries) > MOST:
            del entries[next(iter(entries))]
            self._drop(kind)

    def _append(self, kind: str, entries: list[T], entry: T, most: int) -> None:
        entries.append(entry)
        if len(entries) > most:
            del entries[0]
            self._drop(kind)

    def _drop(self, kind: str, count: int = 1) -> None:
        self.dropped[kind] = self.dropped.get(kind, 0) + count

    @property
    def done(self) -> tuple[str, ...]:
        """Completed items, of the plans before and of this one."""
        now = (item.text for item in self.plan if item.status is TaskStatus.COMPLETED)
        still_open = set(self.remaining)
        return tuple(text for text in dict.fromkeys((*self.finished, *now)) if text not in still_open)

    @property
    def remaining(self) -> tuple[str, ...]:
        """Items of the plan that are not completed, the one in progress first."""
        current = [item.text for item in self.plan if item.status is TaskStatus.IN_PROGRESS]
        pending = (item.text for item in self.plan if item.status is TaskStatus.PENDING)
        return tuple(dict.fromkeys((*current, *pending)))

    @property
    def under_way(self) -> tuple[OpenCall, ...]:
        """Calls that could leave something half done: open now, or cut off with the last turn."""
        return (*self.cut_off, *(call for call in self.open_calls.values() if call.tool_kind in _LASTING))


def _bounded(items: list[PlanItem]) -> tuple[PlanItem, ...]:
    """At most MOST items; what is completed is left out first."""
    over = len(items) - MOST
    kept = []
    for item in items:
        if over > 0 and item.status is TaskStatus.COMPLETED:
            over -= 1
        else:
            kept.append(item)
    return tuple(kept[:MOST])


def _sum(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    return TokenUsage(
        input=one.input + other.input,
        cached_input=one.cached_input + other.cached_input,
        output=one.output + other.output,
    )
