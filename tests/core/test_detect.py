"""Bringing sessions and processes together, and naming one of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from attrs import fields

from relay.core.detect import (
    AgentProcess,
    AgentStatus,
    DetectedAgent,
    Told,
    agent_view,
    combine,
    managed_by,
    select,
)
from relay.core.intel import SessionIntel
from relay.errors import ConflictError, NotFoundError

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def session(name: str, minutes_ago: float, **more: object) -> SessionIntel:
    values: dict[str, object] = {
        "store": "claude",
        "home": "/h/.claude",
        "native_id": name,
        "path": f"/h/.claude/{name}.jsonl",
        "cwd": "/src/app",
        "first_prompt": f"goal of {name}",
        "last_activity": NOW - timedelta(minutes=minutes_ago),
    }
    return SessionIntel(**{**values, **more})  # type: ignore[arg-type]


def process(pid: int, minutes_ago: float = 60, **more: object) -> AgentProcess:
    values: dict[str, object] = {
        "pid": pid,
        "store": "claude",
        "cwd": "/src/app",
        "started_at": NOW - timedelta(minutes=minutes_ago),
    }
    return AgentProcess(**{**values, **more})  # type: ignore[arg-type]


def found(sessions: list[SessionIntel], processes: list[AgentProcess]) -> list[tuple[str, str, int]]:
    agents = combine(sessions, processes, {"claude": Told(provider="claude")}, NOW)
    return [(agent.id, str(agent.status), agent.pid) for agent in agents]


def test_running_first_then_the_newest() -> None:
    sessions = [session("old", 300), session("new", 5), session("middle", 60, cwd="/src/other")]

    assert found(sessions, [process(7, cwd="/src/other")]) == [
        ("middle", "running", 7),
        ("new", "active", 0),
        ("old", "idle", 0),
    ]


def test_a_process_that_names_its_session_has_that_one() -> None:
    sessions = [session("asked", 300), session("newer", 1)]

    assert found(sessions, [process(7, native_id="asked")])[0] == ("asked", "running", 7)


def test_two_processes_in_one_folder_have_the_two_newest_sessions() -> None:
    sessions = [session("a", 30), session("b", 20), session("c", 10)]

    assert found(sessions, [process(7, 50), process(8, 50)]) == [
        ("c", "running", 7),
        ("b", "running", 8),
        ("a", "idle", 0),
    ]


def test_a_session_from_before_the_process_began_is_not_its() -> None:
    assert found([session("yesterday", 1500)], [process(7, 10)]) == [
        ("pid-7", "process only", 7),
        ("yesterday", "idle", 0),
    ]


def test_another_stores_process_is_not_taken() -> None:
    assert found([session("a", 30)], [process(7, store="codex")])[1] == ("a", "idle", 0)


def test_a_process_that_names_an_unknown_session_takes_no_other() -> None:
    assert found([session("a", 30)], [process(7, native_id="elsewhere")]) == [
        ("pid-7", "process only", 7),
        ("a", "idle", 0),
    ]


def test_relays_own_sessions_are_known() -> None:
    assert managed_by("/w/app/.relay/worktrees/s-abcdef12/src") == "s-abcdef12"
    assert managed_by("/w/app/.relay/adopted") == ""
    [agent] = combine([session("a", 30)], [process(7, session="s-abcdef12")], {}, NOW)
    assert (agent.managed, agent_view(agent)["takeOver"]) == ("s-abcdef12", "")


AGENTS = combine(
    [
        session("abcd-1", 50),
        session("abcd-2", 40),
        session("mine", 1, cwd="/w/.relay/worktrees/s-abcdef12"),
        session("child", 2, parent="abcd-2"),
    ],
    [process(9, store="codex", cwd="/else")],
    {},
    NOW,
)


@pytest.mark.parametrize(
    ("wanted", "native_id"),
    [
        ("abcd-1", "abcd-1"),
        ("mi", "mine"),
        ("latest", "abcd-2"),
        ("/h/.claude/abcd-1.jsonl", "abcd-1"),
    ],
)
def test_naming_one(wanted: str, native_id: str) -> None:
    assert select(AGENTS, wanted).intel.native_id == native_id


@pytest.mark.parametrize("wanted", ["nope", "pid-9", "", "*"])
def test_naming_none(wanted: str) -> None:
    with pytest.raises(NotFoundError):
        select(AGENTS, wanted)


def test_naming_too_many_lists_them() -> None:
    with pytest.raises(ConflictError, match=r"2 sessions.*abcd-1.*abcd-2|2 sessions.*abcd-2.*abcd-1"):
        select(AGENTS, "abcd")


def test_a_session_copied_into_a_second_accounts_folder_is_one() -> None:
    agents = combine([session("a", 50), session("a", 10, home="/h/.claude-work")], [], {}, NOW)

    assert select(agents, "a").intel.home == "/h/.claude-work"


def test_the_json_has_every_name_always() -> None:
    [full] = combine([session("a", 1, branch="main")], [process(7)], {"claude": Told(provider="claude")}, NOW)
    bare = DetectedAgent(
        intel=SessionIntel(store="x", home="", native_id="", path=""), status=AgentStatus.PROCESS
    )

    assert set(agent_view(full)) == set(agent_view(bare))
    assert len(agent_view(full, full=True)["intel"]) == len(fields(SessionIntel))
    assert agent_view(full)["takeOver"] == "relay detect --adopt a --start"
    [homeless] = combine([session("a", 30, cwd="")], [], {}, NOW)
    assert agent_view(homeless)["takeOver"] == "relay detect --adopt a --start --folder DIR"
    assert agent_view(full)["tokens"] == {"input": 0, "cachedInput": 0, "output": 0}
