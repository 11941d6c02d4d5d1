"""`relay audit`: check and read the log of a repository. Needs no daemon."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from relay.cli.base import Group, say, settings
from relay.cli.tables import instant, print_json, show_table
from relay.errors import IntegrityError, NotFoundError
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repo_root import repository_root

_path_option = click.option(
    "--path",
    type=click.Path(path_type=Path),
    default=None,
    help="A repository, or an audit.jsonl (default: the repository of this folder).",
)


@click.group("audit", cls=Group)
def audit() -> None:
    """The hash-chained log of what was done in a repository."""


@audit.command("verify")
@_path_option
def verify(path: Path | None) -> None:
    """Check every line, the chain, and that the end was not cut off.

    Exit code 1 when the log is not what Relay wrote; the first bad line is named.
    """
    from relay.core.wire import to_wire
    from relay.store import audit_verify
    from relay.store.keys import load_or_make_signing_key

    log, anchor = _places(path)
    key_file = StatePlaces.locate(os.environ).signing_key
    key = load_or_make_signing_key(key_file) if key_file.exists() else None
    verdict = audit_verify.verify(log, anchor, key)
    if settings().as_json:
        print_json({"path": str(log), **to_wire(verdict), "ok": verdict.ok, "entries": verdict.entries})
        click.get_current_context().exit(0 if verdict.ok else 1)
    for note in verdict.notes:
        say(f"note: {note}")
    if not verdict.ok:
        raise IntegrityError(
            f"{log}: {verdict.reason} ({verdict.entries} entries before are in order)", hint=verdict.hint
        )
    say(f"ok: {verdict.entries} entries, head {verdict.head[:12]}")


@audit.command("show")
@_path_option
@click.option(
    "-n", "--last", type=click.IntRange(1), default=20, show_default=True, help="How many of the last."
)
@click.option("--session", default="", metavar="SESSION", help="Those of one session alone, by its whole id.")
def show(path: Path | None, last: int, session: str) -> None:
    """The last entries, the oldest first (with --json: one JSON object a line)."""
    from relay.store import audit_read

    log, _ = _places(path)
    if not log.exists():
        raise NotFoundError(f"there is no audit log at {log}", hint="it begins with the first session")
    entries = audit_read.tail(log, last, session=session)
    if settings().as_json:
        for entry in entries:
            line = {"ts": entry.ts, "event": entry.event, "data": entry.data, "hash": entry.hash}
            click.echo(json.dumps(line, ensure_ascii=False))
        return
    rows = []
    for entry in entries:
        data = {name: value for name, value in entry.data.items() if name not in ("seq", "session", "place")}
        rows.append((instant(entry.ts), entry.session, entry.event, json.dumps(data, ensure_ascii=False)))
    show_table(("time", "session", "event", "data"), rows, empty="no entries")


def _places(path: Path | None) -> tuple[Path, Path]:
    """The log and its anchor.

    The anchor of a copy elsewhere is none: that its end was not cut off cannot be shown, and is said.
    """
    state = StatePlaces.locate(os.environ)
    if path is None or path.is_dir():
        root = repository_root(path or Path.cwd())
        return RepoPlaces(root=root).audit, state.anchor(root)
    log = path.absolute()
    if not log.exists():
        raise NotFoundError(f"{path} does not exist")
    if log == state.audit:
        return log, state.audit_anchor
    root = log.parent.parent if log.parent.name == ".relay" else log
    return log, state.anchor(root)
