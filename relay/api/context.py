"""What the routes work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from relay.actors.facade import Facade
from relay.api.auth import Gatekeeper
from relay.api.stream import EventStream
from relay.core.facts import SessionFacts
from relay.core.record import Adopted, SessionRecord
from relay.store.places import StatePlaces


class WorkReader(Protocol):
    """Reads a session's work; provided by the daemon, since git is not the API's business."""

    async def diff(self, record: SessionRecord) -> Mapping[str, Any]:
        """The session's work since its base: `{stat, files, patch}`."""

    async def commits(self, record: SessionRecord) -> list[Mapping[str, Any]]:
        """The session branch's commits since its base, newest first."""


class ProviderReader(Protocol):
    """Looks at the providers on this machine; provided by the daemon."""

    async def providers(self, repository: Path | None) -> list[Mapping[str, Any]]:
        """`{name, displayName, program, installed, version, enabled, accounts}` each."""


class Adoption(Protocol):
    """Work that was adopted; see `relay.effects.adopt.Adoption`."""

    @property
    def view(self) -> Mapping[str, Any]:
        """`{id, provider, path, contractPath, markdown, hfsScore, notes}`."""

    @property
    def folder(self) -> str:
        """Where the agent worked, absolute."""

    @property
    def goal(self) -> str:
        """What the user asked for."""

    @property
    def facts(self) -> SessionFacts:
        """What is known of the work."""

    @property
    def adopted(self) -> Adopted:
        """For a session's options."""

    @property
    def used_up(self) -> bool:
        """The agent's login met a limit that has not passed."""


class AgentReader(Protocol):
    """Finds the agents on this machine; provided by the daemon."""

    def seen_from(self, cwd: Path, env: Mapping[str, str]) -> AgentReader:
        """The same for somebody who stands in another folder, with variables of their own."""

    async def agents(self, hours: int) -> Mapping[str, Any]:
        """`{agents, problems, sinceHours}`: those with activity in these hours, and those that run."""

    async def agent(self, wanted: str, hours: int) -> Mapping[str, Any]:
        """One agent in full. Raises NotFoundError, ConflictError."""

    async def adopt(self, wanted: str, **order: Any) -> Adoption:
        """Write the brief of an agent's work; `order` by the names of `relay.api.requests.AdoptRequest`.

        Raises:
            NotFoundError, ConflictError, NoRepositoryError, TimedOutError: it cannot be adopted.
        """


@frozen(kw_only=True)
class ApiContext:
    """See the module.

    Args:
        facade: requests to the actors.
        places: the user's state folder.
        signing_key: to verify contracts and audit logs.
        stream: durable events.
        gatekeeper: who may come in.
        clock: the present instant.
        work: reads of a session's work.
        machine: reads of the providers.
        agents: finds the agents on this machine.
        provider_names: every provider Relay knows, in the default order.
        config_dir: folder of the user's own relay.toml.
        stop: ends the daemon.
    """

    facade: Facade
    places: StatePlaces
    signing_key: bytes
    stream: EventStream
    gatekeeper: Gatekeeper
    clock: Callable[[], datetime]
    work: WorkReader
    machine: ProviderReader
    agents: AgentReader
    provider_names: tuple[str, ...]
    config_dir: Path
    stop: Callable[[], None]
