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
from attrs import asdict, evolve, fields

from relay.core.intel import SessionIntel
from relay.core.tokens import TokenUsage
from relay.errors import StoreError
from relay.store import atomic
from relay.version import VERSION

FORMAT = 2
MOST = 20_000
"""Most sessions that are remembered."""
_PROMPT = 2_000
_INSTANTS = ("started_at", "last_activity")
_PAIRS = ("skipped", "dropped")
_NOTHING = SessionIntel(store="", home="", native_id="", path="")
_KINDS: dict[str, tuple[type[Any], ...]] = {
    **{each.name: (type(getattr(_NOTHING, each.name)),) for each in fields(SessionIntel)},
    **{each.name: (list,) for each in fields(SessionIntel) if each.default == ()},
    **dict.fromkeys(_INSTANTS, (str,)),
    "tokens": (dict,),
    "cost_usd": (float, int),
}
"""How each value looks as JSON."""
_STR, _INT = frozenset((str,)), frozenset((int,))


def listed(intel: SessionIntel) -> SessionIntel:
    """What of a session is needed for a line in a list."""
    return evolve(
        intel,
        first_prompt=intel.first_prompt[:_PROMPT],
        last_prompt="",
        last_message="",
        next_step="",
        plan=(),
        decisions=(),
        constraints=(),
        rules=(),
        commands=(),
        failed_attempts=(),
        cut_off=(),
        files_read=(),
        limits=(),
        turns=(),
    )


def to_stored(intel: SessionIntel) -> dict[str, Any]:
    """What `listed` left of a session's reading as values that orjson writes, defaults left out."""
    values = {name: getattr(intel, name) for name in _KINDS}
    stored = {name: value for name, value in values.items() if value != getattr(_NOTHING, name)}
    return stored | ({"tokens": asdict(intel.tokens)} if "tokens" in stored else {})


def from_stored(stored: Any) -> SessionIntel:
    """The reading. Raises KeyError, TypeError, ValueError, AttributeError for what is none.

    By hand, since a converter takes longer to import and to make than all sessions take to read.
    """
    values: dict[str, Any] = {}
    for name, value in stored.items():
        if type(value) not in _KINDS[name]:
            raise TypeError(f"{name} is a {type(value).__name__}")
        values[name] = tuple(value) if type(value) is list else value
        if type(value) is list and name not in _PAIRS and not _STR.issuperset(map(type, value)):
            raise TypeError(f"{name} holds other values than texts")
    for name in _INSTANTS:
        if name in values:
            values[name] = datetime.fromisoformat(values[name])
    for name in _PAIRS:
        if name in values:
            values[name] = tuple((str(what), int(count)) for what, count in values[name])
    if "tokens" in values:
        if not _INT.issuperset(map(type, values["tokens"].values())):
            raise TypeError("tokens are numbers")
        values["tokens"] = TokenUsage(**values["tokens"])
    return SessionIntel(**values)


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
