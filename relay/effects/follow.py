"""Follows a run's output from an offset until the run has ended.

Called by the effects port for `FollowChild`. The end is judged by the exit status or by the death of the
run's processes, never by silence: survivors of the CLI may keep its files open.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import trio
from attrs import frozen

from relay.core.framing import LINE_LIMIT, Line, LineFramer
from relay.effects import child, processes
from relay.effects.processes import Identity
from relay.effects.spool import RunFolder, storing
from relay.effects.watch import Subscription, Watch, polling

TURN = 64 * 1024
"""Bytes read from a stream at one turn, so that no agent starves another."""
_LOOK_FOR_DEATH = 1.0
"""Seconds between two looks at the processes when nothing tells of their death, or there is much to read."""


@frozen(kw_only=True)
class OutputChunk:
    """Lines of one stream, in order.

    Args:
        stream: "out" or "err".
        lines: whole lines, at least one.
        offset_after: offset in the file behind the last of them; following from there gives the next.
    """

    stream: str
    lines: tuple[Line, ...]
    offset_after: int


@frozen(kw_only=True)
class RunEnded:
    """The CLI has ended and what it printed has been delivered.

    Args:
        status: its exit status, 128+n for signal n; None when it died together with its shim.
        signal: n, when the status tells of a signal.
    """

    status: int | None
    signal: int | None = None


class _Stream:
    """One followed file: what has been read of it, and the line that has not ended yet."""

    def __init__(self, folder: RunFolder, name: str, offset: int, limit: int) -> None:
        self.name = name
        self._reading = f"read {folder.file(name)}"
        with storing(self._reading):
            self._handle = folder.open(name, os.O_RDONLY)
        self._at = offset
        self._framer = LineFramer(limit=limit, base=offset)
        self._end: int | None = None

    def close(self) -> None:
        os.close(self._handle)

    def stop_here(self) -> None:
        """Read no further than the file now reaches."""
        if self._end is None:
            self._end = os.fstat(self._handle).st_size

    def turn(self) -> tuple[bool, list[Line]]:
        """Read once: whether there was anything, and the lines that it completes.

        The bytes were written a moment ago and lie in memory; a thread would cost more than the read.
        """
        size = TURN if self._end is None else min(TURN, self._end - self._at)
        with storing(self._reading):
            data = os.pread(self._handle, size, self._at) if size > 0 else b""
        self._at += len(data)
        return bool(data), self._framer.feed(data) if data else []

    def last(self) -> list[Line]:
        line = self._framer.close()
        return [line] if line else []


async def follow(
    folder: RunFolder,
    *,
    from_out: int,
    from_err: int,
    deliver: Callable[[OutputChunk], Awaitable[None]],
    watch: Watch | None = None,
    limit: int = LINE_LIMIT,
) -> RunEnded:
    """Deliver a run's lines until it has ended; the next are read when `deliver` has returned.

    Args:
        folder: the run's folder.
        from_out: offset in `out` to begin at: 0 or the `offset_after` of an earlier chunk.
        from_err: the same for `err`.
        deliver: takes the lines of one read, of at most 64 KiB or one long line.
        watch: wakes this follower; without one it polls.
        limit: bytes of a line that are kept.

    Returns:
        how the run ended. A run whose files were rewritten since is not read again.

    Raises:
        StoreError: the run's files cannot be read.
    """
    processes.require_posix()
    if folder.offsets().sealed:
        return _ended(folder)
    with ExitStack() as stack:
        streams = []
        for name, offset in (("out", from_out), ("err", from_err)):
            stream = _Stream(folder, name, offset, limit)
            stack.callback(stream.close)
            streams.append(stream)
        life = _Life(folder)
        alarm = stack.enter_context(watch.on(folder.path, life.shim) if watch else polling())
        await _read_to_the_end(streams, life, alarm, deliver)
    return _ended(folder)


async def _read_to_the_end(
    streams: list[_Stream],
    life: _Life,
    alarm: Subscription,
    deliver: Callable[[OutputChunk], Awaitable[None]],
) -> None:
    moved = False
    while True:
        alarm.arm()
        # Asked before the reads: what was printed before the end is there to be read after it.
        over = life.over(woken=not (moved or alarm.polling))
        moved = False
        for stream in streams:
            if over:
                stream.stop_here()
            found, lines = stream.turn()
            moved |= found
            await _hand_over(stream, lines, deliver)
        if moved:
            alarm.busy()
            await trio.lowlevel.checkpoint()
        elif over:
            break
        else:
            # Nothing tells of the death of a CLI that has lost its shim.
            alarm.polling |= life.orphaned
            await alarm.wait()
    for stream in streams:
        await _hand_over(stream, stream.last(), deliver)


async def _hand_over(
    stream: _Stream, lines: list[Line], deliver: Callable[[OutputChunk], Awaitable[None]]
) -> None:
    if lines:
        await deliver(OutputChunk(stream=stream.name, lines=tuple(lines), offset_after=lines[-1].end))


class _Life:
    """Whether the run goes on: until its status is there, or both the shim and the CLI are dead."""

    def __init__(self, folder: RunFolder) -> None:
        self.shim = folder.shim()
        self.orphaned = False
        self._folder = folder
        self._cli: Identity | None = None
        self._look_at = -math.inf

    def over(self, *, woken: bool) -> bool:
        if self._folder.ended():
            return True
        now = trio.current_time()
        if not woken and now < self._look_at:
            return False
        self._look_at = now + _LOOK_FOR_DEATH
        self._cli = self._cli or child.cli(self._folder)
        if self.shim is not None and processes.same(self.shim):
            return False
        self.orphaned = self._cli is not None and processes.same(self._cli)
        return not self.orphaned


def _ended(folder: RunFolder) -> RunEnded:
    status = folder.status()
    signal = status - 128 if status is not None and 128 < status < 128 + 65 else None
    return RunEnded(status=status, signal=signal)
