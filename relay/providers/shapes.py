"""Reading the untyped JSON of agent CLIs without trusting its shape.

Every dialogue reads through these: a missing or mistyped value gives the empty one, never an error, so
that a damaged or newer record cannot end a session.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

_ESCAPES = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""An escaped backslash or a whole surrogate pair (kept), or half a pair (replaced)."""

LAST_SECOND = 2e11
"""Some say "never" with the last second of the year 9999: no margin can be added to it."""


def record(line: bytes) -> Mapping[str, Any] | None:
    """The JSON object in one line of output, or None when the line is anything else.

    Bytes that are no UTF-8 are replaced; so are halves of surrogate pairs, which Node's JSON.stringify
    writes when a text was cut inside one.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        mended = _ESCAPES.sub(lambda found: found[1] or r"\ufffd", line.decode("utf-8", "replace"))
        try:
            value = orjson.loads(mended)
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


def text(data: object, key: str) -> str:
    """The string at `key`, or ""."""
    value = _at(data, key)
    return value if isinstance(value, str) else ""


def number(data: object, key: str) -> int | float | None:
    """The finite number at `key`, or None; true and false are no numbers."""
    value = _at(data, key)
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def integer(data: object, key: str) -> int:
    """The number at `key` as a whole one, or 0."""
    return int(number(data, key) or 0)


def mapping(data: object, key: str) -> Mapping[str, Any]:
    """The object at `key`, or an empty one."""
    value = _at(data, key)
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def items(data: object, key: str) -> tuple[Any, ...]:
    """The list at `key`, or an empty one."""
    value = _at(data, key)
    return tuple(value) if isinstance(value, list | tuple) else ()


def _at(data: object, key: str) -> Any:
    # The first test is for speed: a check against the abstract class costs ten times as much.
    return data.get(key) if type(data) is dict or isinstance(data, Mapping) else None


def instant(data: object, key: str) -> datetime | None:
    """The aware instant at `key`, given in seconds since the epoch; None when absent or out of range."""
    seconds = number(data, key)
    if not seconds or seconds > LAST_SECOND:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def iso(data: object, key: str) -> datetime | None:
    """The aware instant at `key`, given as ISO 8601 (without a zone: UTC); None when it is none."""
    try:
        found = datetime.fromisoformat(text(data, key))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def clip(value: str, limit: int = 4096) -> str:
    """`value`, or its head and tail around a mark when it is longer than `limit` bytes of UTF-8."""
    data = value.encode("utf-8", "replace")
    if len(data) <= limit:
        return value
    mark = b"\n[...]\n"
    head = (limit - len(mark)) // 2
    tail = limit - len(mark) - head
    return (data[:head] + mark + data[-tail:]).decode("utf-8", "ignore")


def one_line(value: str, limit: int = 200) -> str:
    """`value` on one line for people, cut to `limit` characters."""
    line = " ".join(value.split())
    return line if len(line) <= limit else line[: limit - 1] + "\u2026"
