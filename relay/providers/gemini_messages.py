"""The messages of a Gemini CLI chat while they may still be written again, and what becomes of them then.

Used by `relay.providers.gemini_chat`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy, deepcopy
from datetime import UTC, datetime
from typing import Any

from attrs import define

from relay.core.events import AgentText, Channel, ErrorSignal, ToolKind
from relay.core.failures import as_failed, classify
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of
from relay.providers.skimming import QUIET, Spending
from relay.providers.wordings import wording_of

_WORDING = wording_of("gemini")
_EXIT = re.compile(r"^Exit Code: (\d{1,10})\s*$", re.MULTILINE)
_BROKEN = re.compile(
    r"^(?:Error|Signal): (?!\(none\))|^Command (?:was cancelled|timed out|moved)", re.MULTILINE
)
_NOISE = re.compile(r"^(?:Process Group PGID|Background PIDs): .*$\n?|</?untrusted_context>\n?", re.MULTILINE)
_WORKSPACE = re.compile(r"\*\*Workspace Directories:\*\*\s*\n\s*- (\S[^\n]*)")
_SNAPSHOT = "<state_snapshot>"
_AGENT = ("gemini", "model", "assistant")
_RUNNING = ("", "executing", "scheduled", "validating", "awaiting_approval")
_TEXT = 20_000
_NOTHING = (0, 0, 0)


@define
class Call:
    """A call of a tool.

    Args:
        path: of the file that it edits, where nothing else is known of what it was given.
    """

    tool: str
    given: Mapping[str, Any]
    path: str = ""
    status: str = ""
    output: str = ""
    at: datetime | None = None


@define(kw_only=True)
class Message:
    """A message as it was last written.

    Args:
        side: it is a subagent's.
        line: its record, where what it says was not parsed; `text` is "" then.
        taken_back: by the user.
        spent: tokens that were fresh, cached and put out.
        called: it calls tools; those that a list does not tell of stand not in `calls`.
    """

    kind: str
    at: datetime | None = None
    side: bool = False
    text: str = ""
    line: bytes = b""
    model: str = ""
    taken_back: bool = False
    spent: tuple[int, int, int] = (0, 0, 0)
    context: int = 0
    called: bool = False
    calls: dict[str, Call] | None = None


class Told:
    """What messages that are final tell.

    Args:
        lift: is told it.
    """

    def __init__(self, lift: Lift) -> None:
        self.lift = lift
        self._spending = Spending()
        self._line = b""

    def so_far(self, pending: list[Message]) -> Lift:
        """What is told, and by these messages besides."""
        whole = Told(deepcopy(self.lift))
        whole._spending, whole._line = copy(self._spending), self._line
        for message in pending:
            whole.fold(message)
        whole._settle()
        whole.lift.totals(whole._spending.usage)
        return whole.lift

    def fold(self, message: Message) -> None:
        """What a message says and did."""
        lift, at, side = self.lift, message.at, message.side
        if at is not None:
            lift.at(at)
        words = "" if message.taken_back or side else message.text
        kind = message.kind
        if kind in _AGENT:
            self._answer(message, words)
        elif kind == "user":
            self._prompt(words, at)
        elif kind == "error" and words:
            error = ErrorSignal(channel=Channel.TRANSCRIPT, text=words)
            now = at or datetime.fromtimestamp(0, UTC)
            lift.failed(error, as_failed(classify(error, _WORDING, now=now, zone=UTC, printed_at=at)), at)
        for call_id, call in (message.calls or {}).items():
            _act(lift, call_id, call, call.at or at, side)

    def _answer(self, message: Message, words: str) -> None:
        lift, is_own = self.lift, not (message.side or message.taken_back)
        lift.model = message.model or lift.model
        speaks = False
        if message.line:
            if speaks := is_own:
                self._line = message.line
                lift.message_count += 1
        elif words.strip():
            self._settle()
            lift.take(AgentText(text=words), message.at)
            speaks = True
        if message.spent != _NOTHING:
            self._spending.add(*message.spent)
            lift.context(0 if message.side else message.context)
        if is_own:
            lift.turn_open = message.called or not speaks

    def _prompt(self, words: str, at: datetime | None) -> None:
        if words.lstrip().startswith(_SNAPSHOT):
            self._settle()
            self.lift.compacted(words, at)
            return
        if not self.lift.cwd and (found := _WORKSPACE.search(words)):
            self.lift.named(cwd=found[1].strip())
        self.lift.said(typed(words), at)

    def _settle(self) -> None:
        """Parse what was said last, if it was not."""
        line, self._line = self._line, b""
        if line:
            self.lift.last_message = text_of(shapes.record(line) or {})[:_TEXT] or self.lift.last_message


def text_of(message: Mapping[str, Any]) -> str:
    """What a message says."""
    pieces = [shapes.text(piece, "text") for piece in shapes.items(message, "content")]
    return shapes.text(message, "content") or "\n".join(piece for piece in pieces if piece)


def _act(lift: Lift, call_id: str, call: Call, at: datetime | None, side: bool) -> None:
    kind = kind_of(call.tool)
    if not lift.thorough and kind in QUIET:
        lift.at(at)
        return
    if call.path:
        lift.at(at)
        if call.status == "success":
            lift.changed(call.path)
        return
    ended = call.status not in _RUNNING
    output = _NOISE.sub("", call.output).strip()
    found = _EXIT.search(output)
    code = int(found[1]) if found else None
    if kind is ToolKind.SHELL:
        # The exit code is written only where it is not 0.
        if code is None and call.status == "success" and not _BROKEN.search(output):
            code = 0
        output = _EXIT.sub("", output).removeprefix("Output:").strip()
    act(
        lift,
        tool=call.tool,
        call_id=call_id,
        given=call.given,
        at=at,
        ok=call.status == "success" if ended else None,
        output=output,
        exit_code=code,
        denied=call.status == "cancelled",
        side=side,
    )
