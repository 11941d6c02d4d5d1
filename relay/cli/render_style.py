"""What the renderer is made of: the style of lines, what an event comes to, and reading fields with care.

Events come from the daemon, which may be of another version: a field of an unexpected type is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from attrs import frozen

from relay.core.quoting import one_line

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
ENDED_COLOURS = {"COMPLETED": "green", "FAILED": "red", "STOPPED": "yellow"}
"""The states in which a session is over, with their colours."""

Data = Mapping[str, Any]


@frozen(kw_only=True)
class Style:
    """How lines are made.

    Args:
        colour: with ANSI colours.
        width: columns; 0 leaves lines unwrapped.
        verbose: with the events that are mostly noise.
        zone: of the times; None is this machine's.
    """

    colour: bool = False
    width: int = 100
    verbose: bool = False
    zone: tzinfo | None = None

    def paint(self, text: str, colour: str) -> str:
        """`text` in a colour: bold, dim, red, green, yellow, cyan, or "" for none."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour and text and colour else text

    def date(self, text: object) -> str:
        """An ISO instant as date and time, "" for none."""
        at = instant_of(text)
        return at.astimezone(self.zone).strftime("%Y-%m-%d %H:%M:%S") if at else ""


@frozen
class Said:
    """What one event comes to.

    Args:
        text: may have several lines; cleaned when it is shown.
        colour: as for `Style.paint`.
        below: lines that follow, set in and dimmed.
        most: lines of `text` that are shown; 0 for all.
    """

    text: str
    colour: str = ""
    below: tuple[str, ...] = ()
    most: int = 0


Speak = Callable[[Data, Style], Said | None]


def instant_of(text: object) -> datetime | None:
    """An aware ISO instant, or None."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo else None


def words(data: Data, name: str, limit: int = 400) -> str:
    """A field as one clean line; "" when it is missing."""
    value = data.get(name)
    return one_line(str(value), limit) if value not in (None, "") else ""


def items(data: Data, name: str) -> list[Any]:
    """A field that is a list; [] when it is not."""
    value = data.get(name)
    return list(value) if isinstance(value, list | tuple) else []


def lines(data: Data, name: str, limit: int = 300) -> list[str]:
    """A list of texts, each as one clean line."""
    return [one_line(str(item), limit) for item in items(data, name)]


def records(data: Data, name: str) -> list[Data]:
    """The objects of a list."""
    return [item for item in items(data, name) if isinstance(item, Mapping)]


def number(data: Data, name: str) -> float | None:
    """A field that is a number."""
    value = data.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def error_text(data: Data, limit: int) -> str:
    """The words of the field `error`."""
    error = data.get("error")
    return words(error, "text", limit) if isinstance(error, Mapping) else ""


def what(data: Data) -> str:
    """A tool call's command, or its paths, or its line for people."""
    return words(data, "command", 2000) or ", ".join(lines(data, "paths")) or words(data, "detail")


def wish(data: Data) -> str:
    """What a permission request wants: `run: make test`."""
    kind = str(data.get("toolKind", "other"))
    verb = {"shell": "run", "edit": "write", "read": "read", "web": "fetch", "search": "search"}.get(kind)
    if verb:
        return f"{verb}: {what(data)}"
    return f"use {words(data, 'tool') or kind}: {what(data)}".rstrip(": ")


def how_ended(how: str) -> str:
    """What ended a run: by itself, at the end of its input, or by a signal."""
    plain = {
        "": "",
        "ended": "by itself",
        "input": "at the end of its input",
        "swept": "with what was left of it",
    }
    return plain.get(how, f"by SIG{how}" if how.isupper() else how)


def noise(text: str) -> Speak:
    """Said with `-v` alone."""
    return lambda data, style: Said(text, "dim") if style.verbose else None
