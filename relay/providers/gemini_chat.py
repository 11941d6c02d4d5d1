"""One session of Gemini CLI, lifted from its chat: a log of operations on a list of messages.

As Gemini CLI 0.61.0 writes it. A message that is written again replaces what it said before. `$set` with
`messages` replaces what the model sees: at the start, when a session is resumed, and when a turn failed
and was rolled back. What the user asked, what was changed and what was spent has happened all the same,
so a message that is left out there still counts, and a version that tells less takes nothing away. For a
list most messages are not parsed (`relay.providers.gemini_skim`). Read in public sources, not seen:
`$rewindTo`, by which the user takes messages back; their words then count no more. Messages of type
"error", and the summary that takes the place of messages (`<state_snapshot>`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.acts import kept
from relay.providers.gemini_messages import Call, Message, Told, text_of
from relay.providers.gemini_skim import GeminiSkim, tells_nothing
from relay.providers.transcript import LineTranscript, record_in

_ANSWER = b'"content":[{"functionResponse"'
_STAMP = re.compile(rb'"timestamp":"([0-9TZ:.+-]{10,40})"')
_HEAD = 200
_WHOLE_FILE = 64 * 1024 * 1024
_PENDING = 200
"""Messages that may still be written again; what older ones say is final, and they are not held."""
_TEXT = 20_000
_PROMPT = 100_000
_OUTPUT = 4_096


class GeminiTranscript(LineTranscript):
    """See the module. The last messages are held; older ones are folded into `_base`."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._base = self.lift
        self._base.named(cwd=self.found.hint.get("cwd", ""))
        self._messages: OrderedDict[str, Message] = OrderedDict()
        self._calls: dict[str, Call] = {}
        self._final: set[int] = set()
        self._side = False
        self._told = Told(self.lift)
        self._open: set[str] = set()
        self._skimmed = GeminiSkim(
            messages=self._messages,
            final=self._final,
            unanswered=self._open,
            edited=self._edited,
            added=self._bound,
        )

    def take_block(self, data: bytes) -> None:
        """See `LineTranscript`."""
        if self.lift.thorough or self._side or b"\0" in data:
            super().take_block(data)
            return
        self._skimmed.take_block(data, self.take_line)

    def read(self) -> Lift:
        """See `Transcript`."""
        self.lift = self._base
        return super().read()

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        if tells_nothing(line):
            return
        if not self.lift.thorough and self._is_told_already(line):
            return
        record = self.parsed(line)
        if record is None:
            return
        change = shapes.mapping(record, "$set")
        if "id" in record and "type" in record:
            self._write(record)
        elif change or "sessionId" in record:
            for part in (record, change):
                self._named(part)
                for message in shapes.items(part, "messages"):
                    self._write(message)
        elif "$rewindTo" in record:
            self._rewind(shapes.text(record, "$rewindTo"))
        elif "$set" not in record:
            self.lift.skip("unknown")

    def finish(self) -> None:
        """See `LineTranscript`."""
        self._skimmed.span.tell(self._base)
        self.lift = self._told.so_far(list(self._messages.values()))

    def _read(self, path: str) -> None:
        self._side = PurePath(path).parent.name != "chats"
        if not path.endswith(".json"):
            super()._read(path)
            return
        data = self.files.read(path, _WHOLE_FILE)
        if data is None:
            self.lift.skip("oversize")
            return
        record = shapes.record(data) or record_in(self.lift, data)
        self._offsets[path] = len(data)
        self._named(record or {})
        for message in shapes.items(record, "messages"):
            self._write(message)

    def _named(self, told: Mapping[str, Any]) -> None:
        folders = shapes.items(told, "directories")
        if folders and isinstance(folders[0], str) and not self._side:
            self.lift.named(cwd=folders[0] if not self.lift.cwd else "")
        self.lift.named(title=shapes.text(told, "summary") if not self._side else "")

    def _is_told_already(self, line: bytes) -> bool:
        """An answer of a tool to the model: the call that it answers has told it by then."""
        if line.find(_ANSWER, 0, _HEAD) < 0 or line[-2:] != b"]}" or b"\0" in line:
            return False
        found = _STAMP.search(line, 0, _HEAD)
        # A second time is that of a whole record behind a torn one.
        if found is None or line.find(b'"timestamp":"', found.end()) >= 0:
            return False
        if self._open:
            return False
        self.lift.at(shapes.iso({"at": found[1].decode()}, "at"))
        return True

    def _write(self, written: Mapping[str, Any]) -> None:
        name, kind = shapes.text(written, "id"), shapes.text(written, "type")
        if not name or not kind or hash(name) in self._final:
            return
        known = self._messages.get(name)
        if known is None:
            known = Message(kind=kind, at=shapes.iso(written, "timestamp"), side=self._side)
            self._messages[name] = known
        if "content" in written:
            limit = _PROMPT if kind == "user" else _TEXT
            known.text, known.line = text_of(written)[:limit], b""
        known.model = shapes.text(written, "model") or known.model
        known.taken_back = False
        spent = shapes.mapping(written, "tokens")
        if spent:
            cached = max(0, shapes.integer(spent, "cached"))
            known.spent = (
                max(0, shapes.integer(spent, "input") - cached),
                cached,
                max(0, shapes.integer(spent, "output")) + max(0, shapes.integer(spent, "thoughts")),
            )
            known.context = shapes.integer(spent, "total")
        for call in shapes.items(written, "toolCalls"):
            self._called(known, call)
        for part in shapes.items(written, "content"):
            self._part(known, part)
        self._bound()

    def _called(self, message: Message, told: Mapping[str, Any]) -> None:
        call_id = shapes.text(told, "id")
        call = self._call(message, call_id, shapes.text(told, "name"), shapes.mapping(told, "args"))
        if call is None:
            return
        self._end(call_id, call, shapes.text(told, "status") or call.status)
        call.at = shapes.iso(told, "timestamp") or call.at
        if not self.lift.thorough:
            return
        answers = (shapes.mapping(piece, "functionResponse") for piece in shapes.items(told, "result"))
        said = "\n".join(filter(None, map(_answer, answers)))
        call.output = shapes.clip(said or shapes.text(told, "resultDisplay"), _OUTPUT) or call.output

    def _part(self, message: Message, part: object) -> None:
        asked, answer = shapes.mapping(part, "functionCall"), shapes.mapping(part, "functionResponse")
        if asked:
            self._call(
                message, shapes.text(asked, "id"), shapes.text(asked, "name"), shapes.mapping(asked, "args")
            )
        if answer:
            call = self._call(message, shapes.text(answer, "id"), shapes.text(answer, "name"), {})
            if call is not None and not call.status:
                error = shapes.text(shapes.mapping(answer, "response"), "error")
                cancelled = "canceled by the user" in error or "cancelled by the user" in error
                status = "cancelled" if cancelled else "error" if error else "success"
                self._end(shapes.text(answer, "id"), call, status)
                call.output = shapes.clip(_answer(answer), _OUTPUT)

    def _call(self, message: Message, call_id: str, tool: str, given: Mapping[str, Any]) -> Call | None:
        """The call of that id, new or known; None when what it did is final already."""
        if not call_id or hash(call_id) in self._final:
            return None
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = Call(tool=tool, given=kept(given) if given else {})
            if message.calls is None:
                message.calls = {}
            message.calls[call_id] = call
            message.called = True
            self._open.add(call_id)
        elif given:
            call.given, call.path = kept(given), ""
        return call

    def _end(self, call_id: str, call: Call, status: str) -> None:
        call.status = status
        if status:
            self._open.discard(call_id)

    def _edited(self, message: Message, call_id: str, tool: str, path: str, status: str) -> None:
        """A call that edits a file was taken without parsing it."""
        call = self._call(message, call_id, tool, {})
        if call is not None:
            call.given, call.path = {}, path
            self._end(call_id, call, status)

    def _rewind(self, target: str) -> None:
        """The user takes back the message and what came behind it; what was done then stays done."""
        names = list(self._messages)
        if target in names:
            for name in names[names.index(target) :]:
                self._messages[name].taken_back = True

    def _bound(self) -> None:
        if len(self._messages) > _PENDING:
            self._settle()

    def _settle(self) -> None:
        name, message = self._messages.popitem(last=False)
        self._told.fold(message)
        self._final.add(hash(name))
        for call_id in message.calls or ():
            self._calls.pop(call_id, None)
            self._open.discard(call_id)
            self._final.add(hash(call_id))


def _answer(answer: Mapping[str, Any]) -> str:
    response = shapes.mapping(answer, "response")
    return shapes.text(response, "output") or shapes.text(response, "error")
