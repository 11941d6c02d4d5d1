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
_TOKENS = ("total", "input", "output", "reasoning")
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
        texts = [part for part in parts if part != QUIET_PART and not _STEP.match(part)]
        if not all(_TEXT.match(part) and part.endswith(b"}") for part in texts):
            return False
        told = _loaded(data)
        if told.get("role") != "assistant" or "error" in told or told.get("summary") is True:
            return False
        when, spent = _ints(told.get("time"), "completed", "created"), _ints(told.get("tokens"), *_TOKENS)
        kept = _ints(spent and told["tokens"].get("cache"), "read", "write")
        finish, cost, model = told.get("finish"), told.get("cost"), told.get("modelID")
        if not when or not spent or not kept or type(finish) is not str or type(model) is not str:
            return False
        if not isinstance(cost, (int, float)) or not finish:
            return False
        self._at(when[0] or when[1])
        self._spend(spent, kept, cost)
        lift = self._lift
        lift.model = model or lift.model
        lift.message_count += len(texts)
        self._text = texts[-1] if texts else self._text
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

    def _at(self, milliseconds: int) -> None:
        self._first = min(self._first or milliseconds, milliseconds)
        self._last = max(self._last, milliseconds)

    def _spend(self, spent: Sequence[int], kept: Sequence[int], cost: float) -> None:
        total, fresh, output, reasoning = spent
        read, written = kept
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


def _ints(told: object, *names: str) -> tuple[int, ...]:
    """Numbers of an object, 0 for one that is absent; () where one is negative, none or far too large."""
    if type(told) is not dict:
        return ()
    values = tuple([told.get(name, 0) for name in names])
    for value in values:
        if type(value) is not int or not 0 <= value < _MOST:
            return ()
    return values
