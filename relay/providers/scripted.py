"""The provider `scripted`: an agent that plays a scenario file, for the demo and for tests.

Its program is `relay.scripted_agent`, a child like any agent CLI with a line protocol of its own: NDJSON
both ways. Codes and words of its failures are its own too, so that the whole path from a line to a
decision is the one that real agents take.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    AgentTextDelta,
    AgentThinking,
    Channel,
    ErrorSignal,
    FailureClass,
    Notice,
    PermissionAsked,
    PlanItem,
    PlanUpdated,
    QuotaReported,
    QuotaWindow,
    RawOutput,
    Retrying,
    TaskStatus,
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UnknownRecord,
    UsageReported,
    UserText,
)
from relay.core.wording import NO_WAIT, Wording, says
from relay.providers.protocol import (
    Dialogue,
    LaunchRequest,
    LaunchSpec,
    Reading,
    ResumeFiles,
    StopStep,
    Write,
)
from relay.providers.shapes import clip, instant, integer, items, mapping, number, record, text

_PACKAGE_PARENT = str(Path(__file__).parent.parent.parent)
_MODULE = ("-P", "-m", "relay.scripted_agent")
"""-P: the working folder is a worktree, whose files must not be imported."""

WORDING = Wording(
    codes={
        "usage_limit_reached": FailureClass.USAGE_LIMIT,
        "rate_limited": FailureClass.RATE_LIMIT,
        "overloaded": FailureClass.OVERLOAD,
        "signed_out": FailureClass.AUTH,
        "context_overflow": FailureClass.CONTEXT_OVERFLOW,
        "refused": FailureClass.REFUSAL,
        "connection_lost": FailureClass.NETWORK,
        "failed": FailureClass.OTHER,
    },
    phrases=(
        says(FailureClass.USAGE_LIMIT, r"you(?:'ve| have) reached your usage limit\b"),
        says(FailureClass.RATE_LIMIT, r"too many requests, please slow down\b"),
        says(FailureClass.OVERLOAD, r"the model is overloaded\b"),
        says(FailureClass.AUTH, r"you are not signed in\b", reset=NO_WAIT),
        says(FailureClass.CONTEXT_OVERFLOW, r"the conversation is too long for the model\b"),
        says(FailureClass.REFUSAL, r"the model refused to answer\b"),
        says(FailureClass.NETWORK, r"the connection to the server was lost\b"),
    ),
)


@frozen(kw_only=True)
class Scripted:
    """The scripted agent; see `relay.providers.protocol.Provider`."""

    name: str = "scripted"
    display_name: str = "Scripted agent"
    program: str = sys.executable
    config_dir_env: str = "SCRIPTED_HOME"
    default_config_dir: str = ".relay-scripted"
    wording: Wording = WORDING
    announce_lag: float = 0.0
    stop_steps: tuple[StopStep, ...] = (
        StopStep(signal="TERM", group=False, grace=1.0),
        StopStep(signal="TERM", group=True, grace=1.0),
    )
    tested_version: str = ""
    login_args: tuple[str, ...] = ()

    def login_told(self, status: int, out: str, err: str) -> tuple[bool | None, str]:
        """It needs no login."""
        return True, "needs no login"

    def launch(self, request: LaunchRequest) -> LaunchSpec:
        """The argument list and environment of a run.

        The scenario is named by `--scenario` among the request's arguments or SCRIPTED_SCENARIO in its
        environment. A configured command replaces Python and its options.
        """
        env = {**request.env, **request.account.env}
        # The agent takes this entry out again before it runs a command.
        path = env.get("PYTHONPATH")
        env["PYTHONPATH"] = os.pathsep.join((_PACKAGE_PARENT, path)) if path else _PACKAGE_PARENT
        env["SCRIPTED_SESSION"] = f"{request.session_id}.{request.run}"
        if request.model:
            env["SCRIPTED_MODEL"] = request.model
        if request.account.config_dir is not None:
            env[self.config_dir_env] = request.account.config_dir
        program = (request.command,) if request.command else (self.program, *_MODULE)
        return LaunchSpec(
            argv=(*program, *request.args),
            env=env,
            unset=("SCRIPTED_SESSION", "SCRIPTED_MODEL"),
        )

    def dialogue(self, request: LaunchRequest) -> Dialogue:
        """A new dialogue for a run."""
        return ScriptedDialogue(request)

    def resume_files(self, native_id: str, cwd: str) -> ResumeFiles | None:
        """None: its session is in its memory alone."""
        return None

    def resume_place(self, path: str, cwd: str) -> str | None:
        """None, as above."""
        return None


class ScriptedDialogue:
    """The state of one conversation with the agent; see `relay.providers.protocol.Dialogue`."""

    def __init__(self, request: LaunchRequest) -> None:
        self._prompt = request.prompt
        self._unstarted: dict[str, None] = {}
        self._in_turn = False
        self._asked: dict[str, str] = {}

    @property
    def turn_open(self) -> bool:
        """The agent is working on a message, or has one still to take up."""
        return self._in_turn or bool(self._unstarted)

    def open(self) -> tuple[Write, ...]:
        """The first message; nothing when there is none."""
        return self.say(self._prompt, "prompt") if self._prompt else ()

    def read(self, line: bytes, stream: str) -> Reading:
        """Take one line: a record of stdout, or plain text."""
        data = record(line) if stream == "out" else None
        if data is None:
            said = line.decode("utf-8", "replace")
            return Reading(events=(RawOutput(stream=stream, text=said),) if said.strip() else ())
        return Reading(events=(self._event(data),))

    def say(self, text: str, key: str) -> tuple[Write, ...]:
        """A message of the user: taken up after the turn under way."""
        self._unstarted[key] = None
        return (_line(key, type="user", text=text, key=key),)

    def interrupt(self, key: str) -> tuple[Write, ...]:
        """Ask the agent to stop its turn; empty when it is in none."""
        return (_line(key, type="interrupt"),) if self.turn_open else ()

    def answer(self, request_id: str, allowed: bool, note: str) -> tuple[Write, ...]:
        """Answer a question of the agent; empty when it has none of that id open."""
        if request_id not in self._asked:
            return ()
        return (_line(f"answer:{request_id}", type="answer", id=request_id, allowed=allowed, note=note),)

    def _event(self, data: Mapping[str, Any]) -> AgentEvent:
        match text(data, "type"):
            case "turn_started":
                self._in_turn = True
                self._unstarted.pop(text(data, "key"), None)
                return TurnStarted(turn_id=text(data, "turn"))
            case "turn_ended":
                self._in_turn = False
                self._asked.clear()
                return _turn_ended(data)
            case "permission":
                self._asked[text(data, "id")] = text(data, "call")
                return _permission(data)
            case "tool_result":
                call = text(data, "id")
                self._asked = {ask: of for ask, of in self._asked.items() if of != call}
                return _result(data)
        return _plain_event(data)


def _plain_event(data: Mapping[str, Any]) -> AgentEvent:
    """The event of a record that changes nothing in the dialogue."""
    kind = text(data, "type")
    match kind:
        case "hello":
            return AgentStarted(
                native_id=text(data, "session"),
                model=text(data, "model"),
                cwd=text(data, "cwd"),
                version=text(data, "version"),
            )
        case "text":
            return AgentText(text=text(data, "text"))
        case "delta":
            return AgentTextDelta(text=text(data, "text"))
        case "thinking":
            return AgentThinking(text=text(data, "text"))
        case "user":
            return UserText(text=text(data, "text"), synthetic=data.get("synthetic") is True)
        case "notice":
            return Notice(text=text(data, "text"), level=text(data, "level") or "info")
        case "tool_call":
            return ToolCall(
                call_id=text(data, "id"),
                tool=text(data, "tool"),
                tool_kind=_tool_kind(data),
                paths=_texts(data, "paths"),
                command=text(data, "command"),
                detail=text(data, "detail"),
            )
        case "plan":
            return PlanUpdated(items=tuple(map(_plan_item, items(data, "items"))))
        case "usage":
            spent = TokenUsage(
                input=integer(data, "input"),
                cached_input=integer(data, "cached"),
                output=integer(data, "output"),
            )
            return UsageReported(usage=spent, cost_usd=number(data, "cost"))
        case "quota":
            return QuotaReported(windows=tuple(map(_window, items(data, "windows"))))
        case "retrying":
            most = number(data, "max")
            return Retrying(
                attempt=integer(data, "attempt"),
                max_attempts=None if most is None else int(most),
                delay=number(data, "delay"),
                error=_error(mapping(data, "error")),
            )
    return UnknownRecord(record_type=kind, record=data)


def _turn_ended(data: Mapping[str, Any]) -> TurnEnded:
    said = text(data, "outcome")
    outcome = TurnOutcome(said) if said in set(TurnOutcome) else TurnOutcome.FAILED
    return TurnEnded(outcome=outcome, text=text(data, "text"), error=_error(mapping(data, "error")))


def _permission(data: Mapping[str, Any]) -> PermissionAsked:
    return PermissionAsked(
        request_id=text(data, "id"),
        tool=text(data, "tool"),
        tool_kind=_tool_kind(data),
        call_id=text(data, "call"),
        paths=_texts(data, "paths"),
        command=text(data, "command"),
        detail=text(data, "detail"),
        question=text(data, "question"),
        options=_texts(data, "options"),
    )


def _result(data: Mapping[str, Any]) -> ToolResult:
    status = number(data, "exit_code")
    return ToolResult(
        call_id=text(data, "id"),
        ok=data.get("ok") is True,
        exit_code=None if status is None else int(status),
        output=clip(text(data, "output")),
        denied=data.get("denied") is True,
    )


def _error(error: Mapping[str, Any]) -> ErrorSignal | None:
    if not error:
        return None
    status = number(error, "status")
    return ErrorSignal(
        channel=Channel.EVENT,
        text=text(error, "text"),
        code=text(error, "code") or None,
        http_status=None if status is None else int(status),
        resets_at=instant(error, "resets_at"),
        retry_after=number(error, "retry_after"),
    )


def _window(data: object) -> QuotaWindow:
    return QuotaWindow(
        name=text(data, "name"),
        fraction_used=number(data, "fraction"),
        resets_at=instant(data, "resets_at"),
        rejected=isinstance(data, Mapping) and data.get("rejected") is True,
    )


def _plan_item(data: object) -> PlanItem:
    status = text(data, "status")
    return PlanItem(
        text=text(data, "text"),
        status=TaskStatus(status) if status in set(TaskStatus) else TaskStatus.PENDING,
    )


def _tool_kind(data: Mapping[str, Any]) -> ToolKind:
    kind = text(data, "kind")
    return ToolKind(kind) if kind in set(ToolKind) else ToolKind.OTHER


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(item for item in items(data, key) if isinstance(item, str))


def _line(write_key: str, **message: Any) -> Write:
    # A lone half of a surrogate pair cannot be written as JSON.
    clean = {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in message.items()
    }
    return Write(key=write_key, line=orjson.dumps(clean).decode())
