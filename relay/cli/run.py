"""`relay run`, `attach` and `logs`: begin a session, follow it, read what it did."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from relay.cli.asking import Desk, interrupted
from relay.cli.base import Settings, at_terminal, command, say, session_argument, settings
from relay.cli.choose import chosen
from relay.cli.client import BEGIN_SECONDS, Client, connect, segment
from relay.cli.follow import Event, Follower, Printer, terminal_style
from relay.cli.launch import ensure_daemon
from relay.cli.tables import pairs, plural
from relay.core.quoting import one_line
from relay.errors import NoDaemonError, NotFoundError, NotTrustedError, RelayError

ATTACH_EVENTS = 30


@command("run")
@click.argument("task")
@click.option(
    "-p", "--providers", default="", metavar="A,B", help="Agents, in this order: NAME or NAME/ACCOUNT."
)
@click.option("--profile", default="", help="A profile of relay.toml whose chain is used.")
@click.option(
    "-f",
    "--force-handoff",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="FRACTION",
    help="Hand off once this part of a quota is used.",
)
@click.option(
    "-n", "--max-handoffs", type=click.IntRange(0), metavar="N", help="Change agents so often at the most."
)
@click.option(
    "--verify", multiple=True, metavar="CMD", help="Acceptance command; may be given several times."
)
@click.option("--allow", type=click.Choice(["ask", "edits", "all"]), help="What agents may do unasked.")
@click.option("--model", default="", help="Model, by its name for the agent.")
@click.option(
    "--worktree/--in-place", default=True, help="Work in a worktree of its own (default), or right here."
)
@click.option("--clean", is_flag=True, help="Leave the checkout's uncommitted changes out.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="A folder of the repository (default: this one).",
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing before the start.")
@click.option("--no-ui", is_flag=True, help="Ask nothing while it runs; print alone.")
@click.option("--detach", is_flag=True, help="Begin, print the session's id, and leave it to itself.")
def run(task: str, cwd: Path, yes: bool, no_ui: bool, detach: bool, worktree: bool, **options: Any) -> None:
    """Begin a session for TASK and follow it until it ends ("-" reads the task from stdin).

    Uses the running daemon, or starts one that ends by itself. Ctrl-C asks what to do.
    Exit code: 0 when the session completed, 1 when it failed or was stopped.
    """
    chosen_settings = settings()
    if task == "-":
        task = sys.stdin.read()
    body = _body(task, cwd, in_place=not worktree, **options)
    client, made = _begin(
        chosen_settings, body, ask=at_terminal() and not yes and not chosen_settings.as_json
    )
    sid = str(made["sessionId"])
    if detach:
        if chosen_settings.as_json:
            click.echo(json.dumps(made, ensure_ascii=False))
        else:
            click.echo(sid if chosen_settings.quiet else f"session {sid} is under way")
            say(f"follow it: relay attach {sid}")
        return
    click.get_current_context().exit(follow_session(client, sid, made.get("notes") or [], ask=not no_ui))


def follow_session(client: Client, sid: str, notes: Sequence[object] = (), *, ask: bool = True) -> int:
    """Follow a session that has just begun to its end; the exit code.

    Args:
        notes: what was said when it was begun.
        ask: permission requests are answered here.
    """
    chosen_settings = settings()
    follower = Follower(settings=chosen_settings, client=client, sid=sid)
    printer = Printer(chosen_settings, terminal_style(chosen_settings))

    def before() -> None:
        say(f"session {sid}")
        told = follower.look().get("notes") or []
        for note in notes:
            # The others are the session's own and come with its first event.
            if note not in told:
                say(f"note: {one_line(str(note))}")

    return _watch(follower, printer, before, ask=ask)


@command("attach")
@session_argument
@click.option("--no-ui", is_flag=True, help="Ask nothing; print alone.")
def attach(sid: str, no_ui: bool) -> None:
    """Follow a session that is under way: its last events, then what comes.

    Permission requests can be answered here. Ctrl-C asks what to do. Exit code as `relay run`.
    """
    chosen_settings = settings()
    client = connect(chosen_settings)
    view = chosen(client, sid, ended=True)
    follower = Follower(settings=chosen_settings, client=client, sid=str(view["sessionId"]))
    printer = Printer(chosen_settings, terminal_style(chosen_settings))
    desk = Desk()

    def before() -> None:
        say(f"session {follower.sid}: {one_line(str(view.get('taskGoal', '')), 200)}")
        past = follower.history()
        desk.see(past)
        desk.keep(str(asked.get("id")) for asked in follower.client.get("/api/approvals"))
        if len(past) > ATTACH_EVENTS:
            say(f"[... {plural(len(past) - ATTACH_EVENTS, 'earlier event')}: relay logs {follower.sid}]")
        printer.show(past[:-ATTACH_EVENTS], silently=True)
        printer.show(past[-ATTACH_EVENTS:])
        follower.look()

    click.get_current_context().exit(_watch(follower, printer, before, ask=not no_ui, desk=desk))


@command("logs")
@session_argument
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Go on with what comes until the session ends."
)
@click.option("-n", "--last", type=click.IntRange(0), metavar="N", help="Only the last N events.")
def logs(sid: str, following: bool, last: int | None) -> None:
    """Print a session's events, the oldest first (with --json: one JSON object a line)."""
    chosen_settings = settings()
    with connect(chosen_settings) as client:
        view = chosen(client, sid, ended=True)
        follower = Follower(settings=chosen_settings, client=client, sid=str(view["sessionId"]))
        printer = Printer(chosen_settings, terminal_style(chosen_settings))
        past = follower.history()
        shown = past if last is None else past[len(past) - min(last, len(past)) :]
        printer.show(past[: len(past) - len(shown)], silently=True)
        printer.show(shown)
        if following:
            follower.look()
            try:
                follower.follow(printer.show)
            except KeyboardInterrupt:
                click.echo("")


