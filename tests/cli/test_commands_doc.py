"""docs/commands.md describes every command with every option."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from relay.cli import app
from relay.cli.base import Command

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
SECTION = re.compile(r"^## `relay ([a-z]+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall(PAGE))
COMMON = re.search(r"^## Options of every command\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)


def command(name: str) -> click.Command:
    module, attribute = app.COMMANDS[name][0].split(":")
    found = getattr(import_module(module), attribute)
    assert isinstance(found, click.Command)
    return found


def options(of: click.Command) -> set[str]:
    """Long and short names of a command's own options, and of its subcommands'."""
    names = {name for p in of.params if isinstance(p, click.Option) for name in (*p.opts, *p.secondary_opts)}
    if isinstance(of, click.Group):
        names |= {name for sub in of.commands.values() for name in options(sub)}
    return names - {"--help"}


def test_every_command_has_its_section() -> None:
    assert set(SECTIONS) == set(app.COMMANDS)


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_option_and_subcommand_is_described(name: str) -> None:
    section = SECTIONS[name]
    found = command(name)

    assert {option for option in options(found) if f"`{option}" not in section} == set()
    subcommands = list(found.commands) if isinstance(found, click.Group) else []
    assert [sub for sub in subcommands if f"`relay {name} {sub}" not in section] == []


@pytest.mark.parametrize("name", app.COMMANDS)
def test_no_option_is_described_that_does_not_exist(name: str) -> None:
    common = options(
        click.Group("all", params=list(Command("x").get_params(click.Context(click.Command("x")))))
    )
    described = set(re.findall(r"`(--?[a-z][a-z-]*)", SECTIONS[name]))

    assert described - options(command(name)) - common - {"-"} == set()


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    assert re.search(rf"^ +[$>] (.* )?relay {name}\b", SECTIONS[name], re.MULTILINE)


def test_the_common_options_are_described() -> None:
    assert COMMON is not None
    names = options(
        click.Group("all", params=list(Command("x").get_params(click.Context(click.Command("x")))))
    )

    assert {name for name in names if f"`{name}" not in COMMON[1]} == set()
