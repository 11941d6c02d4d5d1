"""Sessions as they lie on disk, in whatever repository; for the API and for a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from relay.core.record import FORMAT_VERSION, SessionRecord
from relay.core.wire import from_wire
from relay.errors import NotFoundError, RelayError, StoreError
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


def never_begun(places: RepoPlaces, sid: str) -> bool:
    """The daemon was ended while it made the session: nothing was saved of it, and no agent was started."""
    try:
        found = [path.name for path in places.session(sid).iterdir()]
    except OSError:
        return False
    return all(name == "adopted.json" or name.startswith(".fsm.json.") for name in found)


def find_session(places: StatePlaces, sid: str) -> tuple[RepoPlaces, SessionRecord]:
    """A session by its id, in whatever repository.

    Raises:
        NotFoundError: no known repository has it.
    """
    unreadable = ""
    for repo in known_repositories(places):
        try:
            found = sid in repo.session_ids()
        except StoreError as error:
            unreadable = f"{error.message}; {error.hint}"
            continue
        if found:
            return repo, read_record(repo, sid)[0]
    hint = unreadable or gone_hint(places) or "`relay sessions` lists them"
    raise NotFoundError(f"no session {sid}", hint=hint)


def all_sessions(places: StatePlaces) -> Iterator[tuple[RepoPlaces, SessionRecord]]:
    """Every session of every known repository; one that can't be read is passed over, and so is a repository
    whose sessions can't be listed.

    `relay doctor` and the daemon's start name those.
    """
    for repo in known_repositories(places):
        with suppress(StoreError):
            for sid in repo.session_ids():
                with suppress(RelayError):
                    yield repo, read_record(repo, sid)[0]
