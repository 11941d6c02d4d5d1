"""Messages as Cline sends them to a model: roles, with blocks of text, tool calls and results.

As Cline CLI 3.0.65 writes them, and as its extension does. Used by `relay.providers.cline_store` and
`relay.providers.roo_store`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from relay.core.events import PlanUpdated, TokenUsage, ToolKind, UsageReported
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of
from relay.providers.cline_outcomes import is_denial, words_of
from relay.providers.documents import checklist, error_of, refused, spoke
from relay.providers.json_texts import Record, epoch_ms, json_of
from relay.providers.wordings import wording_of

_WORDING = wording_of("openai")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EXIT = re.compile(r"exit(?:ed with)? (?:code|status):? (\d{1,5})\b", re.IGNORECASE)
_DENIED = ("rejected the tool call", "requires approval", "user denied this operation", "The user rejected")
"""In errors of the command line; the extension's results, which are no errors, are told by `is_denial`."""
_RESULTS = re.compile(r"\[\w+(?: for '.*')?\] Result:", re.DOTALL)
"""How results of tools that are called in prose begin."""
_HEADER = 300


class MessageLift:
    """Takes over messages in order; a call is noted when its result comes."""

    def __init__(self, lift: Lift) -> None:
        self._lift = lift
        self._calls: dict[str, tuple[str, Record, datetime | None]] = {}

    def take_all(self, messages: Iterable[Record]) -> None:
        """All of them; one that is told twice counts once."""
        seen: set[str] = set()
        for message in messages:
            name = shapes.text(message, "id")
            if name and name in seen:
                self._lift.skip("duplicate")
                continue
            seen.add(name)
            at = epoch_ms(message, "ts")
            if shapes.text(message, "role") == "user":
                self._user(message, at)
            else:
                self._assistant(message, at)
        for call_id, (tool, given, at) in self._calls.items():
            self._act(call_id, tool, given, at, None)

    def _user(self, message: Record, at: datetime | None) -> None:
        for block in _blocks(message):
            if shapes.text(block, "type") == "tool_result":
                self._resulted(block, at)
        self._lift.said(prompt_of(message), at)
        self._lift.at(at)

    def _assistant(self, message: Record, at: datetime | None) -> None:
        lift = self._lift
        model = shapes.mapping(message, "modelInfo")
        lift.named(model=shapes.text(model, "id") or shapes.text(model, "modelId"))
        words = "\n".join(
            shapes.text(block, "text") for block in _blocks(message) if shapes.text(block, "type") == "text"
        )
        if shapes.text(shapes.mapping(message, "metadata"), "displayRole") == "error":
            refused(lift, error_of(words), _WORDING, at)
            return
        called = False
        spoke(lift, words, at)
        for block in _blocks(message):
            if shapes.text(block, "type") == "tool_use":
                called = True
                self._called(block, at)
        self._count(message, at)
        lift.turn_open = called

    def _count(self, message: Record, at: datetime | None) -> None:
        told = shapes.mapping(message, "metrics")
        tokens = shapes.mapping(told, "tokens")
        if tokens:
            cached = max(0, shapes.integer(tokens, "cached"))
            fresh = max(0, shapes.integer(tokens, "prompt"))
            output = max(0, shapes.integer(tokens, "completion"))
        else:
            fresh, made, cached, output = (
                max(0, shapes.integer(told, f"{key}Tokens"))
                for key in ("input", "cacheWrite", "cacheRead", "output")
            )
            fresh += made
        if fresh or cached or output:
            cost = shapes.number(told, "cost")
            usage = TokenUsage(input=fresh, cached_input=cached, output=output)
            self._lift.take(UsageReported(usage=usage, cost_usd=float(cost) if cost else None), at)
            self._lift.context(fresh + cached + output)

    def _called(self, block: Record, at: datetime | None) -> None:
        tool, given = shapes.text(block, "name"), shapes.mapping(block, "input")
        progress = shapes.text(given, "task_progress")
        todos = shapes.text(given, "todos") if kind_of(tool) is ToolKind.PLAN else ""
        items = checklist(progress or todos)
        if items:
            self._lift.take(PlanUpdated(items=items), at)
        if tool == "skills" or tool == "use_skill":
            self._lift.skill(shapes.text(given, "skill") or shapes.text(given, "skill_name"))
        if tool == "attempt_completion":
            spoke(self._lift, shapes.text(given, "result"), at)
        elif not todos:
            self._calls[shapes.text(block, "id")] = (tool, given, at)

    def _resulted(self, block: Record, at: datetime | None) -> None:
        call_id = shapes.text(block, "tool_use_id")
        call = self._calls.pop(call_id, None)
        self._lift.turn_open = True
        if call is not None:
            self._act(call_id, call[0], call[1], call[2] or at, block)

    def _act(
        self, call_id: str, tool: str, given: Record, at: datetime | None, result: Record | None
    ) -> None:
        """One call may run several commands, or name several files."""
        told = _results(result) if result is not None else []
        denied = is_denial(words_of(result))
        wrong = denied or (result is not None and result.get("is_error") is True)
        for number, one in enumerate(_each(tool, given)):
            own = told[number] if number < len(told) else told[-1] if told else {}
            output = shapes.text(own, "result") or shapes.text(own, "error") or shapes.text(own, "text")
            code = _EXIT.search(output) if kind_of(tool) is ToolKind.SHELL else None
            ok = not wrong and own.get("success") is not False and not (code and int(code[1]))
            act(
                self._lift,
                tool=tool,
                call_id=f"{call_id}:{number}",
                given=one,
                at=at,
                ok=ok if result is not None else None,
                output=output,
                exit_code=int(code[1]) if code else None,
                denied=denied or (not ok and any(each in output for each in _DENIED)),
            )


def is_message(value: object) -> bool:
    """The object is a message to or from a model."""
    return shapes.text(value, "role") in ("user", "assistant") and isinstance(value, Mapping)


def prompt_of(message: Record) -> str:
    """What the user typed, in a message; "" in one of an agent, and in one with results of tools."""
    blocks = _blocks(message)
    texts = [shapes.text(block, "text") for block in blocks if shapes.text(block, "type") == "text"]
    if shapes.text(message, "role") != "user" or len(texts) < len(blocks) or not texts:
        return ""
    return "" if _RESULTS.match(texts[0][:_HEADER]) else typed("\n\n".join(texts))


def _blocks(message: Record) -> tuple[Any, ...]:
    told = shapes.text(message, "content")
    return ({"type": "text", "text": told},) if told else shapes.items(message, "content")


def _each(tool: str, given: Record) -> list[Record]:
    commands = [each for each in shapes.items(given, "commands") if isinstance(each, str | Mapping)]
    if commands:
        return [{"command": each} if isinstance(each, str) else each for each in commands]
    files = [each for each in shapes.items(given, "files") if isinstance(each, str | Mapping)]
    if files:
        return [{"path": each} if isinstance(each, str) else each for each in files]
    patched = _PATCHED.findall(shapes.text(given, "input")) if tool == "apply_patch" else []
    return [{"path": path.strip()} for path in patched] or [given]


def _results(block: Record) -> list[Record]:
    """What a result tells of each part of its call."""
    content = block.get("content")
    if isinstance(content, str):
        told = json_of(content) if content[:1] in ("{", "[") else None
        content = (
            told if isinstance(told, list) else [told if isinstance(told, Mapping) else {"text": content}]
        )
    return [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
