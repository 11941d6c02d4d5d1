"""A daemon whose effects port is scripted: the test decides what is done next, and when it crashes.

`Daemon` runs the real actor system. Effects that actors want are collected; `steps()` lists what could
happen next in the real world, `take` makes one of them happen. An effect takes two steps: it is performed,
and then its report arrives. `crash` drops the actors with everything that was under way; the world stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from attrs import define, evolve, field, frozen

from relay.actors import messages
from relay.actors.runtime import Runtime
from relay.core import commands, effects, reports
from relay.core.chain import Target
from relay.core.record import Options
from tests.fakes.world import REPOSITORY, FakeWorld, Fault

ALPHA, WORK, BETA = (
    Target(provider="alpha"),
    Target(provider="alpha", account="work"),
    Target(provider="beta"),
)

Begin = Callable[..., "Daemon"]
"""The fixture `begin` of the actors' tests."""

_OLD_RECORD = (effects.SaveSession, effects.FollowChild, effects.WriteChild)
"""What carries a record that is not what is saved: the one to be saved, or the one its run began with."""

_LANES = {
    effects.SaveSession: "save",
    effects.LoadSession: "save",
    effects.WriteChild: "write",
    effects.SaveBreakers: "breakers",
    effects.StartChild: "child",
    effects.EndChild: "child",
    effects.TakeSnapshot: "snapshot",
    effects.SealContract: "contract",
    effects.AppendAudit: "audit",
}
"""Effects that the port does in the order in which they were asked for, per session."""


@define(eq=False)
class Asked:
    """An effect under way; `report` is there once it was performed."""

    effect: effects.Effect
    reply_to: Any
    lane: str
    performed: bool = False
    report: Any = None


@define(eq=False)
class Following:
    """A run that is followed: how far its streams have been delivered."""

    effect: effects.FollowChild
    reply_to: Any
    out: int = 0
    err: int = 0
    opened: bool = False


@frozen(eq=False)
class Step:
    """Something that can happen next. `kind`: perform, report, read, act, or timer."""

    kind: str
    what: str
    subject: Any = field(repr=False)


