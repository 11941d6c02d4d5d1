"""What the session rules keep of the current run in memory, and the settings they follow."""

from __future__ import annotations

from attrs import define, field, frozen

from relay.core import asks, effects, reports
from relay.core.events import PermissionAsked, TurnEnded
from relay.core.fsm import Step, Trigger
from relay.core.policies import ApprovalPolicy, CircuitPolicy, RetryPolicy
from relay.core.record import SessionRecord

Output = effects.Effect | asks.Ask
Outputs = list[Output]


@frozen(kw_only=True)
class SessionPolicy:
    """Settings that are the repository's rather than the session's.

    Args:
        declared_caps: (provider, tokens) that the user says a provider's quota is.
    """

    retry: RetryPolicy = field(factory=RetryPolicy)
    approvals: ApprovalPolicy = field(factory=ApprovalPolicy)
    circuit: CircuitPolicy = field(factory=CircuitPolicy)
    declared_caps: tuple[tuple[str, int], ...] = ()


@define
class LiveRun:
    """What is known of the current run while it runs; rebuilt by reading its output again.

    Args:
        attached: an adapter follows it.
        drained: all that it printed has been seen.
        starting: its start is under way.
        starting_again: an earlier life may have started it already.
        found: an earlier life of the daemon started it.
        start_failure: why it could not be started, while nothing of it is left alive.
        alive: its CLI runs.
        gone: nothing of it is alive.
        end: its end, while what it printed is brought into the log.
        turn_open: the agent works on a message.
        seen_life: it has given a sign of life.
        answered: its model has answered in the turn that is open.
        turns_ended: ends of turns so far.
        turn_end: a turn's end that has not been acted on.
        permissions: requests that wait for an answer, by the provider's id.
        near_limit: why it should be handed off before the wall, if it should.
        long_retry: the same of a retry that an earlier life saw, while nothing has come of it since.
        ending: it is being ended.
        gate_open: a safe point is awaited.
        interrupting: the end of an interrupted turn is awaited.
        tokens_changed: the record does not tell of all of `tokens` yet.
        said_in_turn: a message was said in mid-turn; the agent may take it up in a turn of its own.
    """

    attached: bool = False
    drained: bool = False
    starting: bool = False
    starting_again: bool = False
    found: bool = False
    start_failure: reports.EffectFailed | None = None
    alive: bool = False
    gone: bool = True
    end: reports.ChildGone | None = None
    turn_open: bool = False
    seen_life: bool = False
    answered: bool = False
    turns_ended: int = 0
    turn_end: TurnEnded | None = None
    tokens: int = 0
    tokens_changed: bool = False
    native_id: str = ""
    permissions: dict[str, PermissionAsked] = field(factory=dict)
    near_limit: str = ""
    long_retry: str = ""
    ending: bool = False
    gate_open: bool = False
    interrupting: bool = False
    said_in_turn: bool = False


@frozen(kw_only=True)
class Move:
    """A transition that is being saved; `key` is the effect's."""

    key: str
    record: SessionRecord
    steps: tuple[Step, ...]
    trigger: Trigger
