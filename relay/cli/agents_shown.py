"""Agents of this machine on the terminal: a table where there is room, else a few lines for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from relay.cli.base import use_colour
from relay.cli.tables import plural, show_table, terminal_width
from relay.core.quoting import one_line

_HEADINGS = ("STATUS", "AGENT", "ID", "GOAL", "TASKS", "FILES", "TOKENS", "LAST", "MODEL", "FOLDER")
_TABLE_COLUMNS = 150
"""A narrower terminal would cut what names an agent."""
_STATUS_COLOURS = {"running": "green", "active": "green", "idle": "yellow"}


def show_agents(agents: Sequence[Mapping[str, Any]], *, empty: str) -> None:
    """Print agents of GET /api/detect, each with its take-over command; or a line when there are none."""
    if agents and 0 < terminal_width() < _TABLE_COLUMNS:
        colour = use_colour()
        click.echo(
            "\n\n".join(card(agent, terminal_width(), colour=colour) for agent in agents), color=colour
        )
    else:
        show_table(_HEADINGS, map(row, agents), empty=empty)
        commands = [command for agent in agents if (command := take_over(agent))]
        if commands:
            click.echo("\n".join(("\ntake one over:", *(f"  {command}" for command in commands))))


def row(agent: Mapping[str, Any]) -> tuple[object, ...]:
    """An agent as a row of the table."""
    return (
        _status(agent),
        _name(agent),
        short_id(agent),
        one_line(agent["goal"] or agent["title"], 60),
        _tasks(agent),
        agent["filesTouched"] or "",
        count(_tokens(agent)),
        _ago(agent["lastActivity"]),
        agent["model"],
        _where(agent),
    )


def card(agent: Mapping[str, Any], width: int, *, colour: bool) -> str:
    """An agent as a few lines, none longer than `width` but for the command that takes it over."""
    status = (
        click.style(_status(agent), fg=_STATUS_COLOURS.get(agent["status"])) if colour else _status(agent)
    )
    tasks, tokens = _tasks(agent), count(_tokens(agent))
    figures = (
        agent["model"],
        f"tasks {tasks}" if tasks else "",
        plural(agent["filesTouched"], "file") if agent["filesTouched"] else "",
        f"{tokens} tokens" if tokens else "",
    )
    below = (
        one_line(agent["goal"] or agent["title"], width - 2),
        one_line(_where(agent), width - 2),
        one_line(", ".join(figure for figure in figures if figure), width - 2),
        take_over(agent),
    )
    first = "  ".join(
        part for part in (status, _name(agent), short_id(agent), _ago(agent["lastActivity"])) if part
    )
    return "\n  ".join((first, *(line for line in below if line)))


def short_id(agent: Mapping[str, Any]) -> str:
    """Enough of an id to name it: ids that begin with an instant differ behind it."""
    name = str(agent["id"])
    return name[:13] if len(name) > 20 else name


def take_over(agent: Mapping[str, Any]) -> str:
    """The command that takes it over, "" where it can't be."""
    return str(agent["takeOver"]).replace(str(agent["id"]), short_id(agent))


def count(number: int) -> str:
    """12345 as 12.3k, and 0 as nothing."""
    if number < 1_000:
        return str(number or "")
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _status(agent: Mapping[str, Any]) -> str:
    return f"{agent['status']} ({agent['pid']})" if agent["pid"] else str(agent["status"])


def _name(agent: Mapping[str, Any]) -> str:
    account = agent["account"]
    return str(agent["provider"]) + (f"/{account}" if account not in ("", "default") else "")


def _tasks(agent: Mapping[str, Any]) -> str:
    done, left = agent["todosDone"], agent["todosLeft"]
    return f"{done}/{done + left}" if done + left else ""


def _tokens(agent: Mapping[str, Any]) -> int:
    return sum(agent["tokens"].values())


def _where(agent: Mapping[str, Any]) -> str:
    return _home(agent["folder"]) + (f" ({agent['branch']})" if agent["branch"] else "")


def _ago(text: str | None) -> str:
    if not text:
        return ""
    then = datetime.fromisoformat(text)
    seconds = max(0.0, (datetime.now(then.tzinfo) - then).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"


def _home(folder: str) -> str:
    home = os.environ.get("HOME", "")
    return f"~{folder[len(home) :]}" if home and folder.startswith(home + "/") else folder
