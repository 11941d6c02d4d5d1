"""VS Code's log of changes to one object, as a chat session is stored in `.jsonl` since about 1.108.

Each line is `{kind, k, v, i}`: 0 gives the whole object, 1 sets what is at the path `k`, 2 puts the list
`v` behind the list there (after cutting it to `i` entries, if told), 3 deletes. The log is rewritten as
one line when it grows long, so it is read anew whenever it changed. Read in public sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from relay.providers import shapes

SNAPSHOT, SET, PUSH, DELETE = range(4)
_FURTHEST = 10_000
"""How far behind the end of a list a change may reach: a line that was lost may have made it longer."""

Slim = Callable[[tuple[Any, ...], Any], Any]


def keep(path: tuple[Any, ...], value: Any) -> Any:
    """Leave a value as it is."""
    return value


class MutationLog:
    """The object, as far as the lines told it.

    Args:
        slim: given a path and the value that goes there, what is kept of it; the value may be changed.
    """

    def __init__(self, slim: Slim = keep) -> None:
        self.state: dict[str, Any] = {}
        self._slim = slim

    def take(self, entry: Mapping[str, Any]) -> bool:
        """Apply one line; False when it cannot be."""
        kind, path = entry.get("kind"), entry.get("k")
        if kind == SNAPSHOT:
            value = self._slim((), entry.get("v"))
            if isinstance(value, dict):
                self.state = value
            return isinstance(value, dict)
        if not isinstance(path, list) or not path or not all(map(_is_key, path)):
            return False
        holder = self._holder(path, kind)
        if holder is None:
            return False
        key = path[-1]
        match kind:
            case 1:
                return _put(holder, key, self._slim(tuple(path), entry.get("v")))
            case 2:
                return self._push(holder, path, entry)
            case 3:
                return _delete(holder, key)
            case _:
                return False

    def _push(self, holder: Any, path: list[Any], entry: Mapping[str, Any]) -> bool:
        there = _at(holder, path[-1])
        if not isinstance(there, list):
            there = []
            if not _put(holder, path[-1], there):
                return False
        cut = shapes.number(entry, "i")
        if cut is not None:
            del there[max(0, int(cut)) :]
        added = entry.get("v")
        if isinstance(added, list):
            there += self._slim(tuple(path), added)
        return added is None or isinstance(added, list)

    def _holder(self, path: list[Any], kind: object) -> Any:
        """What holds the last key; made where a line that was lost would have made it."""
        here: Any = self.state
        for key, following in pairwise(path):
            there = _at(here, key)
            if not isinstance(there, dict | list):
                if kind == DELETE:
                    return None
                there = {} if isinstance(following, str) else []
                if not _put(here, key, there):
                    return None
            here = there
        return here


def _is_key(key: object) -> bool:
    return isinstance(key, str) or (type(key) is int and key >= 0)


def _at(holder: Any, key: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(str(key))
    if isinstance(holder, list) and isinstance(key, int) and key < len(holder):
        return holder[key]
    return None


def _put(holder: Any, key: str | int, value: Any) -> bool:
    if isinstance(holder, dict):
        holder[str(key)] = value
        return True
    if not isinstance(holder, list) or not isinstance(key, int) or key > len(holder) + _FURTHEST:
        return False
    holder.extend({} for _ in range(len(holder), key + 1))
    holder[key] = value
    return True


def _delete(holder: Any, key: str | int) -> bool:
    if isinstance(holder, dict):
        holder.pop(str(key), None)
        return True
    if isinstance(holder, list) and isinstance(key, int) and key < len(holder):
        holder[key] = None
        return True
    return False
