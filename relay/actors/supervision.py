"""The promises of a supervisor: restart with back-off, and give up past an intensity.

A plain object owned by each supervising actor; as in OTP, more than `intensity` restarts within
`period` are one too many and the failure goes up a level.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from attrs import define, field, frozen


@frozen(kw_only=True)
class RestartPolicy:
    """How often a child may be restarted.

    Args:
        intensity: restarts allowed within `period`.
        base: seconds before the second restart; doubles each time up to `longest`.
    """

    intensity: int = 5
    period: timedelta = timedelta(seconds=60)
    base: float = 0.1
    longest: float = 10.0


@frozen(kw_only=True)
class RestartAfter:
    """Restart the child after this many seconds."""

    delay: float


@frozen(kw_only=True)
class GiveUp:
    """Restart no more: the failure goes up."""

    restarts: int


@define
class RestartCounter:
    """The crashes of one child."""

    policy: RestartPolicy = field(factory=RestartPolicy)
    crashes: deque[datetime] = field(factory=deque)

    def crashed(self, now: datetime) -> RestartAfter | GiveUp:
        """Count a crash and say what to do."""
        while self.crashes and now - self.crashes[0] > self.policy.period:
            self.crashes.popleft()
        self.crashes.append(now)
        count = len(self.crashes)
        if count > self.policy.intensity:
            return GiveUp(restarts=count - 1)
        if count == 1:
            return RestartAfter(delay=0.0)
        return RestartAfter(delay=min(self.policy.base * 2 ** (count - 2), self.policy.longest))
