from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.api import Stand, stand


@pytest.fixture
def api(tmp_path: Path) -> Stand:
    """The application over a scripted actor tree."""
    return stand(tmp_path)
