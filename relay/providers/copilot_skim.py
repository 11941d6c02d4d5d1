"""What a list needs of most events of Copilot CLI, taken without parsing them.

Used by `relay.providers.copilot_events` for a list; what is refused here is parsed there.
"""

from __future__ import annotations

import re

from relay.core.events import ToolKind
from relay.core.lift import Lift
from relay.providers.skimming import PLAIN, QUIET, STAMP, STRING, Span, Spending, kind_in, string_in

BEGINNING = b'{"type":"'
HEAD = re.compile(rb'\{"type":"([a-z_.]+)","data":\{')
_END = re.compile(
    rb'\},"id":"([^"\\]{1,100})","timestamp":"(' + STAMP + rb')","parentId":(?:null|"[^"\\]{0,100}")\}$'
)
_TAIL = 400
_IDLE = {b"system.message", b"assistant.turn_start", b"assistant.turn_end"}
_SAID = re.compile(
    rb'(?:"(?:messageId|originatingMessageId)":"[^"\\]*",)*"model":"([^"\\]*)","content":"(' + PLAIN + rb'|")'
)
_SPENT = re.compile(
    rb'"usage":\{(?:"\w+":"[^"\\]*",)*"inputTokens":(\d+),"outputTokens":(\d+),"cacheReadTokens":(\d+)'
)
_WINDOW = re.compile(rb'"maxPromptTokens":(\d+)[,}]')
_BEGUN = re.compile(rb'"toolCallId":"([^"\\]{1,200})","toolName":"(\w+)","arguments":\{')
_PATH = re.compile(rb'"path":(' + STRING + rb")")
_OTHER_PATHS = (b'"file_path":', b'"filePath":', b'"absolute_path":')
"""Arguments that count before `path`."""
_ENDED = re.compile(rb'"toolCallId":"([^"\\]{1,200})"')
_SIDE = b'"parentToolCallId":'


class CopilotSkim:
    """See the module.

    Args:
        lift: is told what matters.
        seen: hashes of the ids of all events so far.
    """

    def __init__(self, lift: Lift, seen: set[int]) -> None:
        self.span = Span()
        self.spent = Spending()
        self.edits: dict[str, bytes] = {}
        """By call id the files of edits that have not ended."""
        self._lift = lift
        self._seen = seen
        self._text = b""
        self._kinds = {
            b"session.usage_record": self._spend,
            b"assistant.message": self._said,
            b"tool.execution_start": self._began,
            b"tool.execution_complete": self._completed,
            **dict.fromkeys(_IDLE, _nothing),
        }

    def take(self, line: bytes, head: re.Match[bytes]) -> bool:
        """Take an event; False when it has to be parsed.

        Args:
            head: as `HEAD` matched it.
        """
        take = self._kinds.get(head[1])
        start = line.rfind(b'},"id":"', -_TAIL) if take is not None else -1
        end = _END.match(line, start) if start > 0 else None
        if take is None or end is None:
            return False
        number = hash(end[1].decode("utf-8", "replace"))
        if number in self._seen or not take(line, head.end()):
            return False
        self._seen.add(number)
        self.span.note(end[2])
        return True

    def last_text(self) -> bytes:
        """The event with what the agent said last, once; b"" when it was parsed."""
        line, self._text = self._text, b""
        return line

    def ended(self, call_id: str, ok: bool) -> bool:
        """An edit of that id ended; False when none is known."""
        path = self.edits.pop(call_id, None)
        if path is not None and ok:
            self._lift.changed(string_in(path) or "")
        return path is not None

    def _spend(self, line: bytes, start: int) -> bool:
        found = _SPENT.match(line, start)
        if found is None:
            return False
        whole, output, cached = map(int, found.groups())
        fresh = max(0, whole - cached)
        self.spent.add(fresh, cached, output)
        if b'"initiator":"sub-agent"' not in line:
            window = _WINDOW.search(line, found.end())
            self._lift.context(fresh + cached + output, int(window[1]) if window else 0)
        return True

    def _said(self, line: bytes, start: int) -> bool:
        found = _SAID.match(line, start)
        if found is None or _SIDE in line:
            return False
        lift = self._lift
        if found[2] != b'"':
            self._text = line
            lift.message_count += 1
        lift.model = found[1].decode("utf-8", "replace") or lift.model
        asked = line.find(b'"toolRequests":[', found.end())
        lift.turn_open = asked >= 0 and line[asked + 16 : asked + 17] != b"]"
        return True

    def _began(self, line: bytes, start: int) -> bool:
        call = _BEGUN.match(line, start)
        if call is None or call[2] == b"skill" or _SIDE in line or b'"mcpServerName":' in line:
            return False
        kind = kind_in(call[2])
        if kind is not ToolKind.EDIT:
            return kind in QUIET
        path = _PATH.match(line, call.end())
        if path is None or any(name in line for name in _OTHER_PATHS):
            return False
        self.edits.setdefault(call[1].decode("utf-8", "replace"), path[1])
        return True

    def _completed(self, line: bytes, start: int) -> bool:
        call = _ENDED.match(line, start)
        outcome = line.find(b'"success":', start)
        if call is None or outcome < 0 or _SIDE in line:
            return False
        call_id, ok = call[1].decode("utf-8", "replace"), line.startswith(b"true", outcome + 10)
        if call_id in self.edits:
            self.ended(call_id, ok)
        elif b'"fileEdits":[' in line or not (ok or line.startswith(b"false", outcome + 10)):
            return False
        self._lift.turn_open = True
        return True


def _nothing(line: bytes, start: int) -> bool:
    """A kind of event that happens, and tells nothing."""
    return True
