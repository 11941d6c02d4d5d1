"""What a list needs of most rows of a Claude Code transcript, taken without parsing them.

Used by `relay.providers.claude_transcript` for a list; what is refused here is parsed there.
"""

from __future__ import annotations

import re
from collections.abc import Container

from relay.core.lift import Lift
from relay.providers.claude_usage import Counts, MessageUsage, context_of
from relay.providers.skimming import PLAIN, STAMP, STRING, Span, string_in

BEGINNING = b'{"parentUuid":'
_HEAD = re.compile(
    rb'\{"parentUuid":(?:null|"[^"\\]*"),"isSidechain":false,(?:"promptId":"[^"\\]*",)?'
    rb'(?:"type":"user","message":\{"role":"user","content":\[\{'
    rb'(?:"tool_use_id":"([^"\\]+)","type":"tool_result"|"type":"tool_result","tool_use_id":"([^"\\]+)")'
    rb'|("type":"assistant",)?"message":\{"id":"([^"\\]+)","type":"message","role":"assistant",'
    rb'"model":"([^"\\<][^"\\]*)","content":\[\{"type":"(?:(text)","text":"'
    + PLAIN
    + rb'|tool_use","id":"([^"\\]+)","name":"(\w+)"|thinking"))'
)
"""A result's row, or one with a message of one kind; the row's type stands before or behind the message."""
_USAGE = b'"usage":{"input_tokens":'
_COUNT = rb"(0|[1-9]\d{0,14})"
_COUNTS = re.compile(
    _COUNT + rb',"cache_creation_input_tokens":' + _COUNT + rb',"cache_read_input_tokens":' + _COUNT
    + rb',"output_tokens":' + _COUNT + rb"[,}]"
)  # fmt: skip
_ASSISTANT = b'"type":"assistant"'
_NAME = re.compile(rb'"uuid":"([!#-\[\]-~]{1,100})","timestamp":"(' + STAMP + rb')"')
_PLACE = re.compile(rb'"cwd":"[^"\\]*","sessionId":"[^"\\]*","version":"[^"\\]*","gitBranch":"[^"\\]*"\}$')
_PATH = re.compile(rb'"(?:file_path|notebook_path)":(' + STRING + rb")")
_EDITS = (b"Edit", b"Write", b"MultiEdit", b"NotebookEdit")
_TELLING = re.compile(rb"TodoWrite|Task|Agent|Workflow|Skill|mcp__")
"""Beginnings of the names of other tools whose calls a list tells of."""
_STOP = b'"stop_reason":'
_ENDS = (b'"end_turn"', b'"stop_sequence"', b'"refusal"')
_UUID = b'"uuid":"'
_NOTHING = b"0,0,0,0"
_TAIL = 2_000
"""What stands behind a message's content."""
_PLACE_LENGTH = 1_000
NOWHERE = b"\0"
"""No row ends like that."""


class ClaudeSkim:
    """See the module.

    Args:
        lift: is told what matters.
        seen: hashes of the uuids of all rows so far.
        usage: is told what messages cost.
        creating: calls whose results have to be parsed.
    """

    def __init__(
        self,
        lift: Lift,
        seen: set[int],
        usage: MessageUsage,
        creating: Container[str],
    ) -> None:
        self.edits: dict[bytes, bytes] = {}
        """By call id the files of edits that have not ended."""
        self.place = NOWHERE
        """The end of the last row: folder, version and branch."""
        self.span = Span()
        self._lift = lift
        self._seen = seen
        self._usage = usage
        self._creating = creating
        self._text = b""
        self._context: Counts = b""

    def take(self, line: bytes) -> bool:
        """Take a row; False when it has to be parsed."""
        head = _HEAD.match(line)
        if head is None or not line.endswith(self.place):
            return False
        result, turned, typed, message, model, text, call, tool = head.groups()
        if message is None:
            return self._result(line, head.end(), result or turned)
        start = head.end()
        tail = max(start, len(line) - _TAIL)
        usage = line.rfind(_USAGE, tail)
        spent = _COUNTS.match(line, usage + len(_USAGE)) if usage > 0 else None
        stop = line.rfind(_STOP, tail, usage)
        # The beginning of a text or of a call: there is another block.
        if spent is None or stop < 0 or line.find(b'{"type":"t', start) >= 0:
            return False
        name = _NAME.match(line, line.find(_UUID, spent.end()))
        if name is None or (typed is None and line.find(_ASSISTANT, spent.end()) < 0):
            return False
        number = hash(name[1])
        if number in self._seen or (call is not None and not self._call(line, start, call, tool)):
            return False
        self._seen.add(number)
        self.span.note(name[2])
        lift = self._lift
        if text:
            self._text = line
            lift.message_count += 1
        lift.model = model.decode("utf-8", "replace")
        counts = b",".join(spent.groups())
        self._usage.note(message, counts)
        if counts != _NOTHING:
            self._context = counts
        lift.turn_open = not line.startswith(_ENDS, stop + len(_STOP))
        return True

    def settle_context(self) -> None:
        """Tell the lift how full the context was at the last row that was taken, before others tell of it."""
        if self._context:
            self._lift.context(context_of(self._context))
            self._context = b""

    def last_text(self) -> bytes:
        """The row with what the agent said last, once; b"" when it was parsed."""
        line, self._text = self._text, b""
        return line

    def _call(self, line: bytes, start: int, call: bytes, tool: bytes) -> bool:
        """Whether a list can take the call."""
        if tool in _EDITS:
            path = _PATH.search(line, start)
            if path is None:
                return False
            self.edits[call] = path[1]
            return True
        return _TELLING.match(tool) is None

    def _result(self, line: bytes, start: int, call: bytes) -> bool:
        end = line.find(b']},"uuid":"', start)
        name = _NAME.match(line, end + 3) if end > 0 else None
        if name is None or call.decode("utf-8", "replace") in self._creating:
            return False
        number = hash(name[1])
        if number in self._seen or line.find(b'"type":"tool_result"', start, end) >= 0:
            return False
        path = self.edits.pop(call, None)
        if path is not None and line.find(b'"is_error":true', 0, end) < 0:
            self._lift.changed(string_in(path) or "")
        self._seen.add(number)
        self.span.note(name[2])
        self._lift.turn_open = True
        return True


def place_in(line: bytes) -> bytes:
    """The end of a row; b"" when it has another form."""
    start = line.rfind(b'"cwd":"', -_PLACE_LENGTH)
    found = _PLACE.match(line, start) if start > 0 else None
    return found[0] if found else NOWHERE
