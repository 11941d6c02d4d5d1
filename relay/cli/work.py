"""What a session made: `relay diff`, `merge`, `discard` and `contract`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from relay.cli.base import Group, command, say, session_argument, settings, use_colour
from relay.cli.choose import chosen
from relay.cli.client import TREE_SECONDS, connect, segment
from relay.cli.tables import pairs, plural, print_json
from relay.core.quoting import clean
from relay.errors import ConfigError, NotFoundError

_DIFF_COLOURS = (
    ("+++", "bold"),
    ("---", "bold"),
    ("diff ", "bold"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)


@command("diff")
@session_argument
@click.option("--stat", "stat_only", is_flag=True, help="The summary alone.")
def diff(sid: str, stat_only: bool) -> None:
    """A session's work since it began, what is not committed yet included.

    On a terminal what could deceive the eye is taken out; through a pipe the patch comes as it is.
    """
    with connect(settings()) as client:
        view = chosen(client, sid, ended=True)
        found = client.get(f"/api/sessions/{segment(str(view['sessionId']))}/diff")
    if settings().as_json:
        print_json(found)
        return
    if stat_only or not found.get("patch"):
        click.echo(clean(str(found.get("stat") or "nothing changed")))
        return
    patch = str(found["patch"])
    if use_colour():
        click.echo("\n".join(_painted(line) for line in clean(patch).rstrip("\n").split("\n")), color=True)
    else:
        sys.stdout.buffer.write(patch.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    if found.get("cut"):
        click.echo("note: this is not the whole patch; the rest is too large to show", err=True)


@command("merge")
@session_argument
def merge(sid: str) -> None:
    """Merge a session's branch into your checkout.

    Refuses, changing nothing, when the session is under way, when the merge has conflicts, or when it
    would overwrite what you have not committed.
    """
    with connect(settings()) as client:
        view = chosen(client, sid, ended=True)
        path = f"/api/sessions/{segment(str(view['sessionId']))}/merge"
        answer = client.post(path, seconds=TREE_SECONDS)
    if settings().as_json:
        print_json(answer)
        return
    files = answer.get("files")
    counted = f" ({plural(files, 'file')})" if isinstance(files, int) else ""
    say(f"merged {view.get('branch', '')} into {answer.get('branch', 'the checkout')}{counted}")
    say(f"its worktree is still there: relay discard {view['sessionId']}")


@command("discard")
@session_argument
@click.option("--force", is_flag=True, help="Also what is not committed in its worktree, or not merged.")
def discard(sid: str, force: bool) -> None:
    """Remove a session's worktree and branch."""
    with connect(settings()) as client:
        view = chosen(client, sid, ended=True)
        path = f"/api/sessions/{segment(str(view['sessionId']))}/discard"
        answer = client.post(path, {"force": force}, seconds=TREE_SECONDS)
    if settings().as_json:
        print_json(answer)
        return
    kept, hint = answer.get("keptAs"), answer.get("hint")
    say(f"discarded {view['sessionId']}" + (f"; its work is kept as {kept}" if kept else ""))
    if hint:
        say(str(hint))


@click.group("contract", cls=Group, default="show")
def contract() -> None:
    """The contract that the next agent reads: show the newest of a session, or check a file."""


@contract.command("show")
@session_argument
def show(sid: str) -> None:
    """The newest contract of a session; its signature was verified."""
    with connect(settings()) as client:
        view = chosen(client, sid, ended=True)
        found = client.get("/api/contract", session=str(view["sessionId"]))
    if settings().as_json:
        print_json(found)
        return
    click.echo(clean(str(found["markdown"])).rstrip("\n"))
    say(f"\n{found['path']} (signature verified)")


@contract.command("verify")
@click.argument("file", type=click.Path(exists=True, path_type=Path))
def verify(file: Path) -> None:
    """Check the signature of FILE: a contract's .json, the .md beside it, or a session's folder with both.

    Needs no daemon, but the signing key of the user who made the contract.
    """
    from relay.core.wire import to_wire
    from relay.store.contracts import STEM, load_verified
    from relay.store.keys import load_or_make_signing_key
    from relay.store.places import StatePlaces

    if not file.is_dir() and file.suffix not in (".json", ".md"):
        raise ConfigError(
            f"{file} is no contract",
            hint="name an envelope.json, an envelope.md, or one of a pair in .relay/adopted",
        )
    key_file = StatePlaces.locate(os.environ).signing_key
    if not key_file.exists():
        raise NotFoundError(
            f"there is no signing key in {key_file}", hint="contracts are signed with their maker's"
        )
    folder = (file if file.is_dir() else file.parent).absolute()
    found, _ = load_verified(
        folder,
        load_or_make_signing_key(key_file),
        session_id=folder.name if folder.name.startswith("s-") else None,
        stem=STEM if file.is_dir() else file.stem,
    )
    facts = to_wire(found)
    if settings().as_json:
        print_json({"verified": True, "path": str(folder), "contract": facts})
        return
    shown = [(name, facts.get(name)) for name in ("contractId", "sessionId", "taskGoal", "nextAction")]
    say(f"the signature is right\n{pairs(shown)}")


def _painted(line: str) -> str:
    for start, colour in _DIFF_COLOURS:
        if line.startswith(start):
            return click.style(line, bold=True) if colour == "bold" else click.style(line, fg=colour)
    return line
