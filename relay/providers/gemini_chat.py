"""One session of Gemini CLI, lifted from its chat: a log of operations on a list of messages.

As Gemini CLI 0.61.0 writes it. A message that is written again replaces what it said before. `$set` with
`messages` replaces what the model sees: at the start, when a session is resumed, and when a turn failed
and was rolled back. What the user asked, what was changed and what was spent has happened all the same,
so a message that is left out there still counts, and a version that tells less takes nothing away. Read in
public sources, not seen: `$rewindTo`, by which the user takes messages back; their words then count no
more. Messages of type "error", and the summary that takes the place of messages (`<state_snapshot>`).
"""

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from attrs import define, field

from relay.core.events import AgentText, Channel, ErrorSignal, TokenUsage, ToolKind, UsageReported
from relay.core.failures import as_failed, classify
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kept, kind_of
from relay.providers.transcript import LineTranscript, record_in
from relay.providers.wordings import wording_of

_WORDING = wording_of("gemini")
_EXIT = re.compile(r"^Exit Code: (\d{1,10})\s*$", re.MULTILINE)
_BROKEN = re.compile(
    r"^(?:Error|Signal): (?!\(none\))|^Command (?:was cancelled|timed out|moved)", re.MULTILINE
)
_NOISE = re.compile(r"^(?:Process Group PGID|Background PIDs): .*$\n?|</?untrusted_context>\n?", re.MULTILINE)
_WORKSPACE = re.compile(r"\*\*Workspace Directories:\*\*\s*\n\s*- (\S[^\n]*)")
_SNAPSHOT = "<state_snapshot>"
_ANSWER = b'"content":[{"functionResponse"'
_STAMP = re.compile(rb'"timestamp":"([0-9TZ:.+-]{10,40})"')
_HEAD = 200
_NOTHING_NEW = b'{"$set":{"lastUpdated":'
_AGENT = ("gemini", "model", "assistant")
_RUNNING = ("", "executing", "scheduled", "validating", "awaiting_approval")
_WHOLE_FILE = 64 * 1024 * 1024
_PENDING = 200
"""Messages that may still be written again; what older ones say is final, and they are not held."""
_TEXT = 20_000
_PROMPT = 100_000
_OUTPUT = 4_096


@define
class _Call:
    tool: str
    given: Mapping[str, Any]
    status: str = ""
    output: str = ""
    at: datetime | None = None


@define(kw_only=True)
class _Message:
    kind: str
    at: datetime | None
    side: bool = False
    text: str = ""
    model: str = ""
    taken_back: bool = False
    usage: TokenUsage = field(factory=TokenUsage)
    context: int = 0
    calls: dict[str, _Call] = field(factory=dict)


