"""The AmbientDetector: announces an agent session that appears on this machine, once.

It polls the stores through the effects, which read only what is new. What has been announced is known
by the log and by a file, so that a restart announces nothing again. The first survey ever announces
nothing: those sessions were there before Relay was.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from relay.actors.base import Address, RelayActor
from relay.actors.messages import Begin
from relay.core import asks, effects, reports

RETRY_SECONDS = 60.0
MOST = 5_000
"""Most sessions that are remembered as announced; the newest."""


class AmbientDetectorActor(RelayActor):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._interval = 0.0
        self._known: dict[str, None] | None = None
        self._told = ""

    def receive_Begin(self, message: Begin, sender: Address) -> None:
        """Start to look, unless it is switched off."""
        self._interval = message.ambient_seconds
        if self._interval > 0:
            self.want(effects.LoadAmbient(key="load"))

    def receive_AmbientLoaded(self, report: reports.AmbientLoaded, sender: Address) -> None:
        """What was announced before; None at the first time."""
        self._known = None if report.known is None else dict.fromkeys(report.known)
        self._survey()

    def receive_AgentsSurveyed(self, report: reports.AgentsSurveyed, sender: Address) -> None:
        """The sessions that are there; those that are new are announced, then remembered."""
        first = self._known is None
        known = self._known if self._known is not None else {}
        fresh = [agent for agent in report.fresh if agent.key not in known]
        if not first:
            entries = tuple(
                effects.JournalEntry(
                    repository="", session="", type="ambient", at=report.at, data=dict(agent.view)
                )
                for agent in fresh
                if agent.announce
            )
            if entries:
                self.send(self.wires.journal, asks.Record(entries=entries, sync=True))
        self._note(report)
        self._known = known
        for key in (*(agent.key for agent in fresh), *(report.seen if first else ())):
            known.pop(key, None)
            known[key] = None
        while len(known) > MOST:
            del known[next(iter(known))]
        if first or fresh:
            self.want(effects.SaveAmbient(key="save", known=tuple(known)))
        self._again(report.at, self._interval)

    def _note(self, report: reports.AgentsSurveyed) -> None:
        """A store that can't be read is said once, until that changes."""
        problems = "; ".join(report.problems)
        if problems and problems != self._told:
            data = {"problem": problems}
            entry = effects.JournalEntry(
                repository="", session="", type="unreadable_store", at=report.at, data=data
            )
            self.send(self.wires.journal, asks.Record(entries=(entry,)))
        self._told = problems

    def receive_TimerFired(self, report: reports.TimerFired, sender: Address) -> None:
        """It is time to look again."""
        if self._known is None and report.key == "load":
            self.want(effects.LoadAmbient(key="load"))
        else:
            self._survey()

    def receive_EffectFailed(self, report: reports.EffectFailed, sender: Address) -> None:
        """Look again later; nothing was announced that was not there."""
        if report.effect == "SaveAmbient":
            return
        key = "load" if report.effect == "LoadAmbient" else "survey"
        self._again(report.at, max(self._interval, RETRY_SECONDS), key)

    def _survey(self) -> None:
        known = self._known
        self.want(effects.SurveyAgents(key="survey", known=tuple(known or ()), first=known is None))

    def _again(self, at: Any, seconds: float, key: str = "survey") -> None:
        self.want(effects.SetTimer(key=key, at=at + timedelta(seconds=seconds), through_sleep=True))
