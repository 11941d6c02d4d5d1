"""What a list needs of most messages of OpenCode's agents, taken with as little work as can be.

Used by `relay.providers.opencode_messages` for a list in place of its own rules; what is refused here goes
through these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from relay.core.lift import Lift
from relay.providers.acts import kind_of
from relay.providers.skimming import PLAIN, QUIET, Spending

QUIET_TOOLS = tuple(
    name
    for name in ("bash", "codesearch", "glob", "grep", "list", "ls", "lsp", "read", "webfetch", "websearch")
    if kind_of(name) in QUIET
)
"""OpenCode's own tools whose calls a list does not tell of."""
QUIET_PART = b"tool"
"""In place of the part that is a call of such a tool."""
_TEXT = re.compile(rb'\{"type":"text","text":"' + PLAIN)
_STEP = re.compile(
    rb'\{(?:"snapshot":"\w*",)?"type":"step-start"\}$'
    rb'|\{"reason":"[\w-]*",(?:"snapshot":"\w*",)?"type":"step-finish",.*\}$'
)
"""Where an answer of the model begins and ends; the message itself tells what it cost."""
_INTEGER = {int}
_MOST = 1 << 47
ENDS = ("stop", "length", "content-filter")
"""Why a message ended, where nothing follows."""


class OpenCodeSkim:
    """See the module.

    Args:
        lift: is told what matters.
        spent: is told the tokens.
    """

    def __init__(self, lift: Lift, spent: Spending) -> None:
        self._lift = lift
        self._spent = spent
        self._text = b""
        self._first = self._last = 0

    def take(self, data: bytes, parts: Sequence[bytes]) -> bool:
        """Take an agent's message with these parts; False when the rules have to."""
        texts, text = 0, b""
        for part in parts:
            if part == QUIET_PART:
                continue
            if _TEXT.match(part) and part.endswith(b"}"):
                texts, text = texts + 1, part
            elif not _STEP.match(part):
                return False
        told = _loaded(data)
        if told.get("role") != "assistant" or "error" in told or told.get("summary") is True:
            return False
        times, tokens = told.get("time"), told.get("tokens")
        kept = tokens.get("cache") if type(tokens) is dict else None
        finish, cost, model = told.get("finish"), told.get("cost"), told.get("modelID")
        if type(times) is not dict or type(tokens) is not dict or type(kept) is not dict:
            return False
        if (
            not finish
            or type(finish) is not str
            or type(model) is not str
            or not isinstance(cost, (int, float))
        ):
            return False
        at = times.get("completed") or times.get("created", 0)
        spent = (
            tokens.get("total", 0),
            tokens.get("input", 0),
            tokens.get("output", 0),
            tokens.get("reasoning", 0),
            kept.get("read", 0),
            kept.get("write", 0),
            at,
        )
        # Negative, none or far too large.
        if set(map(type, spent)) != _INTEGER or min(spent) < 0 or max(spent) >= _MOST:
            return False
        if at > self._last:
            self._last = at
            self._first = self._first or at
        elif at < self._first:
            self._first = at
        self._spend(*spent[:-1], cost)
        lift = self._lift
        lift.model = model or lift.model
        lift.message_count += texts
        self._text = text or self._text
        lift.turn_open = finish not in ENDS
        return True

    def settle(self) -> None:
        """Tell the lift what only the last of the messages decides, before others are told of."""
        part, self._text = self._text, b""
        if part:
            self._lift.last_message = str(_loaded(part).get("text") or self._lift.last_message)
        for milliseconds in (self._first, self._last):
            if milliseconds:
                self._lift.at(datetime.fromtimestamp(milliseconds / 1000, UTC))

    def _spend(
        self, total: int, fresh: int, output: int, reasoning: int, read: int, written: int, cost: float
    ) -> None:
        lift = self._lift
        self._spent.add(fresh + written, read, output + reasoning)
        if cost:
            lift.cost_usd = (lift.cost_usd or 0.0) + float(cost)
        lift.context(total or fresh + written + read + output + reasoning)


def _loaded(data: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if type(value) is dict else {}
