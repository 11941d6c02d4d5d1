"""The session rules on what the agent is told in the course of a run.

Every message is in the record before it is said, with a key of its own, and stays there until it is known
to have reached the agent: a restart says it again under the same key, so that it is read once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import evolve

from relay.core import asks
from relay.core.record import Saying, SessionRecord
from relay.core.session_base import SessionBase
from relay.core.session_live import Outputs


class SessionTalk(SessionBase):
    """See the module."""

    def _saying(self, text: str, *, keep: bool = True) -> dict[str, Any]:
        """The changes of the record that put a message into it."""
        ahead = self._ahead
        number = ahead.said + 1
        saying = Saying(key=f"say:{number}", text=text, keep=keep)
        return {"said": number, "unsaid": (*ahead.unsaid, saying)}

    def _say(self, text: str, at: datetime, *, keep: bool = True) -> Outputs:
        """Tell the agent; one that has ended is started again for it."""
        run = self.record.run
        if run is None:
            return []
        if not self._live.alive:
            self._queue(text)
            return self._relaunch(at)
        self._change(**self._saying(text, keep=keep))
        return self._persist(*self._open_turn(self.record.unsaid[-1]))

    def _say_unsaid(self, at: datetime) -> Outputs:
        """Say what is not known to have reached the agent."""
        outputs: Outputs = []
        if not self.record.unsaid:
            return []
        if not self._live.alive:
            return self._relaunch(at)
        ended = self._live.turn_end
        for saying in self.record.unsaid:
            outputs += self._open_turn(saying)
        if ended is not None:
            # After a restart: the agent may have had the message, and this may be the end of its turn.
            self._live.turn_end, self._live.turn_open, self._live.said_in_turn = ended, False, True
        return outputs

    def _open_turn(self, saying: Saying) -> Outputs:
        run = self.record.run
        if run is None:
            return []
        live = self._live
        live.said_in_turn = live.said_in_turn or live.turn_open
        live.turn_open, live.turn_end = True, None
        return [asks.Say(run=run.number, key=saying.key, text=saying.text)]

    def said(self, key: str, at: datetime) -> Outputs:
        """The agent has the message."""
        left = tuple(saying for saying in self._ahead.unsaid if saying.key != key)
        if left == self._ahead.unsaid:
            return []
        self._change(unsaid=left)
        return [*self._note(at, "said", {"key": key}), *self._persist()]

    def say_refused(self, key: str, at: datetime) -> Outputs:
        """The agent takes no message now: it gets it when it is started again."""
        if all(saying.key != key for saying in self._ahead.unsaid):
            return []
        self._live.turn_open = False
        return self._relaunch(at)

    def _queue(self, text: str) -> None:
        """Keep a message for the next run, or until the agent can be told."""
        self._change(replies=(*self._ahead.replies, text))

    def _relaunch(self, at: datetime) -> Outputs:
        reason = "the agent has to be started again to be told"
        return self._hand_off(reason, at, prefer=self._target())

    def _untold(self) -> tuple[str, ...]:
        """Replies that the current run's first message does not hold."""
        run = self.record.run
        return self.record.replies[run.told :] if run else self.record.replies

    def _say_waiting(self, at: datetime) -> Outputs:
        """Say the replies that came while the agent could not be told."""
        texts = self.record.replies
        self._change(replies=())
        return self._say("\n\n".join(texts), at)

    @staticmethod
    def _without_unsaid(record: SessionRecord) -> SessionRecord:
        """The record for a new run: what the last one was not told becomes a reply."""
        kept = tuple(saying.text for saying in record.unsaid if saying.keep)
        return evolve(record, replies=(*record.replies, *kept), unsaid=(), turns_acted=0)
