"""The durable outside, in memory: what is on disk, what runs, what time it is.

`FakeWorld.perform` does one effect as the real port would, and gives its report; done again it finds what
is done. It outlasts every crash of a daemon (`tests.fakes.port`), and notes what must never happen.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import define, field

from relay.core import effects, reports
from relay.core.events import AgentTextDelta, Place
from relay.core.facts import SessionFacts
from relay.core.fsm import TERMINAL, State
from relay.core.record import SessionRecord
from relay.core.wire import event_from_wire, from_wire, to_wire
from relay.providers.protocol import LaunchRequest
from relay.providers.scripted import Scripted
from tests.fakes.agents import WORKS, Agent, Process

REPOSITORY = "/repo"
NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)
Run = tuple[str, int]


class Fault(Exception):
    """An effect fails."""

    def __init__(self, code: str = "store_failed", message: str = "it broke", hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@define
class FakeWorld:
    """See the module.

    Args:
        agents: what the agent of a run does, by run number.
        by_target: the same by target name, where the number says nothing.
        missing: targets whose program is not installed.
        resumable: a native session can be brought to another account.
        accepts: acceptance commands pass on a tree with so much work in it.
        unwritable: repositories whose audit log can't be written.
        links_out: paths that lead out of the worktree by a link.
        faults: for an effect's class, what its next performances raise.
    """

    agents: Mapping[int, Agent] = field(factory=dict)
    by_target: Mapping[str, Agent] = field(factory=dict)
    missing: set[str] = field(factory=set)
    resumable: bool = True
    accepts: Callable[[int], bool] = lambda work: True
    unwritable: set[str] = field(factory=set)
    links_out: set[str] = field(factory=set)
    faults: dict[str, list[Fault]] = field(factory=lambda: defaultdict(list))
    tampered: bool = False

    now: datetime = NOON
    saved: dict[str, dict[str, Any]] = field(factory=dict)
    saves: list[tuple[str, str, str]] = field(factory=list)
    audit: dict[str, list[effects.JournalEntry]] = field(factory=lambda: defaultdict(list))
    shown: list[effects.JournalEntry] = field(factory=list)
    runs: dict[Run, Process] = field(factory=dict)
    sealed: set[Run] = field(factory=set)
    openings: dict[Run, tuple[str, str]] = field(factory=dict)
    started_with: dict[Run, str] = field(factory=dict)
    commits: dict[str, list[str]] = field(factory=lambda: defaultdict(list))
    contracts: dict[str, str] = field(factory=dict)
    contract_ids: dict[str, list[str]] = field(factory=lambda: defaultdict(list))
    breakers: dict[str, Mapping[str, Any]] = field(factory=dict)
    sequence: int = 1
    performed: list[effects.Effect] = field(factory=list)
    violations: list[str] = field(factory=list)
    ended_daemon: str = ""

    # -- what the tests look at --------------------------------------------------------------

    def record(self, sid: str = "s-1") -> SessionRecord:
        """The record on disk, read as a restarted daemon would."""
        return from_wire(json.loads(json.dumps(self.saved[sid])), SessionRecord)

    def ended(self, sid: str = "s-1") -> bool:
        """The record on disk is that of a session that is over."""
        return sid in self.saved and State(self.saved[sid].get("state", State.DISPATCHED)) in TERMINAL

    def alive(self, sid: str = "s-1") -> list[int]:
        """Runs of a session whose child is alive."""
        return [run for (owner, run), process in self.runs.items() if owner == sid and process.alive]

    def tree(self, sid: str = "s-1") -> int:
        """How much work lies in the session's worktree."""
        return sum(process.work for (owner, _), process in self.runs.items() if owner == sid)

    def entries(self, kind: str, sid: str = "s-1") -> list[Mapping[str, Any]]:
        """Data of the durable entries of one type."""
        log = (entry for entries in self.audit.values() for entry in entries)
        return [entry.data for entry in log if entry.session == sid and entry.type == kind]

    def states(self, sid: str = "s-1") -> list[str]:
        """The states that were saved, each change once."""
        seen = [state for owner, _, state in self.saves if owner == sid]
        return [state for at, state in enumerate(seen) if at == 0 or seen[at - 1] != state]

    def kinds(self) -> list[str]:
        """Class names of what was performed."""
        return [type(effect).__name__ for effect in self.performed]

    def journaled(self, sid: str = "s-1") -> list[tuple[int, str, int, int]]:
        """Places of the agents' events in the log, in its order."""
        return [tuple(data["place"]) for data in self.entries("agent_event", sid)]

    def printed(self, sid: str = "s-1") -> set[tuple[int, str, int, int]]:
        """Places of every event that the agents' output holds."""
        found: set[tuple[int, str, int, int]] = set()
        for (owner, run), process in self.runs.items():
            if owner != sid:
                continue
            request = LaunchRequest(session_id=sid, run=run, cwd="/", prompt="p")
            dialogue = Scripted().dialogue(request)
            for stream, line in process.lines():
                for index, event in enumerate(dialogue.read(line.data, stream).events):
                    if not isinstance(event, AgentTextDelta):
                        found.add((run, stream, line.end, index))
        return found

    # -- effects -----------------------------------------------------------------------------

    def perform(self, effect: effects.Effect) -> reports.Report | None:
        """Do an effect; its report, or None when it has none."""
        name = type(effect).__name__
        self.performed.append(effect)
        try:
            if self.faults[name]:
                raise self.faults[name].pop(0)
            done: reports.Report | None = getattr(self, f"_do_{name}")(effect)
        except Fault as fault:
            return reports.EffectFailed(
                key=effect.key,
                at=self.now,
                effect=name,
                code=fault.code,
                message=fault.message,
                hint=fault.hint,
            )
        return done

    def _do_PrepareWorktree(self, effect: effects.PrepareWorktree) -> reports.Report:
        branch = "" if effect.options.in_place else f"relay/{effect.sid}"
        return reports.WorktreePrepared(
            key=effect.key,
            at=self.now,
            repository=effect.repository,
            worktree=f"{effect.repository}/.relay/worktrees/{effect.sid}",
            branch=branch,
            base_commit=f"{effect.sid}-w0",
            carried_files=0,
            notes=(),
        )

    def _do_SaveSession(self, effect: effects.SaveSession) -> reports.Report:
        record = effect.record
        self.saved[record.sid] = json.loads(json.dumps(to_wire(record)))
        self.saves.append((record.sid, effect.key, record.state.value))
        return reports.SessionSaved(key=effect.key, at=self.now)

    def _do_LoadSession(self, effect: effects.LoadSession) -> reports.Report:
        if effect.sid not in self.saved:
            raise Fault("not_found", f"there is no session {effect.sid}")
        record = self.record(effect.sid)
        facts = SessionFacts.for_goal(record.options.goal, worktree=record.worktree)
        last: dict[tuple[int, str], Place] = {}
        for entry in self.audit[record.repository]:
            if entry.session != effect.sid:
                continue
            if entry.type == "reply":
                facts.replied(str(entry.data["text"]))
            seen = event_from_wire(entry.data, entry.at) if entry.type == "agent_event" else None
            if seen is not None:
                facts.fold(seen)
                last[(seen.place.run, seen.place.stream)] = seen.place
        logged = [entry for entry in self.audit[record.repository] if entry.session == effect.sid]
        begun = any(entry.type == "session" and "goal" in entry.data for entry in logged)
        states = [str(entry.data["to"]) for entry in logged if entry.type == "fsm"]
        unlogged = (() if begun else ("session",)) + (() if states[-1:] == [record.state] else ("fsm",))
        current = record.run.number if record.run else 0
        places = tuple(place for (run, _), place in last.items() if run == current)
        return reports.SessionLoaded(
            key=effect.key,
            at=self.now,
            record=record,
            facts=facts,
            places=effects.LastPlaces(places=places),
            unlogged=unlogged,
        )

    def _do_ListUnfinished(self, effect: effects.ListUnfinished) -> reports.Report:
        records = [self.record(sid) for sid in self.saved]
        open_ones = tuple((r.sid, r.repository) for r in records if not r.ended or self._unsealed(r))
        return reports.UnfinishedListed(key=effect.key, at=self.now, sessions=open_ones)

    def _unsealed(self, record: SessionRecord) -> bool:
        runs = {(record.sid, run.number) for run in record.runs}
        return bool((runs & set(self.runs)) - self.sealed)

    def _do_StartChild(self, effect: effects.StartChild) -> reports.Report:
        sid, name = effect.record.sid, str(effect.target)
        at = (sid, effect.run)
        if at in self.runs:
            return self._started(effect, found=True)
        if effect.opening.contract_id and self.tampered:
            raise Fault("integrity", "the signature does not match")
        if name in self.missing:
            raise Fault("missing_binary", f"{name} is not installed", "install it")
        if self.alive(sid):
            self.violations.append(f"run {effect.run} starts while {self.alive(sid)} is alive")
        opening, native = effect.opening, ""
        told = f"BRIEF {opening.contract_id}" if opening.contract_id else opening.text
        if opening.resume_native and self.resumable:
            native, told = opening.resume_native, f"RESUME {opening.contract_id}"
        self.openings[at] = ("\n".join((told, *opening.postscript)), native)
        self.started_with[at] = name
        agent = self.by_target.get(name) or self.agents.get(effect.run) or WORKS
        self.runs[at] = Process(name=f"{sid}.{effect.run}", agent=agent)
        return self._started(effect, found=False)

    def _started(self, effect: effects.StartChild, *, found: bool) -> reports.Report:
        at = (effect.record.sid, effect.run)
        return reports.ChildStarted(
            key=effect.key,
            at=self.now,
            run=effect.run,
            pid=100 + effect.run,
            native_id=self.openings[at][1],
            found_alive=found,
        )

    def opened(self, effect: effects.FollowChild) -> reports.RunOpened:
        """What a run that is to be followed was begun with."""
        at = (effect.record.sid, effect.run)
        if at not in self.runs:
            raise Fault("not_found", f"there is no run {at}")
        prompt, native = self.openings[at]
        return reports.RunOpened(key=effect.key, at=self.now, run=effect.run, prompt=prompt, native_id=native)

    def _do_WriteChild(self, effect: effects.WriteChild) -> reports.Report:
        process = self.runs[(effect.record.sid, effect.run)]
        written = []
        for line in effect.lines:
            before = process.written.get(line.key)
            # A permission may be judged otherwise after a restart; the first answer stands.
            if before is not None and before != line.line and not line.key.startswith("answer:"):
                self.violations.append(f"the key {line.key} is used for two lines")
            if process.write(line.key, line.line):
                written.append(line.key)
        lost = "" if len(written) == len(effect.lines) else "the agent has ended"
        return reports.ChildWritten(
            key=effect.key, at=self.now, run=effect.run, written=tuple(written), lost=lost
        )

    def _do_EndChild(self, effect: effects.EndChild) -> reports.Report:
        process = self.runs.get((effect.record.sid, effect.run))
        how = "it had ended"
        if process is not None and process.alive:
            process.kill(0 if effect.idle else 143)
            how = "input" if effect.idle else "TERM"
        status = process.status if process is not None else None
        return reports.ChildGone(key=effect.key, at=self.now, run=effect.run, how=how, status=status)

    def _do_SealRun(self, effect: effects.SealRun) -> None:
        if effect.run in self.alive(effect.record.sid):
            self.violations.append(f"run {effect.run} is sealed alive")
        self.sealed.add((effect.record.sid, effect.run))

    def _do_TakeSnapshot(self, effect: effects.TakeSnapshot) -> reports.Report:
        sid = effect.record.sid
        commit = f"{sid}-w{self.tree(sid)}"
        last = self.commits[sid][-1] if self.commits[sid] else f"{sid}-w0"
        if self.alive(sid):
            self.violations.append(f"a snapshot is taken while {self.alive(sid)} is alive")
        if commit != last:
            self.commits[sid].append(commit)
        changed = tuple(
            reports.ChangedFile(path=f"file-{n}.py", status="A", added=1) for n in range(self.tree(sid))
        )
        return reports.SnapshotTaken(
            key=effect.key,
            at=self.now,
            number=effect.number,
            commit=commit,
            made=commit != last,
            changed=changed,
        )

    def _do_SealContract(self, effect: effects.SealContract) -> reports.Report:
        sid, contract_id = effect.record.sid, effect.contract.contract_id
        self.contracts[sid] = contract_id
        if contract_id not in self.contract_ids[sid]:
            self.contract_ids[sid].append(contract_id)
        return reports.ContractSealed(
            key=effect.key, at=self.now, contract_id=contract_id, path=f"/{sid}/envelope.md"
        )

    def _do_LocatePaths(self, effect: effects.LocatePaths) -> reports.Report:
        outside = tuple(path for path in effect.paths if path in self.links_out)
        return reports.PathsLocated(key=effect.key, at=self.now, outside=outside)

    def _do_RunVerify(self, effect: effects.RunVerify) -> reports.Report:
        good = self.accepts(self.tree(effect.record.sid))
        checked = reports.CommandChecked(
            command=effect.commands[0], status=0 if good else 1, seconds=0.1, output="2 passed, 1 failed"
        )
        return reports.VerifyDone(key=effect.key, at=self.now, commands=(checked,))

    def _do_MergeSession(self, effect: effects.MergeSession) -> reports.Report:
        return reports.SessionMerged(key=effect.key, at=self.now, branch="main", commit="m", files=1)

    def _do_DiscardSession(self, effect: effects.DiscardSession) -> reports.Report:
        return reports.SessionDiscarded(key=effect.key, at=self.now, kept_as="refs/relay/kept")

    def _do_UndoWorktree(self, effect: effects.UndoWorktree) -> reports.Report:
        return reports.SessionDiscarded(key=effect.key, at=self.now, kept_as="")

    def _do_AppendAudit(self, effect: effects.AppendAudit) -> reports.Report:
        failed = tuple(entry for entry in effect.entries if entry.repository in self.unwritable)
        for entry in effect.entries:
            if entry not in failed:
                self.audit[entry.repository].append(entry)
        return reports.AuditAppended(
            key=effect.key, at=self.now, failed=failed, problem="read-only" if failed else ""
        )

    def _do_ReserveSequence(self, effect: effects.ReserveSequence) -> reports.Report:
        first = self.sequence
        self.sequence += effect.count
        return reports.SequenceReserved(key=effect.key, at=self.now, first=first, end=self.sequence)

    def _do_SaveBreakers(self, effect: effects.SaveBreakers) -> None:
        self.breakers = dict(effect.breakers)

    def _do_LoadBreakers(self, effect: effects.LoadBreakers) -> reports.Report:
        loaded = tuple(self.breakers.items())
        return reports.BreakersLoaded(key=effect.key, at=self.now, breakers=loaded)

    def pass_time(self, seconds: float = 0.001) -> None:
        """The clock moves on."""
        self.now += timedelta(seconds=seconds)
