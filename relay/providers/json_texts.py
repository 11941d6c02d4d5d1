"""JSON values in texts and columns that agents' stores hold, and times in them.

Used by the editors' stores, where they list sessions and where they read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from relay.providers import shapes

Record = Mapping[str, Any]


def json_of(data: bytes | str) -> Any:
    """The JSON value that a text is, or None."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        # Halves of surrogate pairs, and bytes that are no UTF-8, are mended there.
        found = shapes.record(b'{"v":' + raw + b"}")
        return None if found is None else found.get("v")


def object_in(data: bytes | str) -> Record:
    """The JSON object that a text is, or an empty one."""
    value = json_of(data)
    return value if isinstance(value, Mapping) else {}


def epoch_ms(data: object, key: str) -> datetime | None:
    """The aware instant at `key`, given in milliseconds since the epoch."""
    value = shapes.number(data, key)
    return shapes.instant({"at": value / 1000}, "at") if value and abs(value) < 1e17 else None
