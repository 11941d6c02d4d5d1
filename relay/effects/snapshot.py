"""Snapshots: the state of a session's worktree as a commit on its branch, by git's plumbing.

Called at every handoff and at a session's end. No hook runs, nothing is signed, the user's checkout and
branches are never touched. Taking a snapshot again, after a crash at any step, ends in the same state.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from relay.effects.git import Git, mutex, open_git
from relay.effects.gitnames import check_limit_mb, path_text, session_branch, session_ref
from relay.effects.repository import places, session_refs, under_way, update_refs
from relay.effects.staging import (
    RELAY,
    Identity,
    LeftOut,
    Staged,
    commit_tree,
    install_index,
    private_index,
    stage_all,
)
from relay.effects.worktree import left_out_notes
from relay.errors import GitError, NoRepositoryError


@frozen(kw_only=True)
class FileChange:
    """One file of a difference.

    Args:
        path: relative to the root, as `gitnames.path_text` writes it.
        status: "A" added, "M" modified, "D" deleted, "T" of another type, "R" renamed.
        added: lines added; None for a binary file.
        removed: lines removed; None for a binary file.
        old_path: where it was, for "R".
    """

    path: str
    status: str
    added: int | None = None
    removed: int | None = None
    old_path: str = ""


@frozen(kw_only=True)
class SnapshotTaken:
    """A snapshot.

    Args:
        commit: the commit that holds the worktree's state.
        tree: its tree.
        parent: what it is compared with: its first parent, or the commit itself when nothing was new (taken
            again with the same number, the result is that of the first time).
        changed: what differs from `parent`.
        left_out: files that were not taken.
        notes: what the next agent or the user should know.
        made: a commit was made; false when the state was committed already.
    """

    commit: str
    tree: str
    parent: str | None
    changed: tuple[FileChange, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    made: bool = True


async def take(
    worktree: Path,
    sid: str,
    n: int,
    message: str,
    *,
    author: Identity = RELAY,
    max_file_mb: float | None = None,
) -> SnapshotTaken:
    """Commit what lies in the session's worktree to `relay/<sid>` and `refs/relay/<sid>/<n>`.

    Afterwards HEAD is on the session's branch and `git status` is clean there, whatever the agent did with
    either: a commit on another branch or on none becomes the parent, and the session's branch a second one
    when it has something of its own. Other branches stay where they are.

    Args:
        worktree: the session's worktree, absolute.
        n: the snapshot's number within the session, from 1.
        max_file_mb: files above so many megabytes are left out; None for no limit.

    Raises:
        NoRepositoryError: the folder is no worktree (any more).
        ConflictError: another process held a lock, or moved the branch meanwhile.
        DiskFullError, TimedOutError, GitError: git could not do it.
    """
    branch = session_branch(sid)
    max_bytes = check_limit_mb(max_file_mb)
    if n < 1:
        raise ValueError(f"snapshot number {n} is below 1")
    git = await open_git(_folder(worktree))
    git_dir, common_dir = await _linked(git, worktree)
    notes = list(git.notes)
    async with mutex(git_dir):
        if not (git_dir / "index").exists():
            await git.run("read-tree", "HEAD", writes=True)
        async with private_index(git_dir) as index:
            staged = await stage_all(git, index, max_bytes)
            notes += left_out_notes(staged, "the snapshot")
            tree = (await git.with_index(index).run("write-tree", writes=True)).text
            async with mutex(common_dir):
                refs = await session_refs(git, sid)
                tip = refs.get("branch")
                parents = await _parents(git, staged, tip, refs.get("base"))
                made = len(parents) != 1 or tree != await git.text("rev-parse", f"{parents[0]}^{{tree}}")
                commit = await commit_tree(git, tree, parents, message, author) if made else parents[0]
                await _move(git, sid, n, commit, tip)
            if staged.branch != branch:
                await git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}", writes=True)
                notes.append(_moved_note(staged, branch))
            busy = under_way(git_dir)
            if busy:
                notes.append(_busy_note(busy, staged))
            await install_index(git_dir, index)
        parent = parents[0] if parents else None
        again = not made and refs.get(str(n)) == commit
        if again:
            parent = await git.commit_id(f"{commit}^")
        changed = await changes(git, parent, commit) if made or again else ()
    return SnapshotTaken(
        commit=commit,
        tree=tree,
        parent=parent,
        changed=changed,
        left_out=staged.left_out,
        notes=tuple(notes),
        made=made,
    )


async def changes(git: Git, old: str | None, new: str) -> tuple[FileChange, ...]:
    """What differs between two commits, without looking for renames; `old` None is the empty tree."""
    start = [old] if old else ["--root"]
    listing = await git.run(
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--numstat",
        "--no-renames",
        "--no-commit-id",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=dirty",
        *start,
        new,
    )
    return _read_changes(listing.fields)


def _read_changes(fields: Iterable[bytes]) -> tuple[FileChange, ...]:
    """Read `git diff-tree -z --raw --numstat --no-renames` (git 2.39): all raw records, then the counts."""
    statuses: dict[bytes, str] = {}
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    pending = iter(fields)
    for field in pending:
        if field.startswith(b":"):
            statuses[next(pending)] = field.rsplit(b" ", 1)[1][:1].decode()
        else:
            added, removed, path = field.split(b"\t", 2)
            counts[path] = (
                None if added == b"-" else int(added),
                None if removed == b"-" else int(removed),
            )
    return tuple(
        FileChange(
            path=path_text(path),
            status=status,
            added=counts.get(path, (None, None))[0],
            removed=counts.get(path, (None, None))[1],
        )
        for path, status in statuses.items()
    )


async def _linked(git: Git, worktree: Path) -> tuple[Path, Path]:
    """Own and common git folder of `worktree`, after making sure that it is a linked worktree itself."""
    try:
        root, git_dir, common_dir = await places(git)
    except NoRepositoryError as error:
        raise NoRepositoryError(
            f"{worktree} is no worktree of a repository any more",
            hint="Its .git file is missing or wrong; `git worktree repair <folder>`, run in the repository, "
            "mends it.",
        ) from error
    if not _same(root, worktree) or _same(git_dir, common_dir):
        raise NoRepositoryError(
            f"{worktree} is not a worktree that Relay made, but a repository of its own or part of another",
            hint="Nothing was committed. Move the folder's .git away, then `git worktree repair <folder>`.",
        )
    return git_dir, common_dir


async def _parents(git: Git, staged: Staged, tip: str | None, base: str | None) -> list[str]:
    """HEAD, then the session's branch where HEAD does not contain it."""
    head = staged.head
    if head is None or head == tip:
        return [p for p in (tip or base,) if p]
    if tip is None:
        return [head]
    inside = await git.run("merge-base", "--is-ancestor", tip, head, accept=(0, 1))
    return [head] if inside.code == 0 else [head, tip]


