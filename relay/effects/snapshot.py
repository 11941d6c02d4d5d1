"""Snapshots: the state of a session's worktree as a commit on its branch, by git's plumbing.

Called at every handoff and at a session's end. No hook runs, nothing is signed, the user's checkout and
branches are never touched. Taking a snapshot again, after a crash at any step, ends in the same state.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio
from attrs import frozen

from relay.effects.git import Git, mutex, open_git
from relay.effects.gitnames import check_limit_mb, check_sha, path_text, session_branch, session_ref
from relay.effects.moving import write_tree
from relay.effects.repository import places, session_refs_and_trees, under_way, update_refs
from relay.effects.staging import (
    RELAY,
    Identity,
    Staged,
    commit_tree,
    install_index,
    private_index,
    stage_all,
)
from relay.effects.together import together
from relay.effects.worktree import left_out_notes
from relay.errors import GitError, NoRepositoryError


@frozen(kw_only=True)
class FileChange:
    """One file of a difference.

    Args:
        path: relative to the root, as `gitnames.path_text` writes it.
        status: "A" added, "M" modified, "D" deleted, "T" of another type, "R" renamed.
        added: lines added, 0 for a binary file.
        removed: lines removed, 0 for a binary file.
        binary: it has no lines.
        old_path: where it was, for "R".
    """

    path: str
    status: str
    added: int = 0
    removed: int = 0
    binary: bool = False
    old_path: str = ""


class LeftOut(NamedTuple):
    """A file that is not in a snapshot, and its size in bytes."""

    path: str
    size: int


@frozen(kw_only=True)
class SnapshotTaken:
    """A snapshot.

    Args:
        commit: the commit that holds the worktree's state.
        tree: its tree.
        parent: what it is compared with: its first parent, or the commit itself when nothing was new (taken
            again with the same number, the result is that of the first time).
        changed: what differs from `parent`, or from the commit that was named instead.
        left_out: the files that were not taken; the notes say why.
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
    move_branch: bool = True,
    since: str | None = None,
) -> SnapshotTaken:
    """Commit what lies in the session's worktree to `relay/<sid>` and `refs/relay/<sid>/<n>`.

    Afterwards HEAD is on the session's branch and `git status` is clean there, whatever the agent did with
    either: a commit on another branch or on none becomes the parent, and the session's branch a second one
    when it has something of its own. Other branches stay where they are.

    Args:
        worktree: the session's worktree, absolute.
        n: the snapshot's number within the session, from 1.
        max_file_mb: files above so many megabytes are left out; None for no limit.
        move_branch: false for a session that works in the user's own checkout: then the snapshot is kept by
            its numbered ref alone, and index, HEAD and every branch stay as they are.
        since: the commit that `changed` is counted from; None for the parent.

    Raises:
        BadNameError: `since` is no commit id.
        NoRepositoryError: the folder is no worktree (any more).
        ConflictError: another process held a lock, or moved the branch meanwhile.
        DiskFullError, TimedOutError, GitError: git could not do it.
    """
    branch = session_branch(sid)
    max_bytes = check_limit_mb(max_file_mb)
    if since is not None:
        check_sha(since)
    if n < 1:
        raise ValueError(f"snapshot number {n} is below 1")
    folder = _folder(worktree)
    try:
        git, (root, git_dir, common_dir) = await together(
            partial(open_git, folder), partial(places, Git(cwd=folder))
        )
    except NoRepositoryError as error:
        raise (_cut_off(worktree) if move_branch else error) from error.__cause__
    if move_branch:
        _check_linked(worktree, root, git_dir, common_dir)
    notes = list(git.notes)
    async with mutex(git_dir):
        if move_branch and not _has_index(git_dir):
            await git.run("read-tree", "HEAD", writes=True)
        async with private_index(git_dir) as index:
            staged = await stage_all(git, index, max_bytes)
            notes += left_out_notes(staged, "the snapshot")
            async with contextlib.nullcontext() if _same(git_dir, common_dir) else mutex(common_dir):
                tree, (refs, trees) = await together(
                    partial(write_tree, git.with_index(index)),
                    partial(session_refs_and_trees, git, sid),
                )
                tip = refs.get("branch") if move_branch else None
                parents = await _parents(git, staged, tip, refs.get("base"))
                made = len(parents) != 1 or tree != (trees.get(parents[0]) or await _tree(git, parents[0]))

                async def record() -> str:
                    same = None if made else parents[0]
                    commit = same or await _commit(git, tree, parents, message, author, refs.get(str(n)))
                    await _move(git, sid, n, commit, tip, move_branch)
                    return commit

                if since is None:
                    commit, changed = await record(), None
                else:
                    commit, changed = await together(record, partial(changes, git, since, tree))
            if move_branch and staged.branch != branch:
                await git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}", writes=True)
                notes.append(_moved_note(staged, branch))
            busy = under_way(git_dir)
            if busy:
                notes.append(_busy_note(busy, staged))
            if move_branch:
                await install_index(git_dir, index)
        known = refs.get(str(n)) == commit
        parent = parents[0] if parents else None
        if known:
            parent = await git.commit_id(f"{commit}^")
        if changed is None:
            changed = await changes(git, parent, commit) if made or known else ()
    return SnapshotTaken(
        commit=commit,
        tree=tree,
        parent=parent,
        changed=changed,
        left_out=tuple(LeftOut(item.path, item.size) for item in staged.left_out),
        notes=tuple(notes),
        made=made and not known,
    )


