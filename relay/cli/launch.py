"""Starts a daemon of the user's own in the background, and ends it.

Called by `relay run`, which hosts one when none runs, and by `relay daemon start/stop/restart`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from relay.cli.base import Settings
from relay.cli.client import Client, Where, end_by_hand, find, is_named, recorded_pid
from relay.errors import NoDaemonError, RelayError, TimedOutError
from relay.store.lock_holder import lock_holder
from relay.store.places import StatePlaces

READY_SECONDS = 20.0
ANOTHER_SECONDS = 5.0
"""When ours did not come up since another one holds the lock, that one is waited for so long."""
END_SECONDS = 20.0
POLL_SECONDS = 0.05
TAIL_BYTES = 4096


def wait(seconds: float) -> None:
    """Do nothing for a while; Ctrl-C ends it at once."""
    threading.Event().wait(seconds)


def ensure_daemon(settings: Settings, *, while_busy: bool = True, port: int | None = None) -> Where:
    """The daemon that is meant; when the user named none and none runs, a new one.

    Args:
        while_busy: the new one ends by itself when nothing is under way.
        port: for the new one; None for the configured.

    Raises:
        NoDaemonError: a named one does not answer, or ours did not come up; with the end of its log.
    """
    try:
        return find(settings)
    except NoDaemonError:
        if is_named(settings):
            raise
    places = StatePlaces.locate(os.environ).ensure()
    log = places.log / "start.log"
    child = _start(places, log, while_busy=while_busy, port=port)
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            return find(settings)
        except NoDaemonError:
            pass
        try:
            child.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if not lock_holder(places.lock):
            break
        # It has ended since another command started one at the same moment.
        deadline = min(deadline, time.monotonic() + ANOTHER_SECONDS)
        wait(POLL_SECONDS)
    holder = lock_holder(places.lock)
    if holder not in (0, child.pid):
        told = "another daemon of yours runs and does not answer"
        raise NoDaemonError(told, hint=f"{end_by_hand(holder)}\nits log is in {places.log}")
    ended = child.poll()
    how = "did not come up in time" if ended is None else f"ended at once, with status {ended}"
    why = _tail(log) or _no_room(places) or last_words(places)
    raise NoDaemonError(f"the daemon {how}", hint=f"{why}\nits log is in {places.log}".strip())


def wait_for_daemon(settings: Settings) -> Where:
    """The daemon that a service manager has just started, once it answers.

    Raises:
        NoDaemonError: it did not come up.
    """
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return find(settings)
        except NoDaemonError:
            if time.monotonic() > deadline:
                raise
        wait(POLL_SECONDS)


def last_words(places: StatePlaces) -> str:
    """What the daemon last said of trouble or an end: a line of its log, or of its start if newer."""
    log, start = places.log / "daemon.log", places.log / "start.log"
    lines = _of_the_last_life(_tail(log).split("\n"))
    telling = [line for line in lines if " ERROR " in line or " WARNING " in line or ": ends " in line]
    said = [line for line in _tail(start).split("\n") if line.strip()]
    errors = [line for line in said if line.startswith("error:")] or said[-1:]
    if errors and _changed(start) >= _changed(log):
        return errors[-1]
    return (telling or [""])[-1]


def _of_the_last_life(lines: list[str]) -> list[str]:
    """The log since a daemon came up last: what it said before that is over."""
    up = [number for number, line in enumerate(lines) if " relay.daemon: listening on " in line]
    return lines[up[-1] :] if up else lines


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def end_daemon(settings: Settings) -> Where:
    """Ask the daemon to end and wait until it has; its agents go on.

    Raises:
        NoDaemonError: none runs. TimedOutError: it did not end in time.
    """
    where = find(settings)
    pid = 0 if is_named(settings) else recorded_pid(StatePlaces.locate(os.environ))
    with Client(where) as client:
        client.post("/api/daemon/stop")
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        if not _runs(pid) and not _answers(where):
            return where
        wait(POLL_SECONDS)
    raise TimedOutError(f"the daemon at {where.url} did not end in {END_SECONDS:.0f} s", hint="see its log")


def _runs(pid: int) -> bool:
    try:
        return pid > 0 and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _answers(where: Where) -> bool:
    try:
        with Client(Where(url=where.url)) as client:
            client.get("/api/health")
    except RelayError:
        return False
    return True


def _start(places: StatePlaces, log: Path, *, while_busy: bool, port: int | None) -> subprocess.Popen[bytes]:
    # -P and the folder: nothing of the repository we may stand in can be imported in Relay's place.
    command = [sys.executable, "-P", "-m", "relay", "daemon", "run", "--quiet"]
    command += ["--while-busy"] if while_busy else []
    command += ["--port", str(port)] if port is not None else []
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        return subprocess.Popen(
            command,
            cwd=places.root,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(descriptor)


def _no_room(places: StatePlaces) -> str:
    """Why it may have said nothing: what it says goes into a file."""
    room = shutil.disk_usage(places.log).free
    return "" if room else f"no space is left at {places.log}: free some, then try again"


def _tail(log: Path) -> str:
    try:
        return log.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace").strip()
    except OSError:
        return ""
