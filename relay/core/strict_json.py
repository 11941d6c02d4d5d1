"""JSON that can be read in one way only, for what is signed. Used by the contract."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any


def load_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`.

    Raises:
        ValueError: it is no UTF-8, no JSON or no object, a key stands twice, or a number is none (NaN).
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def not_normal(value: Any, exempt: tuple[str, ...]) -> str:
    """Why a text in `value` could be spelled in two ways, or "".

    Args:
        value: JSON values.
        exempt: fields that hold names as the file system spells them.
    """
    for name, text in _texts(value, ""):
        if name not in exempt and not unicodedata.is_normalized("NFC", text):
            return f"the text of {name} is not in Unicode's normal form C"
    return ""


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, key)


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) != len(items):
        raise ValueError("a key stands twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")
