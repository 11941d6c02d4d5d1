"""Agents on the terminal: what names one and takes it over is never cut."""

from __future__ import annotations

from typing import Any

import pytest

from relay.cli.agents_shown import card, row

AGENT: dict[str, Any] = {
    "id": "997dfa11-d128-4df7-8471-26ebd091728b",
    "provider": "claude",
    "account": "work",
    "status": "running",
    "pid": 4711,
    "goal": "Add a refund flow to the orders service, with a command line, tests and documentation",
    "title": "",
    "folder": "/src/shop",
    "branch": "feature/a-branch-with-a-very-long-name-of-its-own-that-goes-on-and-on-for-ever",
    "model": "claude-sonnet-4-5",
    "todosDone": 1,
    "todosLeft": 2,
    "filesTouched": 1,
    "tokens": {"input": 12_000, "cachedInput": 900, "output": 100},
    "lastActivity": None,
    "takeOver": "relay detect --adopt 997dfa11-d128-4df7-8471-26ebd091728b --start --pause",
}


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_cuts_neither_an_id_nor_a_command(width: int) -> None:
    first, goal, where, figures, command = card(AGENT, width, colour=False).split("\n")

    assert first == "running (4711)  claude/work  997dfa11-d128"
    assert goal.startswith("  Add a refund flow")
    assert where.startswith("  /src/shop (feature/")
    assert "claude-sonnet-4-5, tasks 1/3" in figures
    assert command == "  relay detect --adopt 997dfa11-d128 --start --pause"
    assert max(len(line) for line in (goal, where, figures)) <= width


def test_what_is_not_known_leaves_no_empty_line() -> None:
    nothing = {"goal": "", "branch": "", "model": "", "todosDone": 0, "todosLeft": 0, "filesTouched": 0}
    agent = {**AGENT, **nothing, "pid": None, "status": "idle", "tokens": {"input": 0}, "takeOver": ""}

    assert card(agent, 80, colour=False) == "idle  claude/work  997dfa11-d128\n  /src/shop"


def test_a_row_tells_the_same() -> None:
    assert row(AGENT)[:3] == ("running (4711)", "claude/work", "997dfa11-d128")
    assert row(AGENT)[4:9] == ("1/3", 1, "13.0k", "", "claude-sonnet-4-5")