async def changes(git: Git, old: str | None, new: str) -> tuple[FileChange, ...]:
    """What differs between two commits or trees, without looking for renames; `old` None: the empty tree."""
    start = [old] if old else ["--root"]
    listing = await git.without_index().run(
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
    return await trio.to_thread.run_sync(_read_changes, listing.fields)


def stat_line(files: Sequence[FileChange]) -> str:
    """One line as git words it: "2 files changed, 3 insertions(+), 1 deletion(-)"; "" for no file."""
    if not files:
        return ""
    added, removed = sum(f.added for f in files), sum(f.removed for f in files)
    words = [f"{len(files)} file{'s' * (len(files) != 1)} changed"]
    if added:
        words.append(f"{added} insertion{'s' * (added != 1)}(+)")
    if removed:
        words.append(f"{removed} deletion{'s' * (removed != 1)}(-)")
    return ", ".join(words)


def _read_changes(fields: Iterable[bytes]) -> tuple[FileChange, ...]:
    """Read `git diff-tree -z --raw --numstat --no-renames` (git 2.39): all raw records, then the counts."""
    statuses: dict[bytes, str] = {}
    counts: dict[bytes, tuple[bytes, bytes]] = {}
    pending = iter(fields)
    for field in pending:
        if field.startswith(b":"):
            statuses[next(pending)] = field.rsplit(b" ", 1)[1][:1].decode()
        else:
            added, removed, path = field.split(b"\t", 2)
            counts[path] = (added, removed)
    return tuple(_change(path, status, *counts.get(path, (b"0", b"0"))) for path, status in statuses.items())


def _change(path: bytes, status: str, added: bytes, removed: bytes) -> FileChange:
    binary = added == b"-"
    return FileChange(
        path=path_text(path),
        status=status,
        added=0 if binary else int(added),
        removed=0 if binary else int(removed),
        binary=binary,
    )


def _check_linked(worktree: Path, root: Path, git_dir: Path, common_dir: Path) -> None:
    """Make sure that `worktree` is a linked worktree itself."""
    if not _same(root, worktree) or _same(git_dir, common_dir):
        raise NoRepositoryError(
            f"{worktree} is not a worktree that Relay made, but a repository of its own or part of another",
            hint="Nothing was committed. Move the folder's .git away, then `git worktree repair <folder>`.",
        )


def _cut_off(worktree: Path) -> NoRepositoryError:
    return NoRepositoryError(
        f"{worktree} is no worktree of a repository any more",
        hint="Its .git file or git's entry of it is missing or wrong. `git worktree repair <folder>`, run in"
        " the repository, mends the first. Else move the folder away: it is made again from the last"
        " snapshot, and what is newer can be copied from where you moved it.",
    )


async def _tree(git: Git, commit: str) -> str:
    return await git.text("rev-parse", f"{commit}^{{tree}}")


async def _parents(git: Git, staged: Staged, tip: str | None, base: str | None) -> list[str]:
    """HEAD and the session's branch, without the one that the other contains."""
    head = staged.head
    if head is None or head == tip:
        return [p for p in (tip or base,) if p]
    if tip is None:
        return [head]
    if await _contains(git, head, tip):
        return [head]
    return [tip] if await _contains(git, tip, head) else [head, tip]


async def _contains(git: Git, commit: str, part: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", part, commit, accept=(0, 1))).code == 0


async def _commit(
    git: Git, tree: str, parents: list[str], message: str, author: Identity, known: str | None
) -> str:
    """The commit of `tree`; the `known` one, taken before under the same number, if it is the same."""
    if known and (await git.text("rev-parse", f"{known}^{{tree}}", f"{known}^@")).split("\n") == [
        tree,
        *parents,
    ]:
        return known
    return await commit_tree(git, tree, parents, message, author)


async def _move(git: Git, sid: str, n: int, commit: str, tip: str | None, move_branch: bool) -> None:
    """Number the snapshot; move the branch from `tip`, and only from there, to it."""
    moves: dict[str, tuple[str | None, str | None]] = {session_ref(sid, n): (commit, "")}
    if move_branch:
        moves[f"refs/heads/{session_branch(sid)}"] = (commit, tip)
    try:
        await update_refs(git, moves, f"relay: snapshot {n}")
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


def _has_index(git_dir: Path) -> bool:
    return (git_dir / "index").exists()


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