@define
class Daemon:
    """See the module.

    Args:
        world: the durable outside.
        policy: the repository's settings, as they travel.
    """

    world: FakeWorld
    policy: Mapping[str, Any] = field(factory=dict)
    answers: dict[str, commands.Answer] = field(factory=dict)
    asked: list[Asked] = field(factory=list)
    followed: dict[str, Following] = field(factory=dict)
    timers: dict[tuple[str, str], tuple[datetime, int, effects.SetTimer, Any]] = field(factory=dict)
    issued: list[effects.Effect] = field(factory=list)
    lives: int = 0
    _runtime: Runtime | None = None
    _count: int = 0

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Daemon:
        """Begin a life: the actors, then what was not over."""
        self.lives += 1
        self._runtime = Runtime(self._collect, self._deliver)
        self._runtime.begin(self.world.now, {REPOSITORY: self.policy})
        return self

    def crash(self) -> None:
        """End the life at once; only the world is left."""
        self.close()
        self.start()

    def close(self) -> None:
        """Drop the actors and what was under way."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.shutdown()
        self.asked.clear()
        self.followed.clear()
        self.timers.clear()

    # -- requests ----------------------------------------------------------------------------

    def create(self, sid: str = "s-1", **options: Any) -> str:
        """Ask for a session; its correlation id."""
        options = {"goal": "build it", "chain": (ALPHA, BETA), **options}
        return self._request(
            lambda correlation: messages.CreateSession(
                correlation=correlation,
                sid=sid,
                repository=REPOSITORY,
                options=Options(**options),
                policy=self.policy,
                at=self.world.now,
            )
        )

    def command(self, kind: type[Any], sid: str = "s-1", **values: Any) -> str:
        """A command for a session; its correlation id."""
        command = kind(at=self.world.now, by="tester", **values)
        return self._request(
            lambda correlation: messages.CommandSession(
                correlation=correlation, sid=sid, repository=REPOSITORY, command=command
            )
        )

    def ask_root(self, kind: type[Any], **values: Any) -> str:
        """Any other request; its correlation id."""
        return self._request(lambda correlation: kind(correlation=correlation, **values))

    def _request(self, make: Callable[[str], Any]) -> str:
        self._count += 1
        correlation = str(self._count)
        self.runtime.ask_root(make(correlation))
        return correlation

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None, "the daemon is not running"
        return self._runtime

    # -- the border --------------------------------------------------------------------------

    def _deliver(self, answered: messages.Answered) -> None:
        self.answers[answered.correlation] = answered.answer

    def _collect(self, effect: effects.Effect, reply_to: Any) -> None:
        self.issued.append(effect)
        self._check_saved_first(effect)
        owner = str(reply_to)
        match effect:
            case effects.CancelTimer():
                self.timers.pop((owner, effect.key), None)
            case effects.StopFollowing():
                self.followed.pop(effect.follow_key, None)
            case effects.Broadcast():
                self.world.shown.extend(effect.entries)
            case effects.EndDaemon():
                self.world.ended_daemon = effect.reason
            case effects.SetTimer():
                self._count += 1
                self.timers[(owner, effect.key)] = (effect.at, self._count, effect, reply_to)
            case effects.FollowChild():
                self.followed[effect.key] = Following(effect, reply_to)
            case _:
                record = getattr(effect, "record", None)
                lane = _LANES.get(type(effect), "")
                session = record.sid if record is not None else getattr(effect, "sid", "")
                self.asked.append(Asked(effect, reply_to, f"{lane}:{session}" if lane else ""))

    def _check_saved_first(self, effect: effects.Effect) -> None:
        record = getattr(effect, "record", None)
        if record is None or isinstance(effect, _OLD_RECORD):
            return
        durable = self.world.saved.get(record.sid, {}).get("state", "DISPATCHED")
        if durable != record.state:
            name = type(effect).__name__
            self.world.violations.append(f"{name} is asked for in {record.state}, but {durable} is saved")

    # -- steps -------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        """What could happen next, in the order in which it happens when nothing is slow."""
        found = [Step("report", _name(asked.effect), asked) for asked in self.asked if asked.performed]
        lanes: set[str] = set()
        for asked in self.asked:
            if asked.lane and asked.lane in lanes:
                continue
            lanes.add(asked.lane)
            if not asked.performed:
                found.append(Step("perform", _name(asked.effect), asked))
        found += [Step("read", key, f) for key, f in self.followed.items() if self._has_more(f)]
        found += [Step("act", str(run), p) for run, p in self.world.runs.items() if p.can_act]
        if self.timers:
            owner = min(self.timers, key=lambda key: self.timers[key][:2])
            found.append(Step("timer", owner[1], owner))
        return found

    def take(self, step: Step) -> None:
        """Make it happen."""
        self.world.pass_time()
        match step.kind:
            case "perform":
                asked = step.subject
                asked.report = self.world.perform(asked.effect)
                asked.performed = True
                if asked.report is None:
                    self.asked.remove(asked)
            case "report":
                self.asked.remove(step.subject)
                self._tell(step.subject.reply_to, step.subject.report)
            case "read":
                self._read(step.subject)
            case "act":
                step.subject.act()
            case "timer":
                at, _, effect, reply_to = self.timers.pop(step.subject)
                self.world.now = max(self.world.now, at)
                self._tell(reply_to, reports.TimerFired(key=effect.key, at=self.world.now))

    def run(self, until: Callable[[], bool] | None = None, *, timers: bool = True, most: int = 5000) -> None:
        """Take steps in their usual order until the condition holds, or nothing is left to happen."""
        for _ in range(most):
            if until is not None and until():
                return
            steps = self.steps()
            if not timers:
                steps = [step for step in steps if step.kind != "timer"]
            if not steps:
                if until is not None:
                    raise AssertionError(f"nothing is left to happen: {self.world.states()}")
                return
            self.take(steps[0])
        raise AssertionError(f"it does not come to rest: {self.world.states()[-20:]}")

    def run_until(self, state: str, sid: str = "s-1") -> None:
        """Until the session has come to a state and all that follows but for the clock is done."""
        self.run(lambda: self.world.states(sid)[-1:] == [state])
        self.run(timers=False)

    def run_until_ended(self, sid: str = "s-1") -> None:
        """Until the session is over, and what it left to do is done."""
        self.run(lambda: self.world.ended(sid))
        self.run(timers=False)

    def _tell(self, reply_to: Any, report: Any) -> None:
        self.runtime.tell(reply_to, evolve(report, at=self.world.now))

    def _has_more(self, following: Following) -> bool:
        process = self.world.runs.get((following.effect.record.sid, following.effect.run))
        if process is None or not following.opened:
            return True
        more = following.out < len(process.out) or following.err < len(process.err)
        return more or not process.alive

    def _read(self, following: Following) -> None:
        """The next line, the run's opening, or its end."""
        effect, key = following.effect, following.effect.key
        now, run = self.world.now, effect.run
        if not following.opened:
            following.opened = True
            try:
                self._tell(following.reply_to, self.world.opened(effect))
            except Fault as fault:
                del self.followed[key]
                self._tell(following.reply_to, _failure(effect, fault, now))
            return
        process = self.world.runs[(effect.record.sid, run)]
        for stream, lines, at in (("err", process.err, following.err), ("out", process.out, following.out)):
            if at < len(lines):
                setattr(following, stream, at + 1)
                read = reports.OutputRead(key=key, at=now, run=run, stream=stream, lines=(lines[at],))
                self._tell(following.reply_to, read)
                return
        del self.followed[key]
        self._tell(following.reply_to, reports.ChildEnded(key=key, at=now, run=run, status=process.status))


def _name(effect: effects.Effect) -> str:
    return f"{type(effect).__name__} {effect.key}"


def _failure(effect: effects.Effect, fault: Fault, now: datetime) -> reports.EffectFailed:
    return reports.EffectFailed(
        key=effect.key, at=now, effect=type(effect).__name__, code=fault.code, message=fault.message
    )
