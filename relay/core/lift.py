"""Folds the records of a session's own store into what is known of it.

A store's module calls a `Lift` for each thing it understood; the same rules that follow live sessions
(`relay.core.facts`) decide what becomes a task, a file or a failed attempt. Bounded in memory whatever
the length of the transcript. With `Depth.FULL` every text is redacted before it is folded; with
`Depth.LIST` prose is not searched, and what is shown is redacted at the end.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime

from attrs import define, field

from relay.core.attempts import what_of
from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    ErrorSignal,
    Observed,
    Place,
    TokenUsage,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    Verdict,
)
from relay.core.facts import TEXT, SessionFacts
from relay.core.handover import attempts
from relay.core.intel import Depth, SessionIntel, SpokenTurn
from relay.core.quoting import clean, one_line, shorten
from relay.core.redact import DEFAULT
from relay.core.rooting import settled

TURNS = 12
"""Most turns that are kept; the last ones."""
TURN_CHARS = 1_200
PROMPT_CHARS = 100_000
NAMES = 100
"""Most skills and servers that are kept."""
LINE = 300

_PLACE = Place(run=1, stream="store", offset=0)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@define(kw_only=True)
class Lift:
    """One session while it is read; see the module.

    Args:
        store, home, native_id, path: as in `SessionIntel`.
        depth: how thoroughly.
    """

    store: str
    home: str
    native_id: str
    path: str
    depth: Depth = Depth.FULL
    facts: SessionFacts = field(factory=lambda: SessionFacts(goal=""))
    cwd: str = ""
    branch: str = ""
    model: str = ""
    version: str = ""
    title: str = ""
    last_prompt: str = ""
    last_message: str = ""
    context_tokens: int = 0
    context_window: int = 0
    cost_usd: float | None = None
    message_count: int = 0
    turn_open: bool = False
    started_at: datetime | None = None
    last_activity: datetime | None = None
    subagents: int = 0
    compactions: int = 0
    forked_from: str = ""
    parent: str = ""
    bytes_read: int = 0
    torn: int = 0
    """Files whose last record is not whole (yet)."""
    _turns: deque[SpokenTurn] = field(factory=lambda: deque(maxlen=TURNS))
    _skills: dict[str, None] = field(factory=dict)
    _servers: dict[str, None] = field(factory=dict)
    _skipped: dict[str, int] = field(factory=dict)

    @property
    def thorough(self) -> bool:
        """The session is read for a brief, not for a line in a list."""
        return self.depth is Depth.FULL

    def named(
        self,
        *,
        native_id: str = "",
        cwd: str = "",
        branch: str = "",
        model: str = "",
        version: str = "",
        title: str = "",
        forked_from: str = "",
        parent: str = "",
    ) -> None:
        """The store names the session, or where and with what it runs; "" says nothing new."""
        self.native_id = native_id or self.native_id
        if cwd and cwd != self.cwd:
            # Paths stay relative to where it began: that is the folder which is adopted.
            self.cwd = self.cwd or cwd
            if not self.facts.worktree:
                self.facts = settled(self.facts, cwd)
        self.branch = branch or self.branch
        self.model = model or self.model
        self.version = version or self.version
        self.title = title or self.title
        self.forked_from = forked_from or self.forked_from
        self.parent = parent or self.parent

    def at(self, instant: datetime | None) -> None:
        """Something happened at this instant (aware)."""
        if instant is None:
            return
        if self.started_at is None or instant < self.started_at:
            self.started_at = instant
        if self.last_activity is None or instant > self.last_activity:
            self.last_activity = instant

    def said(self, text: str, at: datetime | None = None) -> None:
        """The user typed this (`relay.core.prompts.typed` removes what wraps it); "" is nothing."""
        self.at(at)
        text = clean(text).strip()
        if not text:
            return
        text = self._safe(text)
        self.message_count += 1
        self.turn_open = True
        self._spoke("user", text, at)
        if not self.facts.goal:
            begun = SessionFacts.for_goal(shorten(text, PROMPT_CHARS), worktree=self.facts.worktree)
            self.facts.goal = begun.goal
            self.facts.rules.update(begun.rules)
        else:
            self.last_prompt = shorten(text, TEXT)
            self.facts.replied(text)
            # What was cut off before is no longer under way, whatever the store says of turns.
            self.facts.fold(Observed(place=_PLACE, at=at or _EPOCH, event=TurnStarted()))

    def take(self, event: AgentEvent, at: datetime | None = None, *, side: bool = False) -> None:
        """The agent did this.

        Args:
            side: in a subagent or sidechain: its files, commands and tokens count, its words do not.
        """
        self.at(at)
        if side and not isinstance(event, (ToolCall, ToolResult, UsageReported)):
            return
        match event:
            case AgentText():
                self.message_count += 1
                if not self.thorough:
                    self.last_message = event.text if event.text.strip() else self.last_message
                    return
                self._spoke("agent", event.text, at)
            case AgentStarted():
                self.named(native_id=event.native_id, cwd=event.cwd, model=event.model, version=event.version)
            case TurnStarted():
                self.turn_open = True
            case TurnEnded():
                self.turn_open = event.outcome is not TurnOutcome.COMPLETED
            case UsageReported() if event.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + event.cost_usd
            case _:
                pass
        if self.thorough:
            event, _ = DEFAULT.redact_event(event)
        self.facts.fold(Observed(place=_PLACE, at=at or _EPOCH, event=event))

    def forget(self, call_id: str) -> None:
        """A tool call that is under way was none, or is told of by another one."""
        self.facts.open_calls.pop(f"{_PLACE.run}:{call_id}", None)

    def changed(self, path: str) -> None:
        """A file was changed: for a list, in place of the tool call and its result."""
        self.facts.note_changed(path)

    def read(self, path: str) -> None:
        """A file was read, by something that is no tool call of its own."""
        self.facts.note_read(path)

    def failed(self, error: ErrorSignal, verdict: Verdict, at: datetime | None = None) -> None:
        """The provider refused, or something else kept the agent from going on."""
        self.take(TurnEnded(outcome=TurnOutcome.FAILED, error=error, verdict=verdict), at)

    def context(self, tokens: int, window: int = 0) -> None:
        """How many tokens the last request's context held, and how many there is room for."""
        self.context_tokens = tokens or self.context_tokens
        self.context_window = window or self.context_window

    def totals(self, tokens: TokenUsage, cost_usd: float | None = None) -> None:
        """The store's own totals, instead of what was counted so far."""
        self.facts.tokens = tokens
        if cost_usd is not None:
            self.cost_usd = cost_usd

    def compacted(self, summary: str, at: datetime | None = None) -> None:
        """The conversation so far was replaced by this summary, which an agent wrote."""
        self.compactions += 1
        if summary.strip():
            self.take(AgentText(text=summary), at)

    def skill(self, name: str) -> None:
        """A skill was used."""
        _note(self._skills, name)

    def server(self, name: str) -> None:
        """An MCP server was connected or used."""
        _note(self._servers, name)

    def skip(self, why: str, count: int = 1) -> None:
        """Records that could not be read; `why` as in `SessionIntel.skipped`."""
        self._skipped[why] = self._skipped.get(why, 0) + count

    def skipped_as(self, other: Lift) -> None:
        """Take over what another lift of the same session could not read."""
        self._skipped.update(other._skipped)

    def _spoke(self, role: str, text: str, at: datetime | None) -> None:
        said = shorten(clean(text).strip(), TURN_CHARS)
        if said:
            self._turns.append(SpokenTurn(role=role, text=self._safe(said), at=at))

    def _safe(self, text: str) -> str:
        return DEFAULT.redact(text).text if self.thorough else text

    def intel(self) -> SessionIntel:
        """What is known by now, redacted."""
        facts = self.facts
        known = SessionIntel(
            store=self.store,
            home=self.home,
            native_id=self.native_id,
            path=self.path,
            cwd=self.cwd,
            branch=one_line(self.branch, LINE),
            model=one_line(self.model, LINE),
            version=one_line(self.version, LINE),
            title=one_line(self.title, LINE),
            first_prompt=facts.goal,
            last_prompt=self.last_prompt,
            plan=facts.plan,
            tasks_done=facts.done,
            tasks_remaining=facts.remaining,
            decisions=tuple(facts.decisions),
            constraints=tuple(facts.constraints),
            rules=tuple(facts.rules),
            files_read=tuple(facts.read),
            files_changed=tuple(facts.changed),
            files_outside=tuple(facts.outside),
            commands=tuple(facts.commands.values()),
            failed_attempts=attempts(facts),
            cut_off=tuple(what_of(call) for call in facts.under_way),
            skills=tuple(self._skills),
            mcp_servers=tuple(self._servers),
            tokens=facts.tokens,
            context_tokens=self.context_tokens,
            context_window=self.context_window,
            cost_usd=self.cost_usd,
            message_count=self.message_count,
            limits=tuple(facts.limits),
            turn_open=self.turn_open,
            last_message=facts.last_message or shorten(clean(self.last_message).strip(), TEXT),
            next_step=facts.next_step,
            started_at=self.started_at,
            last_activity=self.last_activity,
            turns=tuple(self._turns),
            subagents=self.subagents,
            compactions=self.compactions,
            forked_from=self.forked_from,
            parent=self.parent,
            skipped=tuple(sorted({**self._skipped, **({"torn": self.torn} if self.torn else {})}.items())),
            dropped=tuple(sorted(facts.dropped.items())),
            bytes_read=self.bytes_read,
        )
        redacted, _ = DEFAULT.redact_value(known)
        return redacted


def _note(names: dict[str, None], name: str) -> None:
    name = one_line(name, LINE)
    if name and len(names) < NAMES:
        names[name] = None
