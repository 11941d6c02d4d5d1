"""What reads of a repository's history answer with. Filled by `history` and `history_git`."""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

from relay.effects.snapshot import FileChange

PATCH_LIMIT = 2 << 20
"""Bytes of patch text that an answer holds at most."""

LARGE = 8 << 20
"""Bytes above which a file is told as a binary one, without its patch."""


@frozen(kw_only=True)
class Diff:
    """A difference.

    Args:
        base: the commit it starts from.
        tip: the commit it leads to; "" when it leads to the files as they lie.
        stat: one line, as git words it.
        files: what changed.
        patch: the text, not longer than asked for.
        cut: the patch was longer, or files above 8 MiB are not in it.
    """

    base: str
    tip: str
    stat: str
    files: tuple[FileChange, ...]
    patch: str
    cut: bool = False


@frozen(kw_only=True)
class Commit:
    """A commit of a session.

    Args:
        sha: its id.
        parents: the ids of its parents.
        author: the author's name.
        at: when it was made (aware).
        subject: the first line of its message.
        refs: the session's refs that name it: a snapshot's number, "base", "carried".
    """

    sha: str
    parents: tuple[str, ...]
    author: str
    at: datetime
    subject: str
    refs: tuple[str, ...] = field(default=())
