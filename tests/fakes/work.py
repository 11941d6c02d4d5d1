"""The events of an agent at work, told shortly: `Work().edit("a.py").shell("make", exit_code=2)`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    Channel,
    ErrorSignal,
    Observed,
    PermissionAsked,
    Place,
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
from relay.core.facts import SessionFacts

WORKTREE = "/home/user/project/.relay/worktrees/s-4k2m9x"
START = datetime(2026, 6, 3, 15, 0, tzinfo=UTC)
_STATUS = {"x": TaskStatus.COMPLETED, "~": TaskStatus.IN_PROGRESS, " ": TaskStatus.PENDING}


class Work:
    """Collects events; each method adds what one step of an agent looks like and returns the object."""

    def __init__(self) -> None:
        self.seen: list[Observed] = []
        self.run = 1
        self._calls = 0

    def event(self, *events: AgentEvent) -> Work:
        for event in events:
            number = len(self.seen)
            place = Place(run=self.run, stream="out", offset=100 * (number + 1))
            self.seen.append(Observed(place=place, at=START + timedelta(seconds=number), event=event))
        return self

    def next_agent(self, model: str = "second") -> Work:
        self.run += 1
        return self.event(AgentStarted(native_id=f"native-{self.run}", model=model))

    def call(self, kind: ToolKind, *, tool: str = "", paths: tuple[str, ...] = (), command: str = "") -> str:
        self._calls += 1
        call_id = f"call-{self._calls}"
        detail = command or ", ".join(paths)
        self.event(
            ToolCall(
                call_id=call_id,
                tool=tool or kind.title(),
                tool_kind=kind,
                paths=paths,
                command=command,
                detail=detail,
            )
        )
        return call_id

    def close(
        self,
        call_id: str,
        *,
        ok: bool = True,
        exit_code: int | None = None,
        output: str = "",
        denied: bool = False,
    ) -> Work:
        return self.event(
            ToolResult(call_id=call_id, ok=ok, exit_code=exit_code, output=output, denied=denied)
        )

    def edit(self, *paths: str, ok: bool = True, output: str = "", denied: bool = False) -> Work:
        return self.close(self.call(ToolKind.EDIT, paths=paths), ok=ok, output=output, denied=denied)

    def read(self, path: str) -> Work:
        return self.close(self.call(ToolKind.READ, paths=(path,)))

    def shell(self, command: str, *, exit_code: int = 0, output: str = "") -> Work:
        call_id = self.call(ToolKind.SHELL, command=command)
        return self.close(call_id, ok=exit_code == 0, exit_code=exit_code, output=output)

    def plan(self, *items: str) -> Work:
        """Each item is its box's mark and its text: "x parse", "~ render", "  document"."""
        return self.event(
            PlanUpdated(items=tuple(PlanItem(text=item[2:], status=_STATUS[item[0]]) for item in items))
        )

    def says(self, text: str) -> Work:
        return self.event(AgentText(text=text))

    def asks(self, question: str) -> Work:
        return self.event(
            PermissionAsked(request_id="1", tool="ask", tool_kind=ToolKind.ASK, question=question)
        )

    def spends(self, input: int, cached: int, output: int) -> Work:  # noqa: A002 - the field's own name
        usage = TokenUsage(input=input, cached_input=cached, output=output)
        return self.event(UsageReported(usage=usage))

    def ends(self, outcome: TurnOutcome = TurnOutcome.COMPLETED, text: str = "") -> Work:
        failed = outcome is TurnOutcome.FAILED
        error = ErrorSignal(channel=Channel.EVENT, text=text) if failed else None
        return self.event(TurnEnded(outcome=outcome, text=text, error=error))

    def facts(self, goal: str = "Convert the parser", *, worktree: str = WORKTREE) -> SessionFacts:
        facts = SessionFacts.for_goal(goal, worktree=worktree)
        for seen in self.seen:
            facts.fold(seen)
        return facts
