"""What a list needs of most rows of a Claude Code transcript, taken without parsing them.

Used by `relay.providers.claude_transcript` for a list; what is refused here is parsed there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container

from relay.core.lift import Lift
from relay.providers.skimming import PLAIN, STAMP, STRING, Span, string_in

BEGINNING = b'{"parentUuid":'
_MESSAGE = re.compile(
    rb'"id":"([^"\\]+)","type":"message","role":"assistant","model":"([^"\\<][^"\\]*)",'
    rb'"content":\[\{"type":"(?:(text)","text":"'
    + PLAIN
    + rb'|tool_use","id":"([^"\\]+)","name":"(\w+)"|thinking")'
)
_RESULT = re.compile(
    rb'"type":"user","message":\{"role":"user","content":\[\{'
    rb'(?:"tool_use_id":"([^"\\]+)","type":"tool_result"|"type":"tool_result","tool_use_id":"([^"\\]+)")'
)
_USAGE = re.compile(
    rb'"usage":\{"input_tokens":(\d+),"cache_creation_input_tokens":(\d+),'
    rb'"cache_read_input_tokens":(\d+),"output_tokens":(\d+)'
)
_ASSISTANT = b'"type":"assistant"'
_NAME = re.compile(rb'"uuid":"([^"\\]{1,100})","timestamp":"(' + STAMP + rb')"')
_PLACE = re.compile(rb'"cwd":"[^"\\]*","sessionId":"[^"\\]*","version":"[^"\\]*","gitBranch":"[^"\\]*"\}$')
_PATH = re.compile(rb'"(?:file_path|notebook_path)":(' + STRING + rb")")
_EDITS = (b"Edit", b"Write", b"MultiEdit", b"NotebookEdit")
_TELLING = re.compile(rb"TodoWrite|Task|Agent|Workflow|Skill|mcp__")
"""Beginnings of the names of other tools whose calls a list tells of."""
_ENDS = (b"end_turn", b"stop_sequence", b"refusal")
_HEAD = 600
_TAIL = 2_000
"""What stands before and behind a message's content."""
_PLACE_LENGTH = 1_000
NOWHERE = b"\0"
"""No row ends like that."""


class ClaudeSkim:
    """See the module.

    Args:
        lift: is told what matters.
        seen: hashes of the uuids of all rows so far.
        spend: is told what a message cost, by its id.
        creating: calls whose results have to be parsed.
    """

    def __init__(
        self,
        lift: Lift,
        seen: set[int],
        spend: Callable[[bytes, tuple[int, int, int]], None],
        creating: Container[str],
    ) -> None:
        self.edits: dict[bytes, bytes] = {}
        """By call id the files of edits that have not ended."""
        self.place = NOWHERE
        """The end of the last row: folder, version and branch."""
        self.span = Span()
        self._lift = lift
        self._seen = seen
        self._spend = spend
        self._creating = creating
        self._text = b""

    def take(self, line: bytes) -> bool:
        """Take a row; False when it has to be parsed."""
        if line[-len(self.place) :] != self.place or line.find(b'"isSidechain":true', 0, _HEAD) >= 0:
            return False
        message = _MESSAGE.search(line, 0, _HEAD)
        return self._result(line) if message is None else self._answer(line, message)

    def last_text(self) -> bytes:
        """The row with what the agent said last, once; b"" when it was parsed."""
        line, self._text = self._text, b""
        return line

    def _answer(self, line: bytes, message: re.Match[bytes]) -> bool:
        tail = max(message.end(), len(line) - _TAIL)
        spent, name = _USAGE.search(line, tail), _NAME.search(line, tail)
        if spent is None or name is None or not _is_row(line, message.start(), tail):
            return False
        number = hash(name[1].decode("utf-8", "replace"))
        if number in self._seen or not self._blocks(line, message):
            return False
        self._seen.add(number)
        self.span.note(name[2])
        lift = self._lift
        if message[3]:
            self._text = line
            lift.message_count += 1
        lift.model = message[2].decode("utf-8", "replace")
        fresh, made, cached, output = map(int, spent.groups())
        self._spend(message[1], (fresh + made, cached, output))
        lift.context_tokens = fresh + made + cached + output or lift.context_tokens
        stop = line.rfind(b'"stop_reason":"', tail)
        lift.turn_open = not line.startswith(_ENDS, stop + 15)
        return True

    def _blocks(self, line: bytes, message: re.Match[bytes]) -> bool:
        """Whether the message is of one block that a list can take; most are."""
        call, tool = message[4], message[5]
        # The beginning of a text or of a call: there is another block.
        if line.find(b'{"type":"t', message.end()) >= 0:
            return False
        if call is None:
            return True
        if _TELLING.match(tool):
            return False
        if tool in _EDITS:
            path = _PATH.search(line, message.end())
            if path is None:
                return False
            self.edits[call] = path[1]
        return True

    def _result(self, line: bytes) -> bool:
        found = _RESULT.search(line, 0, 2 * _HEAD)
        if found is None:
            return False
        call = found[1] or found[2]
        end = line.find(b']},"uuid":"', found.end())
        name = _NAME.match(line, end + 3) if end > 0 else None
        if name is None or call.decode("utf-8", "replace") in self._creating:
            return False
        number = hash(name[1].decode("utf-8", "replace"))
        if number in self._seen or line.find(b'"type":"tool_result"', found.end(), end) >= 0:
            return False
        path = self.edits.pop(call, None)
        if path is not None and line.find(b'"is_error":true', 0, end) < 0:
            self._lift.changed(string_in(path) or "")
        self._seen.add(number)
        self.span.note(name[2])
        self._lift.turn_open = True
        return True


def _is_row(line: bytes, head: int, tail: int) -> bool:
    """Its type stands before or behind the message, by release."""
    return line.find(_ASSISTANT, 0, head) >= 0 or line.find(_ASSISTANT, tail) >= 0


def place_in(line: bytes) -> bytes:
    """The end of a row; b"" when it has another form."""
    start = line.rfind(b'"cwd":"', -_PLACE_LENGTH)
    found = _PLACE.match(line, start) if start > 0 else None
    return found[0] if found else NOWHERE
