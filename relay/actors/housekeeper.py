"""The Housekeeper: clears away what is left of ended sessions, once a day and when it is asked to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from relay.actors.base import Address, RelayActor
from relay.actors.messages import Answered, Begin, ClearAway
from relay.core import asks, effects, reports
from relay.core.commands import Accepted, Refused
from relay.core.wire import to_wire

FIRST_SECONDS = 120.0
"""Sessions of an earlier life are taken up first."""
DAY_SECONDS = 86_400.0
MEGABYTE = 1024 * 1024
_DAILY = "daily"
_TOLD = 100
"""Paths in an entry of the log at most."""


class HousekeeperActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: Begin | None = None

    def receive_Begin(self, message: Begin, sender: Address) -> None:
        """Every day from now on, unless it is switched off."""
        self._begun = message
        if message.gc_enabled:
            when = message.at + timedelta(seconds=FIRST_SECONDS)
            self.want(effects.SetTimer(key=_DAILY, at=when))

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """It is time."""
        self.want(self._collect(_DAILY, dry_run=False, keep_days=None))

    def receive_ClearAway(self, message: ClearAway, sender: Address) -> None:
        """Somebody asks."""
        self.want(self._collect(message.correlation, dry_run=message.dry_run, keep_days=message.keep_days))

    def _collect(self, key: str, *, dry_run: bool, keep_days: float | None) -> effects.CollectGarbage:
        begun = self._begun or Begin(at=self.now)
        return effects.CollectGarbage(
            key=key,
            dry_run=dry_run,
            keep_days=begun.gc_keep_days if keep_days is None else keep_days,
            output_max_bytes=int(begun.gc_output_max_mb * MEGABYTE),
        )

    def receive_GarbageCollected(self, report: reports.GarbageCollected, sender: Address) -> None:
        """Say what became of it."""
        removed = [item for item in report.items if item.removed]
        if removed or (report.problems and not report.dry_run):
            data: dict[str, Any] = {
                "removed": [item.path for item in removed[:_TOLD]],
                "count": len(removed),
                "bytes": sum(item.bytes for item in removed),
                "problems": list(report.problems[:_TOLD]),
            }
            entry = effects.JournalEntry(repository="", session="", type="gc", at=report.at, data=data)
            self.send(self.wires.journal, asks.Record(entries=(entry,)))
        if report.key == _DAILY:
            self._tomorrow(report.at)
            return
        data = {
            "items": [
                {**to_wire(item), "remove": item.remove, "removed": item.removed} for item in report.items
            ],
            "problems": list(report.problems),
            "dryRun": report.dry_run,
            "auditBytes": report.audit_bytes,
        }
        self.send(self.wires.facade, Answered(correlation=report.key, answer=Accepted(data=data)))

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """Tomorrow is another day."""
        if report.key == _DAILY:
            self._tomorrow(report.at)
            return
        refused = Refused(code=report.code, message=report.message, hint=report.hint)
        self.send(self.wires.facade, Answered(correlation=report.key, answer=refused))

    def _tomorrow(self, at: Any) -> None:
        when = at + timedelta(seconds=DAY_SECONDS)
        self.want(effects.SetTimer(key=_DAILY, at=when, jitter=600.0, through_sleep=True))
