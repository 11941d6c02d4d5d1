"""Effects of a session's life on disk: its place to work, its record, what was not over at a restart."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import trio

from relay.core import effects, reports
from relay.core.adoption import known_before
from relay.core.events import Place
from relay.core.record import FORMAT_VERSION, SessionRecord
from relay.core.redact import DEFAULT
from relay.core.wire import event_from_wire, to_wire
from relay.effects import adopted_file, processes, repository, stop, undo, worktree
from relay.effects.do_children import run_folder
from relay.effects.world import World, marker
from relay.errors import NoRepositoryError, RelayError
from relay.store import audit_read, state_file
from relay.store.places import RepoPlaces
from relay.store.repositories import known_repositories, remember_repository
from relay.store.sessions import never_begun, read_record


async def prepare_worktree(
    world: World, effect: effects.PrepareWorktree, ready: Callable[[str], Awaitable[None]]
) -> reports.WorktreePrepared:
    """Look at the repository and make the session's worktree, or take the folder as it is.

    Args:
        ready: raises when the audit log of a repository cannot be appended to.
    """
    asked = Path(effect.repository)
    try:
        found = await repository.inspect(asked)
    except NoRepositoryError:
        if not effect.options.in_place:
            raise
        found = None
    root = found.root if found else Path(await trio.Path(asked).resolve())
    places = RepoPlaces(root=root)
    await trio.to_thread.run_sync(places.ensure)
    await ready(str(root))
    try:
        await trio.to_thread.run_sync(places.ensure_session, effect.sid)
        if effect.facts is not None:
            await trio.to_thread.run_sync(adopted_file.keep, places, effect.sid, effect.facts)
        await trio.to_thread.run_sync(remember_repository, world.places, str(root))
        if found is None or effect.options.in_place:
            note = (
                "works in place" if found else "works in place, without a repository: there are no snapshots"
            )
            return reports.WorktreePrepared(
                key=effect.key,
                at=world.clock(),
                repository=str(root),
                worktree=str(root),
                branch="",
                base_commit=found.head_commit if found else "",
                carried_files=0,
                notes=(note,),
            )
        made = await worktree.create(
            found,
            effect.sid,
            places.worktree(effect.sid),
            carry=effect.options.carry,
            max_file_mb=effect.options.max_file_mb,
        )
    except Exception:
        await trio.to_thread.run_sync(_forget_folder, places, effect.sid)
        raise
    return reports.WorktreePrepared(
        key=effect.key,
        at=world.clock(),
        repository=str(root),
        worktree=str(made.path),
        branch=made.branch,
        base_commit=made.carried_commit or made.base_commit,
        carried_files=len(made.carried_files),
        notes=made.notes,
    )


async def undo_worktree(world: World, effect: effects.UndoWorktree) -> reports.SessionDiscarded:
    """Take the worktree, its branch and the session's folder away again; the checkout holds all of it.

    Raises:
        RelayError: git could not do it; the session's folder is gone all the same.
    """
    places = RepoPlaces(root=Path(effect.repository))
    await trio.to_thread.run_sync(_forget_folder, places, effect.sid)
    if effect.branch:
        found = await repository.inspect(places.root)
        await undo.undo(found, effect.sid, Path(effect.worktree))
    return reports.SessionDiscarded(key=effect.key, at=world.clock(), kept_as="")


def _forget_folder(places: RepoPlaces, sid: str) -> None:
    """Remove the folder of a session that did not come to be, unless something unknown lies in it."""
    with suppress(OSError):
        adopted_file.forget(places, sid)
        places.session(sid).rmdir()


async def save_session(world: World, effect: effects.SaveSession) -> reports.SessionSaved:
    """Put the record on disk."""
    record = effect.record
    path = RepoPlaces(root=Path(record.repository)).fsm(record.sid)
    await trio.to_thread.run_sync(state_file.save, path, to_wire(record), FORMAT_VERSION)
    return reports.SessionSaved(key=effect.key, at=world.clock())


async def load_session(world: World, effect: effects.LoadSession) -> reports.SessionLoaded:
    """The record, and what the audit log tells of the session."""
    return await trio.to_thread.run_sync(_load, world, effect)


def _load(world: World, effect: effects.LoadSession) -> reports.SessionLoaded:
    places = RepoPlaces(root=Path(effect.repository))
    record, note = read_record(places, effect.sid)
    known = adopted_file.kept(places, effect.sid) if record.options.adopted else None
    facts = known_before(known, DEFAULT.redact(record.options.goal).text, record.worktree)
    last: dict[tuple[int, str], Place] = {}
    begun, logged_state = False, ""
    for entry in audit_read.entries(places.audit, session=effect.sid):
        begun = begun or (entry.event == "session" and "goal" in entry.data)
        if entry.event == "fsm":
            logged_state = str(entry.data.get("to", ""))
        at = datetime.fromisoformat(entry.ts)
        if entry.event == "reply":
            facts.replied(str(entry.data.get("text", "")))
        seen = event_from_wire(entry.data, at) if entry.event == "agent_event" else None
        if seen is not None:
            facts.fold(seen)
            last[(seen.place.run, seen.place.stream)] = seen.place
    run = record.run.number if record.run else 0
    followed = effects.LastPlaces(places=tuple(place for (number, _), place in last.items() if number == run))
    unlogged = (*(() if begun else ("session",)), *(() if logged_state == record.state else ("fsm",)))
    return reports.SessionLoaded(
        key=effect.key,
        at=world.clock(),
        record=record,
        facts=facts,
        places=followed,
        note=note,
        unlogged=unlogged,
    )


async def list_unfinished(world: World, effect: effects.ListUnfinished) -> reports.UnfinishedListed:
    """Sessions of all repositories that were not over, or had still something to do."""

    known: set[str] = set()
    under_way: set[str] = set()

    def look() -> tuple[list[tuple[str, str]], list[str]]:
        unfinished: list[tuple[str, str]] = []
        problems: list[str] = []
        for places in known_repositories(world.places):
            try:
                sids = places.session_ids()
            except RelayError as error:
                problems.append(error.message)
                continue
            for sid in sids:
                # One that cannot be read must not keep the others from being taken up.
                try:
                    record, _ = read_record(places, sid)
                    open_still = not record.ended or _not_wound_up(record)
                except RelayError as error:
                    if not never_begun(places, sid):
                        problems.append(error.message)
                    continue
                except OSError as error:
                    problems.append(f"{sid} in {places.root} can't be looked at: {error}")
                    continue
                known.add(sid)
                if record.run is not None and record.run.ended_at is None:
                    under_way.add(marker(sid, record.run.number))
                if open_still:
                    unfinished.append((sid, str(places.root)))
        return unfinished, problems

    unfinished, problems = await trio.to_thread.run_sync(look)
    await _sweep(known, under_way)
    return reports.UnfinishedListed(
        key=effect.key, at=world.clock(), sessions=tuple(unfinished), problems=tuple(problems)
    )


async def _sweep(known: set[str], under_way: set[str]) -> None:
    """End what an earlier life left of these sessions: acceptance commands, processes of earlier runs."""
    if os.name != "posix":
        return
    found = {process.marker for process in await processes.leftovers("s-")}
    for name in sorted(found - under_way):
        if name.partition(".")[0] in known:
            await stop.sweep(name, keep=under_way)


def _not_wound_up(record: SessionRecord) -> bool:
    """It is over, and the daemon died before its output was rewritten in redacted form."""
    folders = [run_folder(record, run.number) for run in record.runs]
    return any(folder.path.is_dir() and not folder.offsets().redacted for folder in folders)
