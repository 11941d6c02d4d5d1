"""Whatever the served description allows, and much that it does not, gets an answer that is no 5xx."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import schemathesis
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.fakes.live import Live

LEFT_OUT = {("POST", "/api/daemon/stop")}
"""It would do what it says."""
EXAMPLES = 12


def try_all(described: dict[str, Any], url: str, token: str) -> dict[str, list[str]]:
    """Call every operation with values made by its schema and against it; answers of 5xx by operation."""
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=url)
    broken: dict[str, list[str]] = {}
    tried: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        name = f"{operation.method.upper()} {operation.path}"
        if (operation.method.upper(), operation.path) in LEFT_OUT:
            continue
        tried.append(name)
        for mode in GenerationMode:
            answers_all(operation, mode, token, broken.setdefault(name, []))
    assert len(tried) > 30
    return {name: answers for name, answers in broken.items() if answers}


def answers_all(operation: Any, mode: GenerationMode, token: str, broken: list[str]) -> None:
    """Try one operation; answers of 5xx go to `broken`."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        if answer.status_code >= 500:
            broken.append(f"{answer.status_code} {answer.text[:300]}")
        elif answer.status_code >= 400 and answer.headers.get("Content-Type") == "application/json":
            assert set(answer.json()["error"]) == {"code", "message", "hint"}

    # An operation without parameters and body has nothing that could be wrong.
    with suppress(Unsatisfiable):
        call()


async def test_no_request_makes_it_fail(home: Live) -> None:
    home.plays("one", {"say": "Hello"})
    await home.start()
    described = await home.get("/api/openapi.json")

    broken = await trio.to_thread.run_sync(try_all, described, home.url, home.token)

    assert broken == {}
    assert (await home.get("/api/health"))["ok"]
    await home.stop()
