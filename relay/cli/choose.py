"""Which session is meant: an id, the beginning of one, or the only one under way. Used by most commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from relay.cli.client import Client
from relay.cli.render_style import ENDED_COLOURS
from relay.core.quoting import one_line
from relay.errors import ConflictError, NotFoundError

View = Mapping[str, Any]
_ID = re.compile(r"s-[0-9A-Za-z]{6,40}")


def pick(views: Sequence[View], text: str, *, ended: bool = False) -> View:
    """The session that `text` means.

    Args:
        views: all sessions, the newest first, as the API lists them.
        text: an id or its beginning, with or without the "s-"; "" for the only one under way.
        ended: with "", when none is under way: the newest.

    Raises:
        NotFoundError: none. ConflictError: several; the message names them.
    """
    if text:
        exact = [view for view in views if view["sessionId"] == text]
        fitting = exact or [view for view in views if str(view["sessionId"]).startswith((text, f"s-{text}"))]
        if not fitting:
            raise NotFoundError(f"no session {text!r}", hint="`relay sessions` lists them")
    else:
        fitting = [view for view in views if view["fsmState"] not in ENDED_COLOURS]
        if not fitting and ended:
            fitting = list(views[:1])
        if not fitting:
            raise NotFoundError("no session is under way", hint='begin one: relay run "the task"')
    if len(fitting) > 1:
        named = "\n".join(f"  {v['sessionId']}  {one_line(str(v.get('taskGoal', '')), 60)}" for v in fitting)
        what = (
            f"{len(fitting)} sessions begin with {text!r}"
            if text
            else f"{len(fitting)} sessions are under way"
        )
        raise ConflictError(f"{what}:\n{named}", hint="name one of them")
    return fitting[0]


def chosen(client: Client, text: str, *, ended: bool = False) -> View:
    """The same, asking the daemon. Raises as `pick`, and as the client."""
    try:
        return pick(client.get("/api/sessions"), text, ended=ended)
    except NotFoundError:
        if _ID.fullmatch(text):
            # The daemon knows why one is not listed: its repository was moved, its state can't be read.
            return dict(client.get(f"/api/sessions/{text}"))
        raise
