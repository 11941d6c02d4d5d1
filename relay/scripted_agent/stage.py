"""What a step plays on: records out, messages in, open tool calls, and the turn's end.

The steps (`talk`, `tools`, `trouble`) get a Stage and their arguments; the player owns it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from relay.scripted_agent.stdio import Inbox, Outlet

_OUTPUT_LIMIT = 4096


class TurnOver(Exception):
    """The turn ends here.

    Args:
        outcome: "completed", "failed" or "interrupted".
        error: for "failed": code, text, and what else is known.
        status: the agent ends with this status after the turn; None: it stays.
    """

    def __init__(
        self, outcome: str, error: Mapping[str, Any] | None = None, *, status: int | None = None
    ) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.error = error
        self.status = status


class UserMessage(NamedTuple):
    """A message of the user and the key it came with."""

    text: str
    key: str


class Stage:
    """One agent's conversation. Ids are counted, so that a scenario gives the same records every time."""

    def __init__(self, inbox: Inbox, out: Outlet) -> None:
        self.out = out
        self.said = ""
        self._inbox = inbox
        self._backlog: deque[UserMessage] = deque()
        self._taken: set[str] = set()
        self._answers: dict[str, tuple[bool, str]] = {}
        self._open: dict[str, None] = {}
        self._in_turn = False
        self._input_over = False
        self._calls = 0
        self._asks = 0
        self._turns = 0

    # Messages

    def next_message(self) -> UserMessage | None:
        """The next message of the user; None when there will be none."""
        while not self._backlog:
            if self._input_over:
                return None
            self._take(self._inbox.get(None))
        return self._backlog.popleft()

    def poll(self) -> None:
        """Take in what has come, without waiting.

        Raises:
            TurnOver: an interrupt was among it.
        """
        self.wait(0)

    def wait(self, seconds: float | None) -> None:
        """Let time pass, or with None wait until the turn is interrupted.

        Raises:
            TurnOver: it was interrupted.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if until is None else until - time.monotonic()
            try:
                self._take(self._inbox.get(left))
            except TimeoutError:
                return

    def _take(self, message: Mapping[str, Any] | None) -> None:
        if message is None:
            self._input_over = True
            return
        text = message.get("text")
        match message.get("type"):
            case "user" if isinstance(text, str):
                key = str(message.get("key", ""))
                # A daemon that died after writing a line may write it again.
                if not key or key not in self._taken:
                    self._backlog.append(UserMessage(text, key))
                self._taken.add(key)
            case "interrupt":
                # One that comes between turns was meant for a turn that is over.
                if self._in_turn:
                    raise TurnOver("interrupted")
            case "answer":
                answer = (message.get("allowed") is True, str(message.get("note") or ""))
                self._answers[str(message.get("id"))] = answer
            case _:
                self.out.record("notice", text="a line of the input was not understood", level="warning")

    # Turns

    def begin_turn(self, key: str) -> None:
        """A turn starts, on the message with this key."""
        self._turns += 1
        self._in_turn, self.said = True, ""
        self.out.record("turn_started", turn=f"turn-{self._turns}", key=key)

    def end_turn(self, over: TurnOver) -> None:
        """It is over: calls that it left open are closed."""
        self._in_turn = False
        for call in tuple(self._open):
            self.close(call, ok=False, output=f"the turn was {over.outcome}")
        self.out.record(
            "turn_ended",
            turn=f"turn-{self._turns}",
            outcome=over.outcome,
            text=self.said,
            error=dict(over.error) if over.error else None,
        )

    def say(self, text: str) -> None:
        """A whole message; the turn's last one is told again at its end."""
        self.said = text
        self.out.record("text", text=text)

    # Tool calls

    def call(self, tool: str, kind: str, **details: Any) -> str:
        """Open a tool call; its id."""
        self._calls += 1
        call = f"call-{self._calls}"
        self._open[call] = None
        self.out.record("tool_call", id=call, tool=tool, kind=kind, **details)
        return call

    def close(self, call: str, *, ok: bool, output: str = "", **details: Any) -> None:
        """Close a tool call."""
        del self._open[call]
        self.out.record("tool_result", id=call, ok=ok, output=output[-_OUTPUT_LIMIT:], **details)

    def ask(self, call: str, tool: str, kind: str, **details: Any) -> tuple[bool, str]:
        """Ask for permission or for an answer and wait for it; no, once the input is over.

        Returns:
            Whether it is allowed, and the note that came with the answer.

        Raises:
            TurnOver: the turn was interrupted meanwhile.
        """
        self._asks += 1
        request = f"ask-{self._asks}"
        self.out.record("permission", id=request, call=call, tool=tool, kind=kind, **details)
        while request not in self._answers:
            if self._input_over:
                return False, "nobody is there to answer"
            self._take(self._inbox.get(None))
        return self._answers.pop(request)
