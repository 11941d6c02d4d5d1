"""Scenario files: what a scripted agent does, as JSON, read and checked as a whole before it plays.

    {"model": "...", "tasks": [{"name": "...", "steps": [STEP, ...]}],
     "finally": [...], "on_reply": [...], "on_verify_failed": [...]}

A STEP is an object with the step's name as its only key and its arguments as the value:
{"write": {"path": "a.py", "content": ["line", "line"]}}. An argument alone stands for the first one
({"say": "hello"}); a step that needs none may be its name alone ("hang").
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_EMBEDDED = Path(__file__).parent / "scenarios"
_REQUIRED: Any = object()

LIMITS = ("usage_limit", "rate_limit", "overload", "auth", "context", "refusal", "network")
SIGNALS = ("KILL", "TERM", "INT", "HUP", "SEGV", "ABRT")


class ScenarioError(Exception):
    """A scenario cannot be played; names the file, the task, the step and the key."""


class Step(NamedTuple):
    """One thing the agent does; `place` says where it stands in its file."""

    name: str
    args: Mapping[str, Any]
    place: str = ""


class Task(NamedTuple):
    """An item of the agent's plan."""

    name: str
    steps: tuple[Step, ...]


class Scenario(NamedTuple):
    """A whole file."""

    name: str
    model: str
    tasks: tuple[Task, ...]
    at_end: tuple[Step, ...] = ()
    on_reply: tuple[Step, ...] = ()
    on_verify_failed: tuple[Step, ...] = ()


class Arg(NamedTuple):
    """One argument of a step: "text" (a list of lines counts as one; "any": it may be empty), "number",
    "count", "flag", "texts", or a tuple of the words it may be."""

    kind: str | tuple[str, ...]
    default: Any = _REQUIRED


_PATH, _ASK, _SECONDS = Arg("text"), Arg("flag", False), Arg("number")
STEPS: dict[str, dict[str, Arg]] = {
    "say": {"text": Arg("text"), "stream": Arg("flag", False)},
    "think": {"text": Arg("text")},
    "decide": {"text": Arg("text")},
    "user": {"text": Arg("text"), "synthetic": Arg("flag", True)},
    "notice": {"text": Arg("text"), "level": Arg(("info", "warning", "error"), "info")},
    "write": {"path": _PATH, "content": Arg("any"), "ask": _ASK},
    "append": {"path": _PATH, "content": Arg("any"), "ask": _ASK},
    "edit": {"path": _PATH, "old": Arg("text"), "new": Arg("any"), "ask": _ASK},
    "read": {"path": _PATH},
    "shell": {"command": Arg("text"), "ask": _ASK},
    "ask": {"question": Arg("text"), "options": Arg("texts", ())},
    "sleep": {"seconds": _SECONDS},
    "slow_tool": {"seconds": _SECONDS},
    "hang": {},
    "usage": {
        "input": Arg("count", 0),
        "cached": Arg("count", 0),
        "output": Arg("count", 0),
        "cost": Arg("number", None),
    },
    "quota": {
        "window": Arg("text"),
        "fraction": Arg("number", None),
        "resets_in": Arg("number", None),
        "rejected": Arg("flag", False),
    },
    "retrying": {
        "attempt": Arg("count"),
        "max": Arg("count", None),
        "delay": Arg("number", None),
        "kind": Arg(LIMITS, "overload"),
    },
    "limit": {
        "kind": Arg(LIMITS),
        "resets_in": Arg("number", None),
        "times": Arg("count", 1),
        "channel": Arg(("event", "stderr"), "event"),
    },
    "fail_turn": {"text": Arg("text", "the turn failed"), "code": Arg("text", "failed")},
    "flood": {"events": Arg("count"), "per_second": Arg("number", 0), "bytes": Arg("count", 64)},
    "spawn": {
        "command": Arg("text"),
        "ignore_term": Arg("flag", False),
        "new_session": Arg("flag", False),
    },
    "garbage": {"text": Arg("text", "this line is no record")},
    "unknown_record": {"name": Arg("text", "from_the_future")},
    "big_line": {"bytes": Arg("count")},
    "stderr": {"text": Arg("text")},
    "crash": {"status": Arg("count", 1)},
    "exit": {"status": Arg("count", 0)},
    "kill_self": {"signal": Arg(SIGNALS, "KILL")},
}
"""Every step and its arguments."""


