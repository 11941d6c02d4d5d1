"""The handoff state machine: a pure table.

`advance(state, trigger)` gives the next state and the steps to take once that state is on disk.
`redo(state)` gives the steps to take when a restarted daemon finds a session in that state; every
step is idempotent, so taking it twice is harmless. The session rules turn steps into effects.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a session stands."""

    RUNNING = "RUNNING"
    PAUSING = "PAUSING"
    SNAPSHOTTED = "SNAPSHOTTED"
    ENVELOPE_BUILT = "ENVELOPE_BUILT"
    DISPATCHED = "DISPATCHED"
    RESUMING = "RESUMING"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.STOPPED})


class Trigger(StrEnum):
    """What moves a session on."""

    HAND_OFF = "hand_off"
    """A limit, the threshold, a failure or a person: the agent has to stop here."""
    SNAPSHOT_TAKEN = "snapshot_taken"
    CONTRACT_SEALED = "contract_sealed"
    TARGET_CHOSEN = "target_chosen"
    HOLD = "hold"
    """Nobody to go on with now, or the user wants it held."""
    CHILD_STARTED = "child_started"
    START_FAILED = "start_failed"
    HEARTBEAT = "heartbeat"
    BACK_OFF = "back_off"
    """The agent stays up and is asked again later."""
    ASK_AGAIN = "ask_again"
    """The agent that stayed up is asked again now."""
    WAKE = "wake"
    """The wait is over, or the user resumed: look for somebody to go on with."""
    COMPLETE = "complete"
    FAIL = "fail"
    STOP = "stop"


class Step(StrEnum):
    """What is done once a state has been entered."""

    REACH_SAFE_POINT = "reach_safe_point"
    SEAL_CONTRACT = "seal_contract"
    CHOOSE_TARGET = "choose_target"
    START_CHILD = "start_child"
    FOLLOW_CHILD = "follow_child"
    AWAIT_HEARTBEAT = "await_heartbeat"
    SET_WAKE = "set_wake"
    SAY_RETRY = "say_retry"
    END_CHILD = "end_child"


_TABLE: dict[tuple[State, Trigger], tuple[State, tuple[Step, ...]]] = {
    (State.RUNNING, Trigger.HAND_OFF): (State.PAUSING, (Step.REACH_SAFE_POINT,)),
    (State.RUNNING, Trigger.BACK_OFF): (State.WAITING, (Step.SET_WAKE,)),
    (State.PAUSING, Trigger.SNAPSHOT_TAKEN): (State.SNAPSHOTTED, (Step.SEAL_CONTRACT,)),
    (State.SNAPSHOTTED, Trigger.CONTRACT_SEALED): (State.ENVELOPE_BUILT, (Step.CHOOSE_TARGET,)),
    (State.ENVELOPE_BUILT, Trigger.TARGET_CHOSEN): (State.DISPATCHED, (Step.START_CHILD,)),
    (State.ENVELOPE_BUILT, Trigger.HOLD): (State.WAITING, (Step.SET_WAKE,)),
    (State.DISPATCHED, Trigger.CHILD_STARTED): (
        State.RESUMING,
        (Step.FOLLOW_CHILD, Step.AWAIT_HEARTBEAT),
    ),
    (State.DISPATCHED, Trigger.START_FAILED): (State.ENVELOPE_BUILT, (Step.CHOOSE_TARGET,)),
    (State.RESUMING, Trigger.HEARTBEAT): (State.RUNNING, ()),
    (State.RESUMING, Trigger.START_FAILED): (State.ENVELOPE_BUILT, (Step.CHOOSE_TARGET,)),
    (State.RESUMING, Trigger.HAND_OFF): (State.PAUSING, (Step.REACH_SAFE_POINT,)),
    (State.WAITING, Trigger.ASK_AGAIN): (State.RUNNING, (Step.SAY_RETRY,)),
    (State.WAITING, Trigger.WAKE): (State.ENVELOPE_BUILT, (Step.CHOOSE_TARGET,)),
    (State.WAITING, Trigger.HAND_OFF): (State.PAUSING, (Step.REACH_SAFE_POINT,)),
    (State.RUNNING, Trigger.COMPLETE): (State.COMPLETED, (Step.END_CHILD,)),
}
for _state in State:
    if _state not in TERMINAL:
        _TABLE[(_state, Trigger.FAIL)] = (State.FAILED, (Step.END_CHILD,))
        _TABLE[(_state, Trigger.STOP)] = (State.STOPPED, (Step.END_CHILD,))

_REDO: dict[State, tuple[Step, ...]] = {
    State.RUNNING: (Step.FOLLOW_CHILD,),
    State.PAUSING: (Step.FOLLOW_CHILD, Step.REACH_SAFE_POINT),
    State.SNAPSHOTTED: (Step.SEAL_CONTRACT,),
    State.ENVELOPE_BUILT: (Step.CHOOSE_TARGET,),
    State.DISPATCHED: (Step.START_CHILD,),
    State.RESUMING: (Step.FOLLOW_CHILD, Step.AWAIT_HEARTBEAT),
    State.WAITING: (Step.FOLLOW_CHILD, Step.SET_WAKE),
    State.COMPLETED: (Step.END_CHILD,),
    State.FAILED: (Step.END_CHILD,),
    State.STOPPED: (Step.END_CHILD,),
}


def advance(state: State, trigger: Trigger) -> tuple[State, tuple[Step, ...]] | None:
    """The next state and its steps, or None when the trigger means nothing in this state."""
    return _TABLE.get((state, trigger))


def redo(state: State) -> tuple[Step, ...]:
    """The steps of a state for a session that was found in it at a restart."""
    return _REDO[state]


def edges() -> tuple[tuple[State, Trigger, State], ...]:
    """Every transition, for documentation and tests."""
    return tuple((state, trigger, following) for (state, trigger), (following, _) in _TABLE.items())
