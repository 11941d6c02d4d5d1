"""Takes away what was made for a session that did not come to be: its worktree, branch and refs.

Called by the effects when a session's first record could not be saved.
"""

from __future__ import annotations

from pathlib import Path

from relay.effects.git import mutex, open_git
from relay.effects.gitnames import session_branch, session_ref
from relay.effects.repository import Repository, session_refs, update_refs
from relay.effects.worktree import remove
from relay.errors import ConflictError


async def undo(repo: Repository, sid: str, path: Path) -> None:
    """Take a session's folder, branch and refs away that no agent has worked in: they hold only copies.

    Args:
        path: the worktree, absolute; gone already is in order.

    Raises:
        ConflictError: the branch has moved since, so something is in it; all of it is kept.
        GitError: git could not do it.
    """
    branch = session_branch(sid)
    git = await open_git(repo.root)
    refs = await session_refs(git, sid)
    tip = refs.get("branch")
    if tip is not None and tip not in (refs.get("carried"), refs.get("base")):
        raise ConflictError(f"{branch} has moved, so it is kept", hint=f"Look at it: git log {branch}")
    await remove(repo, sid, path, force=True)
    gone: dict[str, tuple[str | None, str | None]] = {
        session_ref(sid, name): (None, at) for name, at in refs.items() if name != "branch"
    }
    if tip is not None:
        gone[f"refs/heads/{branch}"] = (None, tip)
    if gone:
        async with mutex(repo.common_dir):
            await update_refs(git, gone, "relay: session not begun")
