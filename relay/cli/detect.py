"""The agents on this machine: `relay detect`, and taking one over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from relay.cli.agents_shown import count, short_id, show_agents
from relay.cli.base import Group, say, settings
from relay.cli.tables import instant, pairs, plural, print_json
from relay.core.quoting import clean, one_line
from relay.errors import NoDaemonError
from relay.store.places import StatePlaces

DEFAULT_HOURS = 24
_TURNS = 6

since_option = click.option(
    "--since-hours",
    "hours",
    type=click.IntRange(1, 24 * 366 * 5),
    default=DEFAULT_HOURS,
    show_default=True,
    help="How far back, in hours.",
)


@click.group("detect", cls=Group, default="list")
def detect() -> None:
    """Coding agents on this machine that Relay did not start: list them, and take their work over."""


@detect.command("list")
@since_option
@click.option("--all", "everything", is_flag=True, help="Also the sessions that Relay runs itself.")
@click.option("--adopt", default="", metavar="ID", help="Take the work of this one over (or: latest).")
@click.option("--start", is_flag=True, help="Begin a session on it, and follow it.")
@click.option("--target", default="", metavar="NAME[/ACCOUNT]", help="Who goes on.")
@click.option(
    "--mode",
    type=click.Choice(["continue", "brief", "ask"]),
    default="continue",
    help="Go on with it, take note of it and wait, or ask first.",
)
@click.option(
    "--preset",
    type=click.Choice(["short", "normal", "full"]),
    default="normal",
    help="How long the brief may be: about 3 000, 6 000 or 20 000 tokens.",
)
@click.option("--folder", default="", metavar="DIR", help="Where the work lies now, if its folder was moved.")
@click.option("--pause", is_flag=True, help="End the agent first, if it runs.")
@click.option("--dry-run", is_flag=True, help="Print the brief; write, end and begin nothing.")
@click.option("--verify", multiple=True, metavar="CMD", help="A command that has to pass; may be repeated.")
@click.option("--allow", type=click.Choice(["ask", "edits", "all"]), help="What agents may do unasked.")
@click.option("--model", default="", metavar="NAME", help="The model, by its name for the agent.")
@click.option("--detach", is_flag=True, help="With --start: leave the session to itself.")
def listed(hours: int, everything: bool, adopt: str, **how: Any) -> None:
    """Every agent session of the last hours, those that run first; or take one over with --adopt.

    ID is an id, an unambiguous beginning of it, the path of a transcript, or "latest".
    """
    if adopt:
        from relay.cli.adopt import adopt as adopt_agent

        click.get_current_context().exit(adopt_agent(adopt, hours, **how))
    unused = [
        name for name in ("start", "target", "pause", "dry_run", "verify", "detach", "folder") if how[name]
    ]
    if unused:
        raise click.UsageError(f"--{unused[0].replace('_', '-')} goes with --adopt ID")
    found = _ask("/api/detect", hours)
    agents = [agent for agent in found["agents"] if everything or not agent["managedBy"]]
    if settings().as_json:
        print_json({**found, "agents": agents})
        return
    show_agents(agents, empty=f"no agent was seen in the last {plural(hours, 'hour')}")
    for problem in found["problems"]:
        click.echo(f"note: {one_line(str(problem))}", err=True)
    takeable = next((agent for agent in agents if agent["takeOver"]), None)
    if takeable:
        say(f"\nlook at one: relay detect show {short_id(takeable)}")


@detect.command("show")
@click.argument("wanted", metavar="ID")
@since_option
def show(wanted: str, hours: int) -> None:
    """One agent session in full, with its last turns. ID: an id, its beginning, a transcript, or "latest"."""
    path = Path(wanted).expanduser()
    if path.suffix and path.exists():
        whole = str(path.absolute())
        agent = _ask("/api/detect/transcript", hours, whole, file=whole)
    else:
        agent = _ask(f"/api/detect/{quote(wanted, safe='')}", hours, wanted)
    if settings().as_json:
        print_json(agent)
        return
    click.echo(pairs(_facts(agent)))
    turns = agent["intel"]["turns"][-_TURNS:]
    for turn in turns:
        click.echo(f"\n{turn['role']}  {instant(turn['at'])}".rstrip())
        click.echo("  " + clean(str(turn["text"])).strip().replace("\n", "\n  "))


def _ask(route: str, hours: int, wanted: str = "", **query: str) -> Any:
    """From the daemon if one runs, else looked for here."""
    if not _may_have_daemon():
        return _looked_for(hours, wanted)
    from relay.cli.client import Client, find, is_named

    try:
        where = find(settings())
    except NoDaemonError:
        if is_named(settings()):
            raise
        return _looked_for(hours, wanted)
    with Client(where) as client:
        cwd, env = standpoint()
        return client.get(route, sinceHours=str(hours), cwd=cwd, env="\n".join(env), **query)


def standpoint() -> tuple[str, tuple[str, ...]]:
    """Where the user stands, "" in a folder that is gone, and the variables that say where stores lie."""
    from relay.providers.store_protocol import VARIABLES

    try:
        cwd = str(Path.cwd())
    except FileNotFoundError:
        cwd = ""
    return cwd, tuple(f"{name}={os.environ[name]}" for name in VARIABLES if os.environ.get(name))


def _may_have_daemon() -> bool:
    """One is named or recorded; to see that none is, nothing has to be imported that talks with it."""
    chosen = settings()
    named = chosen.url or chosen.host or chosen.port is not None or os.environ.get("RELAY_URL")
    try:
        return bool(named) or StatePlaces.locate(os.environ).daemon.exists()
    except OSError:
        # The client says what is the matter.
        return True


def _looked_for(hours: int, wanted: str) -> Any:
    from relay import detection

    if wanted:
        return detection.shown(os.environ, Path.cwd(), wanted, hours)
    return detection.found(os.environ, Path.cwd(), hours)


def _facts(agent: Mapping[str, Any]) -> list[tuple[str, object]]:
    intel = agent["intel"]
    tokens = agent["tokens"]
    window = intel["contextWindow"]
    context = f"{count(intel['contextTokens'])}" + (f" of {count(window)}" if window else "")
    return [
        ("id", agent["id"]),
        ("agent", f"{agent['provider']} {agent['version']}".strip()),
        ("status", _status(agent)),
        ("account", agent["account"] or agent["home"]),
        ("folder", agent["folder"]),
        ("branch", agent["branch"]),
        ("model", agent["model"]),
        ("title", agent["title"]),
        ("goal", intel["firstPrompt"]),
        ("last prompt", intel["lastPrompt"]),
        ("tasks left", _lines(intel["tasksRemaining"])),
        ("tasks done", _lines(intel["tasksDone"])),
        ("rules", _lines(intel["rules"])),
        ("constraints", _lines(intel["constraints"])),
        ("decisions", _lines(intel["decisions"])),
        ("files changed", _lines([*intel["filesChanged"], *intel["filesOutside"]])),
        ("files read", _lines(intel["filesRead"])),
        ("commands", _lines([_ran(ran) for ran in intel["commands"]])),
        ("failed", _lines(_failed(intel))),
        ("cut off", _lines(intel["cutOff"])),
        ("limits", _lines([_limit(limit) for limit in intel["limits"]])),
        ("skills", ", ".join(intel["skills"])),
        ("mcp servers", ", ".join(intel["mcpServers"])),
        ("tokens", f"{tokens['input']} in, {tokens['cachedInput']} cached, {tokens['output']} out"),
        ("context", context if intel["contextTokens"] else ""),
        ("messages", agent["messages"]),
        ("started", instant(agent["startedAt"])),
        ("last activity", instant(agent["lastActivity"])),
        ("managed by", agent["managedBy"]),
        ("unread", ", ".join(f"{count} {why}" for why, count in intel["skipped"])),
        ("transcript", agent["path"]),
        ("take it over", agent["takeOver"]),
    ]


def _status(agent: Mapping[str, Any]) -> str:
    pid = f", pid {agent['pid']}" if agent["pid"] else ""
    return f"{agent['status']}{pid}" + (", in the middle of a turn" if agent["turnOpen"] else "")


def _failed(intel: Mapping[str, Any]) -> list[str]:
    """What did not work, without what the next line tells."""
    tries = (tried for tried in intel["failedAttempts"] if tried["what"] not in intel["cutOff"])
    return [f"{tried['what']}: {tried['why']}" for tried in tries]


def _limit(limit: Mapping[str, Any]) -> str:
    from relay.core.failures import limit_in_words

    told = limit_in_words(limit["failure"], limit["why"])
    return told + (f", resets {instant(limit['resetsAt'])}" if limit["resetsAt"] else "")


def _lines(texts: list[Any], most: int = 12) -> str:
    shown = [f"- {one_line(str(text))}" for text in texts[:most]]
    more = [f"- (+{len(texts) - most} more)"] if len(texts) > most else []
    return "\n".join([*shown, *more])


def _ran(ran: Mapping[str, Any]) -> str:
    code = "" if ran["exitCode"] is None else f"  (exit code {ran['exitCode']})"
    return f"{ran['command']}{code}"
