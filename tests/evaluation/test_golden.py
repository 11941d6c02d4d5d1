"""The golden suite that comes with Relay: what it has to hold, and that it can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from relay.core.lift import Lift
from relay.core.routing import KINDS
from relay.effects.store_files import DiskFiles
from relay.evaluation.cases import GOLDEN, FidelityCase, fidelity_cases, files_of, routing_cases
from relay.evaluation.report import Report
from relay.evaluation.run import carried, routed
from relay.evaluation.writers import WRITERS

ROUTING, FIDELITY = files_of(GOLDEN)
TASKS = [case for path in ROUTING for case in routing_cases(path)]
CASES = [case for path in FIDELITY for case in fidelity_cases(path)]
WHOLE = ("goal", "open_tasks", "done_tasks", "files", "constraints")
"""Kinds of which nothing may be lost."""

PLAN = {"open_tasks", "done_tasks", "next_action"}
UNTOLD = {
    "gemini": {"failed_attempts"},
    "cline": PLAN,
    "cline-extension": {"failed_attempts"},
    "continue": PLAN,
    "aider": {*PLAN, "failed_attempts"},
}
"""The kinds of which each store tells some facts nowhere, in the suite's scripts."""


def _untold(case: FidelityCase) -> set[str]:
    return {kind for kind, _ in carried(case).untold}


def named(name: str, store: str) -> FidelityCase:
    return next(case for case in CASES if (case.name, case.store) == (name, store))


def test_it_has_enough_of_everything() -> None:
    recorded = {case.store for case in CASES if case.recording}

    assert len(CASES) >= 100
    assert len({case.name for case in CASES if not case.recording}) >= 15
    assert {case.store for case in CASES} == set(WRITERS)
    assert recorded == {"claude", "codex", "gemini", "qwen", "opencode", "copilot"}
    assert {case.kind for case in TASKS} >= set(KINDS)
    assert max(len(case.steps) for case in CASES) > 200


@pytest.mark.parametrize("case", TASKS, ids=lambda case: case.name)
def test_a_task_is_told_apart(case: Any) -> None:
    assert routed(case).wrong == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}@{case.store}")
def test_a_continuation_carries_what_it_must(case: FidelityCase) -> None:
    result = carried(case)

    assert result.fidelity is not None
    assert {kind.kind: kind.recall for kind in result.fidelity.kinds if kind.kind in WHOLE} == dict.fromkeys(
        WHOLE, 1.0
    )
    assert [found for found in result.missing if found[0] in WHOLE] == []
    assert result.score >= 0.95


def test_what_a_store_cannot_tell_is_said_and_not_asked_for() -> None:
    scripted = [case for case in CASES if not case.recording and len(case.steps) < 100]
    untold = {
        store: {kind for case in scripted if case.store == store for kind in _untold(case)}
        for store in WRITERS
    }

    assert {store: kinds for store, kinds in untold.items() if kinds} == UNTOLD


def test_a_plan_that_is_stored_nowhere_is_left_out_of_the_score() -> None:
    result = carried(named("half way", "aider"))

    assert ("open_tasks", "Write its tests") in result.untold
    assert ("next_action", "Add the refund endpoint") in result.untold
    assert ("files", "orders/models.py") not in result.untold
    assert (result.score, result.missing) == (1.0, ())
    assert "Write its tests" in result.case.expected.open_tasks


def test_what_is_not_read_lowers_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    case = named("half way", "codex")
    monkeypatch.setattr(
        Lift, "said", lambda self, text, at=None: setattr(self.facts, "goal", "something else")
    )

    result = carried(case)

    assert result.score < 0.8
    assert ("goal", case.expected.goal) in result.missing
    assert ("constraints", "Do not touch the ledger package.") in result.missing


def test_what_was_not_said_lowers_the_score() -> None:
    case = named("half way", "claude")
    expected = evolve(case.expected, constraints=("Do not touch the ledger package.",), open_tasks=())

    result = carried(evolve(case, expected=expected))

    assert result.score < 1
    assert result.missing == ()
    assert ("constraints", "Amounts must stay integers of cents.") in result.surplus
    assert ("open_tasks", "Write its tests") in result.surplus


def test_a_session_that_is_not_found_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskFiles, "glob", lambda *_: ())

    result = carried(named("half way", "claude"))

    assert (result.score, result.error) == (0.0, "the session was not found in its store")


def test_the_report_sums_up() -> None:
    case = named("half way", "claude")
    wrong = evolve(case, expected=evolve(case.expected, goal="another"))
    report = Report(
        routing=(routed(TASKS[0]), routed(evolve(TASKS[0], kind="release"))),
        fidelity=(carried(case), carried(wrong)),
        floor=0.9,
    )
    goal = next(kind for kind in report.kinds if kind.kind == "goal")

    assert (report.accuracy, report.passed) == (0.5, False)
    assert (goal.expected, goal.found, goal.surplus, goal.recall) == (2, 1, 1, 0.5)
    assert report.score == pytest.approx((1 + carried(wrong).score) / 2, abs=1e-4)
    assert report.view["fidelity"][1]["missing"] == [{"kind": "goal", "text": "another"}]


def test_the_suite_comes_with_the_package(tmp_path: Path) -> None:
    """Whatever a case needs has a name that packaging takes along (no dot in front)."""
    hidden = [path for path in GOLDEN.rglob("*") if path.name.startswith(".")]

    assert hidden == []
