"""The repositories that have sessions, as the user's state folder remembers them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from relay.store.atomic import read_versioned, write_versioned
from relay.store.places import RepoPlaces, StatePlaces

_REPOSITORIES_VERSION = 1
_remembering = threading.Lock()
"""One daemon alone writes the file, but sessions begin side by side in its threads."""


def known_repositories(places: StatePlaces) -> Iterator[RepoPlaces]:
    """The repositories that have, or had, sessions and are still there."""
    for root in _remembered(places):
        if _there(root):
            yield RepoPlaces(root=Path(root))


def gone_hint(places: StatePlaces) -> str:
    """What to do about repositories with sessions that are not where they were; "" when all are there."""
    gone = [root for root in _remembered(places) if not _there(root)]
    if not gone:
        return ""
    more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
    return (
        f"sessions of repositories that are gone are not listed: {', '.join(gone[-3:])}{more}. If one was"
        " moved, move it back, or put a link to it there, then: relay daemon restart"
    )


def _there(root: str) -> bool:
    """Not what Path.is_dir tells: that raises for a folder that can't be looked at (no permission, a lost
    network disk), and one such repository must not keep those of the others from being followed.
    """
    return os.path.isdir(root)  # noqa: PTH112


def _remembered(places: StatePlaces) -> list[str]:
    stored = read_versioned(places.repositories, _REPOSITORIES_VERSION) or {}
    return [str(root) for root in stored.get("repositories", [])]


def remember_repository(places: StatePlaces, root: str) -> None:
    """From now on its sessions are found at a restart."""
    with _remembering:
        known = _remembered(places)
        if root not in known:
            values = {"repositories": [*known, root]}
            write_versioned(places.repositories, values, _REPOSITORIES_VERSION)
