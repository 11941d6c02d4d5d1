"""Writes lines to a child's FIFO, each at most once in the eyes of the run folder, and ends its input.

Called by the effects port for `WriteChild`, and by the ending of a child that an end of input will do for.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

import attrs
import trio
from attrs import frozen

from relay.effects import processes
from relay.effects.spool import RunFolder
from relay.providers.protocol import Write

if sys.platform != "win32":
    import fcntl

PATIENCE = 30.0
"""Seconds without any progress after which a child counts as not reading."""

# Linux, fcntl(2): so that a long message goes in by one call, which a crash of the daemon cannot tear.
_SET_PIPE_SIZE = fcntl.F_SETPIPE_SZ if sys.platform == "linux" else None
_PIPE_SIZE, _LARGE_PIPE = 64 * 1024, 1024 * 1024


@frozen(kw_only=True)
class Written:
    """What reached the child.

    Args:
        keys: of the lines that it has been sent, now or before, in the order asked for.
        lost: why the others were not; "" when all were.
    """

    keys: tuple[str, ...]
    lost: str = ""


@attrs.define(eq=False, slots=True, weakref_slot=True)
class _Pipe:
    """Who may write to a FIFO, and what is left of a line that the child stopped reading midway."""

    lock: trio.Lock = attrs.field(factory=trio.Lock)
    rest: bytes = b""
    rest_key: str = ""


_pipes: WeakValueDictionary[str, _Pipe] = WeakValueDictionary()
_torn: dict[str, _Pipe] = {}


async def write(
    fifo: Path, folder: RunFolder, writes: Sequence[Write], *, patience: float = PATIENCE
) -> Written:
    """Send lines to the child, in order, those whose key was not sent before.

    A line is noted as sent when the system has taken all of it. A cancellation between two lines is
    harmless; one within a line waits until that line is through, for `patience` at most.

    Args:
        fifo: the child's stdin.
        folder: its run folder.
        writes: the lines; a line holds no newline.
        patience: seconds without progress until the child is given up.

    Returns:
        the keys sent, and why the rest was not: the child has ended, no longer reads, or reads nothing.

    Raises:
        StoreError: the run folder cannot be written.
    """
    processes.require_posix()
    name = str(fifo)
    pipe = _pipes.setdefault(name, _Pipe())
    async with pipe.lock:
        sent = folder.sent_keys()
        waiting = [write for write in writes if write.key not in sent]
        lost = ""
        if waiting or pipe.rest:
            handle, lost = await _open(fifo, folder, patience)
            if handle is not None:
                try:
                    lost = await _send(handle, folder, pipe, waiting, patience)
                finally:
                    os.close(handle)
        # A torn line must be remembered for as long as somebody may write the next one.
        if pipe.rest and lost != _ENDED:
            _torn[name] = pipe
        else:
            _torn.pop(name, None)
        sent = folder.sent_keys()
        return Written(keys=tuple(write.key for write in writes if write.key in sent), lost=lost)


async def close_stdin(folder: RunFolder, *, patience: float = PATIENCE) -> bool:
    """Give the child an end of input, once it has read what was written.

    Returns:
        False when there was nothing to close: it has ended, it has no stdin, or this was done before.
    """
    record, shim = folder.record(), folder.shim()
    if record is None or not record.fifo or shim is None:
        return False
    await processes.until(lambda: folder.holder_pid() is not None or not processes.same(shim), patience)
    pid = folder.holder_pid()
    found = processes.look(pid) if pid is not None else None
    if found is None or found.dead or record.marker != found.marker:
        return False
    if not processes.send(found.who, 9):
        return False
    await processes.gone(found.who)
    return True


_ENDED = "the child has ended"
_DEAF = "the child no longer reads its input"


async def _open(fifo: Path, folder: RunFolder, patience: float) -> tuple[int | None, str]:
    """The FIFO, open for writing, once the child has it open for reading; or why not."""
    # Before that the shim's own end would take the lines, and break the pipe when it is closed.
    await processes.until(lambda: folder.cli_pid() is not None or _over(folder), patience)
    over = _over(folder)
    try:
        handle = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None, _ENDED
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None, _ENDED if over else _DEAF
        return None, f"its input cannot be opened: {error.strerror}"
    if stat.S_ISFIFO(os.fstat(handle).st_mode):
        return handle, ""
    os.close(handle)
    return None, f"its input is no FIFO: {fifo}"


def _over(folder: RunFolder) -> bool:
    shim = folder.shim()
    return folder.ended() or shim is None or not processes.same(shim)


async def _send(handle: int, folder: RunFolder, pipe: _Pipe, writes: Sequence[Write], patience: float) -> str:
    resumed = pipe.rest_key if pipe.rest else None
    if resumed is not None and (lost := await _send_line(handle, folder, pipe, resumed, pipe.rest, patience)):
        return lost
    for write in writes:
        if write.key != resumed:
            data = write.line.replace("\n", " ").encode("utf-8", "replace") + b"\n"
            if lost := await _send_line(handle, folder, pipe, write.key, data, patience):
                return lost
    return ""


async def _send_line(
    handle: int, folder: RunFolder, pipe: _Pipe, key: str, data: bytes, patience: float
) -> str:
    await trio.lowlevel.checkpoint()
    if len(data) > _PIPE_SIZE and _SET_PIPE_SIZE is not None:
        with suppress(OSError):
            fcntl.fcntl(handle, _SET_PIPE_SIZE, _LARGE_PIPE)
    left = memoryview(data)
    begun = bool(pipe.rest)
    try:
        while left:
            try:
                left = left[os.write(handle, left) :]
                begun = True
            except BlockingIOError:
                with trio.CancelScope(shield=begun, deadline=trio.current_time() + patience) as scope:
                    await trio.lowlevel.wait_writable(handle)
                if scope.cancelled_caught:
                    return f"{_DEAF}: nothing was taken for {patience:g} s"
            except BrokenPipeError:
                begun = False
                return _ENDED if folder.ended() else _DEAF
    finally:
        pipe.rest, pipe.rest_key = (bytes(left), key) if begun and left else (b"", "")
    folder.note_sent(key)
    return ""
