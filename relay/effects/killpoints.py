"""Points at which the daemon kills itself, for tests that show that nothing is lost by it.

Used by the effects port, and only in a daemon that was started with RELAY_KILL_AT in its environment:

    RELAY_KILL_AT=SaveSession:before:3   SIGKILL to itself when the third SaveSession is asked for
    RELAY_KILL_AT=list:/some/file        kill nothing; append every point that is passed to the file

A point is EFFECT:MOMENT:N. The effect is named by its class in `relay.core.effects`; the moments are
"before" (asked for, not begun), "after" (done, its report not given yet) and "reported" (the report, and
all that actors make of it, is dealt with: what they want next has been asked for and not begun). N counts
from 1 each effect and moment by itself. What reports several times (FollowChild) passes "after" and
"reported" each time. "after" a Broadcast is when the listeners have it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from relay.errors import UserError

VARIABLE = "RELAY_KILL_AT"
MOMENTS = ("before", "after", "reported")


class KillPoints:
    """The points passed so far, and the one to die at.

    Args:
        asked: the variable's value.

    Raises:
        UserError: it is no point.
    """

    def __init__(self, asked: str) -> None:
        head, _, path = asked.partition(":")
        self._list = Path(path) if head == "list" else None
        self._at = asked
        self._passed: Counter[str] = Counter()
        if self._list is None:
            _, moment, number = (*asked.split(":"), "", "")[:3]
            if moment not in MOMENTS or not number.isdecimal() or asked.count(":") != 2:
                raise UserError(
                    f"{VARIABLE}={asked} names no point",
                    hint="it is EFFECT:before|after|reported:N or list:FILE; unset it outside of tests",
                )

    @classmethod
    def of(cls, env: Mapping[str, str]) -> KillPoints | None:
        """As the environment asks for; None when it does not."""
        asked = env.get(VARIABLE)
        return cls(asked) if asked else None

    def passed(self, moment: str, effect: object) -> None:
        """An effect has come to this moment; does not return at the point that was asked for."""
        name = f"{type(effect).__name__}:{moment}"
        self._passed[name] += 1
        point = f"{name}:{self._passed[name]}"
        if self._list is not None:
            with self._list.open("a", encoding="utf-8") as file:
                file.write(f"{point}\n")
        elif point == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
