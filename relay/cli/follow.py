"""Follows a session: prints its events as they become durable, asks the person at the terminal, ends with it.

Used by `run`, `attach` and `logs -f`. Events come from the audit log by the API, from a number on, so
that nothing is lost or shown twice when the daemon is started anew meanwhile.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from attrs import define, field

from relay.cli.base import Settings, use_colour
from relay.cli.client import Client, find, segment
from relay.cli.launch import wait
from relay.cli.render import HandoffClock, Style, render_event
from relay.cli.render_style import ENDED_COLOURS
from relay.errors import NoDaemonError, RelayError, TimedOutError

PAGE = 2_000
QUICK_SECONDS = 0.1
SLOW_SECONDS = 0.5
LOOK_SECONDS = 3.0
"""How often the session itself is looked at: it may have ended without an event that says so."""
AWAY_SECONDS = 60.0
"""How long a daemon may be away (an update, a crash) before following gives up."""

Event = Mapping[str, Any]


def terminal_style(settings: Settings) -> Style:
    """The style that fits stdout."""
    colour = use_colour()
    width = shutil.get_terminal_size().columns if colour else 0
    return Style(colour=colour, width=width, verbose=settings.verbose)


@define
class Printer:
    """Prints events: as lines for people, or with `--json` each as a line of JSON."""

    settings: Settings
    style: Style
    _clock: HandoffClock = field(factory=HandoffClock)

    def show(self, events: Iterable[Event], *, silently: bool = False) -> None:
        """Print them; `silently` only takes note of where the handoff stands."""
        for event in events:
            passed = self._clock.milliseconds(event)
            if silently or (self.settings.quiet and not self.settings.as_json):
                continue
            if self.settings.as_json:
                click.echo(json.dumps(event, ensure_ascii=False))
                continue
            for line in render_event(event, self.style, since_ms=passed):
                click.echo(line, color=self.style.colour)


@define
class Follower:
    """One session, followed.

    Args:
        client: of the daemon; another one takes its place when the daemon came back elsewhere.
        sid: the session.
        after: number of the last event that is known.
        pause: waits for some seconds, or until a person has typed something.
    """

    settings: Settings
    client: Client
    sid: str
    after: int = 0
    pause: Callable[[float], None] = wait
    ended: bool = False
    _told: bool = False
    _looked: float = field(factory=time.monotonic)

    def page(self) -> list[Event]:
        """The next events, which may be none."""
        path = f"/api/sessions/{segment(self.sid)}/events"
        found: list[Event] = self._ask(path, after=str(self.after), limit=str(PAGE))
        for event in found:
            self.after = max(self.after, int(event.get("seq", 0)))
            self._told = self._told or _ends(event)
        if not (found or self.ended or self._told) and time.monotonic() - self._looked > LOOK_SECONDS:
            self.look()
        return found

    def look(self) -> Mapping[str, Any]:
        """The session in full; takes note whether it is over."""
        self._looked = time.monotonic()
        view: Mapping[str, Any] = self._ask(f"/api/sessions/{segment(self.sid)}")
        if view.get("fsmState") in ENDED_COLOURS:
            self.ended = True
        return view

    def history(self) -> list[Event]:
        """All events that there are by now."""
        found: list[Event] = []
        while page := self.page():
            found += page
        return found

    def follow(self, see: Callable[[list[Event]], None]) -> None:
        """Give every page of events to `see` until the session is over and all its events have been seen."""
        delay = QUICK_SECONDS
        patient = True
        while True:
            page = self.page()
            if page:
                see(page)
                delay, patient = QUICK_SECONDS, True
                if len(page) >= PAGE or self._told:
                    continue
            elif self._told or (self.ended and not patient):
                return
            elif self.ended:
                # The record is saved before its last event is in the log.
                delay, patient = SLOW_SECONDS, False
            self.pause(delay)
            delay = min(delay * 1.5, SLOW_SECONDS)

    def _ask(self, path: str, **query: str) -> Any:
        """GET; a daemon that is away is waited for, since the agents go on without it."""
        try:
            return self.client.get(path, **query)
        except (NoDaemonError, TimedOutError) as error:
            problem: RelayError = error
        if not self.settings.quiet:
            click.echo("the daemon is away; agents go on without it, waiting for it ...", err=True)
        deadline = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < deadline:
            self.pause(SLOW_SECONDS)
            try:
                again = Client(find(self.settings))
                answer = again.get(path, **query)
            except (NoDaemonError, TimedOutError) as error:
                problem = error
                continue
            self.client.close()
            self.client = again
            return answer
        problem.hint = f"start it with `relay daemon start`, then: relay attach {self.sid}"
        raise problem


def _ends(event: Event) -> bool:
    data = event.get("data")
    return event.get("type") == "fsm" and isinstance(data, Mapping) and data.get("to") in ENDED_COLOURS
