"""Finds the agents on this machine: the stores' sessions and the processes of their CLIs.

`Detector.scan` lists, `Detector.read` reads one session in full. Blocking; called in a thread. What has
not changed since the last time is not read again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from relay.core.detect import AgentProcess, DetectedAgent, Told, combine
from relay.core.intel import Depth, SessionIntel
from relay.effects.detect_cache import DetectCache, listed
from relay.effects.detect_processes import running_agents
from relay.effects.store_files import DiskFiles
from relay.errors import NotFoundError, RelayError
from relay.providers.store_protocol import (
    Found,
    Live,
    Machine,
    SessionStore,
    Transcript,
)
from relay.providers.stores import store_named, store_names

if TYPE_CHECKING:
    from relay.core.lift import Lift
    from relay.effects.detect_worker import Workers

WORKERS_FROM = 64 * 1024 * 1024
_EVER = datetime.fromtimestamp(0, UTC)
OPEN_FOR = timedelta(minutes=30)
"""A session that changed so lately is kept open, so that only what is new of it is read."""


@frozen(kw_only=True)
class Scan:
    """What was found.

    Args:
        agents: in the order of `relay.core.detect.combine`.
        problems: what could not be looked at, a line each.
        sessions: how many sessions were in the stores.
        read: how many of them were read now.
        bytes_read: of those.
    """

    agents: tuple[DetectedAgent, ...]
    problems: tuple[str, ...] = ()
    sessions: int = 0
    read: int = 0
    bytes_read: int = 0


@frozen(kw_only=True)
class Listed:
    """A session that a store's listing names, not read yet."""

    store: SessionStore
    found: Found

    @property
    def key(self) -> str:
        """The same for the same session, whatever it holds."""
        found = self.found
        return "\0".join((found.store, found.home, found.native_id, found.key, *found.paths))


@frozen(kw_only=True)
class Outlook:
    """Where stores are looked for, and whose they are.

    Args:
        machine: the folders that are looked at.
        labels: (provider, home) -> label of the account.
    """

    machine: Machine
    labels: Mapping[tuple[str, str], str] = field(factory=dict)


@frozen(kw_only=True)
class _Opened:
    transcript: Transcript
    touched: float


