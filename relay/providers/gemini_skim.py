"""What agents say and which tools they call in a Gemini CLI chat, taken for a list without parsing it.

Used by `relay.providers.gemini_chat` for a list; a line that is refused here is parsed there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, MutableMapping, Sized

from relay.core.events import ToolKind
from relay.providers.gemini_messages import Message
from relay.providers.skimming import PLAIN, QUIET, STAMP, Span, kind_in, string_in

_LINE = re.compile(
    rb'\{"id":"([!#-\[\]-~]{1,100})","timestamp":"(' + STAMP + rb')","type":"'
    rb'(?:user","content":\[\{"functionResponse":\{"id":"|gemini","content":"(' + PLAIN + rb'|"))'
)  # fmt: skip
"""An answer of a tool to the model up to its call's id, or a message up to its text."""
_COUNT = rb"(\d{1,15})"
# A text that is not looked at is matched up to the next quote: what comes then tells that it ended there.
_REST = re.compile(
    rb',"tokens":\{"input":' + _COUNT + rb',"output":' + _COUNT + rb',"cached":' + _COUNT
    + rb',"thoughts":' + _COUNT + rb',"tool":\d+,"total":' + _COUNT + rb'\},"model":"([^"]*)"'
    rb'(?:\}$|,"toolCalls":\[\{"id":"([!#-\[\]-~]{1,200})","name":"(\w+)","args":\{'
    rb'(?:"file_path":("[^"]+"))?)'
)  # fmt: skip
"""What stands behind the text of a message, up to what its first call is given."""
_TOKENS = b',"tokens":{"input":'
_CALLS = b',"toolCalls":['
_TAIL = 400
_ENDED = re.compile(rb'\}\],"status":"(\w+)","timestamp":"(' + STAMP + rb')"[,}]')
_NOTHING_NEW = b'{"$set":{"lastUpdated":'
_SHORT = 80


def tells_nothing(line: bytes) -> bool:
    """The line tells that the chat was written to, and no more."""
    return len(line) < _SHORT and line.startswith(_NOTHING_NEW) and line.endswith(b"}}")


class GeminiSkim:
    """See the module.

    Args:
        messages: by id; what is taken is put there.
        final: hashes of the ids of messages that count no more.
        unanswered: calls whose end is not told of yet.
        edited: is told of a call that edits a file: message, call id, tool, path and status.
        added: is called when there is one message more.
    """

    def __init__(
        self,
        *,
        messages: MutableMapping[str, Message],
        final: Container[int],
        unanswered: Sized,
        edited: Callable[[Message, str, str, str, str], None],
        added: Callable[[], None],
    ) -> None:
        self.span = Span()
        self._messages = messages
        self._final = final
        self._unanswered = unanswered
        self._edited = edited
        self._added = added
        self._model = (b"", "")

    def take_block(self, data: bytes, parse: Callable[[bytes], None]) -> None:
        """Take lines without NULs; hand to `parse` what has to be parsed."""
        match, take = _LINE.match, self._take
        for line in data.split(b"\n"):
            # Every second line is such a one.
            if len(line) < _SHORT and line.startswith(_NOTHING_NEW) and line.endswith(b"}}"):
                continue
            found = match(line)
            if found is None or not take(line, found):
                parse(line)

    def _take(self, line: bytes, found: re.Match[bytes]) -> bool:
        uuid, stamp, text = found.groups()
        start = found.end()
        if text is None:
            # The call that is answered has told it by then. A second time is that of a whole record behind
            # a torn one.
            if self._unanswered or line[-2:] != b"]}" or line.find(b'"timestamp":"', start) >= 0:
                return False
            self.span.note(stamp)
            return True
        name = uuid.decode()
        messages = self._messages
        message = messages.get(name)
        if message is not None and message.kind != "gemini":
            return False
        calls = line.find(_CALLS, start)
        end = len(line) if calls < 0 else calls
        tokens = line.rfind(_TOKENS, max(start, end - _TAIL), end)
        rest = _REST.match(line, tokens) if tokens > 0 else None
        if rest is None or not _is_one(line, start, tokens):
            return False
        asked, said, cached, thought, total, model, call_id, tool, path = rest.groups()
        ended = edits = None
        if tool is not None:
            kind = kind_in(tool)
            if kind is ToolKind.EDIT:
                edits = string_in(path) if path else None
                if edits is None:
                    return False
            elif kind not in QUIET:
                return False
            ended = _end_of_call(line, rest.end())
            if ended is None:
                return False
        elif calls >= 0:
            return False
        if hash(name) in self._final:
            return True
        if is_new := message is None:
            message = messages[name] = Message(kind="gemini")
            self.span.note(stamp)
        message.line, message.text = b"" if text == b'"' else line, ""
        if model:
            if model != self._model[0]:
                self._model = model, string_in(b'"%b"' % model) or ""
            message.model = self._model[1] or message.model
        message.taken_back = False
        spent, kept = int(asked), int(cached)
        message.spent = (spent - kept if spent > kept else 0, kept, int(said) + int(thought))
        message.context = int(total)
        if ended is not None:
            message.called = True
            self.span.note(ended[2])
            if edits:
                self._edited(message, call_id.decode(), tool.decode(), edits, ended[1].decode())
        if is_new:
            self._added()
        return True


def _is_one(line: bytes, start: int, end: int) -> bool:
    """No whole record stands behind a torn one there, between the text of a message and its tokens."""
    if line.find(b'{"', start, end) < 0:
        return True
    # What the agent thought.
    return line.find(b'","type":"', start, end) < 0 and line.find(b'{"$', start, end) < 0


def _end_of_call(line: bytes, start: int) -> re.Match[bytes] | None:
    """How a call ended whose input begins there; None when it is not the only one, or has another form."""
    if (
        line[-3:] != b"}]}"
        or line.count(b'"functionResponse":{', start) != 1
        or line.find(b'"args":{', start) >= 0
    ):
        return None
    end = line.find(b'}],"status":"', start)
    ended = _ENDED.match(line, end) if end > 0 else None
    # Another type is that of a whole record behind a torn one.
    return ended if ended is not None and line.find(b'","type":"', ended.end()) < 0 else None
