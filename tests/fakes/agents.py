"""Agents that play a list of acts, spoken in the line protocol of the provider `scripted`.

An agent lives in a `FakeWorld`: it outlasts the daemon, and makes one act at a time when told to. Its
turns are what it does for the first, the second ... message; the last one is played again for later ones.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define, field, frozen

from relay.core.framing import Line


@frozen
class Out:
    """Print a record."""

    record: Mapping[str, Any]


@frozen
class Err:
    """Print a line on stderr."""

    text: str


@frozen
class Work:
    """Change the worktree."""


@frozen
class Exit:
    """End the process."""

    status: int = 0


@frozen
class Hang:
    """Wait to be interrupted, or for the test to say `go_on`."""


@frozen
class AskFor:
    """Ask for permission and wait; the tool call's result says whether it was given."""

    record: Mapping[str, Any]
    call: str


Act = Out | Err | Work | Exit | Hang | AskFor


def text(words: str) -> Out:
    return Out({"type": "text", "text": words})


def plan(**items: str) -> Out:
    """A plan: name -> status."""
    listed = [{"text": name, "status": status} for name, status in items.items()]
    return Out({"type": "plan", "items": listed})


def call(name: str, kind: str = "shell") -> Out:
    return Out({"type": "tool_call", "id": name, "tool": kind, "kind": kind, "command": f"run {name}"})


def result(name: str) -> Out:
    return Out({"type": "tool_result", "id": name, "ok": True, "output": "fine"})


FAR = datetime(2031, 1, 1, tzinfo=UTC)


def quota(fraction: float, resets_at: datetime = FAR) -> Out:
    window = {"name": "five_hour", "fraction": fraction, "resets_at": int(resets_at.timestamp())}
    return Out({"type": "quota", "windows": [window]})


def usage(tokens: int) -> Out:
    return Out({"type": "usage", "input": tokens, "output": 0})


def ask(name: str, kind: str, path: str = "", command: str = "", question: str = "") -> AskFor:
    record = {"type": "permission", "id": f"ask-{name}", "call": name, "tool": kind, "kind": kind}
    record |= {"paths": [path] if path else [], "command": command, "question": question}
    return AskFor(record, name)


def done(words: str = "done") -> Out:
    return Out({"type": "turn_ended", "outcome": "completed", "text": words})


def failed(code: str, words: str, **more: Any) -> Out:
    error = {"code": code, "text": words, **more}
    return Out({"type": "turn_ended", "outcome": "failed", "error": error})


def limit(resets_at: datetime | None = FAR) -> Out:
    more = {"resets_at": int(resets_at.timestamp())} if resets_at else {}
    return failed("usage_limit_reached", "You have reached your usage limit.", **more)


@frozen(kw_only=True)
class Agent:
    """What an agent does.

    Args:
        turns: acts for each message.
        opening: acts before the first message is read; a hello by default.
        stubborn: interrupts do nothing.
        last_words: printed when it is ended by a signal.
        one_way: it ends after its first turn, and takes no second message.
        silent: it comes up and does nothing.
    """

    turns: tuple[tuple[Act, ...], ...] = ((done(),),)
    opening: tuple[Act, ...] | None = None
    stubborn: bool = False
    last_words: tuple[Act, ...] = ()
    one_way: bool = False
    silent: bool = False


WORKS = Agent(turns=((text("I look at it."), call("c1"), Work(), result("c1"), done()),))
HITS_LIMIT = Agent(turns=((text("I begin."), call("c1"), Work(), result("c1"), limit()),))


@define
class Process:
    """A run's child: its output so far, its inbox, what it does next."""

    name: str
    agent: Agent
    out: list[Line] = field(factory=list)
    err: list[Line] = field(factory=list)
    alive: bool = True
    status: int | None = None
    written: dict[str, str] = field(factory=dict)
    told: list[str] = field(factory=list)
    work: int = 0
    _inbox: deque[tuple[str, str]] = field(factory=deque)
    _acts: deque[Act] = field(factory=deque)
    _turn: str = ""
    _turns: int = 0
    _blocked: str = ""
    _calls: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        opening = self.agent.opening
        hello = Out({"type": "hello", "session": f"native-{self.name}"})
        self._acts.extend((hello,) if opening is None else opening)

    @property
    def can_act(self) -> bool:
        """It is not waiting for anything."""
        return (
            self.alive
            and not self.agent.silent
            and not self._blocked
            and bool(self._acts or self._inbox or self._turn)
        )

    @property
    def in_turn(self) -> bool:
        return bool(self._turn)

    def act(self) -> None:
        """The next act: of the turn under way, or the beginning of the next."""
        if self._acts:
            self._do(self._acts.popleft())
        elif self._turn:
            self._do(done())
        elif self._inbox:
            key, said = self._inbox.popleft()
            self.told.append(said)
            self._turn = key
            turns = self.agent.turns
            self._acts.extend(turns[min(self._turns, len(turns) - 1)])
            self._turns += 1
            self._print({"type": "turn_started", "turn": str(self._turns), "key": key})

    def write(self, key: str, line: str) -> bool:
        """A line on stdin, and whether it is written; one that was already is passed over."""
        if key in self.written:
            return True
        message = json.loads(line)
        if not self.alive or (self.agent.one_way and self.written and message["type"] == "user"):
            return False
        self.written[key] = line
        match message["type"]:
            case "user":
                self._inbox.append((message["key"], message["text"]))
            case "interrupt" if self._turn and not self.agent.stubborn:
                self._acts.clear()
                self._blocked = ""
                for open_call in tuple(self._calls):
                    self._do(Out({"type": "tool_result", "id": open_call, "ok": False}))
                self._do(Out({"type": "turn_ended", "outcome": "interrupted"}))
            case "answer" if self._blocked == message["id"]:
                self._blocked = ""
                answer = "allowed" if message["allowed"] else "denied"
                said = f"{answer} {message['note']}".strip()
                record = {"type": "tool_result", "ok": message["allowed"], "output": said}
                record |= {"id": self._blocked_call, "denied": not message["allowed"]}
                self._acts.appendleft(Out(record))
        return True

    _blocked_call: str = ""

    def go_on(self) -> None:
        """End a `Hang`."""
        if self._blocked == "hang":
            self._blocked = ""

    def kill(self, status: int) -> None:
        """End it, last words included."""
        if self.alive:
            self._blocked = ""
            for act in self.agent.last_words:
                self._do(act)
            self.alive, self.status = False, status

    def _do(self, act: Act) -> None:
        match act:
            case Out(record):
                self._print(record)
            case Err(words):
                _append(self.err, words.encode())
            case Work():
                self.work += 1
            case Exit(status):
                self.alive, self.status = False, status
            case Hang():
                self._blocked = "hang"
            case AskFor(record, named):
                self._print(record)
                self._blocked, self._blocked_call = record["id"], named

    def _print(self, record: Mapping[str, Any]) -> None:
        _append(self.out, json.dumps(record).encode())
        match record["type"]:
            case "tool_call":
                self._calls.append(record["id"])
            case "tool_result" if record["id"] in self._calls:
                self._calls.remove(record["id"])
            case "turn_ended":
                self._turn = ""
                self._acts.clear()
                if self.agent.one_way:
                    self._acts.append(Exit(0 if record["outcome"] == "completed" else 1))

    def lines(self) -> Iterator[tuple[str, Line]]:
        """Everything it printed."""
        yield from (("out", line) for line in self.out)
        yield from (("err", line) for line in self.err)


def _append(stream: list[Line], data: bytes) -> None:
    end = (stream[-1].end if stream else 0) + len(data) + 1
    stream.append(Line(data=data, end=end))
