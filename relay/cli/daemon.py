"""`relay daemon`: run it in the foreground, start, stop, restart and look at it, have it run as a service."""

from __future__ import annotations

import contextlib
import os

import click

from relay.cli import service
from relay.cli.base import Group, Settings, say, settings
from relay.cli.client import Where, find, is_named, recorded_pid
from relay.cli.launch import end_daemon, ensure_daemon, last_words, wait_for_daemon
from relay.cli.tables import pairs, print_json
from relay.errors import ConfigError, NoDaemonError, TimedOutError, UserError
from relay.store.lock_holder import lock_holder
from relay.store.places import StatePlaces

_port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port on 127.0.0.1; 0 for any free one (default: server_port of relay.toml, 4748).",
)


@click.group("daemon", cls=Group, default="run")
def daemon() -> None:
    """The process that supervises sessions and serves the API. Agents go on without it."""


@daemon.command("run")
@_port_option
@click.option("--while-busy", is_flag=True, help="End by itself when no session is under way.")
def run(port: int | None, while_busy: bool) -> None:
    """Run the daemon in the foreground, until Ctrl-C or SIGTERM."""
    chosen = settings()
    if chosen.url or chosen.host:
        raise ConfigError("the daemon listens on 127.0.0.1 alone", hint="use --port")
    from relay import daemon as process

    wanted = chosen.port if port is None else port
    click.get_current_context().exit(process.run(wanted, while_busy=while_busy, quiet=chosen.quiet))


@daemon.command("start")
@_port_option
def start(port: int | None) -> None:
    """Start the daemon in the background, unless it runs; an installed service is started as such."""
    try:
        where, fresh = find(settings()), False
    except NoDaemonError:
        where, fresh = _begin(port), True
    if settings().as_json:
        print_json({"url": where.url, "version": where.version, "started": fresh})
        return
    say(f"listening on {where.url}" if fresh else f"runs already, on {where.url}")


@daemon.command("stop")
def stop() -> None:
    """End the daemon; agents go on, and the next daemon follows them."""
    ours = _service_runs_it()
    try:
        url = end_daemon(settings()).url
    except (NoDaemonError, TimedOutError):
        # It hangs, or is between two starts: the service manager can end both.
        ours = ours or _service_under_way()
        if ours is None:
            raise
        url = ""
    if ours is not None:
        # It ended with success, so that it is not started again; the manager is told all the same.
        problem = service.act(ours, "stop")
        if problem and not url:
            raise NoDaemonError(f"the service could not be stopped: {problem}")
    if settings().as_json:
        print_json({"url": url, "stopped": True})
        return
    say(f"the daemon{f' on {url}' if url else ''} has ended; agents go on")


@daemon.command("status")
def status() -> None:
    """Where the daemon listens; what is wrong when it does not run. Exit code 3 when none runs."""
    places = StatePlaces.locate(os.environ)
    try:
        where = find(settings())
    except NoDaemonError as error:
        if is_named(settings()):
            raise
        problems = why_not(places)
        if settings().as_json:
            facts = {"url": "", "state": str(places.root), "service": _service_state(), "problems": problems}
            print_json(facts)
        raise NoDaemonError(error.message, hint="\n".join([*problems, error.hint])) from error
    told = {
        "url": where.url,
        "version": where.version,
        "pid": recorded_pid(places),
        "state": str(places.root),
        "service": _service_state(),
    }
    if settings().as_json:
        print_json(told)
        return
    click.echo(pairs(told.items()))


@daemon.command("restart")
@_port_option
def restart(port: int | None) -> None:
    """End the daemon and start it anew; no session is disturbed."""
    ours = _service_runs_it()
    if ours is not None and port is None:
        if problem := service.act(ours, "restart"):
            raise _not_started(problem)
        where = wait_for_daemon(settings())
    else:
        with contextlib.suppress(NoDaemonError):
            end_daemon(settings())
        where = _begin(port)
    if settings().as_json:
        print_json({"url": where.url, "version": where.version, "started": True})
        return
    say(f"listening on {where.url}")


