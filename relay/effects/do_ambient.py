"""Effects of the ambient detector: the sessions that are on this machine, and which were announced."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import trio

from relay.core import effects, reports
from relay.core.detect import agent_view, combine, managed_by
from relay.effects.detect import Detector, Listed
from relay.effects.world import World
from relay.errors import InternalError
from relay.store import audit_read
from relay.store.atomic import read_versioned, write_versioned

_VERSION = 1
LOOK_BACK = timedelta(hours=24)


async def load_ambient(world: World, effect: effects.LoadAmbient) -> reports.AmbientLoaded:
    """What was announced: by the file, and by the log, which is written first."""
    known = await trio.to_thread.run_sync(_load, world)
    return reports.AmbientLoaded(key=effect.key, at=world.clock(), known=known)


def _path(world: World) -> Path:
    return world.places.root / "ambient.json"


def _load(world: World) -> tuple[str, ...] | None:
    stored = read_versioned(_path(world), _VERSION)
    if stored is None:
        return None
    known = [str(key) for key in stored.get("known", [])]
    for entry in audit_read.entries(world.places.audit):
        if entry.event == "ambient" and "key" in entry.data:
            known.append(str(entry.data["key"]))
    return tuple(dict.fromkeys(known))


async def save_ambient(world: World, effect: effects.SaveAmbient) -> None:
    """Remember what was announced."""

    def save() -> None:
        write_versioned(_path(world), {"known": list(effect.known)}, _VERSION)

    await trio.to_thread.run_sync(save)


async def survey_agents(world: World, effect: effects.SurveyAgents) -> reports.AgentsSurveyed:
    """List the sessions; read those that are not known yet, for what is announced of them."""
    if world.discovery is None:
        raise InternalError("the daemon has nothing to find agents with")
    detector = world.discovery.detector
    known = frozenset(effect.known)
    since = world.clock() - LOOK_BACK

    def survey() -> tuple[tuple[str, ...], tuple[reports.AgentSeen, ...], tuple[str, ...]]:
        listed, problems = detector.listed(since)
        keys = {session_key(each): each for each in listed}
        unknown = [] if effect.first else [each for key, each in keys.items() if key not in known]
        looks = [look(detector, each, world) for each in unknown]
        return tuple(keys), tuple(seen for seen in looks if seen), problems

    seen, fresh, problems = await trio.to_thread.run_sync(survey)
    return reports.AgentsSurveyed(key=effect.key, at=world.clock(), seen=seen, fresh=fresh, problems=problems)


def look(detector: Detector, each: Listed, world: World) -> reports.AgentSeen | None:
    """What is told of a session that is new; None while it has nothing to tell."""
    intel = detector.look(each)
    if not intel.first_prompt:
        return None
    [agent] = combine([intel], (), detector.told(), world.clock())
    own = bool(intel.parent or managed_by(intel.cwd))
    key = session_key(each)
    return reports.AgentSeen(key=key, view={**agent_view(agent), "key": key}, announce=not own)


def session_key(each: Listed) -> str:
    """The same for one session, whatever it holds and wherever it is copied to."""
    found = each.found
    return f"{found.store}:{found.native_id or found.key or (found.paths[0] if found.paths else '')}"
