"""What every command shares: the options that may stand anywhere, lazy groups, and the settings they fill.

Used by every module of this package. Nothing but click and the standard library is imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from attrs import define

_HELP = {"-h", "--help"}


@define
class Settings:
    """What the options that may stand anywhere said; one for each call of `relay`, in click's context.

    Args:
        url: address of the daemon, or "".
        host, port: the same in two parts.
        token: the token to send, or "".
        as_json: print JSON.
        quiet: print results and errors alone.
        verbose: print more.
    """

    url: str = ""
    host: str = ""
    port: int | None = None
    token: str = ""
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False


def settings() -> Settings:
    """The settings of the present call."""
    return click.get_current_context().ensure_object(Settings)


def say(text: str) -> None:
    """A line for people, on stdout unless `--quiet` or `--json`."""
    chosen = settings()
    if not chosen.quiet and not chosen.as_json:
        click.echo(text)


def at_terminal() -> bool:
    """A person sits at this terminal and can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def use_colour() -> bool:
    """Colour only on a terminal, and not if the user does not want it (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _store(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            setattr(context.ensure_object(Settings), name, value)

    return callback


def _common_options() -> list[click.Option]:
    def option(names: Sequence[str], attribute: str, help_text: str, **more: Any) -> click.Option:
        return click.Option(
            [*names, f"common_{attribute}"],
            expose_value=False,
            callback=_store(attribute),
            help=help_text,
            **more,
        )

    return [
        option(["--url"], "url", "Address of the daemon (also RELAY_URL).", metavar="URL"),
        option(["--host"], "host", "Host of the daemon.", metavar="HOST"),
        option(["--port"], "port", "Port of the daemon.", type=click.IntRange(0, 65535), metavar="PORT"),
        option(["--token"], "token", "Token to send (also RELAY_TOKEN).", metavar="TOKEN"),
        option(["--json"], "as_json", "Print JSON.", is_flag=True),
        option(["--quiet"], "quiet", "Print results and errors alone.", is_flag=True),
        option(["-v", "--verbose"], "verbose", "Print more.", is_flag=True),
    ]


class _Common(click.Command):
    """Adds the options that may stand anywhere, where a command has none of its own by that name."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        taken = {name for parameter in own for name in parameter.opts}
        added = [option for option in _common_options() if not taken.intersection(option.opts)]
        return [*own[:-1], *added, *own[-1:]] if own and own[-1].name == "help" else [*own, *added]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        common = {option.name for option in _common_options()}
        own: list[tuple[str, str]] = []
        everywhere: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                (everywhere if parameter.name in common else own).append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        if ctx.parent is None or ctx.find_root().ensure_object(Settings).verbose:
            with formatter.section("Options of every command"):
                formatter.write_dl(everywhere)
        else:
            formatter.write_paragraph()
            formatter.write_text("Options of every command: relay --help")


class Command(_Common):
    """A command with the options that may stand anywhere."""


class Group(_Common, click.Group):
    """A group of commands in one module, with a default one.

    Args:
        default: name of the command that is meant when none is named.
    """

    command_class = Command

    def __init__(self, *args: Any, default: str = "", **more: Any) -> None:
        super().__init__(*args, **more)
        self.default = default
        if default:
            self.no_args_is_help = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command's name in front where no command is named."""
        named = next((word for word in args if not word.startswith("-")), "")
        if self.default and named not in self.commands and not _HELP.intersection(args):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, and which of them is the default."""
        _Common.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        if self.default:
            formatter.write_paragraph()
            formatter.write_text(f"Without a command: {self.default}")


class LazyGroup(Group):
    """A group whose commands are imported when they are called.

    Args:
        lazy: name -> ("module:attribute", one line of help).
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table, which is the order of a user's day."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in self.lazy:
            return None
        module, attribute = self.lazy[cmd_name][0].split(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, so that help imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.lazy.items()])


def command(name: str, **more: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command` with the options that may stand anywhere."""
    return click.command(name, cls=Command, **more)


session_argument = click.argument("sid", required=False, default="", metavar="[SESSION]")
"""A session by id or the beginning of it; "" for the only one under way."""
