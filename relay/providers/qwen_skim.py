"""What a list needs of most records of a Qwen Code chat, taken without parsing them.

Used by `relay.providers.qwen_chat` for a list; what is refused here is parsed there.
"""

from __future__ import annotations

import re

from relay.core.events import ToolKind
from relay.core.lift import Lift
from relay.providers.skimming import PLAIN, QUIET, STAMP, STRING, Span, Spending, kind_in, string_in

BEGINNING = b'{"uuid":"'
HEAD = re.compile(
    rb'\{"uuid":"([^"\\]{1,100})","parentUuid":(?:null|"[^"\\]*"),"sessionId":"[^"\\]*","timestamp":"('
    + STAMP
    + rb')","type":"(\w+)","provenance":"\w*",("cwd":"[^"\\]*","version":"[^"\\]*","gitBranch":"[^"\\]*"),'
)
_ANSWER = re.compile(
    rb'("model":"[^"\\]*"),"message":\{"role":"model","parts":\[\{(?:"text":"('
    + PLAIN
    + rb')|"functionCall":\{"id":")'
)
_CALL = re.compile(rb'\{"functionCall":\{"id":"([^"\\]{1,200})","name":"(\w+)","args":\{')
_EDITED = re.compile(rb'"file_path":(' + STRING + rb")")
_SPENT = re.compile(rb'\]\},"usageMetadata":\{((?:"\w+":\d+,?)*)\},"contextWindowSize":(\d+)\}$')
_COUNT = re.compile(rb'"(\w+)":(\d+)')
_RESPONSE = re.compile(
    rb'"message":\{"role":"user","parts":\[\{"functionResponse":\{"id":"([^"\\]{1,200})","name":"(\w+)",'
    rb'"response":\{"(\w+)"'
)
_RESULT = re.compile(rb'"toolCallResult":\{"callId":"[^"\\]{1,200}","status":"(\w+)","resultDisplay":(["{])')
_IDLE = re.compile(
    rb'"subtype":"ui_telemetry","systemPayload":\{"uiEvent":\{'
    rb'"event\.name":"qwen-code\.(?:api_response|tool_call)"'
)
_TAIL = 600


class QwenSkim:
    """See the module.

    Args:
        lift: is told what matters.
        seen: hashes of the uuids of all records so far.
    """

    def __init__(self, lift: Lift, seen: set[int]) -> None:
        self.span = Span()
        self.spent = Spending()
        self.place = b""
        """Folder, version and branch as the last record tells them."""
        self.model = b""
        self.edits: dict[str, bytes] = {}
        """By call id the files of edits that have not ended."""
        self._lift = lift
        self._seen = seen
        self._text = b""

    def take(self, line: bytes, head: re.Match[bytes]) -> bool:
        """Take a record; False when it has to be parsed.

        Args:
            head: as `HEAD` matched it.
        """
        uuid, stamp, kind, place = head.groups()
        number = hash(uuid.decode("utf-8", "replace"))
        if place != self.place or number in self._seen:
            return False
        if kind == b"assistant":
            taken = self._answer(line, head.end())
        elif kind == b"tool_result":
            taken = self._result(line, head.end())
        else:
            taken = kind == b"system" and line[-3:] == b"}}}" and _IDLE.match(line, head.end()) is not None
        if taken:
            self._seen.add(number)
            self.span.note(stamp)
        return taken

    def last_text(self) -> bytes:
        """The record with what the agent said last, once; b"" when it was parsed."""
        line, self._text = self._text, b""
        return line

    def _answer(self, line: bytes, start: int) -> bool:
        found = _ANSWER.match(line, start)
        if found is None or found[1] != self.model or b'"thought":' in line:
            return False
        end = line.rfind(b']},"usageMetadata":{', max(0, len(line) - _TAIL))
        spent = _SPENT.match(line, end) if end > 0 else None
        if spent is None:
            return False
        calls = line.count(b'"functionCall":{', start)
        if found[2] is None and (calls != 1 or b'{"text":' in line):
            return False
        if calls and (calls > 1 or not self._called(line, start)):
            return False
        if found[2] is not None:
            self._text = line
            self._lift.message_count += 1
        self._lift.turn_open = calls > 0
        self._spend(dict(_COUNT.findall(spent[1])), int(spent[2]))
        return True

    def _called(self, line: bytes, start: int) -> bool:
        call = _CALL.search(line, start)
        if call is None or call[2] == b"skill":
            return False
        kind = kind_in(call[2])
        if kind is ToolKind.EDIT:
            path = _EDITED.match(line, call.end())
            if path is None:
                return False
            self.edits[call[1].decode("utf-8", "replace")] = path[1]
            return True
        return kind in QUIET

    def _spend(self, counts: dict[bytes, bytes], window: int) -> None:
        asked, total = int(counts.get(b"promptTokenCount", 0)), int(counts.get(b"totalTokenCount", 0))
        cached = int(counts.get(b"cachedContentTokenCount", 0))
        self.count(asked, cached, int(counts.get(b"candidatesTokenCount", 0)), total, window)

    def count(self, asked: int, cached: int, said: int, total: int, window: int) -> None:
        """An answer cost that much; none is negative."""
        # Some providers count thoughts among the candidates, some beside them.
        fresh, output = max(0, asked - cached), max(said, total - asked)
        if fresh or cached or output:
            self.spent.add(fresh, cached, output)
            self._lift.context(total, window)

    def _result(self, line: bytes, start: int) -> bool:
        answer = _RESPONSE.match(line, start)
        end = line.find(b'"toolCallResult":{', start)
        told = _RESULT.match(line, end) if answer is not None and end > 0 else None
        if answer is None or told is None or line.count(b'"functionResponse":{') > 1:
            return False
        if not line.endswith(b'"}}' if told[2] == b'"' else b"}}}"):
            return False
        kind, call_id = kind_in(answer[2]), answer[1].decode("utf-8", "replace")
        if kind is ToolKind.EDIT and call_id in self.edits:
            self.ended(call_id, told[1] == b"success" and answer[3] != b"error")
        elif kind not in QUIET:
            return False
        self._lift.turn_open = True
        return True

    def ended(self, call_id: str, ok: bool) -> bool:
        """An edit of that id ended; False when none is known."""
        path = self.edits.pop(call_id, None)
        if path is not None and ok:
            self._lift.changed(string_in(path) or "")
        return path is not None
