"""Effects of the journal and the pool: audit logs, event numbers, breakers."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from relay.core import effects, reports
from relay.effects.world import World
from relay.errors import RelayError, StoreError
from relay.store.atomic import read_versioned, write_versioned
from relay.store.audit import AuditLog
from relay.store.audit_read import backwards
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repositories import known_repositories

logger = logging.getLogger("relay.journal")

_SEQUENCE_VERSION = 1
_BREAKERS_VERSION = 1


class Logs:
    """The open audit logs, one a repository and one of the daemon's own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[str, AuditLog] = {}
        self._troubled: dict[str, str] = {}
        self._lock = threading.Lock()

    async def ready(self, repository: str) -> None:
        """Open the repository's log.

        Raises:
            IntegrityError: it was changed by something else.
            StoreError, ConflictError: it can't be written.
        """
        await trio.to_thread.run_sync(self._ready, repository)

    def _ready(self, repository: str) -> None:
        with self._lock:
            self._log(repository)

    async def append(self, effect: effects.AppendAudit) -> reports.AuditAppended:
        """Append to each log; a log that can't be written keeps its entries for another try."""
        return await trio.to_thread.run_sync(self._append, effect)

    def _append(self, effect: effects.AppendAudit) -> reports.AuditAppended:
        with self._lock:
            return self._append_locked(effect)

    def _append_locked(self, effect: effects.AppendAudit) -> reports.AuditAppended:
        failed: list[effects.JournalEntry] = []
        problems: list[str] = []
        for repository in dict.fromkeys(entry.repository for entry in effect.entries):
            mine = [entry for entry in effect.entries if entry.repository == repository]
            try:
                log = self._log(repository)
                log.append(
                    [(entry.type, _data(entry)) for entry in mine],
                    ts=[entry.at for entry in mine],
                    sync=effect.sync,
                )
            except RelayError as error:
                failed += mine
                problems.append(error.message)
                self._forget(repository)
                self._trouble(repository, f"{error.message}; events wait to be written")
                continue
            trouble = ""
            if effect.sync:
                try:
                    log.seal_anchor()
                except RelayError as error:
                    # The entries are in the log all the same; the next seal covers them.
                    trouble = error.message
            self._trouble(repository, trouble)
        return reports.AuditAppended(
            key=effect.key, at=self._world.clock(), failed=tuple(failed), problem="; ".join(problems)
        )

    def _trouble(self, repository: str, trouble: str) -> None:
        # The journal tries again every second: said once, and when it changes.
        if trouble and self._troubled.get(repository) != trouble:
            logger.error("audit log of %s: %s", repository or "the daemon", trouble)
        if not trouble and self._troubled.get(repository):
            logger.info("audit log of %s: written again", repository or "the daemon")
        self._troubled[repository] = trouble

    def _log(self, repository: str) -> AuditLog:
        if repository not in self._open:
            world = self._world
            if repository:
                places = RepoPlaces(root=Path(repository))
                path, anchor = places.audit, world.places.anchor(places.root)
            else:
                path, anchor = world.places.audit, world.places.audit_anchor
            self._open[repository] = AuditLog.open(path, anchor, key=world.signing_key, now=world.clock())
        return self._open[repository]

    def _forget(self, repository: str) -> None:
        log = self._open.pop(repository, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Bring everything to the disk and close."""
        for repository, log in tuple(self._open.items()):
            try:
                log.sync()
                log.seal_anchor()
            finally:
                self._forget(repository)


def _data(entry: effects.JournalEntry) -> dict[str, Any]:
    return {**entry.data, "seq": entry.seq, "session": entry.session}


def next_number(places: StatePlaces) -> int:
    """The first event number that was never reserved; with none on record, one above the logs' last."""
    stored = read_versioned(places.sequence, _SEQUENCE_VERSION)
    if stored is not None:
        return int(stored.get("next", 1))
    logs = [places.audit, *(repo.audit for repo in known_repositories(places))]
    return max(map(_last_number, logs)) + 1


def _last_number(log: Path) -> int:
    # Of what was numbered, nothing was shown before it was in a log.
    with suppress(StoreError):
        return next((entry.seq for entry in backwards(log) if entry.seq), 0)
    return 0


async def reserve_sequence(world: World, effect: effects.ReserveSequence) -> reports.SequenceReserved:
    """Reserve event numbers, so that none is given twice, also across a crash."""

    def reserve() -> tuple[int, int]:
        first = next_number(world.places)
        write_versioned(world.places.sequence, {"next": first + effect.count}, _SEQUENCE_VERSION)
        return first, first + effect.count

    first, end = await trio.to_thread.run_sync(reserve)
    return reports.SequenceReserved(key=effect.key, at=world.clock(), first=first, end=end)


async def save_breakers(world: World, effect: effects.SaveBreakers) -> None:
    """Remember the breakers."""
    values = {"breakers": {name: dict(data) for name, data in effect.breakers}}
    await trio.to_thread.run_sync(write_versioned, world.places.breakers, values, _BREAKERS_VERSION)


async def load_breakers(world: World, effect: effects.LoadBreakers) -> reports.BreakersLoaded:
    """What was remembered."""
    stored = await trio.to_thread.run_sync(read_versioned, world.places.breakers, _BREAKERS_VERSION)
    found = (stored or {}).get("breakers", {})
    if not isinstance(found, dict):
        raise StoreError(f"{world.places.breakers} names no breakers")
    # One of another shape is for the pool to refuse: the others are as good as ever.
    breakers = tuple(found.items())
    return reports.BreakersLoaded(key=effect.key, at=world.clock(), breakers=breakers)
