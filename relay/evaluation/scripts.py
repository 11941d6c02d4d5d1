"""A session of an agent as a script: what the user said and what the agent did, for no CLI in particular.

Read from the cases' JSON; `relay.evaluation.writers` write it as the CLIs would have stored it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from relay.core.events import PlanItem, TaskStatus
from relay.errors import ConfigError

_MARKS = {"[x] ": TaskStatus.COMPLETED, "[>] ": TaskStatus.IN_PROGRESS, "[ ] ": TaskStatus.PENDING}
_MOST_STEPS = 100_000


@frozen
class Said:
    """The user typed this."""

    text: str


@frozen
class Told:
    """The agent said this."""

    text: str


@frozen
class ReadFile:
    """The agent read a file; `path` is relative to its folder."""

    path: str
    text: str = "..."


@frozen
class EditedFile:
    """The agent replaced a text in a file, or could not: `fails` says why."""

    path: str
    fails: str = ""
    before: str = "a"
    after: str = "b"


@frozen
class RanCommand:
    """The agent ran a command."""

    command: str
    code: int = 0
    output: str = ""


@frozen
class Planned:
    """The agent wrote its plan down."""

    items: tuple[PlanItem, ...]


@frozen
class Summarised:
    """The conversation so far was replaced by a summary."""

    text: str


@frozen
class Refused:
    """The provider refused to go on: a limit was hit."""

    text: str


@frozen
class CutOff:
    """An edit was begun, and the session ended before its result."""

    path: str


Step = Said | Told | ReadFile | EditedFile | RanCommand | Planned | Summarised | Refused | CutOff


def steps_of(entries: object, where: str) -> Iterator[Step]:
    """The steps that a case's `steps` tell, repetitions written out.

    Args:
        entries: as in JSON: `{"user": text}`, `{"agent": text}`, `{"read": path}`,
            `{"edit": path, "fails"?}`, `{"run": command, "code"?, "output"?}`, `{"summary": text}`,
            `{"refused": text}`, `{"cut": path}`,
            `{"plan": ["[x] done", "[>] doing", "[ ] open"]}`, and `{"repeat": times, "steps": [...]}`
            with `{n}` for the turn, from 1.
        where: what is said of an entry that cannot be read.

    Raises:
        ConfigError: an entry is none of these.
    """
    for number, step in enumerate(_steps(entries, where, ())):
        if number >= _MOST_STEPS:
            raise ConfigError(f"{where}: more than {_MOST_STEPS} steps", hint="repeat less often")
        yield step


def _steps(entries: object, where: str, turns: tuple[int, ...]) -> Iterator[Step]:
    if not isinstance(entries, list):
        raise ConfigError(f"{where}: steps must be a list")
    for index, entry in enumerate(entries):
        here = f"{where}, step {index + 1}"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{here}: must be an object, not {entry!r:.60}")
        if "repeat" in entry:
            for turn in range(1, _whole(entry, "repeat", here) + 1):
                yield from _steps(entry.get("steps"), here, (*turns, turn))
            continue
        yield _step(entry, here, turns)


def _step(entry: Mapping[str, Any], where: str, turns: tuple[int, ...]) -> Step:
    def text(key: str) -> str:
        value = entry.get(key, "")
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {key} must be a text, not {value!r:.60}")
        return _numbered(value, turns)

    if "user" in entry:
        return Said(text("user"))
    if "agent" in entry:
        return Told(text("agent"))
    if "read" in entry:
        return ReadFile(text("read"), text("text") or "...")
    if "edit" in entry:
        return EditedFile(text("edit"), text("fails"))
    if "run" in entry:
        code = _whole(entry, "code", where) if "code" in entry else 0
        return RanCommand(text("run"), code, text("output"))
    if "summary" in entry:
        return Summarised(text("summary"))
    if "refused" in entry:
        return Refused(text("refused"))
    if "cut" in entry:
        return CutOff(text("cut"))
    if "plan" in entry:
        return Planned(_plan(entry["plan"], where, turns))
    raise ConfigError(
        f"{where}: none of user, agent, read, edit, run, plan, summary, refused, cut, repeat "
        f"is in {sorted(entry)}"
    )


def _plan(lines: object, where: str, turns: tuple[int, ...]) -> tuple[PlanItem, ...]:
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ConfigError(f"{where}: plan must be a list of texts")
    items = []
    for line in lines:
        status = _MARKS.get(line[:4])
        if status is None:
            raise ConfigError(f"{where}: {line!r:.60} must begin with [x], [>] or [ ] and a space")
        items.append(PlanItem(text=_numbered(line[4:], turns), status=status))
    return tuple(items)


def _numbered(text: str, turns: tuple[int, ...]) -> str:
    return text.replace("{n}", str(turns[-1])) if turns else text


def _whole(entry: Mapping[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if type(value) is not int or value < 0:
        raise ConfigError(f"{where}: {key} must be a whole number, not {value!r:.60}")
    return value
