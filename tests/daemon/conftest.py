from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.live import Live, live


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Live]:
    """A user's folders for a daemon, which the test starts."""
    async with live(tmp_path) as made:
        yield made
