"""A session's events as lines for people: a pure function of the event.

Used by `run`, `attach` and `logs`. What an agent said is cleaned of escapes, control characters and bidi
marks before it gets onto a terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import define

from relay.cli.render_agent import AGENT
from relay.cli.render_session import SESSION
from relay.cli.render_style import ENDED_COLOURS, Data, Said, Style, instant_of, words
from relay.core.quoting import clean, one_line

__all__ = ["HandoffClock", "Style", "render_event"]


@define
class HandoffClock:
    """How long a handoff has taken so far, told event by event."""

    _since: datetime | None = None

    def milliseconds(self, event: Mapping[str, Any]) -> int | None:
        """Since the handoff under way began; None outside of one. The event that ends it still counts."""
        at = instant_of(event.get("ts"))
        data = event.get("data")
        to = data.get("to") if isinstance(data, Mapping) and event.get("type") == "fsm" else None
        if at is None:
            return None
        if to == "PAUSING":
            self._since = at
        if self._since is None:
            return None
        # Events of an agent carry the time at which they were read, which may be a little earlier.
        passed = max(0, round((at - self._since).total_seconds() * 1000))
        if to in ("RUNNING", "WAITING", *ENDED_COLOURS):
            self._since = None
        return passed


def render_event(event: Mapping[str, Any], style: Style, *, since_ms: int | None = None) -> list[str]:
    """The lines of one event; none for what would only be noise.

    Args:
        event: `{seq, ts, session, type, data}` as the API gives it. What has an unexpected shape is
            passed over rather than being an error.
        since_ms: milliseconds since the handoff under way began, if one is.
    """
    data = event.get("data")
    fields: Data = data if isinstance(data, Mapping) else {}
    kind = str(event.get("type", ""))
    of_agent = kind == "agent_event"
    said = _said(kind, fields, style)
    if said is None:
        return []
    at = instant_of(event.get("ts"))
    clock = at.astimezone(style.zone).strftime("%H:%M:%S") if at else " " * 8
    who = f"{words(fields, 'target', 40) or 'agent'}  " if of_agent else ""
    passed = f"  (+{since_ms} ms)" if since_ms and not of_agent else ""
    taken = len(clock) + 2 + len(who)
    body = _wrapped(said.text, taken, style.width)
    if said.most and len(body) > said.most:
        left = len(body) - said.most
        body = [*body[: said.most], f"[... {left} more lines; `relay logs -v` shows all]"]
    first = style.paint(body[0], said.colour) + style.paint(passed, "dim")
    shown = [f"{style.paint(clock, 'dim')}  {style.paint(who, 'cyan')}{first}".rstrip()]
    shown += [(" " * taken + style.paint(line, said.colour)).rstrip() for line in body[1:]]
    for line in said.below:
        shown += [
            " " * (len(clock) + 4) + style.paint(part, "dim")
            for part in _wrapped(line, len(clock) + 4, style.width)
        ]
    return shown


def _said(kind: str, data: Data, style: Style) -> Said | None:
    table, name = (AGENT, str(data.get("kind", ""))) if kind == "agent_event" else (SESSION, kind)
    speak = table.get(name)
    if speak is not None:
        return speak(data, style)
    return Said(one_line(f"{name} {dict(data)}", 400), "dim") if style.verbose else None


def _wrapped(text: str, taken: int, width: int) -> list[str]:
    """Clean lines that fit behind `taken` columns; a line's own indent is kept."""
    found: list[str] = []
    for line in clean(text).expandtabs(4).strip("\n").split("\n"):
        if not width or len(line) <= width - taken:
            found.append(line.rstrip())
            continue
        room = max(width - taken, 20)
        indent = line[: len(line) - len(line.lstrip())][: room // 2]
        found += textwrap.wrap(
            line.lstrip(), room, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
    return found