def _body(task: str, cwd: Path, *, in_place: bool, **options: Any) -> dict[str, Any]:
    """The request's body; what was not said is left out, so that relay.toml decides."""
    names = [name.strip() for name in options["providers"].split(",") if name.strip()]
    body: dict[str, Any] = {
        "task": task,
        "cwd": str(cwd.absolute()),
        "providers": names,
        "profile": options["profile"],
        "threshold": options["force_handoff"],
        "maxHandoffs": options["max_handoffs"],
        "verify": list(options["verify"]),
        "allow": options["allow"],
        "model": options["model"],
        "inPlace": in_place,
        "clean": options["clean"],
    }
    # 0 is something that was said: no handoff at all.
    return {name: value for name, value in body.items() if value or (value == 0 and value is not False)}


def _begin(
    chosen_settings: Settings, body: Mapping[str, Any], *, ask: bool
) -> tuple[Client, Mapping[str, Any]]:
    """Begin the session, with a daemon of our own if none runs.

    A daemon that was about to end when it was found has taken nothing: it is tried once more.
    """
    tried_again = False
    while True:
        client = Client(ensure_daemon(chosen_settings))
        try:
            return client, client.post("/api/sessions", body, seconds=BEGIN_SECONDS)
        except NoDaemonError:
            client.close()
            if tried_again:
                raise
            tried_again = True
        except NotTrustedError:
            client.close()
            if not ask:
                raise
            from relay.cli.setup import ask_for_trust

            ask_for_trust(Path(str(body["cwd"])))
            ask = False


def _watch(
    follower: Follower,
    printer: Printer,
    before: Callable[[], None],
    *,
    ask: bool,
    desk: Desk | None = None,
) -> int:
    """Do what comes `before`, follow to the end, and give the exit code; Ctrl-C asks at any time."""
    chosen_settings = follower.settings
    asking = ask and at_terminal() and not chosen_settings.as_json
    desk = desk or Desk()

    def see(events: list[Event]) -> None:
        printer.show(events)
        desk.see(events)

    def pause(seconds: float) -> None:
        desk.serve(follower.client)
        desk.pause(seconds)

    if asking:
        follower.pause = pause
    first: Callable[[], None] | None = before
    while True:
        try:
            if first is not None:
                once, first = first, None
                once()
            follower.follow(see)
            return _conclude(follower)
        except KeyboardInterrupt:
            if not asking:
                click.echo(f"the session goes on; follow it again: relay attach {follower.sid}", err=True)
                return 130
        desk.asked = ""
        match interrupted():
            case "detach":
                click.echo(f"the session goes on; follow it again: relay attach {follower.sid}")
                return 0
            case "pause":
                _act(follower, "pause")
                click.echo(f"paused at the next safe point; go on with: relay resume {follower.sid}")
                return 0
            case "stop":
                _act(follower, "stop")


def _act(follower: Follower, action: str) -> None:
    try:
        follower.client.post(f"/api/sessions/{segment(follower.sid)}/{action}")
    except RelayError as error:
        click.echo(f"error: {error.message}", err=True)


def _conclude(follower: Follower) -> int:
    """Print how it ended and what can be done with the work."""
    view = follower.look()
    state = str(view.get("fsmState", ""))
    code = 0 if state == "COMPLETED" else 1
    if follower.settings.as_json:
        return code
    sid = follower.sid
    facts: list[tuple[str, object]] = [
        ("ended", f"{state}: {view.get('endReason', '')}".rstrip(": ")),
        ("handoffs", view.get("handoffsDone") or ""),
        ("branch", view.get("branch", "")),
    ]
    if not view.get("discarded"):
        with contextlib.suppress(NotFoundError):
            work = follower.client.get(f"/api/sessions/{segment(sid)}/diff")
            facts.append(("work", work.get("stat") or "nothing changed"))
    if view.get("branch") and not view.get("discarded") and not view.get("mergedInto"):
        facts.append(("next", f"relay diff {sid}\nrelay merge {sid}\nrelay discard {sid}"))
    click.echo("" if follower.settings.quiet else "\n", nl=False)
    click.echo(pairs(facts))
    return code
