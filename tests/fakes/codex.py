"""Recorded conversations with Codex, played to a dialogue.

An `io.ndjson` holds, in order: {"dir": "out", "line"} what the app-server printed, {"dir": "in", "line"}
what Relay wrote, {"dir": "do", "do": [method, *args]} what was asked of the dialogue.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import field, mutable

from relay.core.events import AgentEvent
from relay.providers.protocol import Dialogue, LaunchRequest, Reading, Write
from relay.version import VERSION

FOLDER = Path(__file__).parent.parent / "fixtures" / "codex"


def request(**changes: Any) -> LaunchRequest:
    """A launch request with what the recordings were made with."""
    fixed: dict[str, Any] = {"session_id": "s", "run": 1, "cwd": "$CWD", "prompt": "Add a refund flow"}
    return LaunchRequest(**{**fixed, **changes})


def recording(name: str) -> list[dict[str, Any]]:
    """The steps of a recorded conversation."""
    text = (FOLDER / name / "io.ndjson").read_text("utf-8").replace("$VERSION", VERSION)
    return [json.loads(line) for line in text.split("\n") if line]


def printed(name: str) -> list[bytes]:
    """The lines that the CLI printed in a recording of either kind."""
    if (FOLDER / name / "io.ndjson").exists():
        return [step["line"].encode() for step in recording(name) if step["dir"] == "out"]
    return [line for line in (FOLDER / name / "stdout.ndjson").read_bytes().split(b"\n") if line]


def names(prefix: str) -> list[str]:
    """The recordings whose name begins with `prefix`."""
    return sorted(path.name for path in FOLDER.iterdir() if path.name.startswith(prefix))


@mutable
class Played:
    """What a dialogue made of a recording."""

    events: list[AgentEvent] = field(factory=list)
    writes: list[Write] = field(factory=list)
    turn_open: bool = False

    def take(self, reading: Reading) -> None:
        self.events += reading.events
        self.writes += reading.writes

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]


def play(dialogue: Dialogue, name: str) -> Played:
    """The whole recording, with what was asked of the dialogue."""
    played = Played(writes=list(dialogue.open()))
    for step in recording(name):
        if step["dir"] == "out":
            played.take(dialogue.read(step["line"].encode(), "out"))
        elif step["dir"] == "do":
            method, *args = step["do"]
            played.writes += getattr(dialogue, method)(*args) or ()
    played.turn_open = dialogue.turn_open
    return played


def read_all(dialogue: Dialogue, lines: list[bytes]) -> Played:
    """The output alone, as when a run is followed again."""
    played = Played(writes=list(dialogue.open()))
    for line in lines:
        played.take(dialogue.read(line, "out"))
    played.turn_open = dialogue.turn_open
    return played
