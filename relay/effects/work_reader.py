"""Reads of a session's work for the API: diff and commits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.core.record import SessionRecord
from relay.core.wire import to_wire
from relay.effects import history
from relay.errors import NotFoundError


class GitWork:
    """Implements the API's `WorkReader`."""

    async def diff(self, record: SessionRecord) -> Mapping[str, Any]:
        """The session's work since its base, what is not committed yet included."""
        base, root = self._base(record)
        found = await history.session_diff(root, record.sid, base, Path(record.worktree))
        return dict(to_wire(found))

    async def commits(self, record: SessionRecord) -> list[Mapping[str, Any]]:
        """The session branch's commits since its base, newest first."""
        base, root = self._base(record)
        found = await history.session_commits(root, record.sid, base)
        return [dict(to_wire(commit)) for commit in found]

    def _base(self, record: SessionRecord) -> tuple[str, Path]:
        if not record.base_commit:
            raise NotFoundError(f"{record.sid} works without a repository: there is no diff")
        return record.base_commit, Path(record.repository)
