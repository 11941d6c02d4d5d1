"""The AdapterActor: one a child process. Parses, redacts, keeps the gate.

It owns the provider's `Dialogue`, which is rebuilt by reading the run's output again from the start;
events whose place is in the log already are passed up as known. One `Observe` per read.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from attrs import evolve

from relay.actors.base import Address, RelayActor
from relay.actors.messages import (
    CaughtUp,
    InterruptRefused,
    Observe,
    SafePointReached,
    Said,
    SayRefused,
)
from relay.core import asks, effects, reports
from relay.core.events import (
    AgentEvent,
    AgentTextDelta,
    Channel,
    ErrorSignal,
    Observed,
    Place,
    Retrying,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnOutcome,
)
from relay.core.redact import DEFAULT
from relay.core.retry import as_failed, classify
from relay.providers.protocol import Dialogue, LaunchRequest, Provider, Write
from relay.providers.table import provider_named

STDERR_TAIL_LINES = 40
STDERR_LINE_CHARS = 2_000


def _end_in_words(status: int | None) -> str:
    return (
        "the agent is gone and left no status" if status is None else f"the agent ended with status {status}"
    )


class AdapterActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._run: asks.AttachRun | None = None
        self._session: Address = None
        self._provider: Provider | None = None
        self._dialogue: Dialogue | None = None
        self._open_calls: set[str] = set()
        self._gate = False
        self._announced = True
        self._turn_awaited = True
        self._caught_up = False
        self._stderr: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        self._unsaid: dict[str, str] = {}

    # -- from the session --------------------------------------------------------------------

    def receive_AttachRun(self, ask: asks.AttachRun, sender: Address) -> None:
        """Begin: the run's output, from its start."""
        self._run, self._session = ask, sender
        run = ask.record.runs[ask.run - 1]
        self._provider = provider_named(run.target.provider)
        self.want(effects.FollowChild(key=self._follow_key, record=ask.record, run=ask.run))

    def receive_DetachRun(self, ask: asks.DetachRun, sender: Address) -> None:
        """The run is over."""
        self.want(effects.StopFollowing(key=f"stop-{self._follow_key}", follow_key=self._follow_key))

    def receive_ReachSafePoint(self, ask: asks.ReachSafePoint, sender: Address) -> None:
        """Close the gate: say so as soon as no tool call is open."""
        self._gate = True
        lag = self._provider.announce_lag if self._provider else 0.0
        if lag and self._dialogue is not None and self._dialogue.turn_open:
            # A call may have begun of which the CLI has not told yet.
            self._announced = False
            self.want(effects.SetTimer(key=f"announce:{ask.run}", at=ask.at + timedelta(seconds=lag)))
        self._check_gate()

    def receive_Say(self, ask: asks.Say, sender: Address) -> None:
        """A message for the agent."""
        writes = self._talk.say(ask.text, ask.key) if self._dialogue else None
        if writes is None:
            self.send(self._session, SayRefused(run=ask.run, key=ask.key, at=self.now))
            return
        self._turn_awaited = True
        for write in writes:
            self._unsaid[write.key] = ask.key
        self._write(writes)

    def receive_Interrupt(self, ask: asks.Interrupt, sender: Address) -> None:
        """Ask the agent to stop its turn."""
        writes = self._talk.interrupt(ask.key) if self._dialogue else ()
        if not writes:
            self.send(self._session, InterruptRefused(run=ask.run, at=self.now))
            return
        self._write(writes)

    def receive_AnswerPermission(self, ask: asks.AnswerPermission, sender: Address) -> None:
        """Answer the agent's question."""
        self._write(self._talk.answer(ask.request_id, ask.allowed, ask.note))

    # -- from the world ----------------------------------------------------------------------

    def receive_RunOpened(self, report: reports.RunOpened, sender: Address) -> None:
        """What the run was begun with: build the dialogue and open it."""
        if self._run is None or self._provider is None:
            return
        record = self._run.record
        request = LaunchRequest(
            session_id=record.sid,
            run=self._run.run,
            cwd=record.worktree,
            prompt=report.prompt,
            allow=record.options.allow,
            native_id=report.native_id or None,
            model=report.model,
            command=report.command,
            args=report.args,
        )
        self._dialogue = self._provider.dialogue(request)
        self._write(self._dialogue.open())
        if not self._run.places.places:
            self._caught_up = True
            self.send(self._session, CaughtUp(run=report.run, at=report.at))
            self._check_gate()

    def receive_OutputRead(self, report: reports.OutputRead, sender: Address) -> None:
        """Lines: parse, redact, pass up."""
        if self._run is None or self._dialogue is None:
            return
        known: list[Observed] = []
        new: list[Observed] = []
        for line in report.lines:
            reading = self._dialogue.read(line.data, report.stream)
            if report.stream == "err":
                self._stderr.append(line.data[:STDERR_LINE_CHARS].decode(errors="replace"))
            for index, event in enumerate(reading.events):
                place = Place(run=report.run, stream=report.stream, offset=line.end, index=index)
                seen = self._observe(event, place, report.at)
                (known if self._run.places.known(place) else new).append(seen)
            self._write(reading.writes)
        self._pass_up(report.run, known, new, report.at)

    def receive_ChildEnded(self, report: reports.ChildEnded, sender: Address) -> None:
        """The child is over: a turn that it left open has failed."""
        if self._run is None:
            return
        if self._turn_awaited or self._talk.turn_open:
            place = Place(run=report.run, stream="exit", offset=0)
            text = "\n".join(self._stderr).strip() or _end_in_words(report.status)
            signal = ErrorSignal(channel=Channel.STDERR, text=text, clean_end=report.status == 0)
            ended = TurnEnded(outcome=TurnOutcome.FAILED, error=signal)
            seen = self._observe(ended, place, report.at)
            known = self._run.places.known(place)
            self._pass_up(report.run, [seen] if known else [], [] if known else [seen], report.at)
        self._open_calls.clear()
        self._check_gate()
        if not self._caught_up:
            self._caught_up = True
            self.send(self._session, CaughtUp(run=report.run, at=report.at))
        self.send(self._session, report)

    def receive_ChildWritten(self, report: reports.ChildWritten, sender: Address) -> None:
        """What has reached the agent, and what never will: that is said when it is started again."""
        for key in report.written:
            said = self._unsaid.pop(key, None)
            if said is not None and said not in self._unsaid.values():
                self.send(self._session, Said(run=report.run, key=said, at=report.at))
        if report.lost:
            lost = tuple(dict.fromkeys(self._unsaid.values()))
            self._unsaid.clear()
            for key in lost:
                self.send(self._session, SayRefused(run=report.run, key=key, at=report.at))

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """By now the CLI has told of every call that had begun when the gate was closed."""
        self._announced = True
        self._check_gate()

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """Following or writing failed: the session decides."""
        self.send(self._session, report)

    # -- inner -------------------------------------------------------------------------------

    @property
    def _talk(self) -> Dialogue:
        if self._dialogue is None:
            raise RuntimeError("no dialogue yet")
        return self._dialogue

    @property
    def _follow_key(self) -> str:
        run = self._run
        return f"follow:{run.record.sid}:{run.run}" if run else ""

    def _observe(self, event: AgentEvent, place: Place, at: datetime) -> Observed:
        match event:
            case ToolCall():
                self._open_calls.add(event.call_id)
            case ToolResult():
                self._open_calls.discard(event.call_id)
            case TurnEnded():
                self._open_calls.clear()
                self._turn_awaited = False
                event = self._judged(event, place, at)
            case Retrying(error=ErrorSignal()):
                pass
            case _:
                pass
        return Observed(place=place, at=at, event=DEFAULT.redact_event(event)[0])

    def _judged(self, ended: TurnEnded, place: Place, at: datetime) -> TurnEnded:
        if ended.error is None or self._provider is None or at.tzinfo is None:
            return ended
        # What is read again after a restart was printed at an instant that nobody knows.
        live = self._run is None or not self._run.places.known(place)
        verdict = classify(
            ended.error,
            self._provider.wording,
            now=at,
            zone=at.tzinfo,
            printed_at=at if live else None,
        )
        return evolve(ended, verdict=as_failed(verdict))

    def _pass_up(self, run: int, known: list[Observed], new: list[Observed], at: datetime) -> None:
        if known:
            self.send(self._session, Observe(run=run, events=_merged(known), known=True))
        if new:
            self.send(self._session, Observe(run=run, events=_merged(new)))
        if not self._caught_up and self._run is not None:
            last = next((p for p in self._run.places.places if p.stream == "out"), None)
            passed = last is None or bool(new) or any(seen.place >= last for seen in known)
            if passed:
                self._caught_up = True
                self.send(self._session, CaughtUp(run=run, at=at))
        self._check_gate()

    def _check_gate(self) -> None:
        if (
            self._gate
            and self._announced
            and self._caught_up
            and not self._open_calls
            and self._run is not None
        ):
            self._gate = False
            self.send(self._session, SafePointReached(run=self._run.run, at=self.now))

    def _write(self, writes: tuple[Write, ...]) -> None:
        if not writes or self._run is None:
            return
        lines = tuple(effects.WriteLine(key=write.key, line=write.line) for write in writes)
        key = f"write:{self._run.record.sid}:{self._run.run}:{writes[0].key}"
        self.want(effects.WriteChild(key=key, record=self._run.record, run=self._run.run, lines=lines))


def _merged(events: list[Observed]) -> tuple[Observed, ...]:
    """Pieces of text that follow each other become one piece."""
    merged: list[Observed] = []
    for seen in events:
        last = merged[-1] if merged else None
        if (
            last is not None
            and isinstance(seen.event, AgentTextDelta)
            and isinstance(last.event, AgentTextDelta)
        ):
            whole = AgentTextDelta(text=last.event.text + seen.event.text)
            merged[-1] = evolve(seen, event=whole)
        else:
            merged.append(seen)
    return tuple(merged)
