"""Checks of the user's state folder and of the daemon."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from relay.doctor.check import Check, error, guarded, ok, skipped, warning
from relay.errors import RelayError
from relay.store.atomic import read
from relay.store.audit_tail import verify_end
from relay.store.keys import load_or_make_signing_key, load_or_make_token
from relay.store.lock_holder import lock_holder
from relay.store.places import StatePlaces
from relay.store.repositories import known_repositories
from relay.store.sessions import never_begun, read_record

MANY_WORKTREES = 20
MUCH_OUTPUT = 2 * 1000**3
"""Bytes."""


def folder(places: StatePlaces) -> Iterator[Check]:
    """The state folder is ours, and for us alone."""
    if not places.root.exists():
        yield skipped("state folder", f"{places.root} is not there yet: the first command makes it")
        return
    if not places.root.is_dir():
        yield error("state folder", f"{places.root} is not a folder", "move it away; Relay makes the folder")
        return
    check = private("state folder", places.root)
    if check.status == "ok" and not os.access(places.root, os.W_OK | os.X_OK):
        yield error("state folder", f"{places.root} can't be written to", f"chmod u+rwx {places.root}")
    else:
        yield check
    yield from guarded("signing key", lambda: _key(places))
    yield from guarded("token", lambda: _token(places))


def _key(places: StatePlaces) -> Iterator[Check]:
    name, path = "signing key", places.signing_key
    if not path.exists():
        signed = places.anchors.is_dir() and any(places.anchors.iterdir())
        if signed:
            mend = "put back a copy; without it, contracts and logs made so far can't be verified"
            yield error(name, f"{path} is gone", mend)
        else:
            yield skipped(name, "is made by the first daemon")
        return
    check = private(name, path)
    if check.status == "ok":
        load_or_make_signing_key(path)
    yield check


def _token(places: StatePlaces) -> Iterator[Check]:
    name, path = "token", places.token
    if not path.exists():
        yield skipped(name, "is made by the first daemon")
        return
    check = private(name, path)
    if check.status == "ok":
        load_or_make_token(path)
    yield check


def private(name: str, path: Path) -> Check:
    """A file or folder is no link, ours, and closed to others."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return error(name, f"{path} is a symbolic link", "remove the link; Relay does not follow it")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        return error(name, f"{path} belongs to user {found.st_uid}", f"chown {os.getuid()} {path}")
    if os.name == "posix" and found.st_mode & 0o077:
        mode = "700" if stat.S_ISDIR(found.st_mode) else "600"
        told = f"others may use {path} (mode {stat.S_IMODE(found.st_mode):o})"
        return error(name, told, f"chmod {mode} {path}")
    return ok(name, f"{path} is yours alone")


def daemon(places: StatePlaces, version: str, answering: str, trouble: str) -> Iterator[Check]:
    """It runs, and is of this version.

    Args:
        version: ours.
        answering: the version that the daemon told; "" when none answers.
        trouble: why not, where it is more than that none runs.
    """
    if answering:
        if answering == version:
            yield ok("daemon", f"runs, version {answering}")
        else:
            told = f"the daemon is version {answering}, and this is {version}"
            yield warning("daemon", told, "relay daemon restart (no session is disturbed)")
        return
    holder = lock_holder(places.lock)
    if holder:
        told = f"pid {holder} holds the lock, and does not answer"
        mend = f"wait if it has just begun, else look at {places.log / 'daemon.log'} and end it"
        yield error("daemon", told, mend, detail=trouble)
    elif places.daemon.exists():
        told = f"it ended without tidying up; {places.daemon} is old"
        yield warning("daemon", told, "nothing: `relay daemon start` takes over", detail=trouble)
    elif trouble:
        yield error("daemon", trouble, "relay daemon status")
    elif places.root.exists() and not places.root.is_dir():
        yield error(
            "daemon", f"none can run: {places.root} is no folder", f"move {places.root} out of the way"
        )
    else:
        yield skipped("daemon", "none runs; `relay run` starts one when it is needed")


