"""The Journal: numbers every event, has it written, and only then lets it be shown.

One append is under way at a time, so entries reach the logs and the listeners in the order of their
numbers; what comes meanwhile goes into the next append (a group commit). Entries of a log that cannot
be written are kept and tried again; those of other logs go on.
"""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve

from relay.actors.base import Address, RelayActor
from relay.core import asks, effects, reports

BLOCK = 1 << 20
RETRY_SECONDS = 1.0
BATCH = 2048


class JournalActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0
        self._end = 0
        self._pending: list[effects.JournalEntry] = []
        self._sync = False
        self._under_way: tuple[effects.JournalEntry, ...] = ()
        self._waiting_for_retry = False

    def wired(self) -> None:
        """Ask for the first numbers."""
        self.want(effects.ReserveSequence(key="sequence", count=BLOCK))

    def receive_Record(self, message: asks.Record, sender: Address) -> None:
        """More entries."""
        self._pending.extend(message.entries)
        self._sync = self._sync or message.sync
        self._append()

    def receive_SequenceReserved(self, report: reports.SequenceReserved, sender: Address) -> None:
        """Numbers to give out."""
        self._next, self._end = report.first, report.end
        self._append()

    def receive_AuditAppended(self, report: reports.AuditAppended, sender: Address) -> None:
        """An append is done: show what is durable, keep what is not."""
        failed = {entry.seq for entry in report.failed}
        durable = tuple(entry for entry in self._under_way if entry.seq not in failed)
        self._under_way = ()
        if durable:
            self.send(self.wires.hub, effects.Broadcast(key="broadcast", entries=durable))
        if report.failed:
            self._pending[:0] = report.failed
            self._waiting_for_retry = True
            again = report.at + timedelta(seconds=RETRY_SECONDS)
            self.want(effects.SetTimer(key="journal-again", at=again))
            others = [e for e in self._pending if e.repository not in {f.repository for f in report.failed}]
            if others:
                self._append(others)
            return
        self._append()

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """Try again what could not be written."""
        self._waiting_for_retry = False
        self._append()

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """The numbers could not be reserved, or the append failed as a whole: try again."""
        self._pending[:0] = self._under_way
        self._under_way = ()
        again = report.at + timedelta(seconds=RETRY_SECONDS)
        if report.effect == "ReserveSequence":
            self.want(effects.ReserveSequence(key="sequence", count=BLOCK))
        else:
            self._waiting_for_retry = True
            self.want(effects.SetTimer(key="journal-again", at=again))

    def _append(self, chosen: list[effects.JournalEntry] | None = None) -> None:
        if self._under_way or not self._pending or self._next == 0:
            return
        if self._waiting_for_retry and chosen is None:
            return
        if self._next + BATCH >= self._end:
            self._next = 0
            self.want(effects.ReserveSequence(key="sequence", count=BLOCK))
            return
        taken = (chosen if chosen is not None else self._pending)[:BATCH]
        if chosen is None:
            del self._pending[: len(taken)]
        else:
            gone = {id(entry) for entry in taken}
            self._pending = [entry for entry in self._pending if id(entry) not in gone]
        self._under_way = tuple(evolve(e, seq=self._next + i) for i, e in enumerate(taken))
        self._next += len(taken)
        sync, self._sync = self._sync, False
        self.want(effects.AppendAudit(key="append", entries=self._under_way, sync=sync))


class HubActor(RelayActor):
    """Fans durable events out to whoever listens."""

    def receive_Broadcast(self, message: effects.Broadcast, sender: Address) -> None:
        """Pass on."""
        self.want(message)
