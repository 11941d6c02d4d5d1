"""The steps that make trouble: limits, waits, floods, odd output, and every way to end badly."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from relay.scripted_agent.stage import Stage, TurnOver

Args = Mapping[str, Any]

_ERRORS: dict[str, tuple[str, int | None, str]] = {
    "usage_limit": ("usage_limit_reached", 429, "You've reached your usage limit."),
    "rate_limit": ("rate_limited", 429, "Too many requests, please slow down."),
    "overload": ("overloaded", 529, "The model is overloaded."),
    "auth": ("signed_out", 401, "You are not signed in."),
    "context": ("context_overflow", 400, "The conversation is too long for the model."),
    "refusal": ("refused", None, "The model refused to answer."),
    "network": ("connection_lost", None, "The connection to the server was lost."),
}
"""Kind of limit -> code, HTTP status and words."""


def limit(stage: Stage, args: Args) -> NoReturn:
    """A limit: a failed turn that tells code and instant, or words on stderr and the end with status 1.

    Raises:
        TurnOver: over the channel "event".
    """
    error = error_of(args["kind"], args["resets_in"])
    if args["channel"] == "stderr":
        complain(error["text"])
        os._exit(1)
    raise TurnOver("failed", error)


def error_of(kind: str, resets_in: float | None) -> dict[str, Any]:
    """An error as this agent reports it; `resets_in` in seconds."""
    code, status, text = _ERRORS[kind]
    error: dict[str, Any] = {"code": code, "status": status, "text": text}
    if resets_in is not None:
        error["text"] = f"{text} Resets in {_duration(resets_in)}"
        error["resets_at"] = math.ceil(time.time() + resets_in)
    return error


def _duration(seconds: float) -> str:
    """`7500` is `2h 5m`."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if count]
    return " ".join(parts) or "0s"


def complain(text: str) -> None:
    """A line on stderr."""
    os.write(2, text.encode() + b"\n")


def stderr(stage: Stage, args: Args) -> None:
    """A line on stderr."""
    complain(args["text"])


def quota(stage: Stage, args: Args) -> None:
    """What is left of a window."""
    resets_in = args["resets_in"]
    window = {
        "name": args["window"],
        "fraction": args["fraction"],
        "resets_at": None if resets_in is None else math.ceil(time.time() + resets_in),
        "rejected": args["rejected"],
    }
    stage.out.record("quota", windows=[window])


def retrying(stage: Stage, args: Args) -> None:
    """The agent tries again by itself."""
    error = error_of(args["kind"], None)
    stage.out.record("retrying", attempt=args["attempt"], max=args["max"], delay=args["delay"], error=error)


def fail_turn(stage: Stage, args: Args) -> NoReturn:
    """A turn that fails, with any code and words."""
    raise TurnOver("failed", {"code": args["code"], "text": args["text"]})


def sleep(stage: Stage, args: Args) -> None:
    """Nothing, for a while."""
    stage.wait(args["seconds"])


def hang(stage: Stage, args: Args) -> None:
    """Nothing, until interrupted."""
    stage.wait(None)


def slow_tool(stage: Stage, args: Args) -> None:
    """A tool call that stays open for a while."""
    call = stage.call("Slow", "other", detail=f"for {args['seconds']} s")
    stage.wait(args["seconds"])
    stage.close(call, ok=True)


def flood(stage: Stage, args: Args) -> None:
    """Many messages, numbered from 1, at a pace or as fast as they can be written."""
    pace, began = args["per_second"], time.monotonic()
    for number in range(1, args["events"] + 1):
        text = f"event {number} "
        stage.out.record("text", text=text.ljust(args["bytes"], "."))
        if pace:
            stage.wait(began + number / pace - time.monotonic())
        elif number % 256 == 0:
            stage.poll()


def spawn(stage: Stage, args: Args) -> None:
    """A process that is left running, in the agent's own session or in a new one."""
    call = stage.call("Spawn", "shell", command=args["command"], detail=args["command"])
    deaf = "trap '' TERM INT HUP; " if args["ignore_term"] else ""
    subprocess.Popen(
        ["/bin/sh", "-c", deaf + args["command"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=args["new_session"],
    )
    stage.close(call, ok=True, output="started in the background")


def garbage(stage: Stage, args: Args) -> None:
    """A line that is no record."""
    stage.out.raw(args["text"].encode() + b"\n")


def unknown_record(stage: Stage, args: Args) -> None:
    """A record of a type that nobody knows."""
    stage.out.record(args["name"], new_field=[1, 2, 3])


def big_line(stage: Stage, args: Args) -> None:
    """A record that makes a line of so many bytes, without its newline."""
    bare = len(json.dumps({"type": "text", "text": ""}))
    stage.out.record("text", text="x" * max(args["bytes"] - bare, 0))


def crash(stage: Stage, args: Args) -> NoReturn:
    """An end in the middle of the turn."""
    complain("Traceback: the scripted agent crashed")
    os._exit(args["status"])


def leave(stage: Stage, args: Args) -> NoReturn:
    """An end after the turn."""
    raise TurnOver("completed", status=args["status"])


def kill_self(stage: Stage, args: Args) -> None:
    """An end by a signal, which the agent does not catch."""
    number = getattr(signal, f"SIG{args['signal']}")
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


PLAYED: dict[str, Callable[[Stage, Args], None]] = {
    "limit": limit,
    "stderr": stderr,
    "quota": quota,
    "retrying": retrying,
    "fail_turn": fail_turn,
    "sleep": sleep,
    "hang": hang,
    "slow_tool": slow_tool,
    "flood": flood,
    "spawn": spawn,
    "garbage": garbage,
    "unknown_record": unknown_record,
    "big_line": big_line,
    "crash": crash,
    "exit": leave,
    "kill_self": kill_self,
}
"""Name of a step -> what plays it."""
