"""On which line of a TOML text each key stands; tomllib does not tell.

A light scan that knows only where keys, strings, brackets and comments begin and end. It is meant for
texts that tomllib has read, and guesses nothing else about them. Used by `relay.store.config_file`.
"""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

Path = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_VALUE = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[][{}\n]|[^]["'\#{}\n]+''',
    re.DOTALL,
)


class _Keys(NamedTuple):
    path: Path
    end: int


def key_lines(text: str) -> dict[Path, int]:
    """Line (from 1) of every section and every key that begins a line, by its path.

    Keys of inline tables are not told apart from the key that holds the table. A text that is no TOML
    gives what was found up to there.
    """
    lines: dict[Path, int] = {}
    section: Path = ()
    at, line, counted = 0, 1, 0
    while (at := _match(_BLANK, text, at)) < len(text):
        line, counted = line + text.count("\n", counted, at), at
        header = text.startswith("[", at)
        if header:
            at += 2 if text.startswith("[[", at) else 1
        keys = _keys(text, at)
        if keys is None:
            break
        path = keys.path if header else section + keys.path
        for length in range(1, len(path) + 1):
            lines.setdefault(path[:length], line)
        if header:
            section = path
            lines[path] = line
        at = _end_of_value(text, keys.end)
    return lines


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """Line of the path, or of the nearest table or key around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def _keys(text: str, at: int) -> _Keys | None:
    path: list[str] = []
    while found := _KEY.match(text, _match(_SPACE, text, at)):
        path.append(_plain(found.group()))
        at = _match(_SPACE, text, found.end())
        if not text.startswith(".", at):
            return _Keys(tuple(path), at)
        at += 1
    return None


def _plain(key: str) -> str:
    if key.startswith("'"):
        return key[1:-1]
    if not key.startswith('"'):
        return key
    try:
        return str(tomllib.loads(f"key = {key}")["key"])
    except tomllib.TOMLDecodeError:
        return key[1:-1]


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    while found := _VALUE.match(text, at):
        at = found.end()
        piece = found.group()
        if piece in ("[", "{"):
            depth += 1
        elif piece in ("]", "}"):
            depth = max(0, depth - 1)
        elif piece == "\n" and depth == 0:
            return at
    return at if at == len(text) else len(text)


def _match(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
