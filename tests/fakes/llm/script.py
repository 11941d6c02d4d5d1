"""What a fake model does: steps, in neutral words, which each API then says in its own.

A login's steps are played in order, one for each request that offers tools; the last one is played again
for every request after it. Written by tests, read by `messages` and `responses`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

HOUR = 3600


@frozen(kw_only=True)
class Failure:
    """An HTTP error.

    Args:
        kind: "usage_limit", "overloaded" or "unauthorized".
        resets_in: for a usage limit: seconds until its reset.
    """

    kind: str
    resets_in: int = 3 * HOUR


@frozen(kw_only=True)
class Step:
    """One answer of the model.

    Args:
        said: its words.
        tool: neutral name of the tool it calls: "write", "edit", "read", "shell", "plan"; "" for none.
        args: of the tool.
        failure: an error instead of an answer.
        used: fraction of the five-hour window that the answer's headers report.
        hold: the answer begins, and goes on once this is set.
    """

    said: str = ""
    tool: str = ""
    args: Mapping[str, Any] = field(factory=dict)
    failure: Failure | None = None
    used: float = 0.34
    hold: threading.Event | None = None


def say(text: str, *, used: float = 0.34, hold: threading.Event | None = None) -> Step:
    """A message, which ends the turn."""
    return Step(said=text, used=used, hold=hold)


def write(path: str, content: str, *, used: float = 0.34) -> Step:
    """A new file, its path relative to the working folder."""
    return Step(said=f"Now {path}.", tool="write", args={"path": path, "content": content}, used=used)


def edit(path: str, old: str, new: str) -> Step:
    """A whole line of a file replaced by another."""
    return Step(said=f"Changing {path}.", tool="edit", args={"path": path, "old": old, "new": new})


def read(path: str) -> Step:
    """A look at a file."""
    return Step(said=f"Reading {path}.", tool="read", args={"path": path})


def shell(command: str) -> Step:
    """A shell command."""
    return Step(said="Running a command.", tool="shell", args={"command": command})


def plan(*items: tuple[str, str]) -> Step:
    """The whole todo list: (text, "pending" | "in_progress" | "completed")."""
    return Step(said="My plan.", tool="plan", args={"items": items})


def usage_limit(*, resets_in: int = 3 * HOUR) -> Step:
    """The plan's five-hour window is used up."""
    return Step(failure=Failure(kind="usage_limit", resets_in=resets_in))


def overloaded() -> Step:
    """The provider is overloaded."""
    return Step(failure=Failure(kind="overloaded"))


def unauthorized() -> Step:
    """The login is refused."""
    return Step(failure=Failure(kind="unauthorized"))
