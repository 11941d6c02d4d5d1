"""What a run was begun with, kept beside its folder, so that a restarted daemon can rebuild its dialogue.

`sessions/<sid>/opening-<n>.json`, 0600: it holds the first message.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from relay.core.record import SessionRecord
from relay.core.wire import from_wire, to_wire
from relay.errors import NotFoundError
from relay.store.atomic import read_versioned, write_versioned
from relay.store.places import RepoPlaces

_VERSION = 1


@frozen(kw_only=True)
class KeptOpening:
    """See the module; the names are those of `providers.protocol.LaunchRequest`."""

    prompt: str
    native_id: str = ""
    model: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _path(record: SessionRecord, run: int) -> Path:
    return RepoPlaces(root=Path(record.repository)).session(record.sid) / f"opening-{run}.json"


def keep(record: SessionRecord, run: int, opening: KeptOpening) -> None:
    """Write it. Raises StoreError."""
    write_versioned(_path(record, run), to_wire(opening), _VERSION)


def kept(record: SessionRecord, run: int) -> KeptOpening:
    """Read it. Raises NotFoundError, StoreError."""
    stored = read_versioned(_path(record, run), _VERSION)
    if stored is None:
        raise NotFoundError(f"what run {run} of {record.sid} was begun with is gone")
    return from_wire(stored, KeptOpening)
