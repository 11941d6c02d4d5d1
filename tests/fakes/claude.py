"""Recorded conversations with Claude Code, played to a dialogue.

A `stdout.ndjson` holds what a one-shot run printed. An `io.ndjson` (folders "talk_...") holds, in order:
{"dir": "out", "line"} what the CLI printed, {"dir": "in", "key", "line"} what Relay wrote,
{"dir": "do", "do": [method, *args]} what was asked of the dialogue. Long lists and texts are cut.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import field, mutable

from relay.core.events import AgentEvent
from relay.providers.claude_stream import ClaudeDialogue
from relay.providers.protocol import Dialogue, LaunchRequest, Reading, Write

FOLDER = Path(__file__).parent.parent / "fixtures" / "claude"
TALK = "talk_"
READY = {"type": "control_response", "response": {"subtype": "success", "request_id": "initialize"}}
INIT = {"type": "system", "subtype": "init", "session_id": "S", "model": "m", "cwd": "/w"}
LEVEL = {"talk_allow": "ask", "talk_deny": "ask", "talk_interrupt_asked": "ask", "talk_reply_joins": "ask"}
RESUMED = {"resume", "resume_unknown", "talk_resume"}


def request(**changes: Any) -> LaunchRequest:
    """A launch request with what the conversations were recorded with."""
    fixed: dict[str, Any] = {"session_id": "s", "run": 1, "cwd": "$CWD", "prompt": "Add a refund flow"}
    return LaunchRequest(**{**fixed, **changes})


def recording(name: str) -> list[dict[str, Any]]:
    """The steps of a recorded conversation."""
    text = (FOLDER / name / "io.ndjson").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def printed(name: str) -> list[bytes]:
    """The lines that the CLI printed in a recording of either kind."""
    if name.startswith(TALK):
        return [step["line"].encode() for step in recording(name) if step["dir"] == "out"]
    return [line for line in (FOLDER / name / "stdout.ndjson").read_bytes().split(b"\n") if line]


def names(prefix: str = "") -> list[str]:
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
    """The whole conversation, with what was asked of the dialogue."""
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


def dialogue_of(name: str) -> ClaudeDialogue:
    """A dialogue for the run that was recorded."""
    return ClaudeDialogue(
        request(
            allow=LEVEL.get(name, "all"),
            run=2 if name == "talk_resume" else 1,
            prompt="BRIEF-TWO: go on where it stopped" if name == "talk_resume" else "Add a refund flow",
            native_id="an earlier one" if name in RESUMED else None,
        )
    )


def played(name: str) -> Played:
    """What its dialogue makes of a recording."""
    dialogue = dialogue_of(name)
    return play(dialogue, name) if name.startswith(TALK) else read_all(dialogue, printed(name))


def line(record: dict[str, Any]) -> bytes:
    """A record as the CLI would print it."""
    return json.dumps(record).encode()


def result(**changes: Any) -> dict[str, Any]:
    """A result record, by default of a turn that went well."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "terminal_reason": "completed",
        "result": "Done.",
        **changes,
    }


def started(**changes: Any) -> ClaudeDialogue:
    """A dialogue that is in its first turn."""
    dialogue = ClaudeDialogue(request(**changes))
    dialogue.open()
    feed(dialogue, READY, INIT)
    return dialogue


def feed(dialogue: ClaudeDialogue, *records: dict[str, Any]) -> list[Any]:
    """The events of records read one after the other."""
    return [event for record in records for event in dialogue.read(line(record), "out").events]
