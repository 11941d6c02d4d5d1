"""How the tools of a task of Cline's or Roo Code's extension ended, as the model was told.

The extension's window, from which a task is lifted, shows neither the exit code of a command nor, always, an
edit that failed. Shapes as read in public sources of Cline 3.49 and Roo Code 3.36. Used by
`relay.providers.cline_tasks`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from relay.core.events import ToolKind
from relay.providers import shapes
from relay.providers.acts import kind_of, path_of
from relay.providers.json_texts import Record

_EXIT = re.compile(r"exit(?:ed with)? (?:code|status):? (\d{1,5})\b", re.IGNORECASE)
_FAILED = re.compile(
    r'\s*(?:The tool execution failed|<error_details>|<error>|Unable to apply diff|\{"status":\s*"error")'
)
_PROSE = re.compile(r"\[(\w+)(?: for '(.*)')?\] Result:\s*", re.DOTALL)
"""How the result of a tool begins that was called in prose."""
_HEADER = 4_000
_HEAD = 500
"""Characters of a command's result in which its exit code stands, before the output."""
_OUTPUT = 8_192
_MOST = 20_000


@frozen
class Outcome:
    """A tool's result: whether it worked, its exit code if it is told, what it said."""

    ok: bool
    exit_code: int | None
    output: str


@define
class Outcomes:
    """Results in their order, by the command that was run and the file that was edited."""

    _commands: dict[str, deque[Outcome]] = field(factory=dict)
    _edits: dict[str, deque[Outcome]] = field(factory=dict)
    _cwd: str = ""

    @classmethod
    def of(cls, messages: Iterable[Record], cwd: str = "") -> Outcomes:
        """What messages to and from a model tell.

        Args:
            cwd: the task's folder; files within are known by their relative path too.
        """
        outcomes = cls(cwd=cwd.rstrip("/"))
        for number, (tool, given, told) in enumerate(_results(messages)):
            if number >= _MOST:
                break
            outcomes._take(tool, given, told)
        return outcomes

    def command(self, command: str) -> Outcome | None:
        """How the command ended when it was run next."""
        queue = self._commands.get(command.strip())
        return queue.popleft() if queue else None

    def failed_edits(self, path: str) -> Iterator[Outcome]:
        """The attempts at this file that failed before the next one that worked."""
        queue = self._edits.get(self._name(path))
        while queue:
            outcome = queue.popleft()
            if outcome.ok:
                return
            yield outcome

    def left(self) -> Iterator[tuple[str, Outcome]]:
        """The attempts that failed and that were not asked for: each with its file."""
        for path, queue in self._edits.items():
            yield from ((path, outcome) for outcome in queue if not outcome.ok)
        self._edits.clear()

    def _take(self, tool: str, given: Record, told: str) -> None:
        match kind_of(tool):
            case ToolKind.SHELL:
                command = shapes.text(given, "command").strip()
                code = _EXIT.search(told, 0, _HEAD)
                ended = int(code[1]) if code else None
                outcome = Outcome(not ended, ended, told[-_OUTPUT:])
                self._commands.setdefault(command, deque()).append(outcome)
            case ToolKind.EDIT:
                outcome = Outcome(_FAILED.match(told) is None, None, told[:_OUTPUT])
                self._edits.setdefault(self._name(path_of(given)), deque()).append(outcome)
            case _:
                pass

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self._cwd}/") if self._cwd else path


def _results(messages: Iterable[Record]) -> Iterator[tuple[str, Record, str]]:
    """Each tool that has a result: its name, its input and what it answered."""
    calls: dict[str, tuple[str, Record]] = {}
    for message in messages:
        prose: tuple[str, Record] | None = None
        for block in shapes.items(message, "content"):
            text = shapes.text(block, "text")
            match shapes.text(block, "type"):
                case "tool_use":
                    call = shapes.text(block, "name"), shapes.mapping(block, "input")
                    calls[shapes.text(block, "id")] = call
                case "tool_result":
                    known = calls.pop(shapes.text(block, "tool_use_id"), None)
                    if known is not None:
                        yield *known, _words(block)
                case "text" if prose is not None:
                    yield *prose, text
                    prose = None
                case "text" if shapes.text(message, "role") == "user":
                    prose = _called_in_prose(text)
                case _:
                    pass


def _called_in_prose(text: str) -> tuple[str, Record] | None:
    found = _PROSE.fullmatch(text) if len(text) < _HEADER else None
    if found is None:
        return None
    what = found[2] or ""
    return found[1], {"command": what, "path": what}


def _words(block: Any) -> str:
    told = shapes.text(block, "content")
    return told or "\n".join(shapes.text(each, "text") for each in shapes.items(block, "content"))
