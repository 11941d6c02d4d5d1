"""What a value of relay.toml may be: each check takes a value as read and returns it as kept, or a `Wrong`.

Used by the table in `relay.core.config_keys`. A check never raises, so that one reading names all that is
wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve, frozen

from relay.core.chain import parse_target
from relay.errors import ConfigError

MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,127}")
"""A model's name; never begins with a dash, for it becomes an argument of the agent's program."""

MODE = re.compile(r"[A-Za-z][A-Za-z_-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
RESERVED_PREFIX = "RELAY_"
"""Variables by which Relay marks its children; configuration must not set them."""


@frozen(kw_only=True)
class Wrong:
    """Why a value cannot be.

    Args:
        why: following on the key and value: "must be true or false".
        at: which part of the value, "[2]" or ".NAME".
        part: that part, when `at` is given.
    """

    why: str
    at: str = ""
    part: Any = None


Check = Callable[[Any], Any]


def whole(low: int, high: int) -> Check:
    """A whole number."""
    wrong = Wrong(why=f"must be {low}" if low == high else f"must be a whole number from {low} to {high}")
    return lambda value: value if type(value) is int and low <= value <= high else wrong


def number(low: float, high: float) -> Check:
    """A number, whole or not; kept as a float."""
    wrong = Wrong(why=f"must be a number from {low:g} to {high:.15g}")

    def check(value: Any) -> Any:
        if type(value) not in (int, float) or not low <= value <= high or math.isnan(value):
            return wrong
        return float(value)

    return check


def flag() -> Check:
    """True or false."""
    return lambda value: value if type(value) is bool else Wrong(why="must be true or false")


def one_of(*choices: str) -> Check:
    """One of some words."""
    quoted = [f'"{choice}"' for choice in choices]
    listed = " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
    return lambda value: value if value in choices else Wrong(why=f"must be {listed}")


def text(
    limit: int = 1000,
    *,
    shape: re.Pattern[str] | None = None,
    lines: bool = False,
    empty: bool = False,
    what: str = "text",
) -> Check:
    """A text.

    Args:
        limit: most characters.
        shape: what the whole of it must match, unless it is empty.
        lines: it may hold newlines and tabs.
        empty: it may be empty.
        what: for the message.
    """

    def check(value: Any) -> Any:
        if type(value) is not str:
            return Wrong(why=f"must be {what}, in quotes")
        if not value.strip() and not (empty and not value):
            return Wrong(why="must not be empty")
        if len(value) > limit:
            return Wrong(why=f"is too long: {len(value)} characters, at most {limit} are taken")
        if any(not (c >= " " or (lines and c in "\n\t")) or c == "\x7f" for c in value):
            return Wrong(why="must not hold control characters" + ("" if lines else " or line breaks"))
        if shape is not None and value and not shape.fullmatch(value):
            return Wrong(why=f"must be {what}")
        return value

    return check


def texts(item: Check) -> Check:
    """A list of at most 200 texts; kept as a tuple."""

    def check(value: Any) -> Any:
        if type(value) is not list:
            return Wrong(why='must be a list, like ["one", "two"]')
        if len(value) > 200:
            return Wrong(why=f"is too long: {len(value)} entries, at most 200 are taken")
        kept = []
        for number_, entry in enumerate(value, 1):
            one = item(entry)
            if isinstance(one, Wrong):
                return evolve(one, at=f"[{number_}]", part=entry)
            kept.append(one)
        return tuple(kept)

    return check


def environment() -> Check:
    """Names of variables with their values."""
    value_check = text(32_000, lines=True, empty=True, what="text")

    def check(value: Any) -> Any:
        if type(value) is not dict:
            return Wrong(why='must be a table, like { NAME = "value" }')
        for name, entry in value.items():
            if not VARIABLE.fullmatch(name):
                return Wrong(why="is no name of a variable", at=f".{name}")
            if name.upper().startswith(RESERVED_PREFIX):
                return Wrong(
                    why=f"is reserved: Relay itself sets what begins with {RESERVED_PREFIX}", at=f".{name}"
                )
            one = value_check(entry)
            if isinstance(one, Wrong):
                return evolve(one, at=f".{name}", part=entry)
        return dict(value)

    return check


def target() -> Check:
    """A provider, or a provider and an account."""
    as_text = text(80)

    def check(value: Any) -> Any:
        value = as_text(value)
        if isinstance(value, Wrong):
            return value
        try:
            parse_target(value)
        except ConfigError:
            return Wrong(why="must be a provider's name, or NAME/ACCOUNT")
        return str(value).strip()

    return check


def path() -> Check:
    """An absolute path, or one that begins with ~/; "" means none. Nothing else is expanded."""
    as_text = text(4000, empty=True)

    def check(value: Any) -> Any:
        value = as_text(value)
        if isinstance(value, Wrong) or not value or is_rooted(value):
            return value
        return Wrong(why="must be an absolute path, or begin with ~/ (variables are not expanded)")

    return check


def program() -> Check:
    """A program's name, or where it lies; never relative, for agents write in the folder they run in."""
    as_text = text(4000, empty=True)

    def check(value: Any) -> Any:
        value = as_text(value)
        if isinstance(value, Wrong) or not value or is_rooted(value):
            return value
        if "/" in value or "\\" in value:
            return Wrong(why="must be a name on PATH, an absolute path, or begin with ~/")
        if value.startswith("-") or any(c.isspace() for c in value):
            return Wrong(why='must be the program alone; its arguments go into "args"')
        return value

    return check


def url() -> Check:
    """An http or https URL without a password in it; "" means none."""
    as_text = text(2000, empty=True)

    def check(value: Any) -> Any:
        value = as_text(value)
        if isinstance(value, Wrong) or not value:
            return value
        try:
            parts = urlsplit(value)
            fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            fine = False
        if not fine or any(c.isspace() for c in value):
            return Wrong(why="must be a URL that begins with http:// or https://")
        if parts.username is not None or parts.password is not None:
            return Wrong(why="must not hold a name or password; keys belong into the environment")
        return value

    return check


def is_rooted(value: str) -> bool:
    """The path does not depend on the working folder."""
    return value == "~" or value.startswith("~/") or PurePath(value).is_absolute()


def expand_home(value: str, home: str) -> str:
    """The path with a leading ~ replaced, where the home folder is known."""
    if home and (value == "~" or value.startswith("~/")):
        return home.rstrip("/") + value[1:]
    return value
