"""What a list needs of lines of a rollout that are not parsed: of most the last one alone tells something.

`relay.providers.codex_lines` says which lines these are; a line that is refused here is parsed. Used by
`relay.providers.codex_rollout`.
"""

from __future__ import annotations

import re

_MESSAGE = re.compile(
    rb'"item":\{"type":"AgentMessage","id":"([A-Za-z0-9_-]+)","content":\[\{"type":"Text","text":"[!#-\[\]-~]'
)
"""With a text that does not begin with a space or an escape, so that it is not empty."""
_HEAD = 600
_COUNTS = (
    rb'\{"input_tokens":(\d+),"cached_input_tokens":(\d+),(?:"cache_write_input_tokens":\d+,)?'
    rb'"output_tokens":(\d+),"reasoning_output_tokens":\d+,"total_tokens":\d+\}'
)
_PLAIN = rb'(?:null|true|false|-?\d+(?:\.\d+)?|"[^"\\]*")'
_FLAT = rb'\{(?:"[a-z_]+":' + _PLAIN + rb",?)*\}"
_LIMITS = rb'\{(?:"[a-z_]+":(?:' + _PLAIN + rb"|" + _FLAT + rb"),?)*\}"
_SPENT = re.compile(
    rb',"info":\{"total_token_usage":' + _COUNTS + rb',"last_token_usage":'
    rb'\{"input_tokens":[1-9]\d*,[^{}]*\},(?:"last_usage_includes_reasoning":(?:true|false),)?'
    rb'"model_context_window":[1-9]\d*\}(?:,"rate_limits":(?:null|' + _LIMITS + rb"))?\}\}$"
)
_USED_UP = re.compile(rb'"used_percent":(?!\d\d?(?:\.\d+)?[,}]|null)')


class CodexSkim:
    """The lines that may have the last word."""

    def __init__(self) -> None:
        self._message = b""
        self._spent = b""
        self._total = 0

    def message_id(self, line: bytes) -> bytes:
        """The id of the message that the line tells; b"" when it has to be parsed."""
        found = _MESSAGE.search(line, 0, _HEAD)
        return found[1] if found else b""

    def said(self, line: bytes) -> None:
        """The line tells what the agent said last."""
        self._message = line

    def spent(self, line: bytes, start: int, total: int) -> bool:
        """Whether nothing but the line's being the last one makes it matter.

        Args:
            start: behind the kind.
            total: tokens counted by the last line that was parsed; fewer are a new beginning.
        """
        found = _SPENT.match(line, start)
        if found is None or _USED_UP.search(line, found.end(3)):
            return False
        whole, cached, output = int(found[1]), int(found[2]), int(found[3])
        now = max(whole, cached) + output
        if now < (self._total if self._spent else total):
            return False
        self._spent, self._total = line, now
        return True

    def last_message(self) -> bytes:
        """The last message, once; b"" when it was parsed."""
        line, self._message = self._message, b""
        return line

    def last_spent(self) -> bytes:
        """The last count, once; b"" when it was parsed."""
        line, self._spent = self._spent, b""
        return line
