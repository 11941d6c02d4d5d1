"""What of ended sessions is cleared away: a pure plan from what lies on disk. Nothing here removes anything.

What is never cleared away: anything of a session that is not over, work that is in no branch of the
user's, snapshots and other refs, audit logs, contracts, and whatever Relay does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import frozen


class Kind(StrEnum):
    """What it is."""

    WORKTREE = "worktree"
    OUTPUT = "output"
    """A run's folder: what its agent printed, redacted when it ended."""
    FIFO = "fifo"
    TEMPORARY = "temporary"
    """What is left of writing a file that was cut off."""


@frozen(kw_only=True)
class Piece:
    """Something that may be cleared away.

    Args:
        path: absolute.
        session: whose it is, or "".
        repository: of the session, or "".
        bytes: what removing it gives back.
        since: when the session ended, or the file was last changed.
        keep: why it must be kept, whatever its age; "" when nothing speaks for it.
        hint: the command that ends the reason to keep it.
    """

    kind: Kind
    path: str
    since: datetime
    session: str = ""
    repository: str = ""
    bytes: int = 0
    keep: str = ""
    hint: str = ""


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


def plan(pieces: Sequence[Piece], policy: GcPolicy, now: datetime) -> tuple[Decision, ...]:
    """What becomes of each piece, in the order given."""
    oldest = now - timedelta(days=policy.keep_days)
    over = _over_the_bound(pieces, policy, oldest)
    decisions = []
    for number, piece in enumerate(pieces):
        if piece.keep:
            decision = Decision(piece=piece, remove=False, why=piece.keep)
        elif number in over:
            decision = Decision(
                piece=piece, remove=True, why="output is over its bound; the oldest goes first"
            )
        elif piece.since > oldest:
            days = f"{policy.keep_days:g} days"
            decision = Decision(piece=piece, remove=False, why=f"is kept for {days}")
        else:
            decision = Decision(piece=piece, remove=True, why=f"over since {piece.since.date().isoformat()}")
        decisions.append(decision)
    return tuple(decisions)


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
