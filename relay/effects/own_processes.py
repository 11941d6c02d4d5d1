"""This user's processes by name and arguments: the look at all of them that tells which are agents.

Used by `relay.effects.detect_processes`. On Linux /proc is read as psutil 7.2 reads it, without importing it:
most scans find no agent, and psutil takes longer to import than the processes of a machine take to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import PurePath

from relay.effects import proc_reading
from relay.providers.store_protocol import RunningProcess

_NAME_LENGTH = 15
"""Bytes of a name that the kernel keeps."""


def own_processes() -> Iterator[RunningProcess]:
    """Those of this user that have arguments; a zombie and a thread of the kernel have none."""
    return _in_proc() if sys.platform == "linux" else _by_psutil()


def _in_proc() -> Iterator[RunningProcess]:
    mine = b"\nUid:\t%d\t" % os.getuid()
    for pid in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        try:
            status = proc_reading.whole(f"/proc/{pid}/status")
            argv = _arguments(proc_reading.whole(f"/proc/{pid}/cmdline")) if mine in status else ()
        except OSError:
            continue
        if argv:
            name = os.fsdecode(status.partition(b"\n")[0].partition(b"\t")[2])
            yield RunningProcess(pid=int(pid), name=_whole_name(name, argv[0]), argv=argv)


def _arguments(told: bytes) -> tuple[str, ...]:
    """A program that renames itself may leave its arguments in one piece, with spaces between."""
    if not told:
        return ()
    text = os.fsdecode(told)
    words = text.removesuffix("\0").split("\0") if text.endswith("\0") else text.removesuffix(" ").split(" ")
    return tuple(words[0].split(" ") if len(words) == 1 else words)


def _whole_name(name: str, program: str) -> str:
    whole = PurePath(program).name
    return whole if len(os.fsencode(name)) >= _NAME_LENGTH and whole.startswith(name) else name


def _by_psutil() -> Iterator[RunningProcess]:
    import psutil

    uid = os.getuid() if hasattr(os, "getuid") else None
    for process in psutil.process_iter():
        try:
            with process.oneshot():
                if uid is not None and process.uids().real != uid:
                    continue
                argv = tuple(process.cmdline())
                if argv:
                    yield RunningProcess(pid=process.pid, name=process.name(), argv=argv)
        except psutil.Error:
            continue
