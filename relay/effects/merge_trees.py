"""The tree of two commits merged, without a checkout: by libgit2, or by git where libgit2 can't.

Called by `merge`. Neither runs a merge driver: files of one are merged as text.
"""

from __future__ import annotations

import os
from pathlib import Path

import pygit2
import trio

from relay.effects.git import Git, git_program
from relay.effects.gitnames import names, path_text
from relay.errors import ConflictError, GitError


async def merged_tree(git: Git, ours: str, theirs: str, source: str) -> str:
    """The tree of both commits, written to the repository.

    Args:
        git: git in the repository's checkout.
        source: the branch of `theirs`, for messages.

    Raises:
        ConflictError: both changed the same lines.
        GitError: it could not be computed.
    """
    tree = await trio.to_thread.run_sync(_by_libgit2, git.cwd, ours, theirs, source)
    return tree if tree is not None else await _by_git(git, ours, theirs, source)


def _by_libgit2(root: Path, ours: str, theirs: str, source: str) -> str | None:
    try:
        repository = pygit2.Repository(str(root))
        index = repository.merge_commits(pygit2.Oid(hex=ours), pygit2.Oid(hex=theirs))
        if index.conflicts is not None:
            sides = (side for conflict in index.conflicts for side in conflict if side is not None)
            raise _conflict(source, [path_text(os.fsencode(side.path)) for side in sides])
        return str(index.write_tree(repository))
    except pygit2.GitError:
        return None


async def _by_git(git: Git, ours: str, theirs: str, source: str) -> str:
    try:
        done = await git.run(
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            ours,
            theirs,
            config=await _as_text(git),
            accept=(0, 1),
            writes=True,
        )
    except GitError as error:
        raise GitError(
            f"the merge could not be computed: {error.message}", hint=f"Merge by hand: git merge {source}"
        ) from error
    tree, *conflicted = done.fields
    if done.code:
        raise _conflict(source, [path_text(path) for path in conflicted])
    return tree.decode()


async def _as_text(git: Git) -> tuple[tuple[str, str], ...]:
    """Settings by which every merge driver that is configured merges as text."""
    listing = await git.run(
        "config", "--null", "--name-only", "--get-regexp", r"^merge\..*\.driver$", accept=(0, 1)
    )
    program = "'" + git_program().replace("'", "'\\''").replace("%", "%%") + "'"
    keys = dict.fromkeys(os.fsdecode(key) for key in listing.fields)
    by_text = f"{program} merge-file --quiet --marker-size=%L %A %O %B"
    return (("merge.default", "text"), *((key, by_text) for key in keys))


def _conflict(source: str, paths: list[str]) -> ConflictError:
    shown = names(tuple(dict.fromkeys(paths)))
    return ConflictError(
        f"{source} and the checked-out branch changed the same lines: {shown}",
        hint=f"Nothing was changed. Merge by hand: git merge {source}",
    )
