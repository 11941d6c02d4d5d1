"""Walks the strings of JSON-like and attrs values for `relay.core.redact`; of secrets it knows only names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs

_PLAIN = frozenset((bool, int, float, type(None)))
NAME_END = re.compile(
    r"(?i)(?:api[_-]?key|(?:secret|access|private|signing|encryption|auth)[_-]?key|secret|token|passw(?:or)?d"
    r"|credential|authorization)\Z"
)
"""The end of a key whose string value is judged together with the key."""


def collect(value: Any, texts: list[str]) -> None:
    """Append every string of a value; a telling key stands on one line with its string."""
    kind = type(value)
    if kind is str:
        if value:
            texts.append(value)
    elif kind is tuple or kind is list:
        for item in value:
            collect(item, texts)
    elif kind in _PLAIN or isinstance(value, Enum):
        return
    elif hasattr(kind, "__attrs_attrs__"):
        # What attrs.fields() reads, without its checks: this runs on every event.
        for each in kind.__attrs_attrs__:
            collect(getattr(value, each.name), texts)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is str and type(item) is str and NAME_END.search(key):
                texts.append(f'{key}="{item}')
            else:
                collect(key, texts)
                collect(item, texts)
    elif isinstance(value, (list, tuple)):
        for item in value:
            collect(item, texts)


def rebuild(value: Any, text: Callable[[str], str], named: Callable[[str, str], str]) -> Any:
    """`value` with every string passed through `text`; the same object where nothing changed."""
    if type(value) is str:
        return text(value)
    if isinstance(value, Mapping):
        return _rebuild_mapping(value, text, named)
    if isinstance(value, (list, tuple)):
        items = [rebuild(item, text, named) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if attrs.has(type(value)):
        changes = {}
        for each in attrs.fields(type(value)):
            old = getattr(value, each.name)
            new = rebuild(old, text, named)
            if new is not old:
                changes[each.alias] = new
        return attrs.evolve(value, **changes) if changes else value
    return value


def _rebuild_mapping(
    value: Mapping[Any, Any], text: Callable[[str], str], named: Callable[[str, str], str]
) -> Mapping[Any, Any]:
    built: dict[Any, Any] = {}
    changed = False
    for key, item in value.items():
        new_key = text(key) if type(key) is str else key
        if type(key) is str and type(item) is str and NAME_END.search(key):
            new_item = named(key, item)
        else:
            new_item = rebuild(item, text, named)
        changed = changed or new_key != key or new_item is not item
        # Two secret keys of one kind must not swallow each other's values.
        unique, number = new_key, 1
        while unique in built:
            number += 1
            unique = f"{new_key}#{number}"
        built[unique] = new_item
    return built if changed else value
