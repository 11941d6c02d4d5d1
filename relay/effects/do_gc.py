"""Clears away what is left of ended sessions: looks, plans (`relay.core.gc`), removes.

Every removal can be taken twice, and looks once more before it removes. Runs in the daemon, so that no
session begins or ends in between unseen.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

import trio
from attrs import Factory, define

from relay.core import effects, reports
from relay.core.gc import Decision, GcPolicy, Kind, Piece, plan
from relay.core.record import SessionRecord
from relay.effects import adopted_file, gc_files, gc_git, processes, worktree
from relay.effects.repository import inspect
from relay.effects.world import World
from relay.errors import ConflictError, NoRepositoryError, RelayError
from relay.store.places import RepoPlaces
from relay.store.repositories import known_repositories
from relay.store.sessions import never_begun, read_record


@define
class _Here:
    """One repository: its sessions by id, those of them that can't be read, and those that never began."""

    places: RepoPlaces
    records: dict[str, SessionRecord] = Factory(dict)
    unread: list[str] = Factory(list)
    unbegun: list[str] = Factory(list)

    @property
    def over(self) -> list[SessionRecord]:
        """The sessions that are over."""
        return [record for record in self.records.values() if record.ended]


async def collect_garbage(world: World, effect: effects.CollectGarbage) -> reports.GarbageCollected:
    """Look, plan, and unless it is a dry run remove."""
    now = world.clock()
    problems: list[str] = []
    known = await trio.to_thread.run_sync(_known, world, problems, abandon_on_cancel=True)
    pieces = await trio.to_thread.run_sync(_files, world, known, now, abandon_on_cancel=True)
    for here in known:
        pieces += await _in_git(here, known, now, problems)
    policy = GcPolicy(keep_days=effect.keep_days, output_max_bytes=effect.output_max_bytes)
    items = []
    for decision in plan(pieces, policy, now):
        done = False
        if decision.remove and not effect.dry_run:
            try:
                await _remove(decision.piece, known)
                done = True
            except (OSError, RelayError) as error:
                problems.append(f"{decision.piece.path} was not removed: {error}")
        items.append(_item(decision, done))
    logs = [world.places.audit, *(here.places.audit for here in known)]
    return reports.GarbageCollected(
        key=effect.key,
        at=world.clock(),
        items=tuple(items),
        problems=tuple(problems),
        dry_run=effect.dry_run,
        audit_bytes=sum(map(gc_files.size, logs)),
    )


def _item(decision: Decision, done: bool) -> reports.GarbageItem:
    piece = decision.piece
    return reports.GarbageItem(
        kind=piece.kind.value,
        path=piece.path,
        session=piece.session,
        repository=piece.repository,
        bytes=piece.bytes,
        remove=decision.remove,
        removed=done,
        why=decision.why,
        hint=piece.hint,
    )


def _known(world: World, problems: list[str]) -> list[_Here]:
    found = []
    for places in known_repositories(world.places):
        here = _Here(places)
        try:
            sids = places.session_ids()
        except RelayError as error:
            problems.append(error.message)
            continue
        for sid in sids:
            try:
                here.records[sid] = read_record(places, sid)[0]
            except RelayError as error:
                if never_begun(places, sid):
                    here.unbegun.append(sid)
                    continue
                here.unread.append(sid)
                problems.append(f"{sid} is left alone: {error.message}")
        found.append(here)
    return found


def _files(world: World, known: list[_Here], now: datetime) -> list[Piece]:
    pieces: list[Piece] = []
    live: set[str] = set()
    ended: dict[str, datetime] = {}
    folders: set[Path] = {world.places.root, world.places.anchors}
    for here in known:
        folders |= {here.places.folder, *(here.places.session(sid) for sid in here.records)}
        live |= {sid for sid, record in here.records.items() if not record.ended}
        ended |= {record.sid: record.updated_at for record in here.over}
        pieces += gc_files.unbegun(here.places, here.unbegun, now)
        for record in here.over:
            pieces += gc_files.outputs(here.places, record, now)
    pieces += gc_files.fifos(world.places.fifos, live, ended)
    pieces += gc_files.temporaries(folders, now)
    return pieces


async def _in_git(here: _Here, known: list[_Here], now: datetime, problems: list[str]) -> list[Piece]:
    """What lies in the repository itself; nothing where there is none."""
    pieces = await gc_git.strangers(here.places, [*here.records, *here.unread, *here.unbegun])
    try:
        repo = await inspect(here.places.root)
        pieces += await gc_git.left_behind(repo, here.places, here.over, _roots(known))
    except NoRepositoryError:
        return pieces
    except RelayError as error:
        problems.append(f"{here.places.root} is left alone: {error.message}")
        return pieces
    pieces += await trio.to_thread.run_sync(_git_files, here.places.root, repo.common_dir, now)
    return pieces


def _git_files(root: Path, common_dir: Path, now: datetime) -> list[Piece]:
    return list(gc_files.git_files(root, common_dir, now))


def _roots(known: list[_Here]) -> list[Path]:
    return [here.places.root for here in known]


async def _remove(piece: Piece, known: list[_Here]) -> None:
    path = Path(piece.path)
    match piece.kind:
        case Kind.WORKTREE:
            places = RepoPlaces(root=Path(piece.repository))
            record, _ = await trio.to_thread.run_sync(read_record, places, piece.session)
            await gc_git.remove_worktree(await inspect(places.root), record, _roots(known))
        case Kind.ENTRY:
            await gc_git.remove_entry(await inspect(Path(piece.repository)), path)
        case Kind.SNAPSHOTS:
            await gc_git.remove_snapshots(await inspect(Path(piece.repository)), piece.session)
        case Kind.OUTPUT:
            await trio.to_thread.run_sync(gc_files.remove_run, path)
        case Kind.UNBEGUN:
            await _remove_unbegun(RepoPlaces(root=Path(piece.repository)), piece.session)
        case Kind.FIFO:
            if await processes.leftovers(path.name):
                raise ConflictError("a process of its run is alive")
            await trio.Path(path).unlink(missing_ok=True)
        case Kind.TEMPORARY | Kind.GIT_FILE:
            await trio.Path(path).unlink(missing_ok=True)


async def _remove_unbegun(places: RepoPlaces, sid: str) -> None:
    """Whatever lies in its folder or on its branch all the same is kept by a ref, as of any discarded one."""
    if not never_begun(places, sid):
        raise ConflictError("it has begun")
    with suppress(NoRepositoryError):
        await worktree.discard(await inspect(places.root), sid, places.worktree(sid))
    adopted_file.forget(places, sid)
    folder = trio.Path(places.session(sid))
    for cut_off in await folder.glob(".fsm.json.*"):
        await cut_off.unlink()
    await folder.rmdir()
