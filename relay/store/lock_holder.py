"""Who holds the daemon's lock, told without touching it.

Trying the lock would get in the way of a daemon that is just starting. Called by commands that explain why
no daemon answers, and by the doctor.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil

from relay.errors import RelayError
from relay.store.atomic import read

LOCKS = Path("/proc/locks")
"""One line a lock: `1: FLOCK  ADVISORY  WRITE 4711 fe:00:2400540 0 EOF` (proc(5), Linux)."""


def lock_holder(path: Path, *, locks: Path = LOCKS) -> int:
    """The pid of the process that holds the lock of the file at `path`; 0 when none does.

    Linux tells it for certain. Elsewhere it is the pid in the file, if a daemon of Relay's has it.
    """
    try:
        facts = path.stat()
        device = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}"
        told = locks.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return _hinted(path) if path.exists() else 0
    except OSError:
        return _hinted(path)
    hint = _hint(path)
    for line in told.split("\n"):
        words = line.split()
        if len(words) < 6 or words[1] != "FLOCK" or not words[4].isdigit():
            continue
        place, _, inode = words[5].rpartition(":")
        # Some file systems (btrfs, overlays) show another device here than stat tells.
        if inode == str(facts.st_ino) and (place == device or int(words[4]) == hint):
            return int(words[4])
    return 0


def _hint(path: Path) -> int:
    try:
        told = json.loads(read(path, limit=4096) or b"{}")
    except (ValueError, RelayError):
        return 0
    pid = told.get("pid") if isinstance(told, dict) else None
    return pid if type(pid) is int and pid > 0 else 0


def _hinted(path: Path) -> int:
    pid = _hint(path)
    try:
        words = psutil.Process(pid).cmdline() if pid else []
    except psutil.Error:
        return 0
    ours = "daemon" in words and any(Path(word).name == "relay" for word in words)
    return pid if ours else 0
