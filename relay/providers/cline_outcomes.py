"""How the tools of a task of Cline's or Roo Code's extension ended, as the model was told.

The extension's window, from which a task is lifted, shows neither the exit code of a command, nor what the
user answered when it asked, nor always an edit that failed. Shapes as read in public sources of Cline 3.49
and Roo Code 3.36. Used by `relay.providers.cline_tasks`, and by `relay.providers.cline_messages` where a task
has no window.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from attrs import define, field, frozen

from relay.core.events import ToolKind
from relay.providers import shapes
from relay.providers.acts import kind_of, paths_of
from relay.providers.json_texts import Record

_EXIT = re.compile(r"exit(?:ed with)? (?:code|status):? (\d{1,5})\b", re.IGNORECASE)
_FAILED = re.compile(
    r'\s*(?:The tool execution failed|<error_details>|<error>|Unable to apply diff|\{"status":\s*"error")'
)
_DENIED = re.compile(r'\s*(?:The user denied this (?:patch )?operation|\{"status":\s*"denied")')
"""How the user's no begins: as prose, and as JSON in Roo Code where tools are called natively."""
_UNTRIED = re.compile(r"\s*(?:Skipping tool \[|Tool \[.*\] was (?:interrupted and )?not executed)", re.DOTALL)
"""How it begins that a tool was passed over, because of one before it in the same message."""
_TITLE = re.compile(r"\[(\w+)(?: for '(.*?)')?\] Result:\s*", re.DOTALL)
"""Stands before the result of a tool that was called in prose and, in newer Cline, of any tool."""
_HEADER = 4_000
_HEAD = 500
"""Characters of a command's result in which its exit code stands, before the output."""
_OUTPUT = 8_192
_MOST = 20_000


@frozen
class Outcome:
    """A tool's result: whether it worked, its exit code if told, what it said, whether the user said no."""

    ok: bool
    exit_code: int | None
    output: str
    denied: bool = False


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

    def edits(self, path: str) -> Iterator[Outcome]:
        """The attempts at this file up to the next one that was asked for: it worked, or was denied.

        Those before it failed, and were not shown.
        """
        queue = self._edits.get(self._name(path))
        while queue:
            outcome = queue.popleft()
            yield outcome
            if outcome.ok or outcome.denied:
                return

    def left(self) -> Iterator[tuple[str, Outcome]]:
        """The attempts that failed or were denied, and that no message showed: each with its file."""
        for path, queue in self._edits.items():
            yield from ((path, outcome) for outcome in queue if not outcome.ok)
        self._edits.clear()

    def _take(self, tool: str, given: Record, told: str) -> None:
        if _UNTRIED.match(told, 0, _HEADER):
            return
        denied = is_denial(told)
        match kind_of(tool):
            case ToolKind.SHELL:
                command = shapes.text(given, "command").strip()
                code = _EXIT.search(told, 0, _HEAD)
                ended = int(code[1]) if code else None
                outcome = Outcome(not ended and not denied, ended, told[-_OUTPUT:], denied)
                self._commands.setdefault(command, deque()).append(outcome)
            case ToolKind.EDIT:
                worked = not denied and _FAILED.match(told) is None
                outcome = Outcome(worked, None, told[:_OUTPUT], denied)
                for path in paths_of(given):
                    self._edits.setdefault(self._name(path), deque()).append(outcome)
            case _:
                pass

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self._cwd}/") if self._cwd else path


def is_denial(told: str) -> bool:
    """The result of a tool says that the user did not let it run."""
    return _DENIED.match(told) is not None


def may_deny(history: bytes) -> bool:
    """Somewhere in messages, as they are stored, the user may have said no to a tool."""
    return b"The user denied this " in history or b'\\"denied\\"' in history


def words_of(result: object) -> str:
    """What a block of the type "tool_result" says, without the title before it."""
    told = shapes.text(result, "content")
    told = told or "\n".join(shapes.text(each, "text") for each in shapes.items(result, "content"))
    titled = _titled(told)
    return titled[2] if titled else told


def _results(messages: Iterable[Record]) -> Iterator[tuple[str, Record, str]]:
    """Each tool that has a result: its name, its input and what it answered."""
    calls: dict[str, tuple[str, Record]] = {}
    for message in messages:
        prose: tuple[str, Record, str] | None = None
        for block in shapes.items(message, "content"):
            text = shapes.text(block, "text")
            match shapes.text(block, "type"):
                case "tool_use":
                    call = shapes.text(block, "name"), shapes.mapping(block, "input")
                    calls[shapes.text(block, "id")] = call
                case "tool_result":
                    known = calls.pop(shapes.text(block, "tool_use_id"), None)
                    if known is not None:
                        yield *known, words_of(block)
                case "text" if prose is not None:
                    yield *prose[:2], text
                    prose = None
                case "text" if shapes.text(message, "role") == "user":
                    prose = _titled(text)
                    if prose is not None and prose[2]:
                        yield prose
                        prose = None
                case _:
                    pass


def _titled(text: str) -> tuple[str, Record, str] | None:
    """The tool that a result is of, its input as far as the title tells it, and what follows the title."""
    found = _TITLE.match(text, 0, _HEADER)
    if found is None:
        return None
    what = found[2] or ""
    return found[1], {"command": what, "path": what}, text[found.end() :]
