"""`relay doctor`: is everything as it should be, and what to do where it is not."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relay.cli import service
from relay.cli.base import command, settings, use_colour
from relay.cli.client import find, is_named
from relay.cli.tables import plural, print_json
from relay.core.quoting import clean
from relay.errors import NoDaemonError, RelayError

if TYPE_CHECKING:
    from relay.doctor.run import Told

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red", "skipped": "bright_black"}


@command("doctor")
def doctor() -> None:
    """Check the machine, the state folder, the daemon, this repository and the agents.

    Changes nothing. Exit code 1 when something does not work.
    """
    from relay.doctor.run import checks

    found = list(checks(os.environ, _here(), now=datetime.now().astimezone(), told=_told()))
    errors = sum(check.status == "error" for check in found)
    warnings = sum(check.status == "warning" for check in found)
    if settings().as_json:
        print_json(
            [
                {
                    "check": check.name,
                    "status": str(check.status),
                    "summary": check.summary,
                    "detail": check.detail,
                    "mend": check.mend,
                }
                for check in found
            ]
        )
    else:
        colour = use_colour()
        for check in found:
            if check.status in ("ok", "skipped") and settings().quiet:
                continue
            mark = f"{check.status:<8}"
            shown = click.style(mark, fg=_COLOURS[check.status]) if colour else mark
            click.echo(f"{shown} {check.name}: {clean(check.summary)}")
            for line in (*clean(check.detail).split("\n"), check.mend and f"-> {clean(check.mend)}"):
                if line:
                    click.echo(f"         {line}")
        told = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
        if not settings().quiet:
            click.echo("\nall is well" if not errors + warnings else f"\n{told}")
    click.get_current_context().exit(1 if errors else 0)


def _told() -> Told:
    from relay.doctor.run import Told

    answering = trouble = ""
    try:
        answering = find(settings()).version or "?"
    except NoDaemonError as error:
        trouble = error.message if is_named(settings()) else ""
    except (RelayError, OSError, RuntimeError) as error:
        trouble = error.message if isinstance(error, RelayError) else str(error)
    try:
        described = service.describe(os.environ)
        if not service.installed(described):
            return Told(answering=answering, trouble=trouble)
        return Told(
            answering=answering,
            trouble=trouble,
            service=str(described.path),
            service_state=service.state(described),
            service_starts=service.runs_other_program(described),
        )
    except (RelayError, OSError, RuntimeError):
        # No service on this system, or no home folder; the latter is said by a check of its own.
        return Told(answering=answering, trouble=trouble)


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        # The folder was removed under our feet; the nearest that is left will do.
        return Path("/")