def scenario_of(arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """The scenario that `--scenario NAME` or `--scenario=NAME` names, or else SCRIPTED_SCENARIO.

    Raises:
        ScenarioError: neither does, or there is another argument.
    """
    rest, named = list(arguments), ""
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if option != "--scenario":
            raise ScenarioError(f"unknown argument {option!r}; the only one is --scenario NAME-OR-FILE")
        if not equals and rest:
            value = rest.pop(0)
        named = value
    named = named or env.get("SCRIPTED_SCENARIO", "")
    if not named:
        raise ScenarioError("no scenario: give --scenario NAME-OR-FILE or set SCRIPTED_SCENARIO")
    return named


def embedded() -> tuple[str, ...]:
    """The names of the scenarios that come with the package."""
    return tuple(sorted(path.stem for path in _EMBEDDED.glob("*.json")))


def load(name: str) -> Scenario:
    """Read a scenario: an embedded one by its name, or a file.

    Raises:
        ScenarioError: there is none, or it is not as it must be.
    """
    path = _EMBEDDED / f"{name}.json" if name in embedded() else Path(name)
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        known = ", ".join(embedded())
        raise ScenarioError(f"{name}: {error.strerror}; embedded scenarios: {known}") from None
    except ValueError as error:
        raise ScenarioError(f"{name}: not JSON: {error}") from None
    return parse(data, name)


def parse(data: object, name: str) -> Scenario:
    """Check a scenario and give it its form; `name` is what errors call it.

    Raises:
        ScenarioError: it is not as it must be.
    """
    whole = _object(data, name, ("model", "tasks", "finally", "on_reply", "on_verify_failed"))
    tasks = []
    for number, item in enumerate(_list(whole.get("tasks", []), f"{name}: tasks"), 1):
        place = f"{name}: task {number}"
        task = _object(item, place, ("name", "steps"))
        title = _checked(task.get("name"), Arg("text"), f"{place}: name")
        tasks.append(Task(title, _steps(task.get("steps", []), f"{name}: task {title!r}")))
    titles = [task.name for task in tasks]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise ScenarioError(f"{name}: two tasks are named {twice!r}")
    return Scenario(
        name=Path(name).stem,
        model=_checked(whole.get("model", "scripted-1"), Arg("text"), f"{name}: model"),
        tasks=tuple(tasks),
        at_end=_steps(whole.get("finally", []), f"{name}: finally"),
        on_reply=_steps(whole.get("on_reply", []), f"{name}: on_reply"),
        on_verify_failed=_steps(whole.get("on_verify_failed", []), f"{name}: on_verify_failed"),
    )


def _steps(data: object, where: str) -> tuple[Step, ...]:
    return tuple(_step(item, f"{where}, step {number}") for number, item in enumerate(_list(data, where), 1))


def _step(data: object, place: str) -> Step:
    if isinstance(data, str):
        data = {data: {}}
    if not isinstance(data, dict) or len(data) != 1:
        raise ScenarioError(f'{place}: a step is an object with one key, such as {{"say": "hello"}}')
    ((name, given),) = data.items()
    if name not in STEPS:
        raise ScenarioError(f"{place}: unknown step {name!r}{_nearest(name, STEPS)}")
    place = f"{place} ({name})"
    known = STEPS[name]
    if not isinstance(given, dict):
        if not known:
            raise ScenarioError(f"{place}: takes no arguments")
        given = {next(iter(known)): given}
    _object(given, place, tuple(known))
    args = {}
    for key, arg in known.items():
        if key in given:
            args[key] = _checked(given[key], arg, f"{place}: {key}")
        elif arg.default is _REQUIRED:
            raise ScenarioError(f"{place}: {key} is missing")
        else:
            args[key] = arg.default
    return Step(name, args, place)


def _checked(value: object, arg: Arg, place: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match arg.kind:
        case "text" | "any":
            if isinstance(value, list) and all(isinstance(line, str) for line in value):
                value = "".join(f"{line}\n" for line in value)
            good = isinstance(value, str) and bool(value or arg.kind == "any")
            want = "a text or a list of lines" if arg.kind == "any" else "a text that is not empty"
        case "texts":
            good = isinstance(value, list) and all(isinstance(item, str) for item in value)
            want = "a list of texts"
        case "number":
            good, want = number and 0 <= float(str(value)) < math.inf, "a number of 0 or more"
        case "count":
            good, want = number and isinstance(value, int) and value >= 0, "a whole number of 0 or more"
        case "flag":
            good, want = isinstance(value, bool), "true or false"
        case words:
            good, want = value in words, "one of " + ", ".join(words)
    if not good:
        raise ScenarioError(f"{place}: expected {want}, got {json.dumps(value)[:80]}")
    return value


def _object(data: object, place: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise ScenarioError(f"{place}: expected an object, got {json.dumps(data)[:80]}")
    for key in data:
        if key not in keys:
            raise ScenarioError(f"{place}: unknown key {key!r}{_nearest(key, keys)}")
    return data


def _list(data: object, place: str) -> list[Any]:
    if not isinstance(data, list):
        raise ScenarioError(f"{place}: expected a list, got {json.dumps(data)[:80]}")
    return data


def _nearest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
