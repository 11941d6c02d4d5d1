"""Values as people read them: tables, pairs, JSON. Used by every command that lists something."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click
import orjson

from relay.cli.base import settings, use_colour
from relay.core.quoting import clean, one_line

STATE_COLOURS = {
    "RUNNING": "green",
    "COMPLETED": "green",
    "FAILED": "red",
    "STOPPED": "yellow",
    "WAITING": "yellow",
    "closed": "green",
    "open": "red",
    "half_open": "yellow",
    "isolated": "red",
    "yes": "green",
    "no": "red",
}


def print_json(value: Any) -> None:
    """A value as JSON on stdout, for `--json`."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:
        # A path that is no UTF-8, or a number of more than 64 bits.
        text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(text)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, width: int, colour: bool) -> str:
    """A table without lines, one row a line, as text.

    Args:
        headings: of the columns.
        rows: cells; everything is cleaned and put on one line.
        width: columns of the terminal; cells that do not fit are cut. 0: nothing is cut.
        colour: words of `STATE_COLOURS` in their colour.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for heading in headings:
        made.add_column(heading, no_wrap=True, overflow="ellipsis", header_style="dim")
    for row in rows:
        cells = [one_line(str(cell), 1000) for cell in row]
        made.add_row(*(Text(cell, style=STATE_COLOURS.get(cell, "")) for cell in cells))
    out = io.StringIO()
    console = Console(
        file=out,
        width=width or 10_000,
        force_terminal=colour,
        color_system="standard" if colour else None,
        emoji=False,
    )
    console.print(made)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or a line when it would be empty."""
    filled = list(rows)
    if not filled:
        if not settings().quiet:
            click.echo(empty)
        return
    colour = use_colour()
    click.echo(table(headings, filled, width=terminal_width(), colour=colour), color=colour)


def terminal_width() -> int:
    """Columns of the terminal on stdout; 0 where it is none, and nothing has to be cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def pairs(values: Iterable[tuple[str, object]]) -> str:
    """Names and values in two columns; empty values are left out, further lines are set in."""
    shown = [(name, clean(str(value)).strip("\n")) for name, value in values if value not in ("", None, [])]
    wide = max((len(name) for name, _ in shown), default=0) + 2
    return "\n".join(f"{name:<{wide}}" + value.replace("\n", "\n" + " " * wide) for name, value in shown)


def instant(text: object) -> str:
    """An ISO instant in the zone of this machine, "" for none."""
    if not isinstance(text, str) or not text:
        return ""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return clean(text)


def percent(fraction: object) -> str:
    """0.85 as "85 %", "" for what is not known."""
    return f"{fraction:.0%}".replace("%", " %") if isinstance(fraction, int | float) else ""


def plural(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
