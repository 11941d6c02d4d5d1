"""What agents are on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from relay.core.config import ProviderSettings
from relay.effects.world import World
from relay.providers.table import provider_named, provider_names
from relay.store.config_file import load_effective


class Machine:
    """Looks for the providers' programs; implements the API's `ProviderReader`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def providers(self, repository: Path | None) -> list[Mapping[str, Any]]:
        """Every provider Relay knows, with whether its program is on the PATH."""
        return await trio.to_thread.run_sync(self._look, repository)

    def _look(self, repository: Path | None) -> list[Mapping[str, Any]]:
        config = load_effective(repository, self._world.config_dir).config
        configured = {settings.name: settings for settings in config.providers}
        found: list[Mapping[str, Any]] = []
        for name in provider_names():
            provider = provider_named(name)
            settings = configured.get(name, ProviderSettings(name=name))
            program = settings.command or provider.program
            path = shutil.which(program, path=self._world.env.get("PATH"))
            labels = [account.label for account in settings.accounts] or ["default"]
            found.append(
                {
                    "name": name,
                    "displayName": provider.display_name,
                    "program": program,
                    "installed": path is not None,
                    "path": path or "",
                    "enabled": settings.enabled,
                    "model": settings.model,
                    "declaredCap": settings.declared_cap,
                    "accounts": labels,
                }
            )
        return found
