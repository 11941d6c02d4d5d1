"""Checks of the machine: Python, git, disk, file system, clock, limits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from relay.doctor.check import Check, error, ok, skipped, warning
from relay.effects.clock import local_zone
from relay.version import VERSION

GIT_LEAST = (2, 31)
"""The oldest git that knows all the plumbing that Relay calls."""
DISK_LOW = 1024**3
DISK_FULL = 64 * 1024**2
FILES_LEAST = 1024
_SECONDS = 20.0


def versions() -> Iterator[Check]:
    """Relay and its Python."""
    told = f"Relay {VERSION}, Python {sys.version.split()[0]} ({sys.executable})"
    yield ok("python", told)


def git(env: Mapping[str, str]) -> Iterator[Check]:
    """git is there, new enough, and knows who commits."""
    path = shutil.which("git", path=env.get("PATH"))
    if path is None:
        yield error("git", "git is not on the PATH", "install git")
        return
    told = _said(path, "--version", env=env)
    found = re.search(r"(\d+)\.(\d+)", told)
    if found is None:
        yield error("git", f"{path} does not tell its version: {told[:100]}", "install git anew")
        return
    version = (int(found[1]), int(found[2]))
    if version < GIT_LEAST:
        least = ".".join(map(str, GIT_LEAST))
        yield error("git", f"{told} is too old", f"install git {least} or newer")
        return
    yield ok("git", f"{told} ({path})")
    name, mail = (_said(path, "config", "--get", key, env=env) for key in ("user.name", "user.email"))
    if name and mail:
        yield ok("git identity", f"{name} <{mail}>")
    else:
        mend = 'git config --global user.name "..." and user.email "..."'
        yield warning("git identity", "git does not know who you are: Relay commits under its own name", mend)


def _said(program: str, *words: str, env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            [program, *words],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as failure:
        return f"({failure})"
    return done.stdout.strip()


def disk(name: str, folder: Path) -> Iterator[Check]:
    """There is room, and an inode, where Relay writes."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if there is None:
        yield skipped(f"disk of {name}", f"{folder} is not there yet")
        return
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
        if found.f_files and found.f_favail < 1000:
            yield error(f"disk of {name}", f"{found.f_favail} inodes are left at {there}", "remove files")


def fifos(folder: Path) -> Iterator[Check]:
    """A FIFO can be made where the agents' input is."""
    if not hasattr(os, "mkfifo"):
        yield error("fifo", "this system has no FIFOs", "run Relay inside the Windows Subsystem for Linux")
        return
    there = folder if folder.is_dir() else Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(dir=there, prefix="doctor-") as place:
        try:
            os.mkfifo(Path(place) / "fifo", 0o600)
        except OSError as failure:
            mend = "set RELAY_STATE_DIR to a folder of a local file system"
            yield error("fifo", f"a FIFO can't be made in {there}: {failure.strerror}", mend)
            return
    yield ok("fifo", f"can be made in {there}")


def clock(now: datetime) -> Iterator[Check]:
    """The clock is plausible, agrees with the disk's, and its zone is known by name."""
    if not 2024 <= now.year <= 2100:
        yield error("clock", f"it is {now.isoformat(timespec='seconds')}?", "set the machine's clock")
        return
    with tempfile.NamedTemporaryFile() as file:
        drift = Path(file.name).stat().st_mtime - time.time()
    if abs(drift) > 5:
        told = f"files are dated {abs(drift):.0f} s {'ahead of' if drift > 0 else 'behind'} the clock"
        yield warning("clock", told, "let the file server and this machine keep the same time")
        return
    zone = local_zone()
    name = getattr(zone, "key", "")
    told = f"{now.isoformat(timespec='seconds')} {name}".strip()
    if name:
        yield ok("clock", told)
    else:
        mend = "set TZ, such as TZ=Europe/Berlin: resets in other seasons are told by it"
        yield warning("clock", f"{told}: the zone's name is not known", mend)


def limits() -> Iterator[Check]:
    """Enough files may be open, and the kernel watches files for us."""
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
    told = Path("/proc/sys/fs/inotify/max_user_instances")
    if told.exists():
        number = int(told.read_text())
        if number < 16:
            mend = "sysctl fs.inotify.max_user_instances=128"
            yield warning("inotify", f"{number} instances for all of your programs", mend)
        else:
            yield ok("inotify", f"{number} instances")
