"""Tool calls under way and what did not work, as facts of a session. Used by `relay.core.facts`."""

from __future__ import annotations

from attrs import frozen

from relay.core.events import ToolKind, ToolResult
from relay.core.quoting import one_line

LINE = 300
"""Most characters of a command, a plan's item or a name of an attempt."""
CUT_OFF = "it was cut off before it ended, and may have taken effect"
"""Why an attempt that never had a result did not work."""

_ERROR_WORDS = ("error", "fail", "fatal", "denied", "cannot", "not found", "panic", "exception")


@frozen(kw_only=True)
class OpenCall:
    """A tool call that has no result: its run, and what it does, on one line each."""

    run: int
    tool: str
    tool_kind: ToolKind
    paths: tuple[str, ...] = ()
    command: str = ""
    detail: str = ""


@frozen(kw_only=True)
class FailedAttempt:
    """Something that did not work: what, and the line that says why."""

    what: str
    why: str


def what_of(call: OpenCall) -> str:
    """A tool call in one line: the name of an attempt."""
    if call.tool_kind is ToolKind.SHELL and call.command:
        return f"run {call.command}"
    if call.tool_kind is ToolKind.EDIT and call.paths:
        return one_line("edit " + ", ".join(call.paths), LINE)
    return one_line(f"{call.tool} {call.detail}", LINE)


def reason_of(result: ToolResult) -> str:
    """Why a call failed: its exit code, and the first line that speaks of an error, else the last one."""
    lines = [line for line in result.output.split("\n") if line.strip()] or [""]
    telling = next(filter(_tells, lines), lines[-1]) if _tells(result.output) else lines[-1]
    why = one_line(telling, 200) or "no reason given"
    return f"exit code {result.exit_code}: {why}" if result.exit_code else why


def _tells(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _ERROR_WORDS)
