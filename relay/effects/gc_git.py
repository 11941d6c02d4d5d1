"""What ended sessions left in a repository: worktrees, git's notes of them, refs; and removing it.

Looks by `relay.effects.gc_look`, and removes by way of `relay.effects.worktree`, which refuses what would
lose work. Called by `relay.effects.do_gc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import trio

from relay.core.gc import Kind, Piece, snapshots_kept, worktree_kept
from relay.core.record import SessionRecord
from relay.effects import worktree
from relay.effects.gc_files import folder_size
from relay.effects.gc_look import Entry, entry_kept, lonely_refs, look, real, registered
from relay.effects.git import Git, mutex, open_git
from relay.effects.gitnames import session_branch
from relay.effects.repository import Repository, session_refs, update_refs
from relay.errors import ConflictError, RelayError
from relay.store.places import RepoPlaces


async def left_behind(
    repo: Repository, here: RepoPlaces, records: Sequence[SessionRecord], roots: Sequence[Path]
) -> list[Piece]:
    """What the sessions of one repository left in git and as folders.

    Args:
        records: the sessions that are over.
        roots: the repositories that Relay knows.

    Raises:
        GitError and its kin: git could not look.
    """
    git = await open_git(repo.root)
    entries = await registered(git)
    lonely = await lonely_refs(git)
    found: list[Piece] = []
    for record in records:
        path = here.worktree(record.sid)
        entry = entries.get(real(path))
        if await trio.Path(path).is_dir():
            found.append(await _folder(repo, here, record, entry, roots))
        elif entry is not None:
            found.append(await _entry(git, repo, record, entry))
        else:
            found += await _snapshots(git, repo, record, lonely)
    return found


async def strangers(here: RepoPlaces, sids: Sequence[str]) -> list[Piece]:
    """Folders among the worktrees that are of no known session; they are listed, never removed."""
    top = trio.Path(here.worktrees)
    folders = sorted(await top.iterdir()) if await top.is_dir() else []
    return [
        Piece(
            kind=Kind.WORKTREE,
            path=str(folder),
            repository=str(here.root),
            since=datetime.max.replace(tzinfo=UTC),
            keep="no session of this name is known",
            hint=f"ls {folder}",
        )
        for folder in folders
        if folder.name not in sids
    ]


async def _folder(
    repo: Repository, here: RepoPlaces, record: SessionRecord, entry: Entry | None, roots: Sequence[Path]
) -> Piece:
    path = here.worktree(record.sid)
    also = ""
    try:
        facts = await look(repo, record, path, entry, roots)
        keep, hint = worktree_kept(facts, record.sid, str(path))
        also = f"ignored files: {facts.ignored}" if facts.ignored else ""
    except RelayError as error:
        keep, hint = error.message, error.hint
    return Piece(
        kind=Kind.WORKTREE,
        path=str(path),
        session=record.sid,
        repository=str(here.root),
        bytes=await trio.to_thread.run_sync(folder_size, path, abandon_on_cancel=True),
        since=record.updated_at,
        keep=keep,
        hint=hint,
        also=also,
    )


async def _entry(git: Git, repo: Repository, record: SessionRecord, entry: Entry) -> Piece:
    return Piece(
        kind=Kind.ENTRY,
        path=str(entry.path),
        session=record.sid,
        repository=str(repo.root),
        since=record.updated_at,
        keep=await entry_kept(git, repo, entry),
        hint=f"git -C {repo.root} worktree list",
    )


async def _snapshots(
    git: Git, repo: Repository, record: SessionRecord, lonely: frozenset[str]
) -> list[Piece]:
    refs = await session_refs(git, record.sid)
    if not set(refs) - {"branch"}:
        return []
    keep, hint = snapshots_kept(record.sid, _lonely(record.sid, refs, lonely))
    return [
        Piece(
            kind=Kind.SNAPSHOTS,
            path=f"refs/relay/{record.sid}/",
            session=record.sid,
            repository=str(repo.root),
            since=record.updated_at,
            keep=keep,
            hint=hint,
        )
    ]


def _lonely(sid: str, refs: Mapping[str, str], lonely: frozenset[str]) -> list[str]:
    return [name for name in refs if _full(sid, name) in lonely]


def _full(sid: str, name: str) -> str:
    return f"refs/heads/{session_branch(sid)}" if name == "branch" else f"refs/relay/{sid}/{name}"


async def remove_worktree(repo: Repository, record: SessionRecord, roots: Sequence[Path]) -> None:
    """Remove a session's folder, after another look at it.

    Raises:
        ConflictError: something would be lost by now.
        GitError and its kin: git could not do it.
    """
    path = Path(record.worktree)
    entry = (await registered(await open_git(repo.root))).get(real(path))
    if await trio.Path(path).is_dir():
        keep, hint = worktree_kept(await look(repo, record, path, entry, roots), record.sid, str(path))
        if keep:
            raise ConflictError(keep, hint=hint)
    await worktree.remove(repo, record.sid, path)


async def remove_entry(repo: Repository, path: Path) -> None:
    """Have git forget a worktree whose folder is gone.

    Raises:
        ConflictError: the folder is there again.
        GitError and its kin: git could not do it.
    """
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        if await trio.Path(path).exists():
            raise ConflictError(f"{path} is there again")
        if real(path) in await registered(git):
            await git.run("worktree", "remove", "--force", str(path), writes=True)


async def remove_snapshots(repo: Repository, sid: str) -> None:
    """Remove a session's refs, all or none; its branch stays.

    Raises:
        ConflictError: one of them is the only one to its work by now.
        GitError and its kin: git could not do it.
    """
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        refs = await session_refs(git, sid)
        keep, hint = snapshots_kept(sid, _lonely(sid, refs, await lonely_refs(git)))
        if keep:
            raise ConflictError(keep, hint=hint)
        gone: dict[str, tuple[str | None, str | None]] = {
            _full(sid, name): (None, commit) for name, commit in refs.items() if name != "branch"
        }
        if gone:
            await update_refs(git, gone, "relay: cleared away")
