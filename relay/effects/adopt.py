"""Adopts the work of a detected agent: ends it if asked, reads it in full, writes brief and signed contract.

Nothing of the agent's store and nothing in its folder is changed but `.relay/`. Called by the API; a
session on the work is begun by whoever called.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Set
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, frozen

from relay.core.adoption import PRESETS, without_gone
from relay.core.brief import render
from relay.core.chain import Target
from relay.core.contract import ChangedPath, Circumstances, Contract, build, sign
from relay.core.detect import DetectedAgent
from relay.core.facts import SessionFacts
from relay.core.failures import limit_in_words
from relay.core.fidelity import score
from relay.core.intel import SessionIntel
from relay.core.quoting import one_line
from relay.core.record import Adopted, AdoptMode
from relay.core.rooting import rooted, worked_in
from relay.effects import history, processes, repository
from relay.effects.discovery import DEFAULT_HOURS, Discovery
from relay.errors import ConflictError, NoRepositoryError, TimedOutError
from relay.providers.stores import store_named
from relay.providers.table import provider_named, provider_names
from relay.store import contracts
from relay.store.places import RepoPlaces, private_folder

END_STEPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 10.0))
"""How a running agent is asked to end, and how long it is waited for; it is never killed."""
SETTLE_SECONDS = 0.5


@frozen(kw_only=True)
class AdoptOrder:
    """What a person asks for.

    Args:
        wanted: the agent, as `relay.core.detect.select` takes it.
        hours: how far back it is looked for.
        mode: what the next agent does with the work.
        preset: how long the brief may be: a name of PRESETS.
        pause: end the agent first, if it runs.
        dry_run: write nothing, end nothing.
        verify: acceptance commands that the brief names.
        folder: where the work lies now, absolute; "" for where the agent worked.
    """

    wanted: str
    hours: int = DEFAULT_HOURS
    mode: AdoptMode = AdoptMode.CONTINUE
    preset: str = "normal"
    pause: bool = False
    dry_run: bool = False
    verify: tuple[str, ...] = ()
    folder: str = ""


@frozen(kw_only=True)
class Adoption:
    """Work that was adopted.

    Args:
        agent: whose it was.
        folder: the folder it worked in, absolute.
        goal: what the user asked for, redacted.
        markdown: the brief.
        path, contract_path: where it and its contract lie; "" after a dry run.
        fidelity: the handoff fidelity score of the contract, 0 to 1.
        facts: what is known, with paths relative to the repository's root.
        adopted: for a session's options.
        resets_at: until when the agent's login is used up, when it met a limit that has not passed.
        notes: what the user should know.
    """

    agent: DetectedAgent
    folder: str
    goal: str
    markdown: str
    path: str
    contract_path: str
    fidelity: float
    facts: SessionFacts
    adopted: Adopted
    resets_at: datetime | None = None
    notes: tuple[str, ...] = ()

    @property
    def used_up(self) -> bool:
        """The agent's login met a limit that has not passed."""
        return self.resets_at is not None

    @property
    def view(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "id": self.agent.id,
            "provider": self.agent.intel.store,
            "folder": self.folder,
            "goal": self.goal,
            "path": self.path,
            "contractPath": self.contract_path,
            "markdown": self.markdown,
            "hfsScore": self.fidelity,
            "nativeResume": self.adopted.resume,
            "usedUpUntil": self.resets_at.isoformat() if self.resets_at else None,
            "notes": list(self.notes),
        }


async def adopt(
    finder: Discovery, order: AdoptOrder, *, key: bytes, clock: Callable[[], datetime]
) -> Adoption:
    """Adopt the work.

    Raises:
        NotFoundError, ConflictError: no such agent, more than one, or one of Relay's own.
        NoRepositoryError: its folder is gone or no repository.
        TimedOutError: it was to be ended and did not end.
    """
    agent = await trio.to_thread.run_sync(finder.named, order.wanted, order.hours)
    if agent.managed:
        raise ConflictError(
            f"{agent.id} is session {agent.managed} of Relay's own",
            hint=f"`relay handoff {agent.managed}` hands it over",
        )
    notes: list[str] = []
    still_runs = bool(agent.pid)
    if agent.pid and order.pause and not order.dry_run:
        await _end(agent)
        still_runs = False
        notes.append(f"the agent (pid {agent.pid}) was ended")
    elif agent.pid:
        notes.append(f"the agent (pid {agent.pid}) still runs and is left alone; --pause ends it first")
    lift = await trio.to_thread.run_sync(finder.detector.read, agent)
    intel = lift.intel()
    folder = await _folder(intel, order.folder)
    repo = await repository.inspect(folder)
    if not lift.facts.goal:
        raise ConflictError(f"{agent.id} has no prompt of a user: there is nothing to go on with")
    if not intel.cwd:
        is_there = partial(_is_there, folder)
        lift.named(cwd=await trio.to_thread.run_sync(worked_in, lift.facts, str(folder), is_there))
        intel = lift.intel()
    cwd = Path(intel.cwd)
    facts = rooted(evolve(lift.facts, worktree=str(folder)), str(repo.root), str(cwd))
    now = clock()
    if cwd != folder:
        notes.append(f"its folder is {folder}, not {cwd}")
    work = await history.diff_uncommitted(repo.root)
    gone = await trio.to_thread.run_sync(_gone, repo.root, facts, {file.path for file in work.files})
    if gone:
        facts = without_gone(facts, gone)
        notes.append(f"not there of what it wrote: {one_line(', '.join(gone), 200)}")
    here = Circumstances(
        contract_id=_contract_id(intel, repo.head_commit, len(facts.commands)),
        session_id=f"adopted-{intel.native_id}",
        task_id=intel.native_id,
        created=now,
        from_target=_who(agent),
        reason=_why(intel, still_runs),
        snapshot_commit=repo.head_commit,
        files=tuple(
            ChangedPath(path=f.path, status=f.status, added=f.added, removed=f.removed) for f in work.files
        ),
        diff_stat=work.stat,
        verify=order.verify,
    )
    contract = evolve(build(facts, here), skills_in_use=intel.skills)
    markdown = render(contract, budget_chars=PRESETS[order.preset])
    paths = ("", "")
    if not order.dry_run:
        paths = await trio.to_thread.run_sync(_write, repo.root, intel.native_id, contract, markdown, key)
    adopted, why_brief = _adopted(agent, order, still_runs, str(cwd))
    if why_brief:
        notes.append(why_brief)
    return Adoption(
        agent=evolve(agent, intel=intel),
        folder=str(folder),
        goal=facts.goal,
        markdown=markdown,
        path=paths[0],
        contract_path=paths[1],
        fidelity=score(contract, facts, files=tuple(f.path for f in work.files)).score,
        facts=facts,
        adopted=adopted,
        resets_at=_used_up_until(intel, now),
        notes=tuple(notes),
    )


