"""Detection and its cache for commands that need no daemon: puts the layers together as `relay.daemon` does.

Called by `relay.cli`, which may not reach the effects itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.effects.discovery import Discovery, Surroundings, full_view, scan_view
from relay.store.places import StatePlaces
from relay.store.user_config import user_config_dir


def discovery(env: Mapping[str, str], cwd: Path) -> Discovery:
    """What finds the agents, for this user standing in this folder."""
    places = StatePlaces.locate(env).ensure()
    return Discovery(Surroundings(places=places, config_dir=user_config_dir(env), env=env, cwd=cwd))


def found(env: Mapping[str, str], cwd: Path, hours: int) -> dict[str, Any]:
    """What GET /api/detect answers."""
    return scan_view(discovery(env, cwd), hours)


def shown(env: Mapping[str, str], cwd: Path, wanted: str, hours: int) -> dict[str, Any]:
    """What GET /api/detect/{id} answers."""
    return full_view(discovery(env, cwd), wanted, hours)
