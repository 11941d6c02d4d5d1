"""Every provider of these tests speaks the line protocol of `scripted`, whatever its name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay.actors import adapter
from relay.providers.scripted import Scripted


@pytest.fixture(autouse=True, scope="session")
def scripted_providers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapter, "provider_named", lambda name: Scripted(name=name))
        yield
