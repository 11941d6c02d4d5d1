"""Ends a run and proves that nothing of it is left.

Called by the effects port for `EndChild`, also for a run that has ended by itself: its servers and tools
may have stayed. First comes the provider's own way, step by step, then KILL, then whatever is left of the
run outside its process group: agents start their commands in sessions of their own and leave them behind
(seen with Claude Code 2.1.332 on KILL and Codex 0.171.0 on TERM).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress

import trio
from attrs import frozen

from relay.effects import child, processes, stdin
from relay.effects.processes import Found, Identity
from relay.effects.spool import RunFolder
from relay.providers.protocol import StopStep

TERM_GRACE = 2.0
"""Seconds that the rest of a run has between TERM and KILL."""
_KILL_GRACE = 2.0
_KILL_ROUNDS = 5
_START_GRACE = 2.0


@frozen(kw_only=True)
class Ended:
    """What ended a run.

    Args:
        how: "ended" (it had ended by itself), "input" (the end of its input), or the signal that did it:
            "INT", "TERM", "KILL", ...
        status: the CLI's exit status, 128+n for signal n, if it is known.
        killed: pids of the processes beside the CLI that had to be ended.
        left: pids of those that would not die or are not ours to signal; empty when all is well.
    """

    how: str
    status: int | None = None
    killed: tuple[int, ...] = ()
    left: tuple[int, ...] = ()


async def end(
    folder: RunFolder,
    marker: str,
    steps: Iterable[StopStep],
    *,
    input_grace: float = 0.0,
    term_grace: float = TERM_GRACE,
) -> Ended:
    """End a run. Idempotent: when nothing is alive, nothing is done.

    Args:
        folder: the run's folder; it may be missing, then the marker alone decides.
        marker: value of `RELAY_RUN`.
        steps: the provider's, tried in turn until the CLI has ended; KILL follows by itself.
        input_grace: seconds to wait for the CLI to end after its input is closed, before the first step;
            0 leaves its input open.
        term_grace: seconds that processes beside the CLI have between TERM and KILL.
    """
    processes.require_posix()
    run = _Run(folder, marker)
    if folder.ended():
        # The status is written a moment before the shim and its helpers are gone.
        await run.over(_START_GRACE)
    alive = await run.look()
    how = "ended"
    if run.going_on():
        how = await _end_cli(run, steps, input_grace)
        alive = await run.look()
    killed, left = await _end_rest(run, alive, term_grace)
    if run.shim is not None:
        processes.reap(run.shim.pid)
    record = folder.record()
    if record is not None and record.fifo:
        with suppress(OSError):
            os.unlink(record.fifo)  # noqa: PTH108
    return Ended(how=how, status=folder.status(), killed=killed, left=left)


async def sweep(prefix: str, *, keep: Collection[str] = (), term_grace: float = TERM_GRACE) -> Ended:
    """End everything whose marker starts with `prefix`, save the runs of the markers in `keep`.

    For the daemon's start: what an earlier one left that no run folder tells of.
    """
    processes.require_posix()
    killed: list[int] = []
    left: list[int] = []
    for marker in sorted({found.marker for found in await processes.leftovers(prefix)} - set(keep)):
        run = _Run(None, marker)
        now_killed, now_left = await _end_rest(run, await run.look(), term_grace)
        killed += now_killed
        left += now_left
    return Ended(how="swept", killed=tuple(killed), left=tuple(left))


class _Run:
    """The processes of one run, as far as they have been seen."""

    def __init__(self, folder: RunFolder | None, marker: str) -> None:
        self._folder = folder
        self._marker = marker
        self._known: dict[Identity, Found] = {}
        self.shim = folder.shim() if folder else None
        self.cli: Identity | None = None
        self.holder = folder.holder_pid() if folder else None
        """Holds the input open; it is no process of the agent's, and its shim has ended it."""

    async def look(self) -> tuple[Found, ...]:
        """Scan: the live processes of the run. Whatever was seen once is known from then on."""
        if self._folder is not None:
            self.cli = self.cli or child.cli(self._folder)
        alive = processes.family(
            await processes.everyone(),
            marker=self._marker,
            shim=self.shim,
            ended_at=self._folder.ended_at() if self._folder else None,
            known=self._known,
        )
        self._known = {found.who: found for found in alive}
        return alive

    def going_on(self) -> bool:
        """The CLI is alive, or its shim is about to write its status."""
        return any(who is not None and processes.same(who) for who in (self.shim, self.cli))

    async def over(self, grace: float) -> bool:
        """Wait for the end of the CLI and its shim, `grace` seconds at most."""
        with trio.move_on_after(grace):
            for who in (self.shim, self.cli):
                if who is not None:
                    await processes.gone(who)
            return True
        return not self.going_on()

    async def started(self) -> None:
        """Wait until the CLI has been started, so that it can be signalled."""
        await processes.until(self._cli_known, _START_GRACE)

    def _cli_known(self) -> bool:
        if self._folder is not None:
            self.cli = self.cli or child.cli(self._folder)
        return self.cli is not None or self.shim is None or not processes.same(self.shim)

    def signal_cli(self, number: int) -> None:
        if self.cli is not None:
            processes.send(self.cli, number)

    def signal_group(self, number: int) -> None:
        # The group's number is the shim's pid, and its own for as long as that is alive.
        if self.shim is not None and processes.same(self.shim):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.shim.pid, number)
            return
        for found in self._known.values():
            if self.shim is not None and found.group == self.shim.pid:
                processes.send(found.who, number)

    def kill_group(self) -> None:
        """KILL all of the group but the shim, which still has to write the status."""
        for found in self._known.values():
            if self.shim is not None and found.group == self.shim.pid and found.who != self.shim:
                processes.send(found.who, signal.SIGKILL)
        self.signal_cli(signal.SIGKILL)

    async def close_input(self) -> bool:
        return self._folder is not None and await stdin.close_stdin(self._folder, patience=_START_GRACE)


async def _end_cli(run: _Run, steps: Iterable[StopStep], input_grace: float) -> str:
    if input_grace > 0 and await run.close_input() and await run.over(input_grace):
        return "input"
    await run.started()
    if not run.going_on():
        return "ended"
    for step in steps:
        if not run.going_on():
            return "ended"
        # Before the signal: afterwards the orphans of the CLI may be recognised by nothing any more.
        await run.look()
        number = signal.Signals[f"SIG{step.signal}"]
        if step.group and number == signal.SIGKILL:
            run.kill_group()
        elif step.group:
            run.signal_group(number)
            run.signal_group(signal.SIGCONT)
        else:
            run.signal_cli(number)
            run.signal_cli(signal.SIGCONT)
        if await run.over(step.grace):
            return step.signal
    await run.look()
    run.kill_group()
    if not await run.over(_KILL_GRACE):
        run.signal_group(signal.SIGKILL)
        await run.over(_KILL_GRACE)
    return "KILL"


async def _end_rest(
    run: _Run, alive: tuple[Found, ...], term_grace: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    killed: dict[int, None] = {}
    number, grace = signal.SIGTERM, term_grace
    for _ in range(1 + _KILL_ROUNDS):
        if not alive:
            break
        for found in alive:
            if processes.send(found.who, number):
                if found.who.pid != run.holder:
                    killed[found.who.pid] = None
                processes.send(found.who, signal.SIGCONT)
        with trio.move_on_after(grace):
            for found in alive:
                await processes.gone(found.who)
        alive = await run.look()
        number, grace = signal.SIGKILL, _KILL_GRACE
    left = tuple(found.who.pid for found in alive)
    return tuple(pid for pid in killed if pid not in left), left
