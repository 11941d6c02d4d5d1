"""The agents found on a machine: sessions that lie in stores, brought together with the processes that run.

Pure; fed by `relay.effects.detect`. Also how a person names one of them, and how they look as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import attrs
from attrs import field, frozen

from relay.core.intel import SessionIntel
from relay.core.paths import normal
from relay.core.quoting import one_line
from relay.core.wire_names import camel
from relay.errors import ConflictError, NotFoundError

ACTIVE_MINUTES = 10
"""A session whose store changed so lately counts as active, though no process of it was found."""
_STARTED_SLACK = timedelta(seconds=5)
_MANAGED = re.compile(r"/\.relay/worktrees/(s-[0-9A-Za-z]{6,40})(?:/|$)")
_GOAL = 200


class AgentStatus(StrEnum):
    """Whether somebody works on a session."""

    RUNNING = "running"
    """A process of its CLI was found."""
    ACTIVE = "active"
    IDLE = "idle"
    PROCESS = "process only"
    """A process of a known CLI whose session was not found."""


@frozen(kw_only=True)
class AgentProcess:
    """A process of an agent CLI.

    Args:
        store: the store whose CLI it is.
        native_id: the session it names itself: by its store's registry or its arguments; or "".
        home: the store's folder that the registry lies in; or "".
        busy: it says it is in the middle of a turn; None: unknown.
        session: the session of Relay's that runs it; or "".
    """

    pid: int
    store: str
    native_id: str = ""
    home: str = ""
    cwd: str = ""
    started_at: datetime | None = None
    busy: bool | None = None
    session: str = ""


@frozen(kw_only=True)
class DetectedAgent:
    """One agent.

    Args:
        intel: what its store tells; of a mere process only the folder.
        provider: as Relay names it, to resume natively; "" when Relay has none.
        account: label of the account whose folder it lies in; "" when it is no known account's.
        managed: the session of Relay's own that it belongs to; or "".
    """

    intel: SessionIntel
    status: AgentStatus
    provider: str = ""
    account: str = ""
    pid: int = 0
    managed: str = ""

    @property
    def id(self) -> str:
        """How it is named: the session's native id, else its process."""
        return self.intel.native_id or f"pid-{self.pid}"


@frozen(kw_only=True)
class Told:
    """What is known of a store when agents are brought together."""

    provider: str = ""
    accounts: Mapping[str, str] = field(factory=dict)
    """Home -> label of the account."""


def combine(
    sessions: Sequence[SessionIntel],
    processes: Sequence[AgentProcess],
    stores: Mapping[str, Told],
    now: datetime,
) -> tuple[DetectedAgent, ...]:
    """All agents: those with a process first, then by their last activity, the newest first."""
    taken = _match(sessions, processes)
    agents = []
    for index, intel in enumerate(sessions):
        process = taken.get(index)
        told = stores.get(intel.store, Told())
        agents.append(
            DetectedAgent(
                intel=intel,
                status=_status(intel, process, now),
                provider=told.provider,
                account=told.accounts.get(intel.home, ""),
                pid=process.pid if process else 0,
                managed=managed_by(intel.cwd) or (process.session if process else ""),
            )
        )
    matched = {process.pid for process in taken.values()}
    for process in processes:
        if process.pid in matched:
            continue
        told = stores.get(process.store, Told())
        intel = SessionIntel(
            store=process.store,
            home=process.home,
            native_id="",
            path="",
            cwd=process.cwd,
            started_at=process.started_at,
        )
        agents.append(
            DetectedAgent(
                intel=intel,
                status=AgentStatus.PROCESS,
                provider=told.provider,
                pid=process.pid,
                managed=process.session or managed_by(process.cwd),
            )
        )
    agents.sort(key=lambda agent: (_rank(agent.status), -_seconds(agent.intel), agent.id))
    return tuple(agents)


def _match(sessions: Sequence[SessionIntel], processes: Sequence[AgentProcess]) -> dict[int, AgentProcess]:
    """Session number -> its process: by the id that the process names, else the folder's newest one."""
    taken: dict[int, AgentProcess] = {}
    left = []
    for process in processes:
        named = [
            index
            for index, intel in enumerate(sessions)
            if process.native_id
            and intel.store == process.store
            and intel.native_id == process.native_id
            and (not process.home or intel.home == process.home)
        ]
        if named:
            taken.setdefault(max(named, key=lambda index: _seconds(sessions[index])), process)
        elif not process.native_id:
            left.append(process)
    for process in sorted(left, key=_started, reverse=True):
        fitting = [
            index
            for index, intel in enumerate(sessions)
            if index not in taken and not intel.parent and _fits(intel, process)
        ]
        if fitting:
            taken[max(fitting, key=lambda index: _seconds(sessions[index]))] = process
    return taken


