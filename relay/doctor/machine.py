"""Checks of the machine: Python, git, disk, file system, processes, clock, limits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from relay.doctor.ask import ask
from relay.doctor.check import Check, error, ok, skipped, warning
from relay.effects import processes
from relay.effects.child import resolve
from relay.effects.clock import local_zone
from relay.effects.marker import MARKER
from relay.errors import MissingBinaryError
from relay.store.places import StatePlaces
from relay.version import VERSION

GIT_LEAST = (2, 31)
"""The oldest git that knows all the plumbing that Relay calls."""
DISK_LOW = 1024**3
DISK_FULL = 64 * 1024**2
FILES_LEAST = 1024
INODES_LEAST = 1000
WATCHES_LEAST = 1024
DRIFT_SECONDS = 5
AHEAD_SECONDS = 60


def versions() -> Iterator[Check]:
    """Relay and its Python."""
    told = f"Relay {VERSION}, Python {sys.version.split()[0]} ({sys.executable})"
    yield ok("python", told)


def home(env: Mapping[str, str]) -> Iterator[Check]:
    """The home folder, where agents keep their logins, can be told."""
    folder = env.get("HOME", "")
    if os.name != "posix" or (folder and Path(folder).is_dir()):
        return
    told = f"HOME is {folder}, which is no folder" if folder else "HOME is not set"
    yield warning("home", f"{told}: agents may not find their logins", "export HOME")


def git(env: Mapping[str, str], cwd: Path) -> Iterator[Check]:
    """git is there, new enough, and knows who commits."""
    try:
        path = resolve("git", path=env.get("PATH", os.defpath), cwd="/")
    except MissingBinaryError:
        yield error("git", "git is not on the PATH", "install git")
        return
    answer = ask(path, "--version", env=env)
    found = re.search(r"(\d+)\.(\d+)", answer.out)
    if answer.status != 0 or found is None:
        told = answer.said or f"it ended with status {answer.status}"
        yield error("git", f"{path} does not run: {told}", "install git anew")
        return
    version = (int(found[1]), int(found[2]))
    told = f"{answer.out.strip()} ({path})"
    if version < GIT_LEAST:
        least = ".".join(map(str, GIT_LEAST))
        yield error("git", f"{told} is too old", f"install git {least} or newer")
        return
    yield ok("git", told)
    where = str(cwd)
    who = [
        ask(path, "config", "--get", key, env=env, cwd=where).out.strip()
        for key in ("user.name", "user.email")
    ]
    if all(who):
        yield ok("git identity", f"{who[0]} <{who[1]}>")
    else:
        mend = 'git config --global user.name "..." and user.email "..."'
        yield warning("git identity", "git does not know who you are: Relay commits under its own name", mend)


def disk(name: str, folder: Path) -> Iterator[Check]:
    """There is room, and an inode, where Relay writes."""
    there = _nearest(folder)
    free = shutil.disk_usage(there).free
    told = f"{free / 1024**3:.1f} GiB free at {there}"
    mend = "make room; `relay gc --dry-run` shows what Relay could give back"
    if free < DISK_FULL:
        yield error(f"disk of {name}", told, mend)
    elif free < DISK_LOW:
        yield warning(f"disk of {name}", told, mend)
    else:
        yield ok(f"disk of {name}", told)
    if hasattr(os, "statvfs"):
        found = os.statvfs(there)
        if found.f_flag & os.ST_RDONLY:
            yield error(f"file system of {name}", f"{there} is mounted read-only", "mount it for writing")
        if found.f_files and found.f_favail < INODES_LEAST:
            told = f"{found.f_favail} inodes are left at {there}"
            yield error(f"inodes of {name}", told, "remove files that are not needed")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


def fifos(folder: Path) -> Iterator[Check]:
    """A FIFO can be made where the agents' input is."""
    if not hasattr(os, "mkfifo"):
        yield error("fifo", "this system has no FIFOs", "run Relay inside the Windows Subsystem for Linux")
        return
    there = _nearest(folder)
    mend = "set RELAY_STATE_DIR to a folder of your own on a local file system"
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".doctor-") as place:
            os.mkfifo(Path(place) / "fifo", 0o600)
    except OSError as failure:
        yield error("fifo", f"a FIFO can't be made in {there}: {failure.strerror}", mend)
        return
    yield ok("fifo", f"can be made in {there}")


