"""What a person or program asks of a session, and how it is answered. Values, sent as messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen

from relay.core.chain import Target


@frozen(kw_only=True)
class HandOff:
    """Stop the agent at a safe point and go on with another.

    Args:
        to: where to, or None for the chain's next.
        by: who asked, for the audit log.
    """

    at: datetime
    by: str
    to: Target | None = None


@frozen(kw_only=True)
class Pause:
    """Stop the agent at a safe point, commit, and wait for `Resume`."""

    at: datetime
    by: str


@frozen(kw_only=True)
class Resume:
    """Go on after a pause, a question or a wait."""

    at: datetime
    by: str


@frozen(kw_only=True)
class Stop:
    """End the session; its work stays on its branch."""

    at: datetime
    by: str


@frozen(kw_only=True)
class Reply:
    """Say something to the agent."""

    at: datetime
    by: str
    text: str


@frozen(kw_only=True)
class Merge:
    """Merge an ended or waiting session's branch into the user's checkout."""

    at: datetime
    by: str


@frozen(kw_only=True)
class Discard:
    """Remove an ended or waiting session's worktree and branch."""

    at: datetime
    by: str
    force: bool = False


Command = HandOff | Pause | Resume | Stop | Reply | Merge | Discard


@frozen(kw_only=True)
class Accepted:
    """It will be done; `data` is what the caller may want to know."""

    data: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class Refused:
    """It can't be done now: an expected refusal, not an error of Relay's.

    Args:
        code: a code of `relay.errors`.
    """

    code: str
    message: str
    hint: str = ""


@frozen(kw_only=True)
class Pending:
    """The answer comes when the effect of this key is done."""

    key: str


Answer = Accepted | Refused | Pending
