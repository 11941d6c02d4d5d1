"""The prompt reaches an agent by one way alone: as an argument, or on its input, never both."""

from __future__ import annotations

import pytest

from relay.providers.protocol import LaunchRequest
from relay.providers.table import provider_named, provider_names

PROMPT = "the very prompt 4711"
REQUESTS = [
    *((name, ()) for name in provider_names()),
    ("codex", ("exec",)),
]


@pytest.mark.parametrize(("name", "args"), REQUESTS, ids=lambda value: str(value))
def test_the_prompt_goes_one_way(name: str, args: tuple[str, ...]) -> None:
    request = LaunchRequest(session_id="s-1", run=1, cwd="/w", prompt=PROMPT, args=args)
    provider = provider_named(name)

    spec = provider.launch(request)
    by_argument = sum(PROMPT in word for word in spec.argv)
    by_environment = sum(PROMPT in value for value in spec.env.values())
    by_input = sum(PROMPT in write.line for write in provider.dialogue(request).open())

    assert by_environment == 0
    assert by_argument == (0 if spec.two_way else 1)
    assert by_input <= (1 if spec.two_way else 0)
