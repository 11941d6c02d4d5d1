"""Going back to a snapshot: only ever a new branch at it, never a reset and never a clean.

Called by `relay rewind`.
"""

from __future__ import annotations

from attrs import frozen

from relay.effects.git import mutex, open_git
from relay.effects.repository import Repository, resolve_commit, update_refs


@frozen(kw_only=True)
class Rewound:
    """A branch at an earlier state, and the command that goes there."""

    branch: str
    commit: str
    hint: str


async def rewind(repo: Repository, sha: str) -> Rewound:
    """Make the branch `relay-rewind/<sha>` at commit `sha`; nothing else changes. May be repeated.

    Raises:
        BadNameError: `sha` is no commit id.
        NotFoundError: there is no such commit.
        GitError: git could not make the branch.
    """
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        commit = await resolve_commit(git, sha)
        branch = f"relay-rewind/{commit[:12]}"
        if await git.commit_id(f"refs/heads/{branch}") is None:
            await update_refs(git, {f"refs/heads/{branch}": (commit, None)}, "relay: rewind")
    return Rewound(branch=branch, commit=commit, hint=f"To go there: git switch {branch}")
