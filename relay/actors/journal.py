"""The Journal: numbers every event, has it written, and only then lets it be shown.

One append is under way at a time, so entries reach the logs and the listeners in the order of their
numbers; what comes meanwhile goes into the next append (a group commit). Entries of a log that cannot
be written are kept and tried again, in their order; those of other logs go on.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import define, frozen

from relay.actors.base import Address, RelayActor
from relay.core import asks, effects, reports

BLOCK = 1 << 20
RETRY_SECONDS = 1.0
BATCH = 2048


@define(eq=False)
class _Kept:
    """An entry that is not in its log yet; `order` is its place among all that were recorded."""

    entry: effects.JournalEntry
    order: int
    sync: bool


@frozen
class _Confirm:
    """Somebody waits for the entries of a log up to this place."""

    key: str
    repository: str
    order: int
    asker: Address


class JournalActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0
        self._end = 0
        self._order = 0
        self._pending: list[_Kept] = []
        self._under_way: list[_Kept] = []
        self._confirms: list[_Confirm] = []
        self._blocked: set[str] = set()

    def wired(self) -> None:
        """Ask for the first numbers."""
        self.want(effects.ReserveSequence(key="sequence", count=BLOCK))

    def receive_Record(self, message: asks.Record, sender: Address) -> None:
        """More entries."""
        for entry in message.entries:
            self._order += 1
            self._pending.append(_Kept(entry, self._order, message.sync))
        self._append()

    def receive_Confirm(self, message: asks.Confirm, sender: Address) -> None:
        """Somebody wants to know when the log holds what was recorded so far."""
        self._confirms.append(_Confirm(message.key, message.repository, self._order, sender))
        self._confirm(message.at)

    def receive_SequenceReserved(self, report: reports.SequenceReserved, sender: Address) -> None:
        """Numbers to give out."""
        self._next, self._end = report.first, report.end
        self._append()

    def receive_AuditAppended(self, report: reports.AuditAppended, sender: Address) -> None:
        """An append is done: show what is durable, keep what is not."""
        failed = {entry.seq for entry in report.failed}
        kept = [item for item in self._under_way if item.entry.seq in failed]
        durable = tuple(item.entry for item in self._under_way if item.entry.seq not in failed)
        self._under_way = []
        if durable:
            self.send(self.wires.hub, effects.Broadcast(key="broadcast", entries=durable))
        if kept:
            self._keep(kept, report.problem, report.at)
        self._confirm(report.at)
        self._append()

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """Try again what could not be written."""
        self._blocked.clear()
        if self._next == 0:
            self.want(effects.ReserveSequence(key="sequence", count=BLOCK))
        self._append()

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """The numbers could not be reserved, or the append failed as a whole: try again."""
        kept, self._under_way = self._under_way, []
        self._keep(kept, report.message, report.at)

    def _keep(self, kept: list[_Kept], problem: str, at: datetime) -> None:
        """Put back what could not be written, and tell those who wait for it why."""
        self._pending[:0] = kept
        blocked = {item.entry.repository for item in kept}
        self._blocked |= blocked
        for confirm in self._confirms:
            if confirm.repository in blocked:
                told = reports.NotRecorded(key=confirm.key, at=at, problem=problem)
                self.send(confirm.asker, told)
        again = at + timedelta(seconds=RETRY_SECONDS)
        self.want(effects.SetTimer(key="journal-again", at=again))

    def _confirm(self, at: datetime) -> None:
        """Answer those whose entries are all in the log."""
        if not self._confirms:
            return
        waiting: list[_Confirm] = []
        for confirm in self._confirms:
            left = (*self._under_way, *self._pending)
            if any(k.order <= confirm.order and k.entry.repository == confirm.repository for k in left):
                waiting.append(confirm)
            else:
                self.send(confirm.asker, reports.Recorded(key=confirm.key, at=at))
        self._confirms = waiting

    def _append(self) -> None:
        if self._under_way or not self._pending or self._next == 0:
            return
        taken = self._take()
        if not taken:
            return
        if self._next + len(taken) > self._end:
            self._pending[:0] = taken
            self._next = 0
            self.want(effects.ReserveSequence(key="sequence", count=BLOCK))
            return
        for at, item in enumerate(taken):
            item.entry = item.entry.numbered(self._next + at)
        self._next += len(taken)
        self._under_way = taken
        entries = tuple(item.entry for item in taken)
        sync = any(item.sync for item in taken)
        self.want(effects.AppendAudit(key="append", entries=entries, sync=sync))

    def _take(self) -> list[_Kept]:
        """The next entries of the logs that can be written."""
        if not self._blocked:
            taken, self._pending = self._pending[:BATCH], self._pending[BATCH:]
            return taken
        taken = [item for item in self._pending if item.entry.repository not in self._blocked][:BATCH]
        chosen = set(map(id, taken))
        self._pending = [item for item in self._pending if id(item) not in chosen]
        return taken


class HubActor(RelayActor):
    """Fans durable events out to whoever listens."""

    def receive_Broadcast(self, message: effects.Broadcast, sender: Address) -> None:
        """Pass on."""
        self.want(message)
