"""What of a repository's settings a session follows."""

from __future__ import annotations

import tomllib

from relay.api.starting import policy_of
from relay.core.config_parse import parse
from relay.core.policies import CircuitPolicy

SETTINGS = """
[circuit]
failures = 5
open_seconds = 120
"""


def test_a_session_follows_the_repositorys_breaker_settings() -> None:
    config = parse(tomllib.loads(SETTINGS), file="relay.toml", line_of=lambda path: None)
    assert policy_of(config).circuit == CircuitPolicy(failures=5, open_seconds=120)
