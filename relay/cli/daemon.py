"""`relay daemon`: run it in the foreground, or start, stop, restart and look at it."""

from __future__ import annotations

import contextlib
import os

import click

from relay.cli.base import Group, say, settings
from relay.cli.client import find, recorded_pid
from relay.cli.launch import end_daemon, ensure_daemon
from relay.cli.tables import pairs, print_json
from relay.errors import ConfigError, NoDaemonError

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
    """Start the daemon in the background, unless it runs."""
    try:
        where, fresh = find(settings()), False
    except NoDaemonError:
        where, fresh = ensure_daemon(settings(), while_busy=False, port=port), True
    if settings().as_json:
        print_json({"url": where.url, "version": where.version, "started": fresh})
        return
    say(f"listening on {where.url}" if fresh else f"runs already, on {where.url}")


@daemon.command("stop")
def stop() -> None:
    """End the daemon; agents go on, and the next daemon follows them."""
    where = end_daemon(settings())
    if settings().as_json:
        print_json({"url": where.url, "stopped": True})
        return
    say(f"the daemon on {where.url} has ended; agents go on")


@daemon.command("status")
def status() -> None:
    """Where the daemon listens. Exit code 3 when none runs."""
    from relay.store.places import StatePlaces

    where = find(settings())
    places = StatePlaces.locate(os.environ)
    facts = {
        "url": where.url,
        "version": where.version,
        "pid": recorded_pid(places),
        "state": str(places.root),
    }
    if settings().as_json:
        print_json(facts)
        return
    click.echo(pairs(facts.items()))


@daemon.command("restart")
@_port_option
def restart(port: int | None) -> None:
    """End the daemon and start it anew; no session is disturbed."""
    with contextlib.suppress(NoDaemonError):
        end_daemon(settings())
    where = ensure_daemon(settings(), while_busy=False, port=port)
    if settings().as_json:
        print_json({"url": where.url, "version": where.version, "started": True})
        return
    say(f"listening on {where.url}")
