"""Clears away what is left of ended sessions: looks, plans (`relay.core.gc`), removes.

Every removal can be taken twice, and looks once more before it removes. Runs in the daemon, so that no
session begins or ends in between unseen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import trio

from relay.core import effects, reports
from relay.core.gc import Decision, GcPolicy, Kind, Piece, plan
from relay.core.record import SessionRecord
from relay.effects import processes, worktree
from relay.effects.repository import inspect
from relay.effects.spool import RunFolder
from relay.effects.world import World
from relay.errors import RelayError
from relay.store.places import RepoPlaces
from relay.store.sessions import known_repositories, read_record

TEMPORARY_HOURS = 24
"""A temporary file younger than this may be one that is just being written."""


async def collect_garbage(world: World, effect: effects.CollectGarbage) -> reports.GarbageCollected:
    """Look, plan, and unless it is a dry run remove."""
    now = world.clock()
    pieces, problems = await trio.to_thread.run_sync(_look, world, now)
    pieces += await _worktrees(world, problems)
    policy = GcPolicy(keep_days=effect.keep_days, output_max_bytes=effect.output_max_bytes)
    decisions = plan(pieces, policy, now)
    items = []
    for decision in decisions:
        done = False
        if decision.remove and not effect.dry_run:
            try:
                await _remove(world, decision.piece)
                done = True
            except (OSError, RelayError) as error:
                problems.append(f"{decision.piece.path} was not removed: {error}")
        items.append(_item(decision, done))
    return reports.GarbageCollected(
        key=effect.key, at=world.clock(), items=tuple(items), problems=tuple(problems), dry_run=effect.dry_run
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


def _records(world: World, problems: list[str]) -> Iterator[tuple[RepoPlaces, SessionRecord]]:
    for places in known_repositories(world.places):
        try:
            sids = places.session_ids()
        except RelayError as error:
            problems.append(error.message)
            continue
        for sid in sids:
            try:
                yield places, read_record(places, sid)[0]
            except RelayError as error:
                problems.append(f"{sid} is left alone: {error.message}")


def _look(world: World, now: datetime) -> tuple[list[Piece], list[str]]:
    problems: list[str] = []
    pieces: list[Piece] = []
    live: set[str] = set()
    ended: dict[str, datetime] = {}
    folders: set[Path] = {world.places.root, world.places.anchors}
    for places, record in _records(world, problems):
        folders |= {places.folder, places.session(record.sid)}
        if not record.ended:
            live.add(record.sid)
            continue
        ended[record.sid] = record.updated_at
        pieces += _outputs(places, record)
    pieces += _fifos(world, live, ended)
    pieces += _temporaries(folders, now)
    return pieces, problems


def _outputs(places: RepoPlaces, record: SessionRecord) -> Iterator[Piece]:
    for run in record.runs:
        folder = RunFolder(places.run(record.sid, run.number))
        if not folder.path.is_dir() or folder.path.is_symlink():
            continue
        # What is not rewritten in redacted form yet is still being wound up.
        keep = "" if folder.offsets().redacted else "its output is not redacted yet"
        size = sum(_size(path) for path in folder.path.iterdir())
        yield Piece(
            kind=Kind.OUTPUT,
            path=str(folder.path),
            session=record.sid,
            repository=str(places.root),
            bytes=size,
            since=record.updated_at,
            keep=keep,
        )


def _fifos(world: World, live: set[str], ended: dict[str, datetime]) -> Iterator[Piece]:
    if not world.places.fifos.is_dir():
        return
    for path in sorted(world.places.fifos.iterdir()):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        sid = path.name.partition(".")[0]
        keep = (
            "" if sid in ended else "its session is under way" if sid in live else "its session is not known"
        )
        since = ended.get(sid, datetime.fromtimestamp(found.st_mtime, UTC))
        if stat.S_ISFIFO(found.st_mode):
            yield Piece(kind=Kind.FIFO, path=str(path), session=sid, since=since, keep=keep)


def _temporaries(folders: set[Path], now: datetime) -> Iterator[Piece]:
    """`.NAME.<hex>.tmp`, which `relay.store.atomic` makes and a crash leaves."""
    for folder in sorted(folders):
        try:
            names = sorted(folder.glob(".*.tmp"))
        except OSError:
            continue
        for path in names:
            try:
                found = path.lstat()
            except FileNotFoundError:
                continue
            since = datetime.fromtimestamp(found.st_mtime, UTC)
            young = (now - since).total_seconds() < TEMPORARY_HOURS * 3600
            keep = "it may be just being written" if young else ""
            if stat.S_ISREG(found.st_mode):
                yield Piece(kind=Kind.TEMPORARY, path=str(path), bytes=found.st_size, since=since, keep=keep)


async def _worktrees(world: World, problems: list[str]) -> list[Piece]:
    pieces = []
    records = await trio.to_thread.run_sync(lambda: list(_records(world, [])))
    for places, record in records:
        path = places.worktree(record.sid)
        ours = record.branch and record.worktree == str(path) and not record.discarded
        if not record.ended or not ours or not await trio.Path(path).is_dir():
            continue
        try:
            keep, hint = await _why_kept(places, record)
        except RelayError as error:
            problems.append(f"{path} is left alone: {error.message}")
            continue
        size = await trio.to_thread.run_sync(_folder_size, path) if not keep else 0
        pieces.append(
            Piece(
                kind=Kind.WORKTREE,
                path=str(path),
                session=record.sid,
                repository=str(places.root),
                bytes=size,
                since=record.updated_at,
                keep=keep,
                hint=hint,
            )
        )
    return pieces


async def _why_kept(places: RepoPlaces, record: SessionRecord) -> tuple[str, str]:
    """Why a worktree must stay, and the command that ends the reason; ("", "") when nothing would be lost."""
    repo = await inspect(places.root)
    found = await worktree.look(repo, record.sid, Path(record.worktree), record.base_commit)
    if found.dirty:
        return f"it holds changes that are in no commit: {found.dirty}", f"relay diff {record.sid}"
    if not found.merged:
        hint = f"relay merge {record.sid}, or relay discard {record.sid}"
        return "its work is not merged into the branch that is checked out", hint
    return "", ""


async def _remove(world: World, piece: Piece) -> None:
    path = Path(piece.path)
    if piece.kind is Kind.WORKTREE:
        repo = await inspect(Path(piece.repository))
        # Refuses when somebody worked in it since it was looked at.
        await worktree.remove(repo, piece.session, path)
        return
    if piece.kind is Kind.FIFO and await processes.leftovers(path.name):
        return
    if piece.kind is Kind.OUTPUT:
        await trio.to_thread.run_sync(RunFolder(path).remove)
    else:
        await trio.Path(path).unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _folder_size(top: Path) -> int:
    total = 0
    for folder, _, names in os.walk(top):
        total += sum(_size(Path(folder) / name) for name in names)
    return total