def _adopted(agent: DetectedAgent, order: AdoptOrder, still_runs: bool, cwd: str) -> tuple[Adopted, str]:
    """For the session's options; and why the native session cannot be resumed, if it cannot.

    Args:
        cwd: where it worked, which its transcript names, wherever the work lies now.
    """
    intel = agent.intel
    store = store_named(intel.store)
    target = None
    why = f"Relay can't resume sessions of {store.display_name}: the next agent reads the brief"
    if store.provider in provider_names():
        target = Target(provider=store.provider, account=agent.account or "default")
        why = ""
        if not intel.home:
            why = "its transcript lies in no account's folder: the next agent reads the brief"
        elif still_runs:
            why = "it still runs, so its session is not resumed natively: the next agent reads the brief"
        elif provider_named(store.provider).resume_files(intel.native_id, cwd) is None:
            why = "its session cannot be resumed natively: the next agent reads the brief"
    adopted = Adopted(
        store=intel.store,
        native_id=intel.native_id,
        target=target,
        home=intel.home,
        cwd=cwd,
        resume=not why,
        mode=order.mode,
        brief_chars=PRESETS[order.preset],
    )
    return adopted, why


def _gone(root: Path, facts: SessionFacts, in_work: Set[str]) -> tuple[str, ...]:
    """What it changed that is not there, and of which git knows no deletion either; nothing is opened."""
    return tuple(path for path in facts.changed if path not in in_work and not _is_there(root, path))


def _is_there(folder: Path, path: str) -> bool:
    return os.path.lexists(folder / path)


async def _folder(intel: SessionIntel, named: str) -> Path:
    """The folder that the agent worked in; a transcript may name anything, so it must be a repository's.

    Args:
        named: by the user, in its place.
    """
    if named:
        if not await trio.Path(named).is_dir():
            raise NoRepositoryError(
                f"there is no folder {named}", hint="--folder names where the work lies now"
            )
        return Path(await trio.Path(named).resolve())
    path = Path(intel.cwd) if intel.cwd else None
    if path is None or "\0" in intel.cwd or not path.is_absolute():
        raise NoRepositoryError(
            f"session {intel.native_id} does not tell which folder it worked in",
            hint="name it: --folder <folder>",
        )
    if not await trio.Path(path).is_dir():
        raise NoRepositoryError(
            f"the folder that {intel.native_id} worked in is gone: {path}",
            hint="if it was moved: --folder <folder>; else clone the repository there",
        )
    return path


async def _end(agent: DetectedAgent) -> None:
    who = processes.identity(agent.pid)
    if who is None:
        return
    for number, patience in END_STEPS:
        processes.send(who, number)
        with trio.move_on_after(patience):
            await processes.gone(who)
        if not processes.same(who):
            # What it wrote at its end is on the disk once it is gone; its last tool may end a moment later.
            await trio.sleep(SETTLE_SECONDS)
            return
    raise TimedOutError(
        f"the agent (pid {agent.pid}) did not end in time", hint="end it in its own terminal, then try again"
    )


def _write(root: Path, native_id: str, contract: Contract, markdown: str, key: bytes) -> tuple[str, str]:
    places = RepoPlaces(root=root).ensure()
    folder = private_folder(places.adopted)
    stem = adopted_name(native_id)
    contracts.write(folder, sign(contract, markdown.encode(), key), markdown, stem=stem)
    return str(folder / f"{stem}.md"), str(folder / f"{stem}.json")


def adopted_name(native_id: str) -> str:
    """The name of an adopted brief: the session's id, or its hash where that is no file name."""
    plain = all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in native_id)
    if native_id and plain and len(native_id) <= 64:
        return native_id
    return hashlib.sha256(native_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _contract_id(intel: SessionIntel, commit: str, commands: int) -> str:
    seed = f"{intel.store}:{intel.native_id}:{intel.last_activity}:{commit}:{commands}"
    return "c-" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _who(agent: DetectedAgent) -> str:
    return f"{agent.intel.store}/{agent.account}" if agent.account else agent.intel.store


def _why(intel: SessionIntel, still_runs: bool) -> str:
    if intel.limits and intel.turn_open:
        return one_line(limit_in_words(intel.limits[-1].failure, intel.limits[-1].why))
    if still_runs:
        return "its work is taken over while it still runs"
    return "it stopped in the middle of its turn" if intel.turn_open else "its work is taken over"


def _used_up_until(intel: SessionIntel, now: datetime) -> datetime | None:
    instants = [limit.resets_at for limit in intel.limits if limit.resets_at and limit.resets_at > now]
    return max(instants, default=None)
