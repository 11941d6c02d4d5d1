"""What a list needs of most lines of a rollout, taken without parsing them: of many the last one alone tells.

A line is taken only where the whole of it has the one form that Codex writes (0.171.0); what is refused
here is parsed. Used by `relay.providers.codex_rollout`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from relay.core.lift import Lift
from relay.providers.codex_calls import CodexCalls
from relay.providers.codex_lines import DONE, TELLING, is_whole_end, telling_call
from relay.providers.skimming import PLAIN, STRING, string_in

Take = Callable[[bytes, int], bool]
"""Takes a line from behind its kind on; False when it has to be parsed."""

_ITEM = re.compile(
    rb'(?:,"(?:thread_id|turn_id)":"[^"\\]*")*,"item":\{"type":"(?:'
    rb'AgentMessage","id":"([A-Za-z0-9_-]+)","content":\[\{"type":"Text","text":"' + PLAIN
    + rb'|FileChange","id":"([^"\\]+)","changes":\{(' + STRING + rb'):\{"type":"(?:add|update|delete)"'
    rb'|(\w+)")'
)  # fmt: skip
"""A message whose text is neither empty nor begins with an escape; changes; any other item."""
_ANOTHER = b'":{"type":"'
"""Behind the name of each file that was changed; no text can hold it."""
_MOVED = b'"move_path":"'
_MADE = b'}},"status":"completed",'
_TIMES = rb'(?:,"(?:started|completed)_at_ms":\d+)*\}\}$'
_SAID_END = re.compile(rb'[^\\]"\}\]\}' + _TIMES)
_MADE_END = re.compile(rb'[^\\]"\}' + _TIMES)
_TAIL = 240
_LONGEST = 64 * 1024
"""Bytes of a patch that is kept until it turns out whether it has to be parsed."""
_COUNTS = (
    rb'\{"input_tokens":(\d+),"cached_input_tokens":(\d+),(?:"cache_write_input_tokens":\d+,)?'
    rb'"output_tokens":(\d+),"reasoning_output_tokens":\d+,"total_tokens":\d+\}'
)
_SPENT = re.compile(
    rb',"info":\{"total_token_usage":' + _COUNTS + rb',"last_token_usage":'
    rb'\{"input_tokens":[1-9]\d*,[^{}]*\},(?:"last_usage_includes_reasoning":(?:true|false),)?'
    rb'"model_context_window":[1-9]\d*\}'
)
_VALUE = rb'(?:null|true|false|-?\d+(?:\.\d+)?|"[^"\\]*")'
_FLAT = rb'\{(?:"[a-z_]+":' + _VALUE + rb",?)*\}"
_LIMITS = re.compile(
    rb'(?:,"rate_limits":(?:null|\{(?:"[a-z_]+":(?:' + _VALUE + rb"|" + _FLAT + rb"),?)*\}))?\}\}$"
)
_USED_UP = re.compile(rb'"used_percent":(?!\d\d?(?:\.\d+)?[,}]|null)')
_PATCH = re.compile(
    rb'(?:,"(?:id|status)":"[^"\\]*")*,"call_id":"([^"\\]+)","name":"apply_patch",'
    rb'"input":"\*\*\* Begin Patch\\n'
)
_ANSWERED = re.compile(rb'(?:,"id":"[^"\\]*")?,"call_id":"([^"\\]+)"')


class CodexSkim:
    """See the module.

    Args:
        lift: is told what matters.
        calls: is told of edits, and knows which calls wait for their output.
        is_new: whether a record of that hash was not read before.
        last_words: who -> how what was said last was told, and what; None after it was told twice.
    """

    def __init__(
        self,
        lift: Lift,
        calls: CodexCalls,
        is_new: Callable[[int], bool],
        last_words: dict[str, tuple[str, str] | None],
    ) -> None:
        self.total = 0
        """Tokens counted by the last count that was parsed; fewer are a new beginning."""
        self.takes: Mapping[bytes, Take] = {
            b'response_item","payload":{"type":"message"': _pass,
            b'response_item","payload":{"type":"reasoning"': _pass,
            b'token_usage_record","payload":{': _pass,
            b'world_state","payload":{': _pass,
            b'event_msg","payload":{"type":"token_count"': self._spent,
            b'event_msg","payload":{"type":"item_completed"': self._item,
            b'event_msg","payload":{"type":"task_complete"': self._ended,
            b'response_item","payload":{"type":"function_call"': _called,
            b'response_item","payload":{"type":"custom_tool_call"': self._patched,
            b'response_item","payload":{"type":"function_call_output"': self._answered,
            b'response_item","payload":{"type":"custom_tool_call_output"': self._answered,
        }
        """By a line's kind, as `codex_lines.HEAD` tells it."""
        self._lift = lift
        self._calls = calls
        self._is_new = is_new
        self._last_words = last_words
        self._message = b""
        self._count = b""
        self._counted = 0
        self._limits = b""

    def last_message(self) -> bytes:
        """The last message, once; b"" when it was parsed."""
        line, self._message = self._message, b""
        return line

    def last_count(self) -> bytes:
        """The last count, once; b"" when it was parsed."""
        line, self._count = self._count, b""
        return line

    def _spent(self, line: bytes, start: int) -> bool:
        found = _SPENT.match(line, start)
        if found is None:
            return False
        limits = line[found.end() :]
        if limits != self._limits:
            if _USED_UP.search(limits) or not _LIMITS.match(limits):
                return False
            self._limits = limits
        whole, cached, output = map(int, found.groups())
        now = max(whole, cached) + output
        if now < (self._counted if self._count else self.total):
            return False
        self._count, self._counted = line, now
        return True

    def _item(self, line: bytes, start: int) -> bool:
        found = _ITEM.match(line, start)
        if found is None:
            return False
        message, edit, path, kind = found.groups()
        if message is not None:
            return self._said(line, message)
        if edit is not None:
            return self._changed(line, found.end(), edit, path)
        if kind in TELLING:
            return False
        self._calls.has_items |= kind in DONE
        return True

    def _said(self, line: bytes, name: bytes) -> bool:
        end = line.rfind(b'"}]}', -_TAIL)
        before = self._last_words.get("agent")
        if end < 0 or not _SAID_END.match(line, end - 1) or (before is not None and before[0] != "item"):
            return False
        if self._is_new(hash(("AgentMessage", name.decode()))):
            self._message = line
            self._last_words["agent"] = ("item", "")
            self._lift.message_count += 1
        return True

    def _changed(self, line: bytes, start: int, call: bytes, path: bytes) -> bool:
        made = line.find(_MADE, start)
        end = line.rfind(b'"}', -_TAIL)
        if made < 0 or end < made or not _MADE_END.match(line, end - 1):
            return False
        name = string_in(path)
        if not name or line.find(_ANOTHER, start) >= 0 or line.find(_MOVED, start) >= 0:
            return False
        self._calls.changed(call.decode("utf-8", "replace"), name)
        return True

    def _ended(self, line: bytes, start: int) -> bool:
        if line.find(b'"error":', start) >= 0 or not is_whole_end(line):
            return False
        self._lift.turn_open = False
        return True

    def _patched(self, line: bytes, start: int) -> bool:
        found = _PATCH.match(line, start) if len(line) <= _LONGEST else None
        if found is None:
            return _called(line, start)
        self._calls.postpone(found[1].decode("utf-8", "replace"), line)
        return True

    def _answered(self, line: bytes, start: int) -> bool:
        found = _ANSWERED.match(line, start)
        return found is not None and not self._calls.waits_for(found[1].decode("utf-8", "replace"))


def _pass(_line: bytes, _start: int) -> bool:
    return True


def _called(line: bytes, _start: int) -> bool:
    return not telling_call(line)
