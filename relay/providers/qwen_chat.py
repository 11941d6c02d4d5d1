"""One session of Qwen Code, lifted from its chat: a record a line, in the parts of Gemini's API.

As Qwen Code 0.24.4 writes it. What the API refused stands in telemetry (`qwen-code.api_error`), the files
that the agent touched in `attribution_snapshot`. The records of a compression and of a title are as read in
public sources, not seen. For a list most records are not parsed (`relay.providers.qwen_skim`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from relay.core.events import AgentText, Channel, ErrorSignal
from relay.core.failures import as_failed, classify
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import OpenCalls, plan_in
from relay.providers.qwen_skim import BEGINNING, HEAD, QwenSkim
from relay.providers.skimming import is_single
from relay.providers.transcript import LineTranscript
from relay.providers.wordings import wording_of

_WORDING = wording_of("qwen")
_EXIT = re.compile(r"^Exit Code: (\d{1,10})\s*$", re.MULTILINE)
_UUID = re.compile(rb'\{"uuid":"([!#-\[\]-~]{1,100})"')
_STAMP = re.compile(rb'"timestamp":"([0-9TZ:.+-]{10,40})"')
_BRANCH = re.compile(rb'"gitBranch":"([^"\\]{1,300})"')
_RESPONSE = re.compile(
    rb'"functionResponse":\{"id":"([^"\\]{1,200})","name":"[^"\\]{1,200}","response":\{"(\w+)"'
)
_RESULT = re.compile(rb'"toolCallResult":\{"callId":"[^"\\]{1,200}","status":"(\w+)"')
_HEAD = 1_000
_SNAPSHOT = b'"subtype":"attribution_snapshot"'
_IDLE = (b'"event.name":"qwen-code.api_response"', b'"event.name":"qwen-code.tool_call"')
_FORGOTTEN = (b'"subtype":"file_history_snapshot"', b'"subtype":"branch_checkpoint"')
_PEOPLE = ("", "real_user")
_MOST_TODOS = 1 << 20


class QwenTranscript(LineTranscript):
    """One chat file, read in lines."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._seen: set[int] = set()
        self._calls = OpenCalls()
        self._states = self._changed_states = b""
        self._skimmed = QwenSkim(self.lift, self._seen, self._calls)

    def take_block(self, data: bytes) -> None:
        """See `LineTranscript`."""
        if self.lift.thorough:
            super().take_block(data)
            return
        self._skimmed.take_block(data, self.take_line)

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        whole = line[:1] == b"{" and line[-1:] == b"}" and is_single(line, BEGINNING)
        if whole and self._is_skimmed(line):
            return
        record = self.parsed(line)
        if record is None or self._is_repeated(shapes.text(record, "uuid")):
            return
        head = HEAD.match(line) if whole else None
        self._skimmed.place = head[4] if head else b""
        if model := shapes.text(record, "model"):
            self._skimmed.model = b'"model":' + orjson.dumps(model)
        at = shapes.iso(record, "timestamp")
        self.lift.named(
            cwd=shapes.text(record, "cwd"),
            branch=shapes.text(record, "gitBranch"),
            version=shapes.text(record, "version"),
            model=shapes.text(record, "model"),
        )
        match shapes.text(record, "type"):
            case "user" if shapes.text(record, "provenance") in _PEOPLE:
                self.lift.said(typed(_text(record)), at)
            case "assistant":
                self._assistant(record, at)
            case "tool_result":
                self._result(record, at)
            case "system":
                self._system(record, at)
            case "user":
                self.lift.at(at)
            case _:
                self.lift.skip("unknown")

    def finish(self) -> None:
        """See `LineTranscript`."""
        self._settle_text()
        self._skimmed.span.tell(self.lift)
        self.lift.totals(self._skimmed.spent.usage)
        stored = self.files.read(f"{self.found.home}/todos/{self.found.native_id}.json", _MOST_TODOS)
        if stored:
            plan = plan_in(shapes.items(shapes.record(stored) or {}, "todos"))
            if plan.items:
                self.lift.take(plan)

    def _is_skimmed(self, line: bytes) -> bool:
        """Take a line without parsing it where it says little; False when it has to be parsed."""
        start = line.find(_SNAPSHOT, 0, _HEAD)
        if start >= 0:
            # Most say again what the last one said.
            states = line[line.find(b'"fileStates":', start) : line.rfind(b'"promptCount":')]
            if states != self._states:
                self._changed_states = states
                return False
            return self._skim(line)
        if any(line.find(mark, 0, _HEAD) >= 0 for mark in (*_IDLE, *_FORGOTTEN)):
            return self._skim(line)
        if self.lift.thorough or line.find(b'"type":"tool_result"', 0, _HEAD) < 0:
            return False
        response, result = _RESPONSE.search(line, 0, _HEAD), _RESULT.search(line)
        if response is None or result is None or line.count(b'"functionResponse":{') > 1:
            return False
        if not self._skim(line):
            return False
        found = _STAMP.search(line, 0, _HEAD)
        ok = result[1] == b"success" and response[2] != b"error"
        if not self._skimmed.ended(response[1], ok):
            at = shapes.iso({"at": found[1].decode()}, "at") if found else None
            self._calls.end(self.lift, call_id=response[1].decode("utf-8", "replace"), at=at, ok=ok)
        self.lift.turn_open = True
        return True

    def _skim(self, line: bytes) -> bool:
        name, found, branch = _UUID.match(line), _STAMP.search(line, 0, _HEAD), _BRANCH.search(line, 0, _HEAD)
        if name is None or found is None:
            return False
        number = hash(name[1])
        if number in self._seen:
            return False
        self._seen.add(number)
        self.lift.at(shapes.iso({"at": found[1].decode()}, "at"))
        self.lift.named(branch=branch[1].decode("utf-8", "replace") if branch else "")
        return True

    def _is_repeated(self, uuid: str) -> bool:
        if not uuid:
            return False
        number = hash(uuid.encode("utf-8", "replace"))
        if number in self._seen:
            self.lift.skip("duplicate")
            return True
        self._seen.add(number)
        return False

    def _settle_text(self) -> None:
        """Parse what the agent said last, if that was only skimmed."""
        if line := self._skimmed.last_text():
            self.lift.last_message = _text(self.parsed(line) or {}) or self.lift.last_message

    def _assistant(self, record: Mapping[str, Any], at: datetime | None) -> None:
        lift = self.lift
        spent = shapes.mapping(record, "usageMetadata")
        self._skimmed.count(
            shapes.integer(spent, "promptTokenCount"),
            max(0, shapes.integer(spent, "cachedContentTokenCount")),
            max(0, shapes.integer(spent, "candidatesTokenCount")),
            shapes.integer(spent, "totalTokenCount"),
            shapes.integer(record, "contextWindowSize"),
        )
        self._settle_text()
        said = _text(record)
        lift.at(at)
        if said.strip():
            lift.take(AgentText(text=said), at)
        called = False
        for part in shapes.items(shapes.mapping(record, "message"), "parts"):
            call = shapes.mapping(part, "functionCall")
            name, call_id = shapes.text(call, "name"), shapes.text(call, "id")
            if name:
                called = True
                given = shapes.mapping(call, "args")
                if name == "skill":
                    lift.skill(shapes.text(given, "skill") or shapes.text(given, "name"))
                self._calls.begin(lift, tool=name, call_id=call_id, given=given, at=at)
        lift.turn_open = called

    def _result(self, record: Mapping[str, Any], at: datetime | None) -> None:
        told = shapes.mapping(record, "toolCallResult")
        display = shapes.mapping(told, "resultDisplay")
        status = shapes.text(told, "status")
        for part in shapes.items(shapes.mapping(record, "message"), "parts"):
            answer = shapes.mapping(part, "functionResponse")
            if not answer:
                continue
            response = shapes.mapping(answer, "response")
            error = shapes.text(response, "error")
            output = error or shapes.text(response, "output")
            ok = not error and status in ("", "success")
            if self._skimmed.ended(shapes.text(answer, "id").encode("utf-8", "replace"), ok):
                continue
            found, code = _EXIT.search(output), shapes.number(display, "exitCode")
            self._calls.end(
                self.lift,
                call_id=shapes.text(answer, "id"),
                tool=shapes.text(answer, "name"),
                at=at,
                ok=ok,
                output=shapes.text(display, "output") or output,
                exit_code=int(code) if code is not None else int(found[1]) if found else None,
                denied=status == "cancelled",
            )
        self.lift.turn_open = True

    def _system(self, record: Mapping[str, Any], at: datetime | None) -> None:
        payload = shapes.mapping(record, "systemPayload")
        event = shapes.mapping(payload, "uiEvent")
        self.lift.at(at)
        match shapes.text(record, "subtype"):
            case "chat_compression":
                self._settle_text()
                history = shapes.items(payload, "compressedHistory")
                self.lift.compacted(_text({"message": history[0]}) if history else "", at)
            case "attribution_snapshot":
                self._states = self._changed_states
                for path in shapes.mapping(shapes.mapping(payload, "snapshot"), "fileStates"):
                    self.lift.changed(path)
            case "custom_title":
                self.lift.named(title=shapes.text(payload, "customTitle"))
            case "ui_telemetry" if shapes.text(event, "event.name") == "qwen-code.api_error":
                self._refused(event, at)
            case _:
                pass

    def _refused(self, event: Mapping[str, Any], at: datetime | None) -> None:
        status = shapes.number(event, "status_code")
        error = ErrorSignal(
            channel=Channel.TRANSCRIPT,
            text=shapes.text(event, "error_message") or shapes.text(event, "error"),
            code=shapes.text(event, "error_type") or None,
            http_status=int(status) if status else None,
        )
        self.lift.named(model=shapes.text(event, "model"))
        self._skimmed.model = b""
        now = at or datetime.fromtimestamp(0, UTC)
        verdict = as_failed(classify(error, _WORDING, now=now, zone=UTC, printed_at=at))
        self.lift.failed(error, verdict, at)


def _text(record: Mapping[str, Any]) -> str:
    """What is said, without thoughts."""
    parts = shapes.items(shapes.mapping(record, "message"), "parts")
    said = (shapes.text(part, "text") for part in parts if not _is_thought(part))
    return "\n".join(piece for piece in said if piece)


def _is_thought(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("thought") is True
