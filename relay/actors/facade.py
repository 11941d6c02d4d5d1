"""The facade: how the API talks with the actors. Each request awaits its own answer, with a deadline."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import trio

from relay import errors
from relay.actors import messages
from relay.actors.messages import Answered
from relay.actors.runtime import Runtime
from relay.core.commands import Accepted, Answer, Command, Discard, Merge, Refused
from relay.core.effects import JournalEntry
from relay.core.facts import SessionFacts
from relay.core.record import Options
from relay.core.wire import to_wire

TREE_SECONDS = 900.0
"""Merging or discarding a session changes whole checkouts: minutes where a hundred thousand files changed."""


class Facade:
    """Requests to the actor tree.

    Args:
        clock: the present instant, aware.
        deadline: seconds to wait for an answer.
    """

    def __init__(self, clock: Callable[[], datetime], *, deadline: float = 30.0) -> None:
        self._clock = clock
        self._deadline = deadline
        self._numbers = itertools.count(1)
        self._waiting: dict[str, trio.Event] = {}
        self._answers: dict[str, Answer] = {}
        self._runtime: Runtime | None = None

    def bind(self, runtime: Runtime) -> None:
        """Give the facade its runtime; done once, at the start."""
        self._runtime = runtime

    def deliver(self, answered: Answered) -> None:
        """An answer has come; one that nobody awaits any more is dropped."""
        event = self._waiting.get(answered.correlation)
        if event is not None:
            self._answers[answered.correlation] = answered.answer
            event.set()

    async def create(
        self,
        sid: str,
        repository: str,
        options: Options,
        policy: Mapping[str, Any],
        facts: SessionFacts | None = None,
    ) -> Mapping[str, Any]:
        """Begin a session; returns once it is saved. `facts`: what is known of work that is adopted."""
        return await self._ask(
            lambda correlation: messages.CreateSession(
                correlation=correlation,
                sid=sid,
                repository=repository,
                options=options,
                policy=policy,
                at=self._clock(),
                facts=None if facts is None else to_wire(facts),
            ),
            deadline=max(self._deadline, 120.0),
        )

    async def command(self, sid: str, repository: str, command: Command) -> Mapping[str, Any]:
        """A command for one session."""
        return await self._ask(
            lambda correlation: messages.CommandSession(
                correlation=correlation, sid=sid, repository=repository, command=command
            ),
            deadline=max(self._deadline, TREE_SECONDS) if isinstance(command, Merge | Discard) else None,
        )

    async def sessions(self) -> Mapping[str, Any]:
        """The live view of the sessions that have an actor."""
        return await self._ask(lambda correlation: messages.DescribeSessions(correlation=correlation))

    async def providers(self) -> Mapping[str, Any]:
        """Breakers and quotas."""
        return await self._ask(
            lambda correlation: messages.DescribeProviders(correlation=correlation, at=self._clock())
        )

    async def isolate(self, target: str, isolated: bool) -> Mapping[str, Any]:
        """Take a target out of service, or put it back."""
        return await self._ask(
            lambda correlation: messages.IsolateProvider(
                correlation=correlation, target=target, isolated=isolated, at=self._clock()
            )
        )

    async def approvals(self) -> Mapping[str, Any]:
        """What waits for a person."""
        return await self._ask(lambda correlation: messages.ListApprovals(correlation=correlation))

    async def decide(self, approval: str, allowed: bool, note: str, by: str) -> Mapping[str, Any]:
        """A person's answer to a permission request."""
        return await self._ask(
            lambda correlation: messages.DecideApproval(
                correlation=correlation,
                approval=approval,
                allowed=allowed,
                note=note,
                by=by,
                at=self._clock(),
            )
        )

    async def clear_away(self, *, dry_run: bool, keep_days: float | None) -> Mapping[str, Any]:
        """Clear away what is left of ended sessions."""
        return await self._ask(
            lambda correlation: messages.ClearAway(
                correlation=correlation, dry_run=dry_run, keep_days=keep_days
            ),
            deadline=max(self._deadline, 600.0),
        )

    async def tree(self) -> Mapping[str, Any]:
        """The live actor tree."""
        return await self._ask(lambda correlation: messages.DescribeTree(correlation=correlation))

    def record(self, entry: JournalEntry) -> None:
        """Put an event of the daemon's own into the log."""
        if self._runtime is not None:
            self._runtime.ask_root(messages.RecordEvent(entry=entry))

    async def _ask(self, make: Callable[[str], Any], *, deadline: float | None = None) -> Mapping[str, Any]:
        if self._runtime is None:
            raise errors.InternalError("the facade has no runtime yet")
        correlation = str(next(self._numbers))
        event = self._waiting[correlation] = trio.Event()
        seconds = deadline or self._deadline
        try:
            self._runtime.ask_root(make(correlation))
            with trio.move_on_after(seconds) as scope:
                await event.wait()
            if scope.cancelled_caught:
                raise errors.TimedOutError(
                    f"no answer within {seconds:.0f} s", hint="`relay status` tells whether it was done"
                )
            answer = self._answers[correlation]
        finally:
            self._waiting.pop(correlation, None)
            self._answers.pop(correlation, None)
        if isinstance(answer, Refused):
            kind = errors.BY_CODE.get(answer.code, errors.InternalError)
            raise kind(answer.message, hint=answer.hint)
        return answer.data if isinstance(answer, Accepted) else {}
