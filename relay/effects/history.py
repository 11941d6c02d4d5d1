"""Reads of a repository's history: differences, patches, a session's commits.

Called by the API. Commits are read by libgit2, in threads; files as they lie, and what libgit2 can't open, by
git itself (`history_git`). Nothing is changed and no program that the repository names is run.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TypeVar

import pygit2
import trio

from relay.effects import history_git
from relay.effects.difference import LARGE, PATCH_LIMIT, Commit, Diff
from relay.effects.gitnames import check_sha, check_sid, path_text, session_branch, session_ref
from relay.effects.snapshot import FileChange, stat_line
from relay.errors import NotFoundError

T = TypeVar("T")

_LETTERS = {
    pygit2.enums.DeltaStatus.ADDED: "A",
    pygit2.enums.DeltaStatus.UNTRACKED: "A",
    pygit2.enums.DeltaStatus.DELETED: "D",
    pygit2.enums.DeltaStatus.RENAMED: "R",
    pygit2.enums.DeltaStatus.TYPECHANGE: "T",
}


async def diff(root: Path, base: str, tip: str, *, limit: int = PATCH_LIMIT) -> Diff:
    """The difference between two commits, ids of 7 to 64 hex digits.

    Args:
        root: the repository.
        limit: bytes of patch at most.

    Raises:
        BadNameError: an id has not the shape of one.
        NotFoundError: there is no such commit.
        NoRepositoryError, GitError: the repository cannot be read.
    """
    check_sha(base)
    check_sha(tip)
    return await _read(
        root,
        lambda repo: _diff(_find(repo, base), _find(repo, tip), limit),
        partial(history_git.diff, root, base, tip, limit),
    )


async def commit_diff(root: Path, sha: str, *, limit: int = PATCH_LIMIT) -> Diff:
    """What a commit changed against its first parent.

    Raises:
        BadNameError, NotFoundError, GitError: as `diff`.
    """
    check_sha(sha)

    def read(repo: pygit2.Repository) -> Diff:
        commit = _find(repo, sha)
        return _diff(commit.parents[0] if commit.parents else None, commit, limit)

    return await _read(root, read, partial(history_git.commit_diff, root, sha, limit))


async def session_diff(root: Path, sid: str, base: str, worktree: Path, *, limit: int = PATCH_LIMIT) -> Diff:
    """A session's work since `base`: to the files as they lie in its worktree, or, when that is gone, to its
    last commit.

    Raises:
        BadNameError, NotFoundError, GitError: as `diff`.
    """
    check_sha(base)
    check_sid(sid)
    if await trio.Path(worktree / ".git").exists():
        return await history_git.worktree_diff(worktree, base, limit)
    return await _read(
        root,
        lambda repo: _diff(_find(repo, base), _tip(repo, sid), limit),
        partial(history_git.branch_diff, root, sid, base, limit),
    )


async def diff_uncommitted(root: Path) -> Diff:
    """What is not committed in a checkout, without the patch.

    Raises:
        GitError: as `diff`.
    """
    return await history_git.worktree_diff(root, "HEAD", 0)


async def session_commits(root: Path, sid: str, base: str, *, limit: int = 1000) -> tuple[Commit, ...]:
    """The commits of the session's branch (or of what was kept of it) since `base`, newest first.

    Raises:
        BadNameError, NotFoundError, GitError: as `diff`.
    """
    check_sha(base)
    check_sid(sid)
    return await _read(
        root,
        lambda repo: _commits(repo, sid, _find(repo, base), limit),
        partial(history_git.commits, root, sid, base, limit),
    )


async def _read(
    root: Path, read: Callable[[pygit2.Repository], T], otherwise: Callable[[], Awaitable[T]]
) -> T:
    """What `read` finds by libgit2, or `otherwise` by git when libgit2 can't read the repository."""

    def work() -> tuple[T] | None:
        try:
            return (read(pygit2.Repository(str(root))),)
        except pygit2.GitError:
            return None

    found = await trio.to_thread.run_sync(work)
    return found[0] if found else await otherwise()


def _find(repo: pygit2.Repository, sha: str) -> pygit2.Commit:
    try:
        return repo[sha].peel(pygit2.Commit)
    except (KeyError, ValueError, pygit2.InvalidSpecError):
        raise NotFoundError(f"there is no commit {sha}", hint="`relay history` lists the commits.") from None


def _tip(repo: pygit2.Repository, sid: str) -> pygit2.Commit:
    for ref in (f"refs/heads/{session_branch(sid)}", session_ref(sid, "discarded")):
        found = repo.references.get(ref)
        if found is not None:
            return found.peel(pygit2.Commit)
    raise NotFoundError(f"session {sid} has no branch", hint="`relay status` lists the sessions.")


def _diff(base: pygit2.Commit | None, tip: pygit2.Commit, limit: int) -> Diff:
    found = tip.tree.diff_to_tree(base.tree, swap=True) if base else tip.tree.diff_to_tree(swap=True)
    found.find_similar()
    return _describe(found, str(base.id) if base else "", str(tip.id), limit)


def _describe(found: pygit2.Diff, base: str, tip: str, limit: int) -> Diff:
    files: list[FileChange] = []
    text = bytearray()
    cut = False
    for number, delta in enumerate(found.deltas):
        path = delta.new_file.raw_path
        if path.endswith(b"/"):
            continue
        letter = _LETTERS.get(delta.status, "M")
        old = path_text(delta.old_file.raw_path) if letter == "R" else ""
        large = max(delta.new_file.size, delta.old_file.size) > LARGE
        patch = None if large else found[number]
        if patch is None:
            files.append(FileChange(path=path_text(path), status=letter, binary=True, old_path=old))
            cut = True
            continue
        _, added, removed = patch.line_stats
        files.append(
            FileChange(
                path=path_text(path),
                status=letter,
                added=added,
                removed=removed,
                binary=bool(patch.delta.is_binary),
                old_path=old,
            )
        )
        if not cut:
            text += patch.data
            cut = len(text) > limit
    return Diff(
        base=base,
        tip=tip,
        stat=stat_line(files),
        files=tuple(files),
        patch=bytes(text[:limit]).decode("utf-8", "replace"),
        cut=cut,
    )


def _commits(repo: pygit2.Repository, sid: str, base: pygit2.Commit, limit: int) -> tuple[Commit, ...]:
    prefix = f"refs/relay/{sid}/"
    named: dict[str, list[str]] = {}
    for name in repo.references:
        if name.startswith(prefix):
            target = repo.references[name].peel(pygit2.Commit)
            named.setdefault(str(target.id), []).append(name[len(prefix) :])
    walk = repo.walk(_tip(repo, sid).id, pygit2.enums.SortMode.TOPOLOGICAL)
    walk.hide(base.id)
    found: list[Commit] = []
    for commit in walk:
        if len(found) == limit:
            break
        found.append(_commit(commit, tuple(sorted(named.get(str(commit.id), ())))))
    return tuple(found)


def _commit(commit: pygit2.Commit, refs: tuple[str, ...]) -> Commit:
    zone = timezone(timedelta(minutes=commit.commit_time_offset))
    return Commit(
        sha=str(commit.id),
        parents=tuple(str(parent) for parent in commit.parent_ids),
        author=os.fsencode(commit.author.name).decode("utf-8", "replace"),
        at=datetime.fromtimestamp(commit.commit_time, zone),
        subject=commit.raw_message.decode("utf-8", "replace").split("\n", 1)[0],
        refs=refs,
    )
