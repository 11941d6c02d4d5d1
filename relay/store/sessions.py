"""Sessions as they lie on disk, in whatever repository; for the API and for a restart."""

from __future__ import annotations

from collections.abc import Iterator

from relay.core.record import FORMAT_VERSION, SessionRecord
from relay.core.wire import from_wire
from relay.errors import NotFoundError
from relay.store import state_file
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repositories import gone_hint, known_repositories


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
