"""Detection with this user's accounts, repositories and cache; for the API, and without a daemon."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from relay.core.detect import DetectedAgent, agent_view, select
from relay.effects.detect import Detector, Outlook, Scan
from relay.effects.detect_cache import DetectCache
from relay.errors import NotFoundError, RelayError
from relay.providers.store_protocol import VARIABLES, Found, Machine
from relay.providers.table import provider_names
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repo_root import repository_root
from relay.store.repositories import known_repositories
from relay.store.user_config import FILE_NAME

if TYPE_CHECKING:
    from relay.core.config import Config

DEFAULT_HOURS = 24
LONGEST_HOURS = 24 * 366 * 5


@frozen(kw_only=True)
class Surroundings:
    """Whose machine it is.

    Args:
        places: the user's state folder; the cache lies in it.
        config_dir: folder of the user's own relay.toml.
        env: the environment.
        cwd: a folder that is looked at too, with its repository and that one's relay.toml, or None.
    """

    places: StatePlaces
    config_dir: Path
    env: Mapping[str, str]
    cwd: Path | None = None


class Discovery:
    """Finds agents; blocking, called in a thread. `clock` gives the present instant."""

    def __init__(
        self, surroundings: Surroundings, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._around = surroundings
        self._clock = clock
        cache = DetectCache(surroundings.places.root / "detected.json")
        self.detector = Detector(self.machine, labels=self._labels, cache=cache, clock=clock)

    def seen_from(self, cwd: Path, env: Mapping[str, str]) -> Discovery:
        """The same for somebody who stands in another folder, with other variables that name stores.

        Args:
            cwd: absolute.
            env: of it, only `relay.providers.store_protocol.VARIABLES`; one that is not named is unset.
        """
        kept = {name: value for name, value in self._around.env.items() if name not in VARIABLES}
        named = {name: value for name, value in env.items() if name in VARIABLES}
        other = copy.copy(self)
        other._around = evolve(self._around, cwd=cwd, env={**kept, **named})
        return other

    def scan(self, hours: int = DEFAULT_HOURS) -> Scan:
        """The agents with activity in these hours, and those that run."""
        since = self._clock() - timedelta(hours=min(hours, LONGEST_HOURS))
        return self.detector.scan(since, self._outlook())

    def _outlook(self) -> Outlook:
        return Outlook(machine=self.machine(), labels=self._labels())

    def named(self, wanted: str, hours: int = DEFAULT_HOURS) -> DetectedAgent:
        """The agent that is named, as `relay.core.detect.select` does; by an id, also an older one; by its
        transcript, wherever that lies.

        Raises:
            NotFoundError, ConflictError: none fits, or more than one.
        """
        path = Path(wanted).expanduser()
        is_file = bool(path.suffix) and path.is_file()
        name = str(path.absolute()) if is_file else wanted
        agents = self.scan(hours).agents
        try:
            return select(agents, name)
        except NotFoundError:
            if wanted == "latest":
                raise
        if not is_file:
            return select(self.detector.search(_begins(wanted), self._outlook()), wanted)
        found = self.detector.search(_lies_in(path), self._outlook())
        # The store may know the file by another name: through a link, or with "..".
        return select(found, found[0].intel.path) if found else self.detector.lone(name, self._outlook())

    def machine(self) -> Machine:
        """Where stores are looked for."""
        accounts: dict[str, dict[str, None]] = {}
        for provider, home in self._labels():
            accounts.setdefault(provider, {})[home] = None
        folders = [str(repo.root) for repo in self._repositories()]
        if self._around.cwd is not None:
            folders += [str(self._around.cwd), str(repository_root(self._around.cwd))]
        env = self._around.env
        return Machine(
            env=env,
            home=env.get("HOME") or str(Path("~").expanduser()),
            platform=sys.platform,
            accounts={provider: tuple(homes) for provider, homes in accounts.items()},
            folders=tuple(dict.fromkeys(folders)),
        )

    def _labels(self) -> dict[tuple[str, str], str]:
        """(provider, folder) -> label, of every account that a relay.toml of the user's names."""
        labels: dict[tuple[str, str], str] = {}
        for config in self._configs():
            for settings in config.providers:
                for account in settings.accounts:
                    if account.config_dir:
                        home = str(Path(account.config_dir).expanduser())
                        labels.setdefault((settings.name, home), account.label)
        for provider in provider_names():
            folder = self._around.places.accounts / provider
            if folder.is_dir():
                for own in sorted(folder.iterdir()):
                    labels.setdefault((provider, str(own)), own.name)
        return labels

    def _configs(self) -> list[Config]:
        repositories = self._repositories()
        if self._around.cwd is not None:
            repositories.append(RepoPlaces(root=repository_root(self._around.cwd)))
        files = [self._around.config_dir / FILE_NAME, *(repo.config for repo in repositories)]
        if not any(map(os.path.lexists, files)):
            return []
        # Imported where there is something to parse: it takes as long as all that is listed.
        from relay.store.config_file import load_effective

        configs = []
        for root in dict.fromkeys([None, *(repo.root for repo in repositories)]):
            try:
                configs.append(load_effective(root, self._around.config_dir, known=provider_names()).config)
            except RelayError:
                # Said by every command that needs this configuration; here it only names folders.
                continue
        return configs

    def _repositories(self) -> list[RepoPlaces]:
        try:
            return list(known_repositories(self._around.places))
        except RelayError:
            return []


def _begins(wanted: str) -> Callable[[Found], bool]:
    # A store whose listing tells no ids has to be read to tell them.
    return lambda found: not found.native_id or found.native_id.startswith(wanted)


def _lies_in(path: Path) -> Callable[[Found], bool]:
    def told(name: str) -> tuple[int, int] | None:
        try:
            status = os.stat(name)  # noqa: PTH116  (of every transcript there is)
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino

    wanted = told(str(path))
    return lambda found: wanted is not None and any(told(name) == wanted for name in found.paths)


def scan_view(finder: Discovery, hours: int) -> dict[str, Any]:
    """The agents of these hours as JSON, with what could not be looked at."""
    scan = finder.scan(hours)
    return {
        "agents": [agent_view(agent) for agent in scan.agents],
        "problems": list(scan.problems),
        "sinceHours": hours,
    }


def full_view(finder: Discovery, wanted: str, hours: int) -> dict[str, Any]:
    """One agent in full as JSON."""
    agent = finder.named(wanted, hours)
    if agent.intel.native_id:
        agent = evolve(agent, intel=finder.detector.read(agent).intel())
    return agent_view(agent, full=True)