def service(path: str, state: str, other: str) -> Iterator[Check]:
    """The service that runs the daemon is well, where one is installed.

    Args:
        path: of its file; "" when none is installed.
        state: what the service manager says of it; "" when it can't be asked.
        other: what it starts, if that is not this Relay.
    """
    if not path:
        yield skipped("service", "none is installed; `relay daemon install` has the daemon start at login")
    elif other:
        told = f"{path} starts {other}, which is not this Relay"
        yield warning("service", told, "relay daemon install")
    elif state.startswith("failed"):
        yield error("service", f"it is {state}", "relay daemon status, then relay daemon start")
    else:
        yield ok("service", f"{path}{f' is {state}' if state else ' is installed'}")


def sessions(places: StatePlaces) -> Iterator[Check]:
    """What is under way, what is over and what it left, and what can't be read."""
    if not places.repositories.exists():
        yield skipped("sessions", "there were none yet")
        return
    live = over = unread = worktrees = outputs = size = 0
    for repo in known_repositories(places):
        try:
            sids = repo.session_ids()
        except RelayError as failure:
            unread += 1
            yield error("sessions", failure.message, failure.hint or f"look at {repo.sessions}")
            continue
        for sid in sids:
            try:
                record, note = read_record(repo, sid)
            except RelayError as failure:
                if never_begun(repo, sid):
                    told = f"{sid}: its beginning was cut off, in {repo.root}; nothing was done in it"
                    yield warning("sessions", told, "nothing: what was made of it is cleared away in time")
                    continue
                unread += 1
                yield error("sessions", f"{sid}: {failure.message}", failure.hint or "put back a copy")
                continue
            live, over = (live, over + 1) if record.ended else (live + 1, over)
            if note:
                yield warning("sessions", f"{sid}: {note}", "nothing: it goes on from there")
            worktree = Path(record.worktree)
            if record.ended:
                worktrees += worktree == repo.worktree(sid) and worktree.is_dir()
                runs = [repo.run(sid, run.number) for run in record.runs]
                found = [_size(run) for run in runs if run.is_dir()]
                outputs, size = outputs + len(found), size + sum(found)
            elif not worktree.is_dir():
                mend = "it is made again from the last snapshot; or end it: `relay stop`"
                yield warning("sessions", f"{sid}: its worktree {record.worktree} is gone", mend)
    if not unread:
        yield ok("sessions", f"{live} under way, {over} over")
    told = f"{worktrees} worktrees and {outputs} outputs ({size / 1e6:.1f} MB) of sessions that are over"
    if worktrees >= MANY_WORKTREES or size >= MUCH_OUTPUT:
        yield warning("leftovers", told, "relay gc --dry-run shows what can go, and what is not merged yet")
    else:
        yield ok("leftovers", f"{told}; see `relay gc --dry-run`" if worktrees or outputs else "none")


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.iterdir())


def audit(places: StatePlaces) -> Iterator[Check]:
    """The end of every log holds together, and is what was anchored."""
    key = read(places.signing_key, limit=4096) if places.signing_key.exists() else None
    logs = [("the daemon's own", places.audit, places.audit_anchor)]
    if places.repositories.exists():
        logs += [
            (str(repo.root), repo.audit, places.anchor(repo.root)) for repo in known_repositories(places)
        ]
    there = [each for each in logs if each[1].exists() or each[2].exists()]
    if not there:
        yield skipped("audit log", "there is none yet")
        return
    broken = entries = 0
    for name, log, anchor in there:
        verdict = verify_end(log, anchor, key)
        entries += verdict.entries
        if not verdict.ok:
            broken += 1
            yield error("audit log", f"{name}: {verdict.reason}", verdict.hint or "relay audit verify")
    if not broken:
        logs_told = "the log holds" if len(there) == 1 else f"{len(there)} logs hold"
        yield ok("audit log", f"{logs_told} together (the last entries, {entries} in all, were checked)")