def _fits(intel: SessionIntel, process: AgentProcess) -> bool:
    if intel.store != process.store or not process.cwd or normal(intel.cwd) != normal(process.cwd):
        return False
    # What was last touched before the process began is an earlier session of the folder.
    if process.started_at is None or intel.last_activity is None:
        return True
    return intel.last_activity >= process.started_at - _STARTED_SLACK


def _status(intel: SessionIntel, process: AgentProcess | None, now: datetime) -> AgentStatus:
    if process is not None:
        return AgentStatus.RUNNING
    if intel.last_activity and now - intel.last_activity <= timedelta(minutes=ACTIVE_MINUTES):
        return AgentStatus.ACTIVE
    return AgentStatus.IDLE


def managed_by(cwd: str) -> str:
    """The session of Relay's whose worktree the folder is, or lies in; or ""."""
    found = _MANAGED.search(normal(cwd) if cwd else "")
    return found[1] if found else ""


def select(agents: Sequence[DetectedAgent], wanted: str) -> DetectedAgent:
    """The agent that a person names: by id, an unambiguous beginning of it, "latest", or its transcript.

    "latest" is the newest session that is not Relay's own.

    Raises:
        NotFoundError: there is none. ConflictError: more than one fits; names them.
    """
    sessions = [agent for agent in agents if agent.intel.native_id]
    if wanted == "latest":
        own = [agent for agent in sessions if not agent.managed and not agent.intel.parent]
        if not own:
            raise NotFoundError(
                "no agent session was found", hint="`relay detect --since-hours 168` looks further back"
            )
        return max(own, key=lambda agent: _seconds(agent.intel))
    exact = [agent for agent in sessions if wanted in (agent.id, agent.intel.path)]
    near = exact or [agent for agent in sessions if wanted and agent.id.startswith(wanted)]
    if not near:
        raise NotFoundError(
            f"no agent session {wanted[:200]!r} was found", hint="`relay detect` lists their ids"
        )
    if len(near) > 1:
        # The same session under two folders of accounts: the newer is the one that went on.
        newest = max(near, key=lambda agent: _seconds(agent.intel))
        if len({(agent.intel.store, agent.id) for agent in near}) == 1:
            return newest
        names = ", ".join(f"{agent.id} ({agent.intel.store})" for agent in near[:10])
        raise ConflictError(
            f"{len(near)} sessions begin with {wanted[:60]!r}: {names}", hint="give more of it"
        )
    return near[0]


def take_over(agent: DetectedAgent) -> str:
    """The command that takes the agent's work over; "" for what cannot be."""
    if not agent.intel.native_id or agent.managed:
        return ""
    # Somebody has to name the folder where nothing tells it.
    folder = "" if agent.intel.cwd else " --folder DIR"
    return f"relay detect --adopt {agent.id} --start{folder}"


def agent_view(agent: DetectedAgent, *, full: bool = False) -> dict[str, Any]:
    """The agent as JSON, every name always there.

    Args:
        full: with plan, commands, turns and all else that was lifted.
    """
    intel = agent.intel
    view: dict[str, Any] = {
        "id": agent.id,
        "provider": intel.store,
        "nativeId": intel.native_id,
        "status": str(agent.status),
        "pid": agent.pid or None,
        "account": agent.account,
        "home": intel.home,
        "path": intel.path,
        "folder": intel.cwd,
        "branch": intel.branch,
        "model": intel.model,
        "version": intel.version,
        "title": intel.title,
        "goal": one_line(intel.first_prompt, _GOAL),
        "todosLeft": len(intel.tasks_remaining),
        "todosDone": len(intel.tasks_done),
        "filesTouched": len(intel.files_changed) + len(intel.files_outside),
        "tokens": {
            "input": intel.tokens.input,
            "cachedInput": intel.tokens.cached_input,
            "output": intel.tokens.output,
        },
        "messages": intel.message_count,
        "turnOpen": intel.turn_open,
        "startedAt": _instant(intel.started_at),
        "lastActivity": _instant(intel.last_activity),
        "managedBy": agent.managed,
        "canResume": bool(agent.provider and intel.native_id),
        "takeOver": take_over(agent),
    }
    if full:
        view["intel"] = _plain(intel)
    return view


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if attrs.has(type(value)):
        return {camel(a.name): _plain(getattr(value, a.name)) for a in attrs.fields(type(value))}
    return value


def _rank(status: AgentStatus) -> int:
    order = (AgentStatus.RUNNING, AgentStatus.PROCESS, AgentStatus.ACTIVE, AgentStatus.IDLE)
    return order.index(status)


def _seconds(intel: SessionIntel) -> float:
    return intel.last_activity.timestamp() if intel.last_activity else 0.0


def _started(process: AgentProcess) -> float:
    return process.started_at.timestamp() if process.started_at else 0.0
