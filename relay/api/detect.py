"""The agents on this machine: list them, look at one, take one over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from attrs import evolve

from relay.api import requests
from relay.api.context import Adoption, AgentReader, ApiContext
from relay.api.routing import Call, Route, whole_number
from relay.api.sessions import new_session_id
from relay.api.starting import SessionSettings, session_settings
from relay.core.adoption import PRESETS
from relay.core.chain import parse_target
from relay.core.record import AdoptMode
from relay.errors import ConfigError, MissingBinaryError, RelayError, UnknownProviderError

DEFAULT_HOURS = 24
LONGEST_HOURS = 24 * 366 * 5


async def listed(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/detect."""
    return await _asked(context, call).agents(_hours(call))


async def shown(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/detect/{id}."""
    return await _asked(context, call).agent(call.path["id"], _hours(call))


async def transcript(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/detect/transcript."""
    path = call.query.get("file", "")
    if not PurePath(path).is_absolute():
        raise ConfigError(f"file {path[:200]!r} is not absolute", hint="give the transcript's whole path")
    return await _asked(context, call).agent(path, _hours(call))


async def adopt(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/detect/adopt."""
    body: requests.AdoptRequest = call.body
    if not body.id:
        raise ConfigError("id is empty", hint="`relay detect` lists the agents")
    if body.target and parse_target(body.target)[0] not in context.provider_names:
        known = ", ".join(context.provider_names)
        raise UnknownProviderError(f"no provider {body.target!r}", hint=f"known: {known}")
    if body.mode not in tuple(AdoptMode):
        raise ConfigError(f"mode {body.mode[:40]!r} is none of {', '.join(AdoptMode)}")
    if body.preset not in PRESETS:
        raise ConfigError(f"preset {body.preset[:40]!r} is none of {', '.join(PRESETS)}")
    if body.folder and ("\0" in body.folder or not PurePath(body.folder).is_absolute()):
        raise ConfigError(f"folder {body.folder[:200]!r} is not absolute", hint="give its whole path")
    found = await _seen_from(context, body.cwd, body.env).adopt(
        body.id,
        hours=_checked(body.since_hours),
        mode=AdoptMode(body.mode),
        preset=body.preset,
        pause=body.pause,
        dry_run=body.dry_run,
        verify=body.verify or (),
        folder=body.folder,
    )
    answer = {**found.view, "target": body.target, "started": False, "sessionId": ""}
    if not body.start or body.dry_run:
        return answer
    try:
        made = await _begin(context, body, found)
    except RelayError as error:
        # The brief stands: what kept the session from beginning is said beside it.
        return {**answer, "startError": {"code": error.code, "message": error.message, "hint": error.hint}}
    return {**answer, **made, "started": True, "notes": [*answer["notes"], *made["notes"]]}


async def _begin(context: ApiContext, body: requests.AdoptRequest, found: Adoption) -> dict[str, Any]:
    settings, notes = await _settings(context, body, found)
    options = evolve(settings.options, adopted=found.adopted, carry=True)
    sid = new_session_id()
    first, own = options.chain[0], found.adopted.target
    resumes = found.adopted.resumed_by(first)
    if resumes:
        notes.append(f"{first} resumes the session by its own id")
    elif found.adopted.resume and own is not None:
        notes.append(f"{first} reads the brief: only {own.provider} could resume the session by its own id")
    made = await context.facade.create(sid, found.folder, options, settings.policy, found.facts)
    told = [*notes, *made.get("notes", []), *settings.notes]
    return {**made, "target": str(first), "nativeResume": resumes, "notes": told}


async def _settings(
    context: ApiContext, body: requests.AdoptRequest, found: Adoption
) -> tuple[SessionSettings, list[str]]:
    """Who goes on: whom the user names, else the agent's own login unless that is used up; then the chain."""
    asked = requests.RunRequest(
        task=found.goal, cwd=found.folder, verify=body.verify, allow=body.allow, model=body.model
    )
    own = found.adopted.target
    notes: list[str] = []
    first: SessionSettings | None = None
    if body.target:
        first = await session_settings(context, evolve(asked, providers=(body.target,)))
    elif own is not None and found.used_up:
        notes.append(f"{own} is used up until {found.view['usedUpUntil']}: the next of the chain goes on")
    elif own is not None:
        try:
            first = await session_settings(context, evolve(asked, providers=(str(own),)))
        except (ConfigError, MissingBinaryError) as error:
            notes.append(f"{own} can't go on itself: {error.message}")
    try:
        default = await session_settings(context, asked)
    except MissingBinaryError:
        if first is None:
            raise
        return first, notes
    chain = (*(first.options.chain if first else ()), *default.options.chain)
    if found.used_up and not body.target:
        chain = tuple(target for target in chain if target != own) or chain
    return evolve(default, options=evolve(default.options, chain=tuple(dict.fromkeys(chain)))), notes


def _asked(context: ApiContext, call: Call) -> AgentReader:
    return _seen_from(context, call.query.get("cwd", ""), call.query.get("env", "").split("\n"))


def _seen_from(context: ApiContext, cwd: str, env: Iterable[str]) -> AgentReader:
    if not PurePath(cwd).is_absolute() or "\0" in cwd:
        if cwd:
            raise ConfigError(f"cwd {cwd[:200]!r} is not an absolute path")
        return context.agents
    return context.agents.seen_from(Path(cwd), dict(each.split("=", 1) for each in env if "=" in each))


def _hours(call: Call) -> int:
    return _checked(whole_number(call.query, "sinceHours", DEFAULT_HOURS))


def _checked(hours: int) -> int:
    if not 0 < hours <= LONGEST_HOURS:
        raise ConfigError(f"sinceHours {hours} is not between 1 and {LONGEST_HOURS}")
    return hours


_QUERY = {
    "sinceHours": "how many hours back (24)",
    "cwd": "the folder of who asks, absolute: looked at too, with its repository and that one's relay.toml",
    "env": "with cwd, a line NAME=value for each variable that is set there and says where a store lies",
}

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
    Route(
        method="GET",
        path="/api/detect/transcript",
        handler=transcript,
        summary="One of them in full, by its transcript, wherever that lies.",
        query={**_QUERY, "file": "the transcript's path, absolute"},
    ),
    Route(
        method="POST",
        path="/api/detect/adopt",
        handler=adopt,
        summary="Write the brief of an agent's work, and begin a session on it.",
        request=requests.AdoptRequest,
        response="{id, path, contractPath, markdown, hfsScore, notes, target, started, sessionId, ...}",
    ),
)
