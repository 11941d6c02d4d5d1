"""What every effect needs of its surroundings: places, key, clock, environment, who takes the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from attrs import field, frozen

from relay.core.effects import JournalEntry
from relay.effects.discovery import Discovery
from relay.effects.watch import Watch
from relay.store.places import StatePlaces


@frozen(kw_only=True)
class World:
    """See the module.

    Args:
        places: the user's state folder.
        signing_key: for contracts and anchors.
        clock: the present instant, in the machine's own zone.
        env: the daemon's environment.
        config_dir: folder of the user's own relay.toml.
        publish: takes durable events for whoever listens.
        watch: wakes the followers.
        discovery: finds the agents on this machine.
        end: ends the daemon with this reason.
    """

    places: StatePlaces
    signing_key: bytes
    clock: Callable[[], datetime]
    env: Mapping[str, str]
    config_dir: Path
    publish: Callable[[Sequence[JournalEntry]], None]
    end: Callable[[str], None]
    watch: Watch | None = field(default=None)
    discovery: Discovery | None = field(default=None)


def marker(sid: str, run: int) -> str:
    """What a run's processes carry in RELAY_RUN."""
    return f"{sid}.{run}"
