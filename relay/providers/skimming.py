"""What the stores share that skim lines of JSON for a list: take of a line what matters without parsing it.

A line is skimmed only where it has the one compact form that its CLI writes; any other is parsed. What a
block of lines must be for that, and what single pieces of a line tell, stands here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import methodcaller

import orjson

from relay.core.events import TokenUsage, ToolKind
from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.acts import kind_of

PLAIN = rb"[!#-\[\]-~]"
"""The first character of a text that is neither empty nor begins with a space or an escape."""
STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
"""An instant as JavaScript writes it: of two, the greater is the later."""
STRING = rb'"(?:[^"\\]|\\.)*"'
QUIET = frozenset((ToolKind.READ, ToolKind.SHELL, ToolKind.SEARCH, ToolKind.WEB, ToolKind.OTHER))
"""What tools do whose calls a list does not tell of."""
_KINDS: dict[bytes, ToolKind] = {}
_MOST_KINDS = 1_000


def is_tidy(data: bytes, lines: Iterable[bytes], beginning: bytes) -> bool:
    """No line is overwritten with NULs, and none holds a second record behind a torn one.

    Args:
        data: the block.
        lines: the block, split.
        beginning: what a record begins with, and nothing inside of one.
    """
    begun = sum(map(methodcaller("startswith", beginning), lines))
    return data.count(beginning) == begun and b"\0" not in data


def is_single(line: bytes, beginning: bytes) -> bool:
    """The same for one line."""
    return line.find(beginning, 1) < 0 and b"\0" not in line


def skim_lines(
    data: bytes,
    beginning: bytes,
    head: re.Pattern[bytes],
    take: Callable[[bytes, re.Match[bytes]], bool],
    parse: Callable[[bytes], None],
) -> None:
    """Hand each line of a block to `take` where it has the compact form; to `parse` where not, or refused.

    Args:
        beginning: as of `is_tidy`.
        head: what a line in the compact form begins with.
    """
    lines = data.split(b"\n")
    match, tidy = head.match, is_tidy(data, lines, beginning)
    for line in lines:
        found = match(line) if tidy or is_single(line, beginning) else None
        if found is None or not take(line, found):
            parse(line)


def kind_in(name: bytes) -> ToolKind:
    """What a tool of that name does."""
    kind = _KINDS.get(name)
    if kind is None:
        kind = kind_of(name.decode("utf-8", "replace"))
        if len(_KINDS) < _MOST_KINDS:
            _KINDS[name] = kind
    return kind


def string_in(data: bytes) -> str | None:
    """The text that a JSON string stands for; None when it is none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, str) else None


class Span:
    """The first and the last of many instants, told as `STAMP`."""

    def __init__(self) -> None:
        self._first = self._last = b""

    def note(self, stamp: bytes) -> None:
        """Something happened then."""
        if stamp > self._last:
            self._last = stamp
            self._first = self._first or stamp
        elif stamp < self._first:
            self._first = stamp

    def tell(self, lift: Lift) -> None:
        """Tell the lift."""
        for stamp in (self._first, self._last):
            lift.at(shapes.iso({"at": stamp.decode()}, "at"))


class Spending:
    """Tokens, added up."""

    def __init__(self) -> None:
        self._input = self._cached = self._output = 0

    def add(self, fresh: int, cached: int, output: int) -> None:
        """So many were spent; none is negative."""
        self._input += fresh
        self._cached += cached
        self._output += output

    def at_least(self, usage: TokenUsage) -> None:
        """An account over all tells this; it holds where it tells of more."""
        if usage.total > self.usage.total:
            self._input, self._cached, self._output = usage.input, usage.cached_input, usage.output

    @property
    def usage(self) -> TokenUsage:
        """All of it."""
        return TokenUsage(input=self._input, cached_input=self._cached, output=self._output)