async def _move(git: Git, sid: str, n: int, commit: str, tip: str | None) -> None:
    """Move the branch from `tip`, and only from there, to `commit`; number the snapshot."""
    try:
        await update_refs(
            git,
            {f"refs/heads/{session_branch(sid)}": (commit, tip), session_ref(sid, n): (commit, "")},
            f"relay: snapshot {n}",
        )
    except GitError as error:
        raise GitError(
            error.message,
            hint=f"Something else moved {session_branch(sid)} just now; nothing is lost, try again.",
        ) from error


def _moved_note(staged: Staged, branch: str) -> str:
    was = f"on the branch {staged.branch}" if staged.branch else "on no branch (detached HEAD)"
    return f"The worktree was {was}; its state was committed to {branch}, which is checked out again."


def _busy_note(busy: str, staged: Staged) -> str:
    files = f" Files with conflict marks: {', '.join(staged.conflicted)}." if staged.conflicted else ""
    end = {
        "merge": "`git commit` concludes it, `git merge --quit` forgets it.",
        "bisect": "`git bisect reset` ends it.",
    }.get(busy, f"Do not continue it; `git {busy} --quit` forgets it and leaves the files as they are.")
    return f"A {busy} was under way and its files were taken as they lie.{files} {end}"


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise NoRepositoryError(
            f"the session's folder {path} is gone",
            hint="Resume the session; it is made again from its branch.",
        )
    return path


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