class Detector:
    """See the module.

    Args:
        machine: says where stores are looked for; asked at every scan.
        labels: (provider, home) -> label of the account; asked at every scan.
        cache: what was read before.
        stores: those that are searched.
        clock: the present instant.
        workers_from: from so many bytes that are to be read, workers read them.
    """

    def __init__(
        self,
        machine: Callable[[], Machine],
        *,
        labels: Callable[[], Mapping[tuple[str, str], str]] = dict,
        cache: DetectCache | None = None,
        stores: Iterable[SessionStore] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        workers_from: int = WORKERS_FROM,
    ) -> None:
        self.workers_from = workers_from
        self._machine = machine
        self._labels = labels
        self._cache = cache or DetectCache(None)
        self._stores = tuple(stores) if stores is not None else tuple(map(store_named, store_names()))
        self._clock = clock
        self._files = DiskFiles()
        self._open: dict[str, _Opened] = {}
        self._fresh: set[str] = set()
        self._lock = threading.Lock()

    def scan(self, since: datetime, outlook: Outlook | None = None) -> Scan:
        """All agents with activity since then, and those that run.

        Args:
            since: an instant (aware).
            outlook: of who asks, where it is another than the detector's own.
        """
        with self._lock, self._files.keeping_copies():
            return self._scan(since, outlook or self._outlook())

    def search(self, wanted: Callable[[Found], bool], outlook: Outlook) -> tuple[DetectedAgent, ...]:
        """The sessions that a store's listing tells to be wanted, however old; no other is read."""
        with self._lock, self._files.keeping_copies():
            problems: list[str] = []
            sessions = []
            for each in self._list(outlook.machine, _EVER, problems):
                if not wanted(each.found):
                    continue
                intel = self._cache.get(each.key, each.found.stamp) or self._read(each, problems)
                if intel is not None:
                    sessions.append(intel)
            processes = self._processes(outlook.machine, problems) if sessions else ()
            agents = combine(_newest(sessions), processes, self.told(outlook), self._clock())
            return tuple(agent for agent in agents if _is_shown(agent, _EVER))

    def listed(self, since: datetime) -> tuple[tuple[Listed, ...], tuple[str, ...]]:
        """The sessions that changed since then, without reading any; and what could not be looked at."""
        machine = self._machine()
        problems: list[str] = []
        return tuple(self._list(machine, since, problems)), tuple(problems)

    def look(self, listed_session: Listed) -> SessionIntel:
        """One session, for a line in a list."""
        lift = listed_session.store.open(self._files, listed_session.found, Depth.LIST).read()
        return listed(lift.intel())

    def read(self, agent: DetectedAgent) -> Lift:
        """One session in full.

        Raises:
            NotFoundError: it is gone.
        """
        store = self._store(agent.intel.store)
        if not agent.intel.home:
            from relay.effects.detect_lone import read_lone

            lift = read_lone(self._files, store.name, agent.intel.path, Depth.FULL)
            if lift is None:
                raise NotFoundError(f"session {agent.id} is no longer in {agent.intel.path}")
            return lift
        for found in store.find(self._files, agent.intel.home, 0.0):
            if agent.intel.path in found.paths and found.native_id in ("", agent.intel.native_id):
                lift = store.open(self._files, found, Depth.FULL).read()
                if lift.native_id == agent.intel.native_id:
                    return lift
        raise NotFoundError(f"session {agent.id} is no longer in {agent.intel.home}")

    def lone(self, path: str, outlook: Outlook | None = None) -> DetectedAgent:
        """The session of a transcript that lies in no store of this machine, as a copy does.

        Args:
            path: absolute.
            outlook: as of `scan`.

        Raises:
            NotFoundError: no CLI's transcript.
        """
        from relay.effects.detect_lone import recognise

        intel = recognise(self._files, path)
        if intel is None:
            raise NotFoundError(
                f"{path} is no transcript that can be read by itself",
                hint="those of Claude Code, Codex, Gemini CLI, Qwen Code and Copilot CLI can",
            )
        [agent] = combine([listed(intel)], (), self.told(outlook), self._clock())
        return agent

    def _store(self, name: str) -> SessionStore:
        return next((store for store in self._stores if store.name == name), None) or store_named(name)

    def _outlook(self) -> Outlook:
        return Outlook(machine=self._machine(), labels=self._labels())

    def _scan(self, since: datetime, outlook: Outlook) -> Scan:
        machine = outlook.machine
        now = self._clock()
        problems: list[str] = []
        sessions: list[SessionIntel] = []
        keys: dict[str, float] = {}
        read = size = 0
        listed_sessions = self._read_ahead(self._list(machine, since, problems), problems)
        for each in listed_sessions:
            keys[each.key] = each.found.touched
            intel = self._cache.get(each.key, each.found.stamp)
            if intel is None:
                intel = self._read(each, problems)
                if intel is None:
                    continue
            if each.key in self._fresh:
                read += 1
                size += each.found.size
            sessions.append(intel)
        self._fresh.clear()
        self._close(keys, now)
        try:
            self._cache.keep(keys)
        except RelayError as error:
            problems.append(f"what was read can't be remembered: {error.message}")
        processes = self._processes(machine, problems)
        agents = combine(_newest(sessions), processes, self.told(outlook), now)
        shown = tuple(agent for agent in agents if _is_shown(agent, since))
        return Scan(
            agents=shown,
            problems=tuple(dict.fromkeys(problems)),
            sessions=len(sessions),
            read=read,
            bytes_read=size,
        )

    def _list(self, machine: Machine, since: datetime, problems: list[str]) -> Iterable[Listed]:
        for store in self._stores:
            for home in store.homes(machine):
                if not os.path.isdir(home):  # noqa: PTH112  (Path.is_dir raises for some names)
                    continue
                try:
                    for found in store.find(self._files, home, since.timestamp()):
                        yield Listed(store=store, found=found)
                except Exception as error:  # noqa: BLE001  (one store must not hide the others; it is said)
                    problems.append(_problem(store, home, error))

    def _read_ahead(self, sessions: Iterable[Listed], problems: list[str]) -> list[Listed]:
        """All of the sessions. Much that is to be read is read by workers, side by side."""
        known: list[Listed] = []
        unread: list[Listed] = []
        size = 0
        with ExitStack() as stack:
            workers: Workers | None = None
            for each in sessions:
                known.append(each)
                if each.key in self._open or self._cache.get(each.key, each.found.stamp) is not None:
                    continue
                unread.append(each)
                size += each.found.size
                if workers is None and size >= self.workers_from:
                    # Imported when there is much to read: most scans find all of it in the cache.
                    from relay.effects.detect_worker import Workers

                    workers = stack.enter_context(Workers())
            readings = workers.read([each.found for each in unread]) if workers else {}
        for number, (intel, problem) in readings.items():
            each = unread[number]
            if intel is None:
                problems.append(_problem(each.store, each.found.paths[0], RelayError(problem)))
                continue
            self._remember(each, intel)
        return known

    def _remember(self, each: Listed, intel: SessionIntel) -> SessionIntel:
        if intel.last_activity is None and each.found.touched:
            intel = evolve(intel, last_activity=datetime.fromtimestamp(each.found.touched, UTC))
        self._cache.put(each.key, each.found.stamp, intel)
        self._fresh.add(each.key)
        return intel

    def _read(self, each: Listed, problems: list[str]) -> SessionIntel | None:
        opened = self._open.get(each.key)
        try:
            transcript = opened.transcript if opened else each.store.open(self._files, each.found, Depth.LIST)
            lift = transcript.read()
            intel = listed(lift.intel())
        except Exception as error:  # noqa: BLE001  (one session must not hide the others; it is said)
            problems.append(_problem(each.store, each.found.paths[0] if each.found.paths else "", error))
            self._open.pop(each.key, None)
            return None
        self._open[each.key] = _Opened(transcript=transcript, touched=each.found.touched)
        return self._remember(each, intel)

    def _close(self, keys: Mapping[str, float], now: datetime) -> None:
        oldest = (now - OPEN_FOR).timestamp()
        self._open = {
            key: opened for key, opened in self._open.items() if key in keys and keys[key] >= oldest
        }

    def told(self, outlook: Outlook | None = None) -> dict[str, Told]:
        """What is known of each store: its provider, and whose accounts its folders are."""
        own = self._machine()
        labels = outlook.labels if outlook else self._labels()
        told = {}
        for store in self._stores:
            accounts = {
                home: label for (provider, home), label in labels.items() if provider == store.provider
            }
            # The default account's agents are started in Relay's own environment, whoever asks.
            homes = store.homes(own)
            if store.provider and homes:
                accounts.setdefault(homes[0], "default")
            told[store.name] = Told(provider=store.provider, accounts=accounts)
        return told

    def _processes(self, machine: Machine, problems: list[str]) -> tuple[AgentProcess, ...]:
        live: dict[tuple[str, int], tuple[str, Live]] = {}
        for store in self._stores:
            for home in store.homes(machine):
                try:
                    for entry in store.live(self._files, home):
                        live[(store.name, entry.pid)] = (home, entry)
                except Exception as error:  # noqa: BLE001  (as above)
                    problems.append(_problem(store, home, error))
        return tuple(running_agents(self._stores, live))


def _newest(sessions: list[SessionIntel]) -> list[SessionIntel]:
    """Of copies of one session in several folders, the one that went on last."""
    best: dict[tuple[str, str], SessionIntel] = {}
    for intel in sessions:
        key = (intel.store, intel.native_id or intel.path)
        other = best.get(key)
        if other is None or _when(intel) > _when(other):
            best[key] = intel
    return list(best.values())


def _when(intel: SessionIntel) -> float:
    return intel.last_activity.timestamp() if intel.last_activity else 0.0


def _is_shown(agent: DetectedAgent, since: datetime) -> bool:
    if agent.pid:
        return True
    intel = agent.intel
    if not intel.first_prompt and not intel.message_count:
        return False
    return not intel.parent and intel.last_activity is not None and intel.last_activity >= since


def _problem(store: SessionStore, where: str, error: Exception) -> str:
    if not isinstance(error, (OSError, RelayError)):
        import logging

        logging.getLogger("relay.detect").error(
            "the %s store failed on %s", store.name, where, exc_info=error
        )
    return f"{store.display_name}: {where} can't be read ({type(error).__name__}: {error})"
