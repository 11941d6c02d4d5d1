"""Runs cases: the sort of each task, and what of each session reaches the contract and its brief.

A fidelity case takes the way that adoption takes: the session is found in its store, read in full, its facts
become a contract, the contract a brief. Called by `relay eval`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from attrs import evolve, frozen

from relay.core.brief import render
from relay.core.config import ProfileSettings
from relay.core.contract import NOTED, Circumstances, Contract, build
from relay.core.facts import SessionFacts
from relay.core.fidelity import Expected, Fidelity, carried_by, compare, same
from relay.core.intel import Depth
from relay.core.routing import kind_of, profile_for
from relay.effects.store_files import DiskFiles
from relay.evaluation.cases import FidelityCase, RoutingCase
from relay.evaluation.recordings import put
from relay.evaluation.writers import FOLDER, WRITERS
from relay.providers.store_protocol import Machine
from relay.providers.stores import store_named

_WHEN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
_SCRIPTED_CWD = "/src/shop"


@frozen(kw_only=True)
class RoutingResult:
    """What was said of a task; `wrong` is "" when it is what was expected."""

    case: RoutingCase
    kind: str
    profile: str
    wrong: str


@frozen(kw_only=True)
class FidelityResult:
    """How a session was carried over.

    Args:
        fidelity: None when no session was found where one was written; `error` says so.
        missing, surplus: (kind, text) that should be in the contract and is not, or the other way round.
        not_in_brief: (kind, text) that is in the contract but not in the brief of normal length.
        untold: (kind, text) that was expected and that the CLI stores nowhere; it is not asked for.
    """

    case: FidelityCase
    fidelity: Fidelity | None
    missing: tuple[tuple[str, str], ...] = ()
    surplus: tuple[tuple[str, str], ...] = ()
    not_in_brief: tuple[tuple[str, str], ...] = ()
    untold: tuple[tuple[str, str], ...] = ()
    error: str = ""

    @property
    def score(self) -> float:
        """The handoff fidelity score, 0 to 1."""
        return self.fidelity.score if self.fidelity else 0.0


def routed(case: RoutingCase, profiles: tuple[ProfileSettings, ...] = ()) -> RoutingResult:
    """Say what sort of task it is, and whose.

    Args:
        profiles: those that hold where the case has none of its own.
    """
    kind = kind_of(case.task)
    profile = profile_for(case.task, case.profiles or profiles)
    name = profile.name if profile else ""
    wrong = []
    if case.kind is not None and kind != case.kind:
        wrong.append(f"kind {kind or 'none'}, expected {case.kind or 'none'}")
    if case.profile is not None and name != case.profile:
        wrong.append(f"profile {name or 'none'}, expected {case.profile or 'none'}")
    return RoutingResult(case=case, kind=kind, profile=name, wrong="; ".join(wrong))


def carried(case: FidelityCase) -> FidelityResult:
    """Write the session, find it, and hand it over."""
    writer_of, untold = WRITERS[case.store], frozenset[tuple[str, str]]()
    with tempfile.TemporaryDirectory(prefix="relay-eval-") as folder:
        home = Path(folder)
        if case.recording is not None:
            put(case.recording, home)
        else:
            writer = writer_of(home, _SCRIPTED_CWD, case.name.replace(" ", "-"))
            writer.write(case.steps)
            untold = frozenset(writer.untold)
        facts = _found(writer_of.store, home)
    told = _told_of(case.expected, untold)
    left_out = tuple(
        (kind, text) for kind, text in _facts(case.expected) if (kind, text) not in set(_facts(told))
    )
    if facts is None:
        error = "the session was not found in its store"
        return FidelityResult(case=case, fidelity=None, untold=left_out, error=error)
    contract = build(facts, _circumstances(case))
    return evolve(
        _result(evolve(case, expected=told), contract, render(contract)), case=case, untold=left_out
    )


def _told_of(expected: Expected, untold: frozenset[tuple[str, str]]) -> Expected:
    """What is expected, without the facts that the store cannot tell; for a next action any will do."""

    def told(kind: str, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if (kind, text) not in untold)

    planned = ("open_tasks", expected.next_action) in untold
    return evolve(
        expected,
        open_tasks=told("open_tasks", expected.open_tasks),
        done_tasks=told("done_tasks", expected.done_tasks),
        files=told("files", expected.files),
        failed_attempts=told("failed_attempts", expected.failed_attempts),
        next_action="" if planned else expected.next_action,
    )


def _found(name: str, home: Path) -> SessionFacts | None:
    store, files = store_named(name), DiskFiles()
    machine = Machine(env={}, home=str(home), platform="linux", folders=(f"{home}/{FOLDER}",))
    for folder in store.homes(machine):
        for found in store.find(files, folder, 0.0):
            lift = store.open(files, found, Depth.FULL).read()
            if lift.facts.goal:
                return lift.facts
    return None


def _circumstances(case: FidelityCase) -> Circumstances:
    return Circumstances(
        contract_id="eval",
        session_id=f"eval-{case.store}",
        task_id="eval",
        created=_WHEN,
        from_target=case.store,
        reason="evaluation",
        snapshot_commit="0" * 40,
    )


def _result(case: FidelityCase, contract: Contract, brief: str) -> FidelityResult:
    expected = case.expected
    has = carried_by(contract)
    missing: list[tuple[str, str]] = []
    surplus: list[tuple[str, str]] = []
    hidden: list[tuple[str, str]] = []
    for kind, wanted in _kinds(expected):
        missing += ((kind, text) for text in wanted if not any(same(text, one) for one in has[kind]))
        hidden += ((kind, text) for text in wanted if (kind, text) not in missing and not _told(text, brief))
        if kind != "done_tasks":
            surplus += ((kind, one) for one in has[kind] if not any(same(one, text) for text in wanted))
    return FidelityResult(
        case=case,
        fidelity=compare(contract, expected),
        missing=tuple(missing),
        surplus=tuple(surplus),
        not_in_brief=tuple(hidden),
    )


def _kinds(expected: Expected) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "goal", (expected.goal,)
    yield "open_tasks", expected.open_tasks
    yield "done_tasks", expected.done_tasks
    yield "files", expected.files
    yield "constraints", expected.constraints
    yield "decisions", expected.decisions
    yield "failed_attempts", expected.failed_attempts
    if expected.next_action:
        yield "next_action", (expected.next_action,)


def _facts(expected: Expected) -> Iterator[tuple[str, str]]:
    return ((kind, text) for kind, texts in _kinds(expected) for text in texts)


def _told(text: str, brief: str) -> bool:
    return " ".join(text.removesuffix(NOTED).split()) in " ".join(brief.split())


def mean(scores: Iterable[float]) -> float:
    """To four places; 1 when there are none, and only then when one is less than 1."""
    all_scores = list(scores)
    if not all_scores or all(score == 1.0 for score in all_scores):
        return 1.0
    return min(round(sum(all_scores) / len(all_scores), 4), 0.9999)
