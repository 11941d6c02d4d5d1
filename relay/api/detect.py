"""The agents on this machine: list them, look at one, take one over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.api.context import ApiContext
from relay.api.routing import Call, Route, whole_number
from relay.errors import ConfigError

DEFAULT_HOURS = 24
LONGEST_HOURS = 24 * 366 * 5


async def listed(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/detect."""
    return await context.agents.agents(_hours(call))


async def shown(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/detect/{id}."""
    return await context.agents.agent(call.path["id"], _hours(call))


def _hours(call: Call) -> int:
    hours = whole_number(call.query, "sinceHours", DEFAULT_HOURS)
    if not 0 < hours <= LONGEST_HOURS:
        raise ConfigError(f"sinceHours {hours} is not between 1 and {LONGEST_HOURS}")
    return hours


_QUERY = {"sinceHours": "how many hours back (24)"}

ROUTES = (
    Route(
        method="GET",
        path="/api/detect",
        handler=listed,
        summary="The agents on this machine: sessions in the stores of agent CLIs, and their processes.",
        query=_QUERY,
        response="{agents, problems, sinceHours}",
    ),
    Route(
        method="GET",
        path="/api/detect/{id}",
        handler=shown,
        summary="One of them in full: by id, an unambiguous beginning of it, or 'latest'.",
        query=_QUERY,
    ),
)
