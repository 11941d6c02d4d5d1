"""The state machine's table: what can follow what."""

from __future__ import annotations

import pytest

from relay.core.fsm import TERMINAL, State, Step, Trigger, advance, edges, redo

HANDOFF_PATH = [
    (State.RUNNING, Trigger.HAND_OFF, State.PAUSING),
    (State.PAUSING, Trigger.SNAPSHOT_TAKEN, State.SNAPSHOTTED),
    (State.SNAPSHOTTED, Trigger.CONTRACT_SEALED, State.ENVELOPE_BUILT),
    (State.ENVELOPE_BUILT, Trigger.TARGET_CHOSEN, State.DISPATCHED),
    (State.DISPATCHED, Trigger.CHILD_STARTED, State.RESUMING),
    (State.RESUMING, Trigger.HEARTBEAT, State.RUNNING),
]


@pytest.mark.parametrize(("state", "trigger", "want"), HANDOFF_PATH)
def test_a_handoff_goes_through_every_state(state: State, trigger: Trigger, want: State) -> None:
    move = advance(state, trigger)

    assert move is not None
    assert move[0] is want


def test_nothing_leaves_a_terminal_state() -> None:
    assert [(s, t) for s, t, _ in edges() if s in TERMINAL] == []


@pytest.mark.parametrize("state", [s for s in State if s not in TERMINAL])
def test_every_live_state_can_be_stopped_and_can_fail(state: State) -> None:
    stopped, failed = advance(state, Trigger.STOP), advance(state, Trigger.FAIL)

    assert stopped is not None and stopped[0] is State.STOPPED
    assert failed is not None and failed[0] is State.FAILED


def test_only_a_running_session_completes() -> None:
    assert [s for s, _, to in edges() if to is State.COMPLETED] == [State.RUNNING]


def test_no_child_is_started_before_a_contract_is_sealed_or_the_session_is_new() -> None:
    starts = [s for s, t, to in edges() if to is State.DISPATCHED]

    assert starts == [State.ENVELOPE_BUILT]


def test_the_next_agent_starts_only_from_a_state_in_which_the_old_one_is_gone() -> None:
    """PAUSING is left by a snapshot alone, and the snapshot follows the end of the child."""
    left_by = {t for s, t, _ in edges() if s is State.PAUSING}

    assert left_by == {Trigger.SNAPSHOT_TAKEN, Trigger.FAIL, Trigger.STOP}


@pytest.mark.parametrize("state", list(State))
def test_every_state_can_be_taken_up_again(state: State) -> None:
    steps = redo(state)

    assert isinstance(steps, tuple)
    assert (Step.END_CHILD in steps) == (state in TERMINAL)


def test_every_state_can_be_reached() -> None:
    reached = {State.ENVELOPE_BUILT}
    while True:
        more = {to for s, _, to in edges() if s in reached} - reached
        if not more:
            break
        reached |= more

    assert reached == set(State)
