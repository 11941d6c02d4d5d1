"""`relay detect --adopt`: the brief of a detected agent's work, and a session on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from relay.cli.base import at_terminal, say, settings
from relay.cli.client import BEGIN_SECONDS, Client
from relay.cli.detect import standpoint
from relay.cli.launch import ensure_daemon
from relay.cli.run import follow_session
from relay.cli.tables import print_json
from relay.core.quoting import clean, one_line
from relay.errors import NotTrustedError


def adopt(wanted: str, hours: int, **how: Any) -> int:
    """Adopt, print what came of it, follow the session; the exit code.

    Args:
        wanted: an id, the beginning of one, a transcript's path, or "latest".
        how: the options of `relay detect`.
    """
    chosen = settings()
    path = Path(wanted).expanduser()
    cwd, env = standpoint()
    body = {
        "id": str(path.absolute()) if path.suffix and path.exists() else wanted,
        "sinceHours": hours,
        "cwd": cwd,
        "env": list(env),
        "target": how["target"],
        "start": how["start"],
        "mode": how["mode"],
        "preset": how["preset"],
        "pause": how["pause"],
        "dryRun": how["dry_run"],
        "allow": how["allow"] or "",
        "model": how["model"],
        "folder": str(Path(how["folder"]).expanduser().absolute()) if how["folder"] else "",
    }
    if how["verify"]:
        body["verify"] = list(how["verify"])
    client = Client(ensure_daemon(chosen))
    answer = client.post("/api/detect/adopt", body, seconds=BEGIN_SECONDS)
    error = answer.get("startError")
    if error and error["code"] == NotTrustedError.code and at_terminal() and not chosen.as_json:
        from relay.cli.setup import ask_for_trust

        ask_for_trust(Path(str(answer["folder"])))
        answer = client.post("/api/detect/adopt", {**body, "pause": False}, seconds=BEGIN_SECONDS)
        error = answer.get("startError")
    if chosen.as_json:
        print_json(answer)
        return 1 if error else 0
    _tell(answer, dry=how["dry_run"])
    if error:
        click.echo(f"error: no session was begun: {clean(str(error['message']))}", err=True)
        if error["hint"]:
            click.echo(f"  {clean(str(error['hint']))}", err=True)
        return 1
    if not answer["started"]:
        client.close()
        return 0
    sid = str(answer["sessionId"])
    if how["detach"]:
        click.echo(sid if chosen.quiet else f"session {sid} is under way")
        say(f"follow it: relay attach {sid}")
        return 0
    return follow_session(client, sid)


def _tell(answer: Mapping[str, Any], *, dry: bool) -> None:
    if dry:
        click.echo(clean(str(answer["markdown"])).rstrip("\n"))
    for note in answer["notes"]:
        click.echo(f"note: {one_line(str(note))}", err=dry)
    if dry:
        return
    say(f"adopted {answer['id']} ({answer['provider']})")
    say(f"  brief     {answer['path']}")
    say(f"  contract  {answer['contractPath']}")
    say(f"  fidelity  {answer['hfsScore']:.2f}")
    if not answer["started"] and not answer.get("startError"):
        say(f"go on with it: relay detect --adopt {answer['id']} --start")
