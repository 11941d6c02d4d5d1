"""Any order in which effects can come off, with crashes, failures and a person's commands in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core import commands
from relay.core.fsm import State
from tests.fakes.agents import (
    HITS_LIMIT,
    WORKS,
    Agent,
    Err,
    Exit,
    Hang,
    Work,
    ask,
    call,
    done,
    failed,
    limit,
    plan,
    quota,
    result,
    text,
)
from tests.fakes.port import ALPHA, BETA, WORK, Daemon
from tests.fakes.world import FakeWorld, Fault

OVERLOADED = failed("overloaded", "The model is overloaded.")
AGENTS = {
    "works": WORKS,
    "hits its limit": HITS_LIMIT,
    "limit at once": Agent(turns=((limit(None),),)),
    "limit on stderr": Agent(turns=((text("Hm."), Err("You've reached your usage limit."), Exit(1)),)),
    "near its limit": Agent(turns=((quota(0.9), text("a"), call("c"), Work(), result("c"), done()),)),
    "done too early": Agent(turns=((done(),), (Work(), done()))),
    "open plan": Agent(turns=((plan(a="pending"), done()), (plan(a="completed"), done()))),
    "overloaded": Agent(turns=((text("a"), OVERLOADED), (Work(), done()))),
    "always overloaded": Agent(turns=((OVERLOADED,),)),
    "hangs": Agent(turns=((text("Thinking."), call("c"), Hang(), result("c"), done()), (done(),))),
    "stubborn": Agent(turns=((call("c"), Hang()),), stubborn=True, last_words=(text("Killed!"),)),
    "one way": Agent(turns=((call("c"), Work(), result("c"), done()),), one_way=True),
    "ends at once": Agent(opening=(Exit(1),)),
    "silent": Agent(silent=True),
    "asks": Agent(turns=((call("c"), ask("c", "shell", command="rm -r x"), done()),)),
    "edits": Agent(turns=((call("c", "edit"), ask("c", "edit", path="a.py"), Work(), done()),)),
    "overflows": Agent(turns=((failed("context_overflow", "too long"),),)),
    "signed out": Agent(turns=((failed("signed_out", "You are not signed in."),),)),
    "dies": Agent(turns=((call("c"), Exit(137)),)),
}
COMMANDS: tuple[tuple[type[Any], dict[str, Any]], ...] = (
    (commands.Pause, {}),
    (commands.Resume, {}),
    (commands.HandOff, {}),
    (commands.HandOff, {"to": BETA}),
    (commands.Reply, {"text": "mind the tests"}),
    (commands.Stop, {}),
)
FAULTS = ("SaveSession", "TakeSnapshot", "SealContract", "EndChild", "StartChild", "AppendAudit", "RunVerify")
DISTURBANCE = 100
"""Numbers below it are steps; those above are crashes, failures and commands."""


@st.composite
def scripts(draw: st.DrawFn) -> list[int]:
    """Long ones too: drawn from a seed, since drawn one by one they stay short."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    density = draw(st.sampled_from([0.0, 0.03, 0.1, 0.3]))
    length = draw(st.integers(0, 400))
    highest = DISTURBANCE - 1
    return [
        chance.randint(DISTURBANCE, DISTURBANCE + 40)
        if chance.random() < density
        else chance.randint(0, highest)
        for _ in range(length)
    ]


def play(daemon: Daemon, script: list[int], options: dict[str, Any]) -> None:
    """Do what the numbers say."""
    for number in script:
        disturbance = number - DISTURBANCE
        if 0 <= disturbance < 10:
            daemon.crash()
            if "s-1" not in daemon.world.saved:
                daemon.create(**options)
        elif 10 <= disturbance < 10 + len(FAULTS):
            daemon.world.faults[FAULTS[disturbance - 10]].append(Fault())
        elif disturbance >= 20:
            kind, values = COMMANDS[disturbance % len(COMMANDS)]
            daemon.command(kind, **values)
        elif steps := daemon.steps():
            # Low numbers take the usual order, so that many scripts come far.
            daemon.take(steps[0 if number < 30 else number % len(steps)])


def to_rest(daemon: Daemon) -> None:
    """Let everything happen that can; wait for no timer once the session is over."""
    daemon.world.faults.clear()
    if "s-1" not in daemon.world.saved:
        daemon.run(timers=False)
    daemon.run(lambda: daemon.world.ended() or not daemon.steps())
    daemon.run(timers=False)


def working(world: FakeWorld) -> bool:
    """The session's agent has something to do, and it is the agent's turn."""
    return any(process.in_turn or process.agent.silent for process in world.runs.values() if process.alive)


def doubled(places: list[tuple[int, str, int, int]]) -> Iterator[tuple[int, str, int, int]]:
    last: dict[tuple[int, str], tuple[int, int]] = {}
    for run, stream, offset, index in places:
        if last.get((run, stream), (-1, -1)) >= (offset, index):
            yield (run, stream, offset, index)
        last[(run, stream)] = (offset, index)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    names=st.lists(st.sampled_from(sorted(AGENTS)), min_size=1, max_size=4),
    chain=st.sampled_from([(ALPHA,), (ALPHA, BETA), (ALPHA, WORK, BETA)]),
    verify=st.sampled_from([(), ("make test",)]),
    needs=st.integers(0, 2),
    resumable=st.booleans(),
    script=scripts(),
)
def test_every_order_keeps_the_promises(
    names: list[str], chain: Any, verify: Any, needs: int, resumable: bool, script: list[int]
) -> None:
    agents = {number: AGENTS[name] for number, name in enumerate(names, 1)}
    world = FakeWorld(agents=agents, accepts=lambda work: work >= needs, resumable=resumable)
    daemon = Daemon(world).start()
    options = {"chain": chain, "verify": verify}
    daemon.create(**options)
    try:
        play(daemon, script, options)
        to_rest(daemon)
        assert world.violations == []
        if "s-1" not in world.saved:
            return
        record = world.record()
        if record.ended:
            assert world.alive() == []
        elif not (record.state is State.WAITING and record.hold):
            assert record.state in (State.RUNNING, State.RESUMING)
            assert working(world)
        places = world.journaled()
        assert list(doubled(places)) == []
        assert {place for place in places if place[1] != "exit"} == world.printed()
        numbers = [entry.seq for entry in world.shown]
        assert numbers == sorted(set(numbers))
        assert {entry.seq for entry in world.shown} <= {e.seq for log in world.audit.values() for e in log}
    finally:
        daemon.close()
