"""`relay daemon`: run it in the foreground, start, stop, restart and look at it, have it run as a service."""

from __future__ import annotations

import contextlib
import os

import click

from relay.cli import service
from relay.cli.base import Group, say, settings
from relay.cli.client import Where, find, is_named, recorded_pid
from relay.cli.launch import end_daemon, ensure_daemon, last_words, wait_for_daemon
from relay.cli.tables import pairs, print_json
from relay.errors import ConfigError, NoDaemonError, UserError
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
    where = end_daemon(settings())
    if ours is not None:
        # It has ended by itself with success, so that it is not started again; the manager is told.
        service.act(ours, "stop")
    if settings().as_json:
        print_json({"url": where.url, "stopped": True})
        return
    say(f"the daemon on {where.url} has ended; agents go on")


@daemon.command("status")
def status() -> None:
    """Where the daemon listens; what is wrong when it does not run. Exit code 3 when none runs."""
    places = StatePlaces.locate(os.environ)
    try:
        where = find(settings())
    except NoDaemonError as error:
        if is_named(settings()):
            raise
        raise NoDaemonError(error.message, hint="\n".join([*why_not(places), error.hint])) from error
    facts = {
        "url": where.url,
        "version": where.version,
        "pid": recorded_pid(places),
        "state": str(places.root),
        "service": _service_state(),
    }
    if settings().as_json:
        print_json(facts)
        return
    click.echo(pairs(facts.items()))


@daemon.command("restart")
@_port_option
def restart(port: int | None) -> None:
    """End the daemon and start it anew; no session is disturbed."""
    ours = _service_runs_it()
    if ours is not None and port is None:
        problem = service.act(ours, "restart")
        if problem:
            raise NoDaemonError(f"the service could not be restarted: {problem}")
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
    if dry_run:
        say(f"# {described.path}")
        click.echo(described.content.decode(), nl=False)
        return
    with contextlib.suppress(NoDaemonError):
        if not service.main_pid(described):
            end_daemon(settings())
    problem = service.install(described, force=force)
    facts = {"path": str(described.path), "manager": described.manager, "problem": problem}
    if settings().as_json:
        print_json(facts)
    else:
        say(f"wrote {described.path}")
        if not problem:
            say("the daemon runs, and starts by itself from now on")
            say("without a login too: loginctl enable-linger" if described.manager == "systemd" else "")
    if problem:
        raise NoDaemonError(f"the service is installed, and could not be started: {problem}", hint=_BY_HAND)


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
        say(f"note: the service was not started: {problem}")
    return ensure_daemon(settings(), while_busy=False, port=port)


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


def _service_state() -> str:
    described = _installed()
    return "" if described is None else service.state(described) or "installed"


def why_not(places: StatePlaces) -> list[str]:
    """What can be told of a daemon that does not run, a line each."""
    lines = []
    if state := _service_state():
        lines.append(f"the installed service is {state}: journalctl --user -u {service.UNIT}")
    holder = lock_holder(places.lock)
    if holder:
        lines.append(f"pid {holder} holds its lock and does not answer: it may be starting, or hang")
    elif recorded_pid(places):
        lines.append("it ended without tidying up; that is in nobody's way")
    if last := last_words(places):
        lines.append(f"the last it said: {last}")
    return lines
