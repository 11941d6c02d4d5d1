"""The effects port: takes what actors want, performs it in Trio tasks, answers with reports.

Every effect is answered: an error becomes `EffectFailed`. One task an effect; effects that replace
each other (timers, following a run) cancel the earlier task of the same key; what must keep its order
(the writes to one child, the saves of one session) waits its turn in a lane of its own.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import trio

from relay import errors
from relay.core import effects, reports
from relay.effects import do_ambient, do_children, do_gc, do_journal, do_sessions, do_work
from relay.effects.killpoints import KillPoints
from relay.effects.timers import wait_awake, wait_until
from relay.effects.world import World

log = logging.getLogger("relay.effects")

Address = Any
Tell = Callable[[Address, Any], None]
Handler = Callable[[World, Any], Awaitable[Any]]

_HANDLERS: Mapping[type[Any], Handler] = {
    effects.SaveSession: do_sessions.save_session,
    effects.LoadSession: do_sessions.load_session,
    effects.ListUnfinished: do_sessions.list_unfinished,
    effects.StartChild: do_children.start_child,
    effects.WriteChild: do_children.write_child,
    effects.EndChild: do_children.end_child,
    effects.SealRun: do_children.seal_run,
    effects.TakeSnapshot: do_work.take_snapshot,
    effects.SealContract: do_work.seal_contract,
    effects.RunVerify: do_work.run_verify,
    effects.LocatePaths: do_work.locate_paths,
    effects.MergeSession: do_work.merge_session,
    effects.DiscardSession: do_work.discard_session,
    effects.UndoWorktree: do_sessions.undo_worktree,
    effects.SaveBreakers: do_journal.save_breakers,
    effects.LoadBreakers: do_journal.load_breakers,
    effects.ReserveSequence: do_journal.reserve_sequence,
    effects.LoadAmbient: do_ambient.load_ambient,
    effects.SaveAmbient: do_ambient.save_ambient,
    effects.SurveyAgents: do_ambient.survey_agents,
    effects.CollectGarbage: do_gc.collect_garbage,
}
_LANES: Mapping[type[Any], str] = {
    effects.SaveSession: "record",
    effects.LoadSession: "record",
    effects.WriteChild: "write",
    effects.StartChild: "child",
    effects.EndChild: "child",
    effects.TakeSnapshot: "work",
    effects.SealContract: "work",
    effects.SealRun: "seal",
    effects.SaveBreakers: "breakers",
    effects.SaveAmbient: "ambient",
    effects.CollectGarbage: "gc",
    effects.AppendAudit: "audit",
}
"""Effects that are done one after the other, as they were asked for, per session."""


class EffectsPort:
    """See the module.

    Args:
        world: the surroundings of every effect.
        nursery: where the tasks run.
        tell: gives a report to an actor.
    """

    def __init__(self, world: World, nursery: trio.Nursery, tell: Tell) -> None:
        self._world = world
        self._nursery = nursery
        self._tell = tell
        self._scopes: dict[tuple[str, str], trio.CancelScope] = {}
        self._lanes: dict[str, deque[tuple[effects.Effect, Address]]] = {}
        self._journal = do_journal.Logs(world)
        self._points = KillPoints.of(world.env)

    def perform(self, effect: effects.Effect, reply_to: Address) -> None:
        """Note the effect; its task starts at the next turn of the loop."""
        owner = str(reply_to)
        if self._points is not None:
            self._points.passed("before", effect)
        match effect:
            case effects.CancelTimer():
                self._cancel(owner, effect.key)
            case effects.StopFollowing():
                self._cancel("", effect.follow_key)
            case effects.Broadcast():
                self._world.publish(effect.entries)
                if self._points is not None:
                    self._points.passed("after", effect)
            case effects.EndDaemon():
                self._world.end(effect.reason)
            case effects.SetTimer():
                self._exclusive(owner, effect.key, partial(self._timer, effect, reply_to))
            case effects.FollowChild():
                self._exclusive("", effect.key, partial(self._follow, effect, reply_to))
            case _ if type(effect) in _LANES:
                self._queue(effect, reply_to)
            case _:
                self._nursery.start_soon(self._do, effect, reply_to)

    def _queue(self, effect: effects.Effect, reply_to: Address) -> None:
        # Trio starts the tasks of one turn in any order: the order is kept here.
        record = getattr(effect, "record", None)
        lane = f"{_LANES[type(effect)]}:{record.sid if record else getattr(effect, 'sid', '')}"
        waiting = self._lanes.get(lane)
        if waiting is not None:
            waiting.append((effect, reply_to))
            return
        self._lanes[lane] = deque([(effect, reply_to)])
        self._nursery.start_soon(self._work_off, lane)

    async def _work_off(self, lane: str) -> None:
        waiting = self._lanes[lane]
        while waiting:
            await self._do(*waiting[0])
            waiting.popleft()
        del self._lanes[lane]

    async def _do(self, effect: effects.Effect, reply_to: Address) -> None:
        try:
            if isinstance(effect, effects.AppendAudit):
                report: Any = await self._journal.append(effect)
            elif isinstance(effect, effects.PrepareWorktree):
                report = await do_sessions.prepare_worktree(self._world, effect, self._journal.ready)
            else:
                report = await _HANDLERS[type(effect)](self._world, effect)
        except Exception as error:  # noqa: BLE001  (an effect that fails answers; it never disappears)
            report = self._failure(effect, error)
        self._answer(effect, reply_to, report)

    async def _timer(self, effect: effects.SetTimer, reply_to: Address) -> None:
        clock = self._world.clock
        if effect.through_sleep:
            await wait_until(effect.at, clock=clock, jitter=effect.jitter)
        else:
            await wait_awake((effect.at - clock()).total_seconds(), jitter=effect.jitter)
        self._answer(effect, reply_to, reports.TimerFired(key=effect.key, at=self._world.clock()))

    async def _follow(self, effect: effects.FollowChild, reply_to: Address) -> None:
        try:
            await do_children.follow_child(self._world, effect, partial(self._answer, effect, reply_to))
        except Exception as error:  # noqa: BLE001  (answered as a failure)
            self._answer(effect, reply_to, self._failure(effect, error))

    def _answer(self, effect: effects.Effect, reply_to: Address, report: Any) -> None:
        points = self._points
        if points is not None:
            points.passed("after", effect)
        if report is not None:
            self._tell(reply_to, report)
        if points is not None:
            points.passed("reported", effect)

    def _exclusive(self, owner: str, key: str, task: Callable[[], Awaitable[None]]) -> None:
        self._cancel(owner, key)
        scope = self._scopes[(owner, key)] = trio.CancelScope()

        async def run() -> None:
            with scope:
                await task()
            if self._scopes.get((owner, key)) is scope:
                del self._scopes[(owner, key)]

        self._nursery.start_soon(run)

    def _cancel(self, owner: str, key: str) -> None:
        scope = self._scopes.pop((owner, key), None)
        if scope is not None:
            scope.cancel()

    def _failure(self, effect: Any, error: Exception) -> reports.EffectFailed:
        name = type(effect).__name__
        if isinstance(error, errors.RelayError):
            code, message, hint = error.code, error.message, error.hint
        else:
            log.error("%s failed:\n%s", name, "".join(traceback.format_exception(error)))
            code, message, hint = "internal", f"{type(error).__name__}: {error}", "the daemon's log has more"
        return reports.EffectFailed(
            key=effect.key, at=self._world.clock(), effect=name, code=code, message=message, hint=hint
        )

    def close(self) -> None:
        """Close the logs."""
        self._journal.close()
