"""What was known of work when a session adopted it: `sessions/<sid>/adopted.json`, 0600.

Written before the session's record, so that a restart knows what the first agent was told of.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.core.facts import SessionFacts
from relay.core.wire import from_wire
from relay.errors import NotFoundError
from relay.store.atomic import read_versioned, write_versioned
from relay.store.places import RepoPlaces

_VERSION = 1


def _path(places: RepoPlaces, sid: str) -> Path:
    return places.session(sid) / "adopted.json"


def keep(places: RepoPlaces, sid: str, facts: Mapping[str, Any]) -> None:
    """Write it, as it is on the wire. Raises StoreError."""
    write_versioned(_path(places, sid), facts, _VERSION)


def kept(places: RepoPlaces, sid: str) -> SessionFacts:
    """Read it. Raises NotFoundError, StoreError."""
    stored = read_versioned(_path(places, sid), _VERSION)
    if stored is None:
        raise NotFoundError(f"what was known of the work that {sid} adopted is gone")
    return from_wire(stored, SessionFacts)


def forget(places: RepoPlaces, sid: str) -> None:
    """Remove it; the session did not come to be."""
    _path(places, sid).unlink(missing_ok=True)
