"""What the operating system knows about processes: who is who, who belongs to a run, who is dead.

Used by the starting, following and ending of children and by the sweep at the daemon's start. A pid alone
never names a process here: an `Identity` also holds when it started, so that a pid that the system has
given to somebody else is not taken for ours, and a zombie counts as dead.

Facts used: `/proc/<pid>/stat` and `/proc/<pid>/environ` as in proc(5); pidfd_open(2) since Linux 5.3; a pid
is not given out again while a session or group is named by it. Elsewhere psutil answers (7.2).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil
import trio
from attrs import frozen

from relay.effects import proc_reading
from relay.effects.marker import MARKER
from relay.errors import UserError

_FIRST_POLL, _LAST_POLL = 0.005, 0.1
_EXEC_TRIES, _EXEC_SECONDS = 25, 0.002
_VSIZE, _ENV_START, _ENV_END = 20, 47, 48
"""Where proc(5) has these in `/proc/<pid>/stat`, counted from the state."""
_handles: dict[int, subprocess.Popen[bytes]] = {}


@frozen(kw_only=True)
class Identity:
    """One process, for good.

    Args:
        pid: its number.
        start: when it started, in the system's own terms; only compared for equality.
    """

    pid: int
    start: str


@frozen(kw_only=True)
class Found:
    """A process as a scan saw it.

    Args:
        who: its identity.
        parent: pid of its parent.
        group: id of its process group.
        session: id of its session, the pid of the session's first process.
        marker: the run it carries in its environment, or "".
        dead: it is a zombie.
    """

    who: Identity
    parent: int
    group: int
    session: int
    marker: str
    dead: bool


def require_posix() -> None:
    """Raise a UserError on Windows, where children need pipes and a Job Object instead."""
    if os.name != "posix":
        raise UserError(
            "Relay cannot run agents on Windows itself yet",
            hint="run Relay inside the Windows Subsystem for Linux",
        )


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _marker_in(environ: bytes) -> str:
    _, found, rest = (b"\0" + environ).partition(b"\0" + MARKER.encode() + b"=")
    return os.fsdecode(rest.partition(b"\0")[0]) if found else ""


def _stat_in_proc(pid: int) -> list[bytes]:
    """Fields of `/proc/<pid>/stat` from the third on (proc(5)): the state is the first here."""
    # The name in parentheses may hold anything, parentheses too.
    return proc_reading.whole(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _environ_in_proc(pid: int, fields: list[bytes]) -> bytes:
    """The environment, which the kernel tells as empty for a moment while a process begins a program."""
    for _ in range(_EXEC_TRIES):
        environ = proc_reading.whole(f"/proc/{pid}/environ")
        has_no_memory = len(fields) > _VSIZE and fields[_VSIZE] == b"0"
        really_empty = len(fields) > _ENV_END and fields[_ENV_START] == fields[_ENV_END] != b"0"
        if environ or has_no_memory or really_empty:
            return environ
        # In place: also asked where nothing can be awaited, and over before another task had its turn.
        time.sleep(_EXEC_SECONDS)
        fields = _stat_in_proc(pid)
    return b""


def _look_in_proc(pid: int, *, environ: bool) -> Found | None:
    marker = ""
    try:
        fields = _stat_in_proc(pid)
        if environ:
            with suppress(PermissionError):
                marker = _marker_in(_environ_in_proc(pid, fields))
    except OSError:
        return None
    if len(fields) < 20:
        return None
    return Found(
        who=Identity(pid=pid, start=f"{_boot()}:{int(fields[19])}"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        marker=marker,
        dead=fields[0] in b"ZXx",
    )


def _look_with_psutil(pid: int, *, environ: bool) -> Found | None:
    marker = ""
    try:
        process = psutil.Process(pid)
        dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        if environ and not dead:
            with suppress(psutil.AccessDenied):
                marker = process.environ().get(MARKER, "")
        return Found(
            who=Identity(pid=pid, start=str(process.create_time())),
            parent=process.ppid(),
            group=os.getpgid(pid),
            session=os.getsid(pid),
            marker=marker,
            dead=dead,
        )
    except (psutil.Error, OSError):
        return None


def look(pid: int, *, environ: bool = True) -> Found | None:
    """What is known of the process of this pid, zombie or not; None when there is none."""
    on_linux = sys.platform == "linux"
    return _look_in_proc(pid, environ=environ) if on_linux else _look_with_psutil(pid, environ=environ)


def identity(pid: int) -> Identity | None:
    """The live process of this pid, or None."""
    found = look(pid, environ=False)
    return found.who if found and not found.dead else None


def same(who: Identity) -> bool:
    """The process is still alive: the pid has not been given to another, and it is no zombie."""
    return identity(who.pid) == who


def send(who: Identity, number: int) -> bool:
    """Send a signal to this very process; False when it is gone or not ours to signal."""
    handle = _pidfd(who.pid)
    try:
        if not same(who):
            return False
        if handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(who.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _pidfd(pid: int) -> int | None:
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


async def gone(who: Identity) -> None:
    """Wait until the process is dead (at once when it is)."""
    handle = _pidfd(who.pid)
    if handle is not None:
        try:
            if same(who):
                await trio.lowlevel.wait_readable(handle)
        finally:
            os.close(handle)
    delay = _FIRST_POLL
    while same(who):
        await trio.sleep(delay)
        delay = min(delay * 2, _LAST_POLL)


async def until(ready: Callable[[], bool], patience: float) -> bool:
    """Wait for something that no event tells of, `patience` seconds at most; whether it came to be."""
    delay = _FIRST_POLL
    with trio.move_on_after(patience):
        while True:
            if ready():
                return True
            await trio.sleep(delay)
            delay = min(delay * 2, _LAST_POLL)
    return ready()


def scan() -> tuple[Found, ...]:
    """Every process of the system but this one. Blocks (about 50 us a process): call it in a thread."""
    me = os.getpid()
    return tuple(found for pid in psutil.pids() if pid != me and (found := look(pid)))


def family(
    seen: Iterable[Found],
    *,
    marker: str,
    shim: Identity | None = None,
    ended_at: float | None = None,
    known: Iterable[Identity] = (),
) -> tuple[Found, ...]:
    """The live processes of a run, out of a scan.

    They are those that carry its marker, those of its session, those known from an earlier scan, and
    whatever descends from any of these.

    Args:
        seen: the scan.
        marker: the run's marker.
        shim: the run's session leader, if it is on record.
        ended_at: when the leader wrote the exit status (epoch seconds), if it did.
        known: processes of the run seen before.
    """
    seen = tuple(seen)
    alive = [found for found in seen if not found.dead]
    before = set(known)
    ours = {found.who.pid: found for found in alive if found.marker == marker or found.who in before}
    if shim is not None:
        leader = next((found for found in seen if found.who.pid == shim.pid), None)
        for found in alive:
            if found.session == shim.pid and _of_our_session(found, leader, shim, ended_at):
                ours[found.who.pid] = found
    while more := [found for found in alive if found.parent in ours and found.who.pid not in ours]:
        ours |= {found.who.pid: found for found in more}
    return tuple(ours.values())


def _of_our_session(found: Found, leader: Found | None, shim: Identity, ended_at: float | None) -> bool:
    if leader is not None:
        return leader.who == shim
    # The leader is gone and its number may name somebody else's session by now; but a session is
    # inherited at birth, and whoever was born while our leader lived was born into ours.
    if ended_at is None:
        return False
    try:
        return bool(psutil.Process(found.who.pid).create_time() <= ended_at + 1)
    except psutil.Error:
        return False


class _SharedScan:
    """A scan that has not begun yet; whoever asks until then gets its answer."""

    def __init__(self) -> None:
        self.result: tuple[Found, ...] | None = None


_scanning = trio.Lock()
_next_scan: list[_SharedScan] = []


async def everyone() -> tuple[Found, ...]:
    """A scan that begins after this call, in a thread. One runs at a time; those who wait share the next."""
    if not _next_scan:
        _next_scan.append(_SharedScan())
    mine = _next_scan[0]
    async with _scanning:
        if mine.result is None:
            if mine in _next_scan:
                _next_scan.remove(mine)
            mine.result = await trio.to_thread.run_sync(scan)
        return mine.result


async def carrying(marker: str) -> tuple[Identity, ...]:
    """The live processes that carry this run's marker."""
    return tuple(found.who for found in await everyone() if found.marker == marker and not found.dead)


async def leftovers(prefix: str) -> tuple[Found, ...]:
    """The live processes whose marker starts with `prefix`: what earlier daemons left running."""
    return tuple(found for found in await everyone() if found.marker.startswith(prefix) and not found.dead)


def adopt(handle: subprocess.Popen[bytes]) -> None:
    """Keep the handle of a child of this process until `reap` takes its status."""
    _handles[handle.pid] = handle


def reap(pid: int) -> None:
    """Take the exit status of a dead child of this process, so that no zombie stays. Idempotent."""
    handle = _handles.get(pid)
    if handle is not None and handle.poll() is not None:
        _handles.pop(pid, None)


def adopted() -> Iterator[int]:
    """Pids of the children of this process that have not been reaped."""
    return iter(tuple(_handles))
