"""The person at the terminal while a session is followed: answers to permission requests, and Ctrl-C.

Used by `run` and `attach`. Waiting for an answer never holds up the events: stdin is watched in the
pauses between two looks at the daemon.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click
from attrs import define, field

from relay.cli.client import Client, segment
from relay.cli.launch import wait
from relay.cli.render_style import wish
from relay.errors import RelayError

Event = Mapping[str, Any]


@define
class Desk:
    """The requests that are open, and the line that the person types.

    Args:
        open: id -> the request, the oldest first.
        asked: the request whose question is on the screen.
    """

    open: dict[str, Event] = field(factory=dict)
    asked: str = ""
    _typed: str | None = None
    _closed: bool = False

    def see(self, events: Iterable[Event]) -> None:
        """Take note of what was asked and what was answered."""
        for event in events:
            data = event.get("data")
            if event.get("type") != "approval" or not isinstance(data, Mapping):
                continue
            approval = str(data.get("id", ""))
            if data.get("status") == "open":
                self.open[approval] = data
                continue
            self.open.pop(approval, None)
            if self.asked == approval:
                self.asked = ""

    def keep(self, still_open: Iterable[str]) -> None:
        """Drop what is not open any more, as after reading a session's past."""
        known = set(still_open)
        self.open = {approval: asked for approval, asked in self.open.items() if approval in known}

    def question(self) -> str:
        """The question to put on the screen now; "" when there is none, or it stands there already."""
        if self.asked or not self.open or self._closed:
            return ""
        self.asked = next(iter(self.open))
        asked = self.open[self.asked]
        if asked.get("question"):
            return f"your answer to {self.asked} (empty to leave it): "
        return f"allow {self.asked}, {wish(asked)}? [y/n] "

    def answer(self, line: str) -> dict[str, Any] | None:
        """What a typed line means for the request that was asked; None for nothing."""
        text = line.strip()
        asked = self.open.get(self.asked)
        if asked is None:
            return None
        if asked.get("question"):
            return {"approved": True, "note": text} if text else None
        if text.lower() in ("y", "yes"):
            return {"approved": True, "note": ""}
        if text.lower() in ("n", "no"):
            return {"approved": False, "note": ""}
        return None

    def pause(self, seconds: float) -> None:
        """Wait; a line that is typed meanwhile is kept for `take`."""
        if not self.open or self._closed or sys.platform == "win32":
            wait(seconds)
            return
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        if readable:
            self._typed = sys.stdin.readline()
            # Ctrl-D: nobody answers here any more.
            self._closed = self._typed == ""

    def take(self) -> str | None:
        """The typed line, once."""
        line, self._typed = self._typed, None
        return line

    def serve(self, client: Client) -> None:
        """Send what was typed, and put the next question on the screen."""
        line = self.take()
        if line is not None and self.asked:
            approval, body = self.asked, self.answer(line)
            self.asked = ""
            if body is not None:
                self.open.pop(approval, None)
                try:
                    client.post(f"/api/approvals/{segment(approval)}", body)
                except RelayError as error:
                    click.echo(f"{approval}: {error.message}", err=True)
            elif self.open.get(approval, {}).get("question"):
                self.open.pop(approval, None)
                click.echo(f"left open: relay approvals approve {approval} --note 'your answer'")
        question = self.question()
        if question:
            click.echo(question, nl=False)


def interrupted() -> str:
    """What Ctrl-C shall do: "detach", "pause", "stop" or "go on". A second Ctrl-C detaches."""
    meanings = {"d": "detach", "p": "pause", "s": "stop", "g": "go on"}
    try:
        click.echo("\n[d]etach and let it go on, [p]ause it, [s]top it, [g]o on following? ", nl=False)
        while True:
            line = sys.stdin.readline()
            if not line:
                return "detach"
            meaning = meanings.get(line.strip().lower()[:1])
            if meaning:
                return meaning
            click.echo("d, p, s or g? ", nl=False)
    except KeyboardInterrupt:
        click.echo("")
        return "detach"
