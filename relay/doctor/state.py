"""Checks of the user's state folder and of the daemon."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil

from relay.doctor.check import Check, error, ok, skipped, warning
from relay.effects import processes
from relay.errors import RelayError
from relay.store import audit_verify
from relay.store.atomic import read
from relay.store.places import StatePlaces
from relay.store.sessions import known_repositories, read_record

KEY_BYTES = 32


def folder(places: StatePlaces) -> Iterator[Check]:
    """The state folder is ours, and for us alone."""
    if not places.root.exists():
        yield skipped("state folder", f"{places.root} is not there yet: the first command makes it")
        return
    yield _private("state folder", places.root, 0o077)
    if not os.access(places.root, os.W_OK):
        yield error("state folder", f"{places.root} can't be written to", f"chmod u+w {places.root}")
    for name, path in (("signing key", places.signing_key), ("token", places.token)):
        if not path.exists():
            yield skipped(name, "is made by the first daemon")
            continue
        private = _private(name, path, 0o077)
        size = len(read(path, limit=4096) or b"")
        if name == "signing key" and size != KEY_BYTES:
            mend = "put back a copy; without it, contracts and logs made so far can't be verified"
            yield error(name, f"{path} holds {size} bytes instead of {KEY_BYTES}", mend)
        else:
            yield private


def _private(name: str, path: Path, mask: int) -> Check:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return error(name, f"{path} is a symbolic link", "remove the link; Relay does not follow it")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        return error(name, f"{path} belongs to user {found.st_uid}", f"chown {os.getuid()} {path}")
    if found.st_mode & mask:
        mode = "700" if stat.S_ISDIR(found.st_mode) else "600"
        told = f"others may use {path} (mode {stat.S_IMODE(found.st_mode):o})"
        return error(name, told, f"chmod {mode} {path}")
    return ok(name, f"{path} is yours alone")


def daemon(places: StatePlaces, version: str, answering: str) -> Iterator[Check]:
    """It runs, and is of this version.

    Args:
        version: ours.
        answering: the version that the daemon told; "" when none answers.
    """
    if answering:
        if answering == version:
            yield ok("daemon", f"runs, version {answering}")
        else:
            told = f"the daemon is version {answering}, and this is {version}"
            yield warning("daemon", told, "relay daemon restart (no session is disturbed)")
        return
    recorded = _recorded(places.daemon)
    pid = recorded.get("pid")
    if isinstance(pid, int) and processes.identity(pid) is not None and _is_daemon(pid):
        yield error("daemon", f"pid {pid} runs and does not answer", f"look at {places.log / 'daemon.log'}")
    elif recorded:
        yield warning("daemon", "it ended without tidying up", "nothing: `relay daemon start` takes over")
    else:
        yield skipped("daemon", "none runs; `relay run` starts one when it is needed")


def _recorded(path: Path) -> dict[str, object]:
    try:
        told = json.loads(read(path, limit=64 * 1024) or b"{}")
    except (RelayError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _is_daemon(pid: int) -> bool:
    try:
        return "relay" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False


def sessions(places: StatePlaces) -> Iterator[Check]:
    """What is under way, what is over, and what can't be read."""
    if not places.repositories.exists():
        yield skipped("sessions", "there were none yet")
        return
    live = over = unread = 0
    for repo in known_repositories(places):
        for sid in repo.session_ids():
            try:
                record, note = read_record(repo, sid)
            except RelayError as failure:
                unread += 1
                yield error("sessions", f"{sid}: {failure.message}", failure.hint or "put back a copy")
                continue
            live, over = (live, over + 1) if record.ended else (live + 1, over)
            if note:
                yield warning("sessions", f"{sid}: {note}", "nothing: it goes on from there")
            if not record.ended and not Path(record.worktree).is_dir():
                mend = "it is made again from the last snapshot; or end it: `relay stop`"
                yield warning("sessions", f"{sid}: its worktree {record.worktree} is gone", mend)
    if not unread:
        yield ok("sessions", f"{live} under way, {over} over")


def audit(places: StatePlaces) -> Iterator[Check]:
    """The chain of every log holds."""
    key = read(places.signing_key, limit=4096) if places.signing_key.exists() else None
    logs = [("the daemon's own", places.audit, places.audit_anchor)]
    if places.repositories.exists():
        logs += [
            (str(repo.root), repo.audit, places.anchor(repo.root)) for repo in known_repositories(places)
        ]
    entries = whole = broken = 0
    for name, log, anchor in logs:
        if not log.exists() and not anchor.exists():
            continue
        verdict = audit_verify.verify(log, anchor, key)
        if verdict.ok:
            whole, entries = whole + 1, entries + verdict.entries
        else:
            broken += 1
            yield error("audit log", f"{name}: {verdict.reason}", verdict.hint or "relay audit verify")
    if not broken:
        yield ok("audit log", f"{whole} logs with {entries} entries hold together")
