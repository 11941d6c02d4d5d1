"""The root of the command line: the table of commands, and how every kind of failure ends.

Called by `relay.__main__`.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Sequence

import click

from relay.cli.base import LazyGroup
from relay.errors import RelayError
from relay.version import VERSION

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("relay.cli.setup:init", "Write .relay/relay.toml, with every key as a comment."),
    "run": ("relay.cli.run:run", "Begin a session and follow it."),
    "status": ("relay.cli.sessions:status", "What is under way, and where it stands."),
    "sessions": ("relay.cli.sessions:sessions", "All sessions, newest first."),
    "attach": ("relay.cli.run:attach", "Follow a session that is under way."),
    "logs": ("relay.cli.run:logs", "Print a session's events."),
    "handoff": ("relay.cli.sessions:handoff", "Hand a session to the next agent at a safe point."),
    "pause": ("relay.cli.sessions:pause", "Pause a session at a safe point."),
    "resume": ("relay.cli.sessions:resume", "Go on after a pause or a wait."),
    "stop": ("relay.cli.sessions:stop", "End a session; its work stays on its branch."),
    "reply": ("relay.cli.sessions:reply", "Say something to the agent."),
    "approvals": ("relay.cli.approvals:approvals", "What agents ask permission for, and your answers."),
    "diff": ("relay.cli.work:diff", "A session's work so far."),
    "merge": ("relay.cli.work:merge", "Merge a session's branch into the checkout."),
    "discard": ("relay.cli.work:discard", "Remove a session's worktree and branch."),
    "contract": ("relay.cli.work:contract", "The contract that the next agent reads."),
    "audit": ("relay.cli.audit:audit", "Check and read the audit log."),
    "detect": (
        "relay.cli.detect:detect",
        "Coding agents that Relay did not start, and their work taken over.",
    ),
    "providers": ("relay.cli.providers:providers", "The agents on this machine."),
    "circuit": ("relay.cli.providers:circuit", "Which logins are out of service, and until when."),
    "redactions": ("relay.cli.providers:redactions", "How many secrets were kept out of the log."),
    "redact": ("relay.cli.filters:redact", "Replace the secrets in what comes on stdin."),
    "classify": ("relay.cli.filters:classify", "Say what an error on stdin means, and what Relay would do."),
    "trust": ("relay.cli.setup:trust", "Show what relay.toml would run, and trust it."),
    "daemon": ("relay.cli.daemon:daemon", "Run, start, stop or look at the daemon."),
    "eval": ("relay.cli.evaluate:evaluate", "Measure what a continuation carries over."),
    "gc": ("relay.cli.gc:gc", "Clear away what is left of ended sessions."),
    "doctor": ("relay.cli.doctor:doctor", "Check that everything is as it should be."),
    "ui": ("relay.cli.setup:ui", "A one-time link that lets a browser in."),
    "demo": ("relay.cli.demo:demo", "A whole handoff on a throw-away repository."),
}


class Root(LazyGroup):
    """The root group; knows what was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, with the nearest command in the error."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.lazy, n=1)
            guess = f"; did you mean `relay {near[0]}`?" if near else ""
            raise click.UsageError(f"no command {name!r}{guess}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Root,
    lazy=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, "--version", "-V", prog_name="relay", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Keeps a coding task alive when the agent that works on it cannot go on.

    In a git repository: relay run "what is to be done"
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: the words behind `relay`.

    Returns:
        0 ok, 1 failed, 2 usage, 3 no daemon, 4 not allowed, 5 not found; 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = cli.main(list(arguments), prog_name="relay", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        return _fail(error.format_message(), _usage_hint(error), 2)
    except click.ClickException as error:
        return _fail(error.format_message(), "", 1)
    except RelayError as error:
        if os.environ.get("RELAY_DEBUG"):
            raise
        return _fail(error.message, error.hint, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", "", 130)
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", "", 1)
    return code if isinstance(code, int) else 0


def _usage_hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "relay"
    return f"see `{path} --help`"


def _fail(message: str, hint: str, code: int) -> int:
    from relay.core.quoting import clean

    red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    click.echo(click.style("error:", fg="red", bold=True) if red else "error:", err=True, nl=False, color=red)
    click.echo(f" {clean(message)}", err=True)
    for line in clean(hint).split("\n") if hint else ():
        click.echo(f"  {line}", err=True)
    return code