class GeminiTranscript(LineTranscript):
    """See the module. The last messages are held; older ones are folded into `_base`."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._base = self.lift
        self._base.named(cwd=self.found.hint.get("cwd", ""))
        self._messages: OrderedDict[str, _Message] = OrderedDict()
        self._calls: dict[str, _Call] = {}
        self._final: set[int] = set()
        self._side = False

    def read(self) -> Lift:
        """See `Transcript`."""
        self.lift = self._base
        return super().read()

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        if line.startswith(_NOTHING_NEW) and len(line) < 80 and line.endswith(b"}}"):
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
        lift = copy.deepcopy(self._base)
        for message in self._messages.values():
            _fold(lift, message)
        self.lift = lift

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
        if any(not call.status for call in self._calls.values()):
            return False
        self.lift.at(shapes.iso({"at": found[1].decode()}, "at"))
        return True

    def _write(self, written: Mapping[str, Any]) -> None:
        name, kind = shapes.text(written, "id"), shapes.text(written, "type")
        if not name or not kind or hash(name) in self._final:
            return
        known = self._messages.get(name)
        if known is None:
            known = _Message(kind=kind, at=shapes.iso(written, "timestamp"), side=self._side)
            self._messages[name] = known
        if "content" in written:
            limit = _PROMPT if kind == "user" else _TEXT
            known.text = _text(written)[:limit]
        known.model = shapes.text(written, "model") or known.model
        known.taken_back = False
        spent = shapes.mapping(written, "tokens")
        if spent:
            cached = max(0, shapes.integer(spent, "cached"))
            known.usage = TokenUsage(
                input=max(0, shapes.integer(spent, "input") - cached),
                cached_input=cached,
                output=max(0, shapes.integer(spent, "output")) + max(0, shapes.integer(spent, "thoughts")),
            )
            known.context = shapes.integer(spent, "total")
        for call in shapes.items(written, "toolCalls"):
            self._called(known, call)
        for part in shapes.items(written, "content"):
            self._part(known, part)
        if len(self._messages) > _PENDING:
            self._settle()

    def _called(self, message: _Message, told: Mapping[str, Any]) -> None:
        call_id = shapes.text(told, "id")
        call = self._call(message, call_id, shapes.text(told, "name"), shapes.mapping(told, "args"))
        if call is None:
            return
        call.status = shapes.text(told, "status") or call.status
        call.at = shapes.iso(told, "timestamp") or call.at
        answers = (shapes.mapping(piece, "functionResponse") for piece in shapes.items(told, "result"))
        said = "\n".join(filter(None, map(_answer, answers)))
        call.output = shapes.clip(said or shapes.text(told, "resultDisplay"), _OUTPUT) or call.output

    def _part(self, message: _Message, part: object) -> None:
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
                call.status = "cancelled" if cancelled else "error" if error else "success"
                call.output = shapes.clip(_answer(answer), _OUTPUT)

    def _call(self, message: _Message, call_id: str, tool: str, given: Mapping[str, Any]) -> _Call | None:
        """The call of that id, new or known; None when what it did is final already."""
        if not call_id or hash(call_id) in self._final:
            return None
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = message.calls[call_id] = _Call(tool=tool, given=kept(given))
        elif given:
            call.given = kept(given)
        return call

    def _rewind(self, target: str) -> None:
        """The user takes back the message and what came behind it; what was done then stays done."""
        names = list(self._messages)
        if target in names:
            for name in names[names.index(target) :]:
                self._messages[name].taken_back = True

    def _settle(self) -> None:
        name, message = self._messages.popitem(last=False)
        _fold(self._base, message)
        self._final.add(hash(name))
        for call_id in message.calls:
            self._calls.pop(call_id, None)
            self._final.add(hash(call_id))


def _fold(lift: Lift, message: _Message) -> None:
    """What a message says and did."""
    at, side = message.at, message.side
    lift.at(at)
    words = "" if message.taken_back or side else message.text
    match message.kind:
        case "user":
            _prompt(lift, words, at)
        case "error" if words:
            error = ErrorSignal(channel=Channel.TRANSCRIPT, text=words)
            now = at or datetime.fromtimestamp(0, UTC)
            lift.failed(error, as_failed(classify(error, _WORDING, now=now, zone=UTC, printed_at=at)), at)
        case kind if kind in _AGENT:
            lift.named(model=message.model)
            if words.strip():
                lift.take(AgentText(text=words), at)
            if message.usage.total:
                lift.take(UsageReported(usage=message.usage), at, side=side)
                lift.context(0 if side else message.context)
            if not side and not message.taken_back:
                lift.turn_open = bool(message.calls) or not words.strip()
        case _:
            pass
    for call_id, call in message.calls.items():
        _act(lift, call_id, call, call.at or at, side)


def _prompt(lift: Lift, words: str, at: datetime | None) -> None:
    if words.lstrip().startswith(_SNAPSHOT):
        lift.compacted(words, at)
        return
    if not lift.cwd and (found := _WORKSPACE.search(words)):
        lift.named(cwd=found[1].strip())
    lift.said(typed(words), at)


def _act(lift: Lift, call_id: str, call: _Call, at: datetime | None, side: bool) -> None:
    ended = call.status not in _RUNNING
    output = _NOISE.sub("", call.output).strip()
    found = _EXIT.search(output)
    code = int(found[1]) if found else None
    if kind_of(call.tool) is ToolKind.SHELL:
        # The exit code is written only where it is not 0.
        if code is None and call.status == "success" and not _BROKEN.search(output):
            code = 0
        output = _EXIT.sub("", output).removeprefix("Output:").strip()
    act(
        lift,
        tool=call.tool,
        call_id=call_id,
        given=call.given,
        at=at,
        ok=call.status == "success" if ended else None,
        output=output,
        exit_code=code,
        denied=call.status == "cancelled",
        side=side,
    )


def _text(message: Mapping[str, Any]) -> str:
    pieces = [shapes.text(piece, "text") for piece in shapes.items(message, "content")]
    return shapes.text(message, "content") or "\n".join(piece for piece in pieces if piece)


def _answer(answer: Mapping[str, Any]) -> str:
    response = shapes.mapping(answer, "response")
    return shapes.text(response, "output") or shapes.text(response, "error")
