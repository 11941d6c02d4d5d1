"""What a list needs of most records of a Qwen Code chat, taken without parsing them.

Used by `relay.providers.qwen_chat` for a list; what is refused here is parsed there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import orjson

from relay.core.events import ToolKind
from relay.core.lift import Lift
from relay.providers.acts import OpenCalls
from relay.providers.skimming import PLAIN, QUIET, STAMP, Span, Spending, is_single, kind_in, string_in

BEGINNING = b'{"uuid":"'
# A text that is not looked at is matched up to the next quote: what comes then tells that it ended there.
_HEAD = (
    rb'\{"uuid":"([!#-\[\]-~]{1,100})","parentUuid":(?:null|"[^"]*"),"sessionId":"[^"]*","timestamp":"('
    + STAMP
    + rb')","type":"(\w+)","provenance":"\w*",("cwd":"[^"]*","version":"[^"]*","gitBranch":"[^"]*"),'
)
HEAD = re.compile(_HEAD)
_CALL = rb'"functionCall":\{"id":"([!#-\[\]-~]{1,200})","name":"(\w+)","args":\{(?:"file_path":("[^"]+"))?'
_LINE = re.compile(
    _HEAD
    + rb'(?:("model":"[^"]*"),"message":\{"role":"model","parts":\[\{'
    + rb'(?:"text":"(' + PLAIN + rb")|" + _CALL + rb")"
    rb'|"message":\{"role":"user","parts":\[\{"functionResponse":\{"id":"([!#-\[\]-~]{1,200})","name":"(\w+)",'
    rb'"response":\{"(\w+)"'
    rb'|"subtype":"ui_telemetry","systemPayload":\{"uiEvent":\{'
    rb'"event\.name":"qwen-code\.(?:api_response|tool_call)")'
)  # fmt: skip
"""An answer up to its text or into its call; a result up to its output; or the beginning of telemetry."""
_CALL_BEHIND = re.compile(rb"\{" + _CALL)
_RESULT = re.compile(rb'"toolCallResult":\{"callId":"[^"]{1,200}","status":"(\w+)","resultDisplay":(["{])')
_SPENT = b']},"usageMetadata":{'
_TAIL = 600
_OTHERS = (BEGINNING, b'{"functionCall":{', b'{"text":')
"""What stands not in an answer of one call, however deep what it is given."""


class QwenSkim:
    """See the module.

    Args:
        lift: is told what matters.
        seen: hashes of the uuids of all records so far.
        calls: those of records that were parsed.
    """

    def __init__(self, lift: Lift, seen: set[int], calls: OpenCalls) -> None:
        self.span = Span()
        self.spent = Spending()
        self.place = b""
        """Folder, version and branch as the last record tells them."""
        self.model = b""
        self.edits: dict[bytes, bytes] = {}
        """By call id the files of edits that have not ended."""
        self._lift = lift
        self._seen = seen
        self._calls = calls
        self._text = b""

    def take_block(self, data: bytes, parse: Callable[[bytes], None]) -> None:
        """Take lines; hand to `parse` what has to be parsed."""
        match, take, whole = _LINE.match, self._take, b"\0" not in data
        for line in data.split(b"\n"):
            found = match(line) if whole or b"\0" not in line else None
            if found is None or not take(line, found):
                parse(line)

    def last_text(self) -> bytes:
        """The record with what the agent said last, once; b"" when it was parsed."""
        line, self._text = self._text, b""
        return line

    def count(self, asked: int, cached: int, said: int, total: int, window: int) -> None:
        """An answer cost that much; none is negative."""
        # Some providers count thoughts among the candidates, some beside them.
        fresh, output = asked - cached, total - asked
        fresh, output = fresh if fresh > 0 else 0, output if output > said else said
        if fresh or cached or output:
            self.spent.add(fresh, cached, output)
            self._lift.context(total, window)

    def ended(self, call_id: bytes, ok: bool) -> bool:
        """An edit of that id ended; False when none is known."""
        path = self.edits.pop(call_id, None)
        if path is not None and ok:
            self._lift.changed(string_in(path) or "")
        return path is not None

    def _take(self, line: bytes, found: re.Match[bytes]) -> bool:
        uuid, stamp, kind, place, model, text, call, tool, path, answered, by, key = found.groups()
        number = hash(uuid)
        if place != self.place or number in self._seen:
            return False
        if model is not None:
            if kind != b"assistant" or model != self.model:
                return False
            end = line.rfind(_SPENT, -_TAIL)
            start = found.end()
            # A quote before that of its end is escaped, or the text has something beside it.
            if text is not None and (line.find(b'"', start) != end - 2 or line[end - 1 : end] != b"}"):
                behind = line.find(b'{"', start, end)
                if line.find(b'","', start, end if behind < 0 else behind) >= 0:
                    return False
                if behind >= 0:
                    second = _CALL_BEHIND.match(line, behind)
                    if second is None or line[behind - 3 : behind] != b'"},':
                        return False
                    call, tool, path = second.groups()
                    start = second.end()
                elif line[end - 2 : end] != b'"}':
                    return False
            if call is not None and not (_is_told(tool, path) and _is_one_call(line, start, end)):
                return False
            if end < 0 or not self._spend(line[end + 3 :]):
                return False
            if path is not None and kind_in(tool) is ToolKind.EDIT:
                self.edits[call] = path
            if text is not None:
                self._text = line
                self._lift.message_count += 1
            self._lift.turn_open = call is not None
        elif answered is not None:
            if kind != b"tool_result" or not self._result(line, found.end(), answered, by, key):
                return False
        elif kind != b"system" or line[-3:] != b"}}}" or not is_single(line, BEGINNING):
            return False
        self._seen.add(number)
        self.span.note(stamp)
        return True

    def _spend(self, tail: bytes) -> bool:
        """Count what the end of an answer tells; False when it tells more or other things."""
        try:
            told = orjson.loads(b"{" + tail)
        except orjson.JSONDecodeError:
            return False
        usage = told["usageMetadata"]
        if type(usage) is not dict or len(told) != 2:
            return False
        get = usage.get
        asked, said, cached, total, window = (
            get("promptTokenCount"),
            get("candidatesTokenCount"),
            get("cachedContentTokenCount", 0),
            get("totalTokenCount"),
            told.get("contextWindowSize"),
        )
        if not (type(asked) is type(said) is type(cached) is type(total) is type(window) is int):
            return False
        if said < 0 or cached < 0:
            return False
        self.count(asked, cached, said, total, window)
        return True

    def _result(self, line: bytes, start: int, call: bytes, tool: bytes, key: bytes) -> bool:
        end = line.find(b'"toolCallResult":{', start)
        told = _RESULT.match(line, end) if end > 0 else None
        if told is None or line.find(b'"functionResponse":{', start, end) >= 0:
            return False
        # Another beginning is that of a whole record behind a torn one.
        if not line.endswith(b'"}}' if told[2] == b'"' else b"}}}") or line.find(BEGINNING, end) >= 0:
            return False
        kind = kind_in(tool)
        if call in self.edits:
            self.ended(call, told[1] == b"success" and key != b"error")
        elif kind is ToolKind.PLAN:
            # The call has told the plan.
            self._calls.end(self._lift, call_id=call.decode(), at=None, ok=True)
        elif kind not in QUIET:
            return False
        self._lift.turn_open = True
        return True


def _is_told(tool: bytes, path: bytes | None) -> bool:
    """A list need not know more of a call."""
    kind = kind_in(tool)
    if kind is ToolKind.EDIT:
        return path is not None and path[-2:] != b'\\"'
    return kind in QUIET and tool != b"skill"


def _is_one_call(line: bytes, start: int, end: int) -> bool:
    """There is nothing in an answer but a call, whose input begins and which ends there."""
    if line[end - 3 : end] != b"}}}":
        return False
    return line.find(b'{"', start, end) < 0 or all(line.find(word, start, end) < 0 for word in _OTHERS)
