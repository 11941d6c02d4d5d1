"""Sessions as they lie on disk, and the repositories that have them; for the API and for a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from relay.core.record import FORMAT_VERSION, SessionRecord
from relay.core.wire import from_wire
from relay.errors import NotFoundError
from relay.store import state_file
from relay.store.atomic import read_versioned, write_versioned
from relay.store.places import RepoPlaces, StatePlaces

_REPOSITORIES_VERSION = 1


def read_record(places: RepoPlaces, sid: str) -> tuple[SessionRecord, str]:
    """A session's record, and why the previous one was taken when it was.

    Raises:
        NotFoundError: there is no such session.
        StoreError, NewerFormatError: it can't be read.
    """
    path = places.check(places.fsm(sid))
    try:
        loaded = state_file.load(path, FORMAT_VERSION)
    except NotFoundError as error:
        raise NotFoundError(
            f"no session {sid} in {places.root}", hint="`relay sessions` lists them"
        ) from error
    return from_wire(loaded.values, SessionRecord), loaded.fallback


def known_repositories(places: StatePlaces) -> Iterator[RepoPlaces]:
    """The repositories that have, or had, sessions and are still there."""
    for root in _remembered(places):
        if Path(root).is_dir():
            yield RepoPlaces(root=Path(root))


def gone_hint(places: StatePlaces) -> str:
    """What to do about repositories with sessions that are not where they were; "" when all are there."""
    gone = [root for root in _remembered(places) if not Path(root).is_dir()]
    if not gone:
        return ""
    more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
    return (
        f"sessions of repositories that are gone are not listed: {', '.join(gone[-3:])}{more}. If one was"
        " moved, move it back, or put a link to it there, then: relay daemon restart"
    )


def _remembered(places: StatePlaces) -> list[str]:
    stored = read_versioned(places.repositories, _REPOSITORIES_VERSION) or {}
    return [str(root) for root in stored.get("repositories", [])]


def remember_repository(places: StatePlaces, root: str) -> None:
    """From now on its sessions are found at a restart."""
    known = _remembered(places)
    if root not in known:
        values = {"repositories": [*known, root]}
        write_versioned(places.repositories, values, _REPOSITORIES_VERSION)


def find_session(places: StatePlaces, sid: str) -> tuple[RepoPlaces, SessionRecord]:
    """A session by its id, in whatever repository.

    Raises:
        NotFoundError: no known repository has it.
    """
    for repo in known_repositories(places):
        if sid in repo.session_ids():
            return repo, read_record(repo, sid)[0]
    raise NotFoundError(f"no session {sid}", hint=gone_hint(places) or "`relay sessions` lists them")


def all_sessions(places: StatePlaces) -> Iterator[tuple[RepoPlaces, SessionRecord]]:
    """Every session of every known repository; one that can't be read is passed over.

    `relay doctor` and the daemon's start name those.
    """
    from relay.errors import RelayError

    for repo in known_repositories(places):
        for sid in repo.session_ids():
            try:
                yield repo, read_record(repo, sid)[0]
            except RelayError:
                continue
