"""What was read of sessions before, kept so that only what has changed is read again.

One file in the user's state folder. It is a cache: damaged, of another version or gone, everything is
read anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from attrs import evolve
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from relay.core.intel import SessionIntel
from relay.errors import StoreError
from relay.store import atomic
from relay.version import VERSION

FORMAT = 1
MOST = 20_000
"""Most sessions that are remembered."""
_PROMPT = 2_000
_WIRE = Converter(detailed_validation=False)
_WIRE.register_unstructure_hook(datetime, lambda value: value.isoformat())
_WIRE.register_structure_hook(datetime, lambda value, _: datetime.fromisoformat(value))
# Lists of texts are most of what is read, and take cattrs an item at a time.
_WIRE.register_structure_hook_func(lambda kind: kind == tuple[str, ...], lambda value, _: _texts(value))
_WIRE.register_unstructure_hook(
    SessionIntel, make_dict_unstructure_fn(SessionIntel, _WIRE, _cattrs_omit_if_default=True)
)
_WIRE.register_structure_hook(SessionIntel, make_dict_structure_fn(SessionIntel, _WIRE))


def listed(intel: SessionIntel) -> SessionIntel:
    """What of a session is needed for a line in a list."""
    return evolve(
        intel,
        first_prompt=intel.first_prompt[:_PROMPT],
        last_prompt=intel.last_prompt[:_PROMPT],
        last_message=intel.last_message[:_PROMPT],
        decisions=(),
        constraints=(),
        rules=(),
        commands=(),
        failed_attempts=(),
        files_read=(),
        turns=(),
    )


def to_stored(intel: SessionIntel) -> dict[str, Any]:
    """A session's reading as JSON, what holds its default left out."""
    stored: dict[str, Any] = _WIRE.unstructure(intel)
    return stored


def from_stored(stored: Any) -> SessionIntel:
    """The reading. Raises KeyError, TypeError, ValueError, AttributeError for what is none."""
    return _WIRE.structure(stored, SessionIntel)


class DetectCache:
    """Stamps and readings, by session.

    Args:
        path: the file; None keeps it in memory alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stored: dict[str, Any] = {} if path is None else _load(path)
        self._known: dict[str, tuple[str, SessionIntel]] = {}
        self._changed = False

    def get(self, key: str, stamp: str) -> SessionIntel | None:
        """What was read of the session, if it still holds."""
        known = self._known.get(key)
        if known is not None:
            return known[1] if known[0] == stamp else None
        stored = self._stored.get(key)
        if not isinstance(stored, dict) or stored.get("stamp") != stamp:
            return None
        try:
            intel = from_stored(stored["intel"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        self._known[key] = (stamp, intel)
        return intel

    def put(self, key: str, stamp: str, intel: SessionIntel) -> None:
        """Remember what was read."""
        self._known[key] = (stamp, intel)
        self._changed = True

    def keep(self, keys: Mapping[str, float]) -> None:
        """Write what is known of these sessions (key -> when it changed), the newest; forget the others.

        Raises:
            StoreError, DiskFullError: it could not be written; the file that was there is whole.
        """
        newest = sorted(keys, key=lambda key: keys[key], reverse=True)[:MOST]
        if self._path is None or not self._changed:
            return
        stored: dict[str, Any] = {}
        for key in newest:
            if key in self._known:
                stamp, intel = self._known[key]
                stored[key] = {"stamp": stamp, "intel": to_stored(intel)}
            elif key in self._stored:
                stored[key] = self._stored[key]
        data = orjson.dumps({"format": FORMAT, "relay": VERSION, "sessions": stored})
        atomic.replace(self._path, data)
        self._stored = stored
        self._known = {key: self._known[key] for key in newest if key in self._known}
        self._changed = False


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("texts are expected")
    return texts


def _load(path: Path) -> dict[str, Any]:
    try:
        data = atomic.read(path)
        value = orjson.loads(data) if data else None
    except (StoreError, orjson.JSONDecodeError):
        return {}
    if not isinstance(value, dict) or (value.get("format"), value.get("relay")) != (FORMAT, VERSION):
        return {}
    sessions = value.get("sessions")
    return sessions if isinstance(sessions, dict) else {}
