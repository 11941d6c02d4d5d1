"""The agents on this machine and their logins: `relay providers`, `circuit`, `redactions`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from relay.cli.base import Group, command, say, session_argument, settings
from relay.cli.choose import chosen
from relay.cli.client import connect
from relay.cli.tables import instant, percent, print_json, show_table


@click.group("providers", cls=Group, default="list")
def providers() -> None:
    """The agents that Relay knows."""


@providers.command("list")
def providers_list() -> None:
    """Every agent and account: whether it is found here, its state, and what is left of its quota."""
    with connect(settings()) as client:
        found = client.get("/api/providers", cwd=str(Path.cwd()))
    if settings().as_json:
        print_json(found)
        return
    rows = [
        (
            view.get("name", ""),
            _here(view),
            view.get("state", ""),
            percent(view.get("fractionUsed")),
            instant(view.get("resetsAt")),
            view.get("reason", ""),
        )
        for view in found
    ]
    show_table(("agent", "found", "state", "used", "again at", "why"), rows, empty="Relay knows no agent")


@click.group("circuit", cls=Group, default="list")
def circuit() -> None:
    """Which logins are out of service, and until when."""


@circuit.command("list")
def circuit_list() -> None:
    """The state of every login that has been used."""
    with connect(settings()) as client:
        found = client.get("/api/circuit")
    if settings().as_json:
        print_json(found)
        return
    rows = [
        (
            view.get("target", ""),
            view.get("state", ""),
            percent(view.get("fractionUsed")),
            instant(view.get("openUntil")),
            view.get("reason", ""),
        )
        for view in found
    ]
    show_table(("login", "state", "used", "again at", "why"), rows, empty="no login has been used yet")


@circuit.command("isolate")
@click.argument("target", metavar="NAME[/ACCOUNT]")
def isolate(target: str) -> None:
    """Take a login out of service until `relay circuit restore`."""
    _isolate(target, True)


@circuit.command("restore")
@click.argument("target", metavar="NAME[/ACCOUNT]")
def restore(target: str) -> None:
    """Put a login back into service, whatever its state."""
    _isolate(target, False)


@command("redactions")
@session_argument
def redactions(sid: str) -> None:
    """How many secrets of which kind were kept out of the log, of all sessions or of one."""
    with connect(settings()) as client:
        session = str(chosen(client, sid)["sessionId"]) if sid else ""
        found = client.get("/api/redactions", session=session)
    if settings().as_json:
        print_json(found)
        return
    rows = sorted(found.get("kinds", {}).items(), key=lambda pair: (-pair[1], pair[0]))
    show_table(("kind", "secrets"), rows, empty="no secret has been seen")


def _isolate(target: str, isolated: bool) -> None:
    with connect(settings()) as client:
        answer = client.post("/api/circuit", {"target": target, "isolated": isolated})
    if settings().as_json:
        print_json(answer)
    else:
        say(f"{answer.get('target', target)} is {answer.get('state', '')}")


def _here(view: Mapping[str, Any]) -> str:
    if not view.get("enabled", True):
        return "disabled"
    return "yes" if view.get("installed") else "no"
