"""The session rules' ground: the record, transitions that are saved before they are entered, the log."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import deque
from datetime import datetime
from typing import Any

from attrs import evolve

from relay.core import asks, effects, reports
from relay.core.chain import Target, candidates
from relay.core.events import Verdict
from relay.core.facts import SessionFacts
from relay.core.fsm import TERMINAL, State, Step, Trigger, advance
from relay.core.record import Run, SessionRecord
from relay.core.redact import DEFAULT
from relay.core.session_live import LiveRun, Move, Output, Outputs, SessionPolicy

ENDINGS = (Trigger.COMPLETE, Trigger.FAIL, Trigger.STOP)
OVER = "over"


def begun_data(record: SessionRecord) -> dict[str, Any]:
    """What the log says of a session's beginning."""
    adopted = record.options.adopted
    begun: dict[str, Any] = {
        "goal": DEFAULT.redact(record.options.goal).text,
        "chain": [str(target) for target in record.options.chain],
        "branch": record.branch,
        "worktree": record.worktree,
        "base": record.base_commit,
        "notes": list(record.notes),
    }
    if adopted is not None:
        begun["adopted"] = {"from": adopted.store, "nativeId": adopted.native_id, "folder": adopted.cwd}
    return begun


class SessionBase(ABC):
    """See the module.

    Args:
        record: the durable state.
        facts: what has been learnt from the agents' events so far.
        policy: the repository's settings.
    """

    def __init__(self, record: SessionRecord, facts: SessionFacts, policy: SessionPolicy) -> None:
        self.record = record
        self.facts = facts
        self.policy = policy
        self._live = LiveRun()
        self._places = effects.LastPlaces()
        self._saving: Move | None = None
        self._later: deque[tuple[Trigger, datetime, dict[str, Any]]] = deque()
        self._when_saved: dict[str, Outputs] = {}
        self._saves = 0
        self._snapshot: reports.SnapshotTaken | None = None
        self._snapshotting = False
        self._verifying = False
        self._merging = False
        self._fidelity = 0.0
        self._problem = ""

    def _fire(self, trigger: Trigger, at: datetime, **changes: Any) -> Outputs:
        """Save a transition; one that comes while another is being saved waits its turn."""
        if self._saving is not None:
            self._later.append((trigger, at, changes))
            return []
        move = advance(self.record.state, trigger)
        if move is None:
            return []
        state, steps = move
        return self._move(evolve(self.record, state=state, updated_at=at, **changes), steps, trigger)

    def _move(self, record: SessionRecord, steps: tuple[Step, ...], trigger: Trigger) -> Outputs:
        key = self._save_key("save")
        self._saving = Move(key=key, record=record, steps=steps, trigger=trigger)
        return [effects.SaveSession(key=key, record=record)]

    def _save_key(self, what: str) -> str:
        self._saves += 1
        return f"{what}:{self._saves}"

    def _saved(self, key: str, at: datetime) -> Outputs:
        outputs = self._when_saved.pop(key, [])
        move = self._saving
        if move is None or move.key != key:
            return outputs
        self._saving = None
        self._problem = ""
        before = "" if self.record.state is move.record.state else self.record.state
        self.record = move.record
        outputs.append(asks.Record(entries=(self._fsm_entry(before, move, at),), sync=True))
        if self.record.ending and not self.record.ended:
            outputs += self._go_on_ending(at)
        else:
            for step in move.steps:
                outputs += self._take(step, at)
        if self.record.ended:
            outputs += self._wind_up(at)
        while self._later and self._saving is None:
            trigger, when, changes = self._later.popleft()
            if not self.record.ending or trigger in ENDINGS:
                outputs += self._fire(trigger, when, **changes)
        return [*outputs, *self._settle(at)]

    def _save_again(self) -> Outputs:
        """What could not be saved; the newest state of it."""
        keys = [*self._when_saved, *([self._saving.key] if self._saving else [])]
        return [effects.SaveSession(key=key, record=self._ahead) for key in keys or ["persist:0"]]

    @property
    def _ahead(self) -> SessionRecord:
        """The record as it will be once what is being saved is saved."""
        return self._saving.record if self._saving else self.record

    def _fsm_entry(self, before: str, move: Move, at: datetime) -> effects.JournalEntry:
        run = move.record.run
        return self._entry(
            at,
            "fsm",
            {
                "from": before,
                "to": move.record.state,
                "trigger": move.trigger,
                "reason": move.record.reason,
                "run": run.number if run else 0,
                "target": str(run.target) if run else "",
                "waitReason": move.record.wait_reason if move.record.state is State.WAITING else "",
                "wakeAt": move.record.wake_at.isoformat() if move.record.wake_at else None,
                "endReason": move.record.end_reason,
                "snapshot": move.record.snapshot_commit,
                "contract": move.record.contract_id,
            },
        )

    def _catch_up_log(self, unlogged: tuple[str, ...], at: datetime) -> Outputs:
        """Write what an earlier life saved, and died before it was in the log."""
        entries = []
        if "session" in unlogged:
            entries.append(self._entry(at, "session", begun_data(self.record)))
        if "fsm" in unlogged:
            move = Move(key="", record=self.record, steps=(), trigger=Trigger.WAKE)
            entry = self._fsm_entry("", move, at)
            entries.append(evolve(entry, data={**entry.data, "trigger": "recovered"}))
        return [asks.Record(entries=tuple(entries), sync=True)] if entries else []

    def _wind_up(self, at: datetime) -> Outputs:
        """The session is over: once the log holds that, its output is rewritten in redacted form.

        In this order, so that a session whose output is rewritten has nothing left to be done.
        """
        leave = asks.LeaveTargets(sid=self.record.sid, at=at)
        return [leave, asks.Confirm(key=OVER, repository=self.record.repository, at=at)]

    def _change(self, **changes: Any) -> None:
        """Change fields that are no transition, also in the record being saved."""
        self.record = evolve(self.record, **changes)
        if self._saving is not None:
            self._saving = evolve(self._saving, record=evolve(self._saving.record, **changes))

    def _change_run(self, number: int, **changes: Any) -> None:
        def changed(runs: tuple[Run, ...]) -> tuple[Run, ...]:
            return tuple(evolve(run, **changes) if run.number == number else run for run in runs)

        self.record = evolve(self.record, runs=changed(self.record.runs))
        if self._saving is not None:
            record = evolve(self._saving.record, runs=changed(self._saving.record.runs))
            self._saving = evolve(self._saving, record=record)

    def _persist(self, *then: Output) -> Outputs:
        """Save changes that are no transition; `then` follows once they are on disk."""
        key = self._save_key("persist")
        if then:
            self._when_saved[key] = list(then)
        return [effects.SaveSession(key=key, record=self._ahead)]

    def _hand_off(self, reason: str, at: datetime, *, hold: bool = False, **changes: Any) -> Outputs:
        if self.record.ending:
            return []
        settled = {
            "wake_at": None,
            "in_place_retry": False,
            "wait_reason": reason,
            "blocked": False,
            "prefer": None,
            "insist": False,
            "fresh": False,
            "skipped": (),
            **changes,
        }
        return self._fire(Trigger.HAND_OFF, at, reason=reason, hold=hold, **settled)

    @property
    def _chance(self) -> float:
        """0 to 1, for jitter: the same when a step is taken again, another one in every session."""
        return zlib.crc32(f"{self.record.sid}:{self.record.attempts}".encode()) / 2**32

    def _failure_noted(self, target: Target, verdict: Verdict, at: datetime) -> asks.NoteFailure:
        return asks.NoteFailure(
            sid=self.record.sid,
            target=target,
            verdict=verdict,
            at=at,
            policy=self.policy.circuit,
            chance=self._chance,
        )

    def _target(self) -> Target:
        run = self.record.run
        return run.target if run else self.record.options.chain[0]

    def _has_fallback(self) -> bool:
        if self.record.handoffs >= self.record.options.max_handoffs:
            return False
        return bool(candidates(self.record.options.chain, self._target()))

    def _entry(self, at: datetime, kind: str, data: dict[str, Any]) -> effects.JournalEntry:
        return effects.JournalEntry(
            repository=self.record.repository, session=self.record.sid, type=kind, at=at, data=data
        )

    def _note(self, at: datetime, kind: str, data: dict[str, Any]) -> Outputs:
        return [asks.Record(entries=(self._entry(at, kind, data),))]

    @property
    def live_state(self) -> dict[str, Any]:
        """What clients may want to know beside the record."""
        return {
            "alive": self._live.alive,
            "turnOpen": self._live.turn_open,
            "verifying": self._verifying,
            "openPermissions": len(self._live.permissions),
            "terminal": self.record.state in TERMINAL,
            "problem": self._problem,
        }

    @abstractmethod
    def _take(self, step: Step, at: datetime) -> Outputs:
        """Do a step of the state that was entered."""

    @abstractmethod
    def _go_on_ending(self, at: datetime) -> Outputs:
        """Go on with ending the session."""

    @abstractmethod
    def _settle(self, at: datetime) -> Outputs:
        """Act on what has been seen, once no transition is under way."""

    @abstractmethod
    def _seal_runs(self) -> Outputs:
        """Have the output of finished runs rewritten in redacted form."""

    @abstractmethod
    def _answer(self, request_id: str, allowed: bool, note: str) -> Outputs:
        """Answer a permission request that is open."""