def processes_of_ours(env: Mapping[str, str]) -> Iterator[Check]:
    """What an agent started is known by its environment, so that nothing of a run is left."""
    name, mark = "processes", "doctor"
    child = subprocess.Popen(
        ["/bin/sh", "-c", "read line"], env={**env, MARKER: mark}, stdin=subprocess.PIPE, cwd="/"
    )
    try:
        found = processes.look(child.pid)
    finally:
        child.communicate()
    if found is not None and found.marker == mark:
        yield ok(name, "the environment of your own can be read")
    else:
        mend = "allow it (hidepid of /proc, or a sandbox, forbids it); else `ps` after a run tells"
        told = "the environment of your own can't be read: what a run leaves behind is not found"
        yield warning(name, told, mend)


def clock(now: datetime, places: StatePlaces) -> Iterator[Check]:
    """The clock is plausible, agrees with the disk's and with what Relay wrote, and its zone has a name."""
    if not 2024 <= now.year <= 2100:
        yield error("clock", f"it is {now.isoformat(timespec='seconds')}?", "set the machine's clock")
        return
    with tempfile.NamedTemporaryFile() as file:
        drift = Path(file.name).stat().st_mtime - time.time()
    if abs(drift) > DRIFT_SECONDS:
        told = f"files are dated {abs(drift):.0f} s {'ahead of' if drift > 0 else 'behind'} the clock"
        yield warning("clock", told, "let the file server and this machine keep the same time")
        return
    late = _dated_latest((places.audit, places.daemon, places.lock, places.log / "daemon.log"))
    if late is not None and late[0] - now.timestamp() > AHEAD_SECONDS:
        ahead = timedelta(seconds=round(late[0] - now.timestamp()))
        told = f"{late[1]} is dated {ahead} after now: the clock was set back"
        yield warning("clock", told, "check the machine's clock; waits for a reset go by it")
        return
    zone = local_zone()
    name = getattr(zone, "key", "")
    told = f"{now.isoformat(timespec='seconds')} {name}".strip()
    if name:
        yield ok("clock", told)
    else:
        mend = "set TZ, such as TZ=Europe/Berlin: resets in other seasons are told by it"
        yield warning("clock", f"{told}: the zone's name is not known", mend)


def _dated_latest(paths: Iterable[Path]) -> tuple[float, Path] | None:
    dated = []
    for path in paths:
        with suppress(OSError):
            dated.append((path.lstat().st_mtime, path))
    return max(dated, default=None)


def limits() -> Iterator[Check]:
    """Enough files may be open."""
    try:
        import resource
    except ImportError:
        yield skipped("open files", "this system tells no limit")
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 < soft < FILES_LEAST:
        yield warning("open files", f"at most {soft} files may be open", "ulimit -n 4096")
    else:
        yield ok("open files", f"up to {soft} may be open")


def inotify() -> Iterator[Check]:
    """The kernel tells when files change, which costs less than looking."""
    limits = [Path(f"/proc/sys/fs/inotify/max_user_{what}") for what in ("instances", "watches")]
    if sys.platform != "linux" or not limits[0].exists():
        yield skipped("inotify", "not on this system: files are looked at now and then")
        return
    instances, watches = (int(path.read_text()) for path in limits)
    told = f"{instances} instances and {watches} watches for all of your programs"
    mend = "sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536"
    import inotify_simple

    try:
        inotify_simple.INotify().close()
    except OSError as failure:
        yield warning("inotify", f"{told}: none is left ({failure.strerror})", mend)
        return
    if watches < WATCHES_LEAST:
        yield warning("inotify", told, mend)
    else:
        yield ok("inotify", told)
