"""What a list needs of most events of Copilot CLI, taken without parsing them.

Used by `relay.providers.copilot_events` for a list; what is refused here is parsed there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from relay.core.events import ToolKind
from relay.core.lift import Lift
from relay.providers.skimming import PLAIN, QUIET, STAMP, Span, Spending, is_single, kind_in, string_in

BEGINNING = b'{"type":"'
# A text that is not looked at is matched up to the next quote: what comes then tells that it ended there.
_ID = rb"([!#-\[\]-~]{1,200})"
_COUNT = rb"(\d{1,15})"
_LINE = re.compile(
    rb'\{"type":"(?:session\.usage_record","data":\{"usage":\{(?:"\w+":"[^"]*",)*'
    rb'"inputTokens":' + _COUNT + rb',"outputTokens":' + _COUNT + rb',"cacheReadTokens":' + _COUNT
    + rb'[,}]|assistant\.message","data":\{(?:"(?:messageId|originatingMessageId)":"[^"]*",)*'
    rb'"model":"([^"]*)","content":"(' + PLAIN + rb'|")'
    rb'|tool\.execution_complete","data":\{"toolCallId":"' + _ID + rb'"'
    rb'|tool\.execution_start","data":\{"toolCallId":"' + _ID + rb'","toolName":"(\w+)",'
    rb'"arguments":\{(?:"path":("[^"]+"))?'
    rb'|(?:system\.message|assistant\.turn_start|assistant\.turn_end)","data":\{)'
)  # fmt: skip
"""What cost something, what the agent says, the end and the beginning of a call, or what tells nothing."""
_OF_COST, _OF_MESSAGE, _OF_END, _OF_CALL, _OF_PATH = 3, 5, 6, 8, 9
"""The last group that such an event has; nothing has none."""
_END = re.compile(
    rb'\},"id":"([!#-\[\]-~]{1,100})","timestamp":"(' + STAMP + rb')","parentId":(?:null|"[^"]{0,100}")\}$'
)
_TAIL = 400
_WINDOW = re.compile(rb'"maxPromptTokens":(\d{1,15})[,}]')
_OTHER_PATHS = (b'"file_path":', b'"filePath":', b'"absolute_path":')
"""Arguments that count before `path`."""
_SIDE = b'"parentToolCallId":'
_NEVER = b"\0"


class CopilotSkim:
    """See the module.

    Args:
        lift: is told what matters.
        seen: hashes of the ids of all events so far.
    """

    def __init__(self, lift: Lift, seen: set[int]) -> None:
        self.span = Span()
        self.spent = Spending()
        self.edits: dict[bytes, bytes] = {}
        """By call id the files of edits that have not ended."""
        self.parsed: set[bytes] = set()
        """Ids of calls that were parsed and have not ended."""
        self._lift = lift
        self._seen = seen
        self._text = b""
        self._model = b"", ""
        self._window = _NEVER, 0

    def take_block(self, data: bytes, parse: Callable[[bytes], None]) -> None:
        """Take lines; hand to `parse` what has to be parsed."""
        lines = data.split(b"\n")
        matches = list(map(_LINE.match, lines))
        begun = sum(
            1 for line, found in zip(lines, matches, strict=True) if found or line.startswith(BEGINNING)
        )
        # Otherwise a line is overwritten with NULs, or holds a second event behind a torn one.
        tidy = data.count(BEGINNING) == begun and b"\0" not in data
        take = self._take
        for line, found in zip(lines, matches, strict=True):
            if found is None or not (tidy or is_single(line, BEGINNING)) or not take(line, found):
                parse(line)

    def last_text(self) -> bytes:
        """The event with what the agent said last, once; b"" when it was parsed."""
        line, self._text = self._text, b""
        return line

    def ended(self, call_id: bytes, ok: bool) -> bool:
        """An edit of that id ended; False when none is known."""
        path = self.edits.pop(call_id, None)
        if path is not None and ok:
            self._lift.changed(string_in(path) or "")
        return path is not None

    def _take(self, line: bytes, found: re.Match[bytes]) -> bool:
        end = _END.match(line, line.rfind(b'},"id":"', -_TAIL))
        if end is None:
            return False
        name, stamp = end.groups()
        number = hash(name)
        if number in self._seen:
            return False
        kind = found.lastindex
        if kind == _OF_COST:
            self._spend(line, found)
        elif kind == _OF_MESSAGE:
            if not self._said(line, found):
                return False
        elif kind == _OF_END:
            if not self._completed(line, found):
                return False
        elif kind is not None and not self._began(line, found):
            return False
        self._seen.add(number)
        self.span.note(stamp)
        return True

    def _spend(self, line: bytes, found: re.Match[bytes]) -> None:
        whole, output, cached = map(int, found.group(1, 2, 3))
        fresh = whole - cached if whole > cached else 0
        self.spent.add(fresh, cached, output)
        start = found.end()
        if line.find(b'"initiator":"sub-agent"', start) < 0:
            if line.find(self._window[0], start) < 0:
                window = _WINDOW.search(line, start)
                self._window = (window[0], int(window[1])) if window else (_NEVER, 0)
            self._lift.context(fresh + cached + output, self._window[1])

    def _said(self, line: bytes, found: re.Match[bytes]) -> bool:
        start = found.end()
        if line.find(_SIDE, start) >= 0:
            return False
        lift, (model, content) = self._lift, found.group(4, 5)
        if content != b'"':
            self._text = line
            lift.message_count += 1
        if model:
            if model != self._model[0]:
                self._model = model, string_in(b'"%b"' % model) or ""
            lift.model = self._model[1] or lift.model
        asked = line.find(b'"toolRequests":[', start)
        lift.turn_open = asked >= 0 and line[asked + 16 : asked + 17] != b"]"
        return True

    def _began(self, line: bytes, found: re.Match[bytes]) -> bool:
        call, tool, path = found.group(7, 8, 9)
        start = found.end()
        if tool == b"skill" or line.find(_SIDE, start) >= 0 or line.find(b'"mcpServerName":', start) >= 0:
            return False
        kind = kind_in(tool)
        if kind is not ToolKind.EDIT:
            return kind in QUIET
        if path is None or path[-2:] == b'\\"' or any(line.find(name, start) >= 0 for name in _OTHER_PATHS):
            return False
        self.edits.setdefault(call, path)
        return True

    def _completed(self, line: bytes, found: re.Match[bytes]) -> bool:
        call, start = found[6], found.end()
        outcome = line.find(b'"success":', start)
        if outcome < 0 or call in self.parsed or line.find(_SIDE, start) >= 0:
            return False
        ok = line.startswith(b"true", outcome + 10)
        if call in self.edits:
            self.ended(call, ok)
        elif not (ok or line.startswith(b"false", outcome + 10)) or line.find(b'"fileEdits":[', start) >= 0:
            return False
        self._lift.turn_open = True
        return True
