"""The steps that work: talk, files, commands, questions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from relay.scripted_agent.stage import Stage, TurnOver

Args = Mapping[str, Any]
_LOOK_UP = 0.05
"""Seconds between looks at the inbox while a command runs."""
_PIECE = 12
"""Characters in a piece of streamed text."""


def say(stage: Stage, args: Args) -> None:
    """A message, in pieces first where it is streamed."""
    text = args["text"]
    if args["stream"]:
        for start in range(0, len(text), _PIECE):
            stage.out.record("delta", text=text[start : start + _PIECE])
    stage.say(text)


def decide(stage: Stage, args: Args) -> None:
    """A decision, said in the words by which it is known as one."""
    stage.say(f"Decision: {args['text']}")


def think(stage: Stage, args: Args) -> None:
    """A thought."""
    stage.out.record("thinking", text=args["text"])


def user(stage: Stage, args: Args) -> None:
    """A message that the agent shows as the user's."""
    stage.out.record("user", text=args["text"], synthetic=args["synthetic"])


def notice(stage: Stage, args: Args) -> None:
    """A warning or note."""
    stage.out.record("notice", text=args["text"], level=args["level"])


def usage(stage: Stage, args: Args) -> None:
    """Tokens spent since the last such record."""
    stage.out.record("usage", **args)


def write(stage: Stage, args: Args) -> None:
    """A whole file."""
    _change(stage, args, "Write", lambda path: path.write_text(args["content"], "utf-8"))


def append(stage: Stage, args: Args) -> None:
    """More at a file's end."""
    _change(stage, args, "Append", lambda path: _append(path, args["content"]))


def edit(stage: Stage, args: Args) -> None:
    """One text for another, once; fails when the file does not hold it."""
    _change(stage, args, "Edit", lambda path: _replace(path, args["old"], args["new"]))


def read(stage: Stage, args: Args) -> None:
    """A file, read."""
    call = stage.call("Read", "read", paths=[args["path"]], detail=args["path"])
    try:
        content = Path(args["path"]).read_text("utf-8", "replace")
    except OSError as error:
        stage.close(call, ok=False, output=str(error))
        return
    stage.close(call, ok=True, output=content)


def shell(stage: Stage, args: Args) -> None:
    """A command, by /bin/sh; its failure is a result like any other. Ended when the turn is interrupted."""
    command = args["command"]
    details = {"command": command, "detail": command}
    call = stage.call("Shell", "shell", **details)
    if args["ask"] and not _allowed(stage, call, "Shell", "shell", details):
        return
    running = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    while True:
        try:
            stage.poll()
            printed, _ = running.communicate(timeout=_LOOK_UP)
        except subprocess.TimeoutExpired:
            continue
        except TurnOver:
            running.kill()
            raise
        break
    status = running.returncode
    stage.close(call, ok=status == 0, output=printed.decode("utf-8", "replace"), exit_code=status)


def ask(stage: Stage, args: Args) -> None:
    """A question to the user; the answer is the call's output."""
    question = args["question"]
    call = stage.call("AskUser", "ask", detail=question)
    allowed, note = stage.ask(call, "AskUser", "ask", question=question, options=list(args["options"]))
    stage.close(call, ok=allowed, output=note, denied=not allowed)


def _change(stage: Stage, args: Args, tool: str, change: Callable[[Path], object]) -> None:
    path = Path(args["path"])
    details = {"paths": [args["path"]], "detail": args["path"]}
    call = stage.call(tool, "edit", **details)
    if args["ask"] and not _allowed(stage, call, tool, "edit", details):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        change(path)
    except (OSError, ValueError) as error:
        stage.close(call, ok=False, output=str(error))
        return
    stage.close(call, ok=True, output=f"{args['path']} is written")


def _allowed(stage: Stage, call: str, tool: str, kind: str, details: Args) -> bool:
    allowed, note = stage.ask(call, tool, kind, **details)
    if not allowed:
        stage.close(call, ok=False, output=note or "permission was denied", denied=True)
    return allowed


def _append(path: Path, content: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(content)


def _replace(path: Path, old: str, new: str) -> None:
    content = path.read_text("utf-8")
    if old not in content:
        raise ValueError(f"the text to replace is not in {path}")
    path.write_text(content.replace(old, new, 1), "utf-8")


PLAYED: dict[str, Callable[[Stage, Args], None]] = {
    "say": say,
    "decide": decide,
    "think": think,
    "user": user,
    "notice": notice,
    "usage": usage,
    "write": write,
    "append": append,
    "edit": edit,
    "read": read,
    "shell": shell,
    "ask": ask,
}
"""Name of a step -> what plays it."""
