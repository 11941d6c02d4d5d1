"""Where Qwen Code keeps its sessions: `projects/<folder>/chats/<session id>.jsonl` in ~/.qwen.

As Qwen Code 0.24.4 writes them; beside them `todos/<session id>.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from relay.core.events import AgentText, Channel, ErrorSignal, TokenUsage, UsageReported
from relay.core.failures import as_failed, classify
from relay.core.intel import Depth
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, plan_in
from relay.providers.homes import account_homes
from relay.providers.store_protocol import Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import LineTranscript, stamp_of
from relay.providers.wordings import wording_of

_WORDING = wording_of("qwen")
_EXIT = re.compile(r"Exit Code: (\d+)")
_STAMP = re.compile(rb'"timestamp":"([0-9TZ:.+-]{10,40})"')
_LEFT_OUT = (b'"subtype":"attribution_snapshot"', b'"qwen-code.api_response"', b'"qwen-code.tool_call"')


class QwenStore:
    """See the module."""

    name = "qwen"
    provider = ""
    display_name = "Qwen Code"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """~/.qwen, and the accounts' own."""
        return account_homes(machine, "qwen", "QWEN_HOME", (".qwen",))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each chat file."""
        for entry in files.glob(home, "projects/*/chats/*.jsonl"):
            native_id = PurePath(entry.path).stem
            todos = files.entry(f"{home}/todos/{native_id}.json")
            if entry.size and entry.mtime >= since:
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=native_id,
                    paths=(entry.path,),
                    touched=entry.mtime,
                    stamp=stamp_of((entry, todos) if todos else (entry,)),
                    size=entry.size,
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> QwenTranscript:
        """See `SessionStore`."""
        return QwenTranscript(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """Node running `qwen`; it starts itself once more with more memory."""
        words = process.argv
        return any(
            PurePath(word).name == "qwen" or word.endswith("/qwen-code/cli.js") for word in words[:3] if word
        )

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the session's own folder."""
        return ("qwen", "--resume", native_id)


class QwenTranscript(LineTranscript):
    """One chat file, read in lines."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._seen: set[int] = set()
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        whole = line[:1] == b"{" and line[-1:] == b"}" and b"\0" not in line
        if whole and not self.lift.thorough and any(mark in line for mark in _LEFT_OUT):
            found = _STAMP.search(line)
            self.lift.at(shapes.iso({"at": found[1].decode()}, "at") if found else None)
            return
        record = self.parsed(line)
        if record is None:
            return
        number = hash(shapes.text(record, "uuid"))
        if shapes.text(record, "uuid") and number in self._seen:
            self.lift.skip("duplicate")
            return
        self._seen.add(number)
        at = shapes.iso(record, "timestamp")
        self.lift.named(
            cwd=shapes.text(record, "cwd"),
            branch=shapes.text(record, "gitBranch"),
            version=shapes.text(record, "version"),
            model=shapes.text(record, "model"),
        )
        match shapes.text(record, "type"):
            case "user":
                self.lift.said(typed(_text(record)), at)
            case "assistant":
                self._assistant(record, at)
            case "tool_result":
                self._result(record, at)
            case "system":
                self._system(record, at)
            case _:
                pass

    def finish(self) -> None:
        """See `LineTranscript`."""
        stored = self.files.read(f"{self.found.home}/todos/{self.found.native_id}.json", 1 << 20)
        if stored:
            plan = plan_in(shapes.items(shapes.record(stored) or {}, "todos"))
            if plan.items:
                self.lift.take(plan)

    def _assistant(self, record: Mapping[str, Any], at: datetime | None) -> None:
        lift = self.lift
        spent = shapes.mapping(record, "usageMetadata")
        cached = shapes.integer(spent, "cachedContentTokenCount")
        usage = TokenUsage(
            input=max(0, shapes.integer(spent, "promptTokenCount") - cached),
            cached_input=cached,
            output=shapes.integer(spent, "candidatesTokenCount"),
        )
        if usage.total:
            lift.take(UsageReported(usage=usage), at)
            total = shapes.integer(spent, "totalTokenCount")
            lift.context(total, shapes.integer(record, "contextWindowSize"))
        said = _text(record)
        if said.strip():
            lift.take(AgentText(text=said), at)
        called = False
        for part in shapes.items(shapes.mapping(record, "message"), "parts"):
            call = shapes.mapping(part, "functionCall")
            name, call_id = shapes.text(call, "name"), shapes.text(call, "id")
            if name:
                called = True
                self._calls[call_id] = (name, shapes.mapping(call, "args"))
                act(lift, tool=name, call_id=call_id, given=shapes.mapping(call, "args"), at=at)
        lift.turn_open = called

    def _result(self, record: Mapping[str, Any], at: datetime | None) -> None:
        told = shapes.mapping(record, "toolCallResult")
        display = shapes.mapping(told, "resultDisplay")
        for part in shapes.items(shapes.mapping(record, "message"), "parts"):
            answer = shapes.mapping(part, "functionResponse")
            call_id = shapes.text(answer, "id")
            response = shapes.mapping(answer, "response")
            error = shapes.text(response, "error")
            output = error or shapes.text(response, "output")
            name, given = self._calls.pop(call_id, (shapes.text(answer, "name"), {}))
            found = _EXIT.search(output)
            code = shapes.number(display, "exitCode")
            status = shapes.text(told, "status")
            act(
                self.lift,
                tool=name,
                call_id=call_id,
                given=given,
                at=at,
                ok=not error and status in ("", "success"),
                output=shapes.text(display, "output") or output,
                exit_code=int(code) if code is not None else int(found[1]) if found else None,
                denied=status == "cancelled",
            )
        self.lift.turn_open = True

    def _system(self, record: Mapping[str, Any], at: datetime | None) -> None:
        """`chat_compression` and what the API refused."""
        payload = shapes.mapping(record, "systemPayload")
        event = shapes.mapping(payload, "uiEvent")
        if "compress" in shapes.text(record, "subtype"):
            self.lift.compacted(shapes.text(payload, "summary"), at)
        elif shapes.text(event, "event.name") == "qwen-code.api_error":
            status = shapes.number(event, "status_code")
            words = shapes.text(event, "error_message") or shapes.text(event, "error")
            error = ErrorSignal(
                channel=Channel.TRANSCRIPT,
                text=words,
                code=shapes.text(event, "error_type") or None,
                http_status=int(status) if status else None,
            )
            now = at or datetime.fromtimestamp(0, UTC)
            verdict = as_failed(classify(error, _WORDING, now=now, zone=UTC, printed_at=at))
            self.lift.failed(error, verdict, at)
        else:
            self.lift.at(at)


def _text(record: Mapping[str, Any]) -> str:
    parts = shapes.items(shapes.mapping(record, "message"), "parts")
    pieces = [
        shapes.text(part, "text")
        for part in parts
        if shapes.mapping({"p": part}, "p").get("thought") is not True
    ]
    return "\n".join(piece for piece in pieces if piece)
