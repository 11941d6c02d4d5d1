"""A session's worktree that somebody removed, made again from what was committed."""

from __future__ import annotations

from pathlib import Path

import trio

from relay.core.record import SessionRecord
from relay.effects import repository, worktree


async def make_again(record: SessionRecord) -> tuple[str, ...]:
    """Make the worktree again if it is gone; what to tell the user, nothing when it was there.

    Raises:
        ConflictError, GitError: it can't be made.
    """
    tree = Path(record.worktree)
    if not record.branch or (await trio.Path(tree).exists() and not worktree.half_made(tree)):
        return ()
    repo = await repository.inspect(Path(record.repository))
    await worktree.create(repo, record.sid, tree, carry=False)
    return (f"{tree} was gone and was made again from the last snapshot; what was not in it is lost",)
