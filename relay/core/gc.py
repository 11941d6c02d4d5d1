"""What of ended sessions is cleared away: a pure plan from what lies on disk. Nothing here removes anything.

What is never cleared away: anything of a session that is not over, work that is in no branch of the
user's, the only ref to some work, audit logs, contracts, and whatever Relay does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import frozen


class Kind(StrEnum):
    """What it is."""

    WORKTREE = "worktree"
    ENTRY = "entry"
    """Git's note of a worktree whose folder is gone."""
    SNAPSHOTS = "snapshots"
    """A session's refs below refs/relay/."""
    OUTPUT = "output"
    """A run's folder: what its agent printed, redacted when it ended."""
    UNBEGUN = "unbegun"
    """What was made of a session before its daemon was ended in the midst of beginning it."""
    FIFO = "fifo"
    TEMPORARY = "temporary"
    """What is left of writing a file that was cut off."""
    GIT_FILE = "git file"
    """What is left of a git that was killed while it wrote objects, or of an index of Relay's own."""


@frozen(kw_only=True)
class Piece:
    """Something that may be cleared away.

    Args:
        path: absolute; of SNAPSHOTS the prefix of the refs.
        session: whose it is, or "".
        repository: of the session, or "".
        bytes: what removing it gives back.
        since: when the session ended, or the file was last changed.
        keep: why it must be kept, whatever its age; "" when nothing speaks for it.
        hint: the command that ends the reason to keep it.
        also: what goes with it that no commit holds.
    """

    kind: Kind
    path: str
    since: datetime
    session: str = ""
    repository: str = ""
    bytes: int = 0
    keep: str = ""
    hint: str = ""
    also: str = ""


@frozen(kw_only=True)
class WorktreeFacts:
    """What was seen of a session's worktree.

    Args:
        over: its session has ended.
        dirty: names of what is in no commit.
        hidden: names of changed files that git was told not to look at.
        inside: repositories, and folders with sessions of Relay, that lie in it.
        busy: what git has not finished in it: "rebase", ...
        locked: it was locked with `git worktree lock`.
        lock_reason: the words given for that.
        merged: its commits are in a branch of the user's, or it made none.
        ignored: names of ignored files that would go with it.
    """

    over: bool
    dirty: str = ""
    hidden: str = ""
    inside: str = ""
    busy: str = ""
    locked: bool = False
    lock_reason: str = ""
    merged: bool = False
    ignored: str = ""


@frozen(kw_only=True)
class Decision:
    """What becomes of a piece, and why."""

    piece: Piece
    remove: bool
    why: str


@frozen(kw_only=True)
class GcPolicy:
    """How much is kept.

    Args:
        keep_days: what has ended or changed within so many days is kept.
        output_max_bytes: of the output of ended sessions, in one repository; above it the oldest goes first.
    """

    keep_days: float = 14.0
    output_max_bytes: int = 1024**3


def worktree_kept(facts: WorktreeFacts, sid: str, path: str) -> tuple[str, str]:
    """Why a worktree must stay, and the command that ends the reason; ("", "") when nothing would be lost."""
    if not facts.over:
        return "its session is not over", f"relay stop {sid}"
    if facts.locked:
        given = f": {facts.lock_reason}" if facts.lock_reason else ""
        return f"it is locked by `git worktree lock`{given}", f"git worktree unlock {path}"
    if facts.inside:
        return f"it has repositories of their own in it: {facts.inside}", f"ls {path}"
    if facts.busy:
        return f"a {facts.busy} is under way in it", f"git -C {path} status"
    if facts.dirty:
        return f"it holds changes that are in no commit: {facts.dirty}", f"relay diff {sid}"
    if facts.hidden:
        told = "files that git was told not to look at (assume-unchanged, skip-worktree)"
        return f"it has {told}: {facts.hidden}", f"git -C {path} ls-files -v"
    if not facts.merged:
        hint = f"relay merge {sid}, or relay discard {sid}"
        return "its work is not merged into a branch of yours", hint
    return "", ""


def snapshots_kept(sid: str, lonely: Sequence[str]) -> tuple[str, str]:
    """Why a session's refs must stay, and the command that ends the reason.

    Args:
        lonely: those of its refs, and its branch, whose commits no branch of the user's contains.
    """
    if not lonely:
        return "", ""
    if "discarded" in lonely:
        ref = f"refs/relay/{sid}/discarded"
        return "only this holds what was discarded", f"git branch NAME {ref}, or git update-ref -d {ref}"
    return "its work is in no branch of yours", f"relay merge {sid}, or relay discard {sid}"


def plan(pieces: Sequence[Piece], policy: GcPolicy, now: datetime) -> tuple[Decision, ...]:
    """What becomes of each piece, in the order given."""
    oldest = now - timedelta(days=policy.keep_days)
    over = _over_the_bound(pieces, policy, oldest)
    decisions = []
    for number, piece in enumerate(pieces):
        remove, why = _judge(piece, policy, oldest, over=number in over)
        decisions.append(Decision(piece=piece, remove=remove, why=why))
    return tuple(decisions)


def _judge(piece: Piece, policy: GcPolicy, oldest: datetime, *, over: bool) -> tuple[bool, str]:
    if piece.keep:
        return False, piece.keep
    if over:
        return True, "output is over its bound; the oldest goes first"
    if piece.since > oldest:
        return False, f"is kept for {policy.keep_days:g} days"
    also = f"; with it go {piece.also}" if piece.also else ""
    return True, f"over since {piece.since.date().isoformat()}{also}"


def _over_the_bound(pieces: Sequence[Piece], policy: GcPolicy, oldest: datetime) -> set[int]:
    """Numbers of the younger outputs that have to go so that each repository keeps to the bound."""
    over: set[int] = set()
    outputs = [number for number, piece in enumerate(pieces) if piece.kind is Kind.OUTPUT and not piece.keep]
    for repository in {pieces[number].repository for number in outputs}:
        left = [
            number
            for number in outputs
            if pieces[number].repository == repository and pieces[number].since > oldest
        ]
        total = sum(pieces[number].bytes for number in left)
        for number in sorted(left, key=lambda n: (pieces[n].since, n)):
            if total <= policy.output_max_bytes:
                break
            over.add(number)
            total -= pieces[number].bytes
    return over
