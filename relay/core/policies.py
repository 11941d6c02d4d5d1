"""What a user may set of the rules that decide: when to try again, to wait, and what agents do unasked.

Values of relay.toml alone. Those who decide by them are `relay.core.retry`, `circuit` and `approval`, which
reading a configuration does not need.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

ALLOW_LEVELS = ("ask", "edits", "all")


class Prefer(StrEnum):
    """What a usage limit leads to where a fallback exists."""

    WAIT = "wait"
    HANDOFF = "handoff"
    WAIT_THEN_HANDOFF = "wait-then-handoff"


@frozen(kw_only=True)
class RetryPolicy:
    """The `[retry]` section of relay.toml.

    Args:
        enabled: false: never try again or wait; hand off, or ask.
        prefer: with a fallback at hand, `handoff` moves on at once; `wait-then-handoff` sits out a reset
            that is at most two minutes away and moves on otherwise; `wait` sits out any up to
            `max_wait_minutes`.
        max_wait_minutes: a longer wait counts as long: handed off, or, without a fallback, announced.
        backoff_seconds: the first back-off; doubles each time, five minutes at most.
        jitter_pct: each back-off is longer or shorter by up to this part.
        max_retries: tries in place before moving on.
        margin_seconds: added to every reset, since clocks differ.
        retry_message: what the agent is told when it is asked to go on.
    """

    enabled: bool = True
    prefer: str = Prefer.WAIT_THEN_HANDOFF
    max_wait_minutes: float = 360.0
    backoff_seconds: float = 5.0
    jitter_pct: float = 20.0
    max_retries: int = 8
    margin_seconds: float = 30.0
    retry_message: str = "continue"


@frozen(kw_only=True)
class CircuitPolicy:
    """The `[circuit]` section.

    Args:
        failures: failures in a row that open.
        open_seconds: how long the first time; doubles each time, an hour at most.
    """

    failures: int = 3
    open_seconds: float = 60.0


@frozen(kw_only=True)
class ApprovalPolicy:
    """The `[approvals]` section.

    Args:
        commands: shell commands, as globs, that run unasked when they hold no shell syntax
            ("make test", "git status*").
        timeout_seconds: a question unanswered for so long is answered with no.
    """

    commands: tuple[str, ...] = ()
    timeout_seconds: float = 300.0
