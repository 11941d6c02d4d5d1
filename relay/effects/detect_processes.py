"""The processes of agents' CLIs that run on this machine.

Used by `relay.effects.detect`. Of other users' processes nothing is looked at, and of one's own that are no
agent's nothing but the name and the arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from attrs import evolve

from relay.core.detect import AgentProcess, managed_by
from relay.effects.marker import MARKER
from relay.effects.own_processes import own_processes
from relay.providers.store_protocol import Live, RunningProcess, SessionStore

T = TypeVar("T")

_NAMING = ("--resume", "-r", "--session-id", "resume", "--session", "-s", "--id")
"""Arguments that a session's id follows."""


def running_agents(
    stores: Iterable[SessionStore], live: Mapping[tuple[str, int], tuple[str, Live]]
) -> Iterable[AgentProcess]:
    """This user's processes that are agent CLIs; of a launcher and its child, the launcher.

    Args:
        live: (store, pid) -> what a registry of the store's says of it, and the store's folder.
    """
    stores = tuple(stores)
    candidates: dict[int, tuple[SessionStore, RunningProcess, int]] = {}
    for told in own_processes():
        store = next((store for store in stores if store.runs(told)), None)
        looked_at = _looked_at(told) if store is not None else None
        if store is not None and looked_at is not None:
            candidates[told.pid] = (store, *looked_at)
    for pid, (store, process, parent) in candidates.items():
        above = candidates.get(parent)
        if above is not None and above[0] is store and (store.name, pid) not in live:
            continue
        home, entry = live.get((store.name, pid), ("", None))
        if entry is not None and entry.started and not _started_at(pid, entry.started):
            home, entry = "", None
        marker = process.env.get(MARKER, "")
        yield AgentProcess(
            pid=pid,
            store=store.name,
            native_id=(entry.native_id if entry else "") or _named(process.argv),
            home=home,
            cwd=(entry.cwd if entry else "") or process.cwd,
            started_at=process.started_at,
            busy=entry.busy if entry else None,
            session=marker.partition(".")[0] if marker.startswith("s-") else managed_by(process.cwd),
        )


def _looked_at(told: RunningProcess) -> tuple[RunningProcess, int] | None:
    """The process in full, and its parent; None when it has ended."""
    # Imported where an agent runs; see `relay.effects.own_processes`.
    import psutil

    def if_told(ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except psutil.Error:
            return None

    try:
        process = psutil.Process(told.pid)
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            # The marker alone: an environment holds secrets.
            marker = (if_told(process.environ) or {}).get(MARKER)
            whole = evolve(
                told,
                exe=if_told(process.exe) or "",
                cwd=if_told(process.cwd) or "",
                started_at=datetime.fromtimestamp(process.create_time(), UTC),
                env={MARKER: marker} if marker else {},
            )
            return whole, process.ppid()
    except psutil.Error:
        return None


def _started_at(pid: int, ticks: int) -> bool:
    """Whether the process began at this tick since boot, as /proc tells it; elsewhere it is believed."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return not os.path.isdir("/proc/self")  # noqa: PTH112
    return len(fields) > 19 and int(fields[19]) == ticks


def _named(argv: tuple[str, ...]) -> str:
    """The session's id, where the arguments name it."""
    for index, word in enumerate(argv[1:], start=1):
        name, _, value = word.partition("=")
        if name not in _NAMING:
            continue
        told = value or (argv[index + 1] if index + 1 < len(argv) else "")
        if len(told) >= 8 and all(letter.isalnum() or letter in "-_" for letter in told):
            return told
    return ""
