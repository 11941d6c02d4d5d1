"""Detection and adoption as the API asks for them: implements its `AgentReader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import trio

from relay.effects.adopt import Adoption, AdoptOrder, adopt
from relay.effects.discovery import Discovery, full_view, scan_view


class DetectReader:
    """See the module; scans run in a thread, one at a time.

    Args:
        finder: finds the agents.
        signing_key: for the contracts of adopted work.
        clock: the present instant.
    """

    def __init__(self, finder: Discovery, signing_key: bytes, clock: Callable[[], datetime]) -> None:
        self._finder = finder
        self._key = signing_key
        self._clock = clock

    def seen_from(self, cwd: Path, env: Mapping[str, str]) -> DetectReader:
        """See `Discovery.seen_from`."""
        return DetectReader(self._finder.seen_from(cwd, env), self._key, self._clock)

    async def agents(self, hours: int) -> Mapping[str, Any]:
        """The agents of these hours."""
        return await trio.to_thread.run_sync(scan_view, self._finder, hours)

    async def agent(self, wanted: str, hours: int) -> Mapping[str, Any]:
        """One agent in full."""
        return await trio.to_thread.run_sync(full_view, self._finder, wanted, hours)

    async def adopt(self, wanted: str, **order: Any) -> Adoption:
        """Adopt one's work; see `relay.effects.adopt`."""
        return await adopt(self._finder, AdoptOrder(wanted=wanted, **order), key=self._key, clock=self._clock)
