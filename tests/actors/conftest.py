"""Every provider of these tests speaks the line protocol of `scripted`, whatever its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from relay.actors import adapter
from relay.providers.scripted import Scripted
from tests.fakes.port import Begin, Daemon
from tests.fakes.world import FakeWorld


@pytest.fixture(autouse=True, scope="session")
def scripted_providers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapter, "provider_named", lambda name: Scripted(name=name))
        yield


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a daemon on a world with these agents, and asks it for a session.

    Its world must never have seen what must not happen.
    """
    daemons: list[Daemon] = []

    def begin_one(*agents: Any, policy: Any = None, world: FakeWorld | None = None, **options: Any) -> Daemon:
        world = world or FakeWorld()
        world.agents = dict(enumerate(agents, 1))
        daemon = Daemon(world, policy=policy or {}).start()
        daemons.append(daemon)
        daemon.create(**options)
        return daemon

    yield begin_one
    for daemon in daemons:
        daemon.close()
        assert daemon.world.violations == []