@daemon.command("install")
@click.option("--force", is_flag=True, help="Replace a file that Relay did not write.")
@click.option("--dry-run", is_flag=True, help="Print the file; write nothing.")
def install(force: bool, dry_run: bool) -> None:
    """Have the daemon started at login and after a failure: a systemd user unit, or a launchd agent."""
    described = service.describe(os.environ)
    facts = {"path": str(described.path), "manager": described.manager, "problem": ""}
    if dry_run:
        content = described.content.decode("utf-8", "replace")
        if settings().as_json:
            print_json({**facts, "content": content})
        else:
            # A comment in units; a plist must begin with its own first line.
            if described.manager == "systemd":
                say(f"# {described.path}")
            click.echo(content, nl=False)
        return
    ended: list[Where] = []

    def make_room() -> None:
        with contextlib.suppress(NoDaemonError):
            ended.append(end_daemon(Settings()))

    problem = service.install(described, force=force, make_room=make_room)
    if settings().as_json:
        print_json({**facts, "problem": problem})
    else:
        say(f"wrote {described.path}")
    if not problem:
        say("the daemon runs, and starts by itself from now on")
        if described.manager == "systemd":
            say("without a login too: loginctl enable-linger")
        return
    hint = [_BY_HAND]
    if last := last_words(StatePlaces.locate(os.environ)):
        hint.insert(0, f"the last it said: {last}")
    if ended:
        # Not worse than before: the sessions under way have a daemon.
        where = ensure_daemon(Settings(), while_busy=False)
        hint = [f"the daemon that ran before runs again, on {where.url}"]
    raise NoDaemonError(
        f"{described.path} is written, but the service could not be started: {problem}", hint="\n".join(hint)
    )


@daemon.command("uninstall")
@click.option("--force", is_flag=True, help="Remove a file that Relay did not write.")
def uninstall(force: bool) -> None:
    """End the service and remove its file; agents go on, and state is kept."""
    described = service.describe(os.environ)
    problem = service.uninstall(described, force=force)
    if settings().as_json:
        print_json({"path": str(described.path), "manager": described.manager, "problem": problem})
        return
    say(f"removed {described.path}")
    if problem:
        say(f"note: {problem}")


_BY_HAND = "`relay daemon start` starts it without the service manager"


def _begin(port: int | None) -> Where:
    """By the service manager where a service is installed and the user names no port of his own."""
    described = _installed()
    if described is not None and port is None:
        problem = service.act(described, "start")
        if not problem:
            return wait_for_daemon(settings())
        if service.state(described):
            # The manager answers: it is the daemon that does not start, and it would not by hand either.
            raise _not_started(problem)
        if not settings().quiet:
            click.echo(f"note: started without the service manager: {problem}", err=True)
    return ensure_daemon(settings(), while_busy=False, port=port)


def _not_started(problem: str) -> NoDaemonError:
    why = why_not(StatePlaces.locate(os.environ))
    return NoDaemonError(f"the service did not start: {problem}", hint="\n".join(why))


def _installed() -> service.Service | None:
    try:
        described = service.describe(os.environ)
    except UserError:
        return None
    return described if not is_named(settings()) and service.installed(described) else None


def _service_runs_it() -> service.Service | None:
    """The installed service, if the daemon that runs is its."""
    described = _installed()
    if described is None:
        return None
    pid = service.main_pid(described)
    return described if pid and pid == recorded_pid(StatePlaces.locate(os.environ)) else None


def _service_under_way() -> service.Service | None:
    """The installed service, if its manager runs it or is about to."""
    described = _installed()
    if described is None:
        return None
    busy = service.main_pid(described) or service.state(described).startswith("activating")
    return described if busy else None


def _service_state() -> str:
    described = _installed()
    return "" if described is None else service.state(described) or "installed"


def why_not(places: StatePlaces) -> list[str]:
    """What can be told of a daemon that does not run, a line each."""
    lines = []
    if described := _installed():
        state = service.state(described)
        if described.manager == "systemd":
            told = f"is {state}" if state else "is there, and systemd can't be asked about it"
            lines.append(f"the installed service {told}; its log: journalctl --user -u {service.UNIT}")
        if other := service.runs_other_program(described):
            lines.append(
                f"the service starts {other}, which is not this Relay: `relay daemon install` mends it"
            )
    if holder := lock_holder(places.lock):
        lines.append(f"pid {holder} holds its lock and does not answer: it may be starting, or hang")
    elif recorded_pid(places):
        lines.append(f"it ended without tidying up ({places.daemon.name} is old); that is in nobody's way")
    if last := last_words(places):
        lines.append(f"the last it said: {last}")
    return lines
