"""The fidelity score: 1 when a contract carries all that was known, less for each thing it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from relay.core.contract import Attempt, ChangedPath, Circumstances, Contract, build
from relay.core.events import ToolKind, TurnOutcome
from relay.core.facts import MOST, SessionFacts
from relay.core.fidelity import WEIGHTS, Expected, Fidelity, compare, expected_of, score
from tests.fakes.work import START, Work

GIT = ("src/parse.py", "src/gone.py")
NEXT = "Run the formatter over everything"


def here() -> Circumstances:
    return Circumstances(
        contract_id="c-1",
        session_id="s-1",
        task_id="t-1",
        created=START,
        from_target="claude",
        reason="usage limit",
        snapshot_commit="a" * 40,
        files=(ChangedPath(path="src/parse.py", status="M"), ChangedPath(path="src/gone.py", status="D")),
    )


def long_work() -> Work:
    work = Work().plan("x read the grammar", "  convert", "  document").edit("src/parse.py", "notes.txt")
    work.shell("pip install lark").shell("make test", exit_code=2, output="Error: 3 failed")
    work.edit("src/lex.py", ok=False, output="the text was not found")
    work.says("Decision: keep the old names.\nDecision: use lark.\nConstraint: it must not import yacc.")
    work.next_agent().plan("x convert", "~ write the tests", "  document", "  release")
    work.call(ToolKind.EDIT, paths=("src/half.py",))
    return work.ends(TurnOutcome.INTERRUPTED)


def known() -> SessionFacts:
    facts = long_work().facts("Convert the parser. Never rename public functions.")
    facts.replied("Only Python 3.11 counts.")
    return facts


FACTS = known()
WHOLE = build(FACTS, here())


def of(contract: Contract) -> Fidelity:
    return score(contract, FACTS, files=GIT)


def kind(fidelity: Fidelity, name: str) -> Any:
    return next(kind for kind in fidelity.kinds if kind.kind == name)


def test_a_contract_that_carries_everything_scores_one() -> None:
    assert of(WHOLE).score == 1.0
    assert {kind.kind: kind.expected for kind in of(WHOLE).kinds} == {
        "goal": 1,
        "open_tasks": 3,
        "done_tasks": 2,
        "files": 3,
        "constraints": 3,
        "decisions": 2,
        "failed_attempts": 3,
        "next_action": 1,
    }
    assert set(WEIGHTS) == {kind.kind for kind in of(WHOLE).kinds}


FIELDS = {
    "open_tasks": "tasks_remaining",
    "files": "files_changed",
    "constraints": "constraints",
    "decisions": "decisions",
    "failed_attempts": "failed_attempts",
}
EACH = [(name, field, at) for name, field in FIELDS.items() for at in range(len(getattr(WHOLE, field)))]


@pytest.mark.parametrize(("name", "field", "at"), EACH)
def test_each_dropped_item_lowers_the_score(name: str, field: str, at: int) -> None:
    entries = getattr(WHOLE, field)
    less = of(evolve(WHOLE, **{field: entries[:at] + entries[at + 1 :]}))
    assert less.score < 1.0
    assert kind(less, name).recall < 1.0
    assert [k.kind for k in less.kinds if k.score < 1.0] == [name]


@pytest.mark.parametrize("task", FACTS.done)
def test_a_done_task_that_could_be_redone_lowers_the_score(task: str) -> None:
    assert WHOLE.do_not_redo.count(task) == 1
    less = of(evolve(WHOLE, do_not_redo=tuple(text for text in WHOLE.do_not_redo if text != task)))
    assert less.score < 1.0
    assert kind(less, "done_tasks").recall == 0.5


def test_a_task_named_only_within_another_is_not_carried() -> None:
    facts = Work().plan("x tests", "x unit tests", "  rest").facts()
    contract = evolve(build(facts, here()), files_changed=(), do_not_redo=("unit tests",))
    assert kind(score(contract, facts), "done_tasks").recall == 0.5


CHANGES: dict[str, tuple[str, Callable[[Contract], Contract]]] = {
    "another goal": ("goal", lambda c: evolve(c, task_goal="Convert the parser.")),
    "no goal": ("goal", lambda c: evolve(c, task_goal="")),
    "another next action": ("next_action", lambda c: evolve(c, next_action="release")),
    "no next action": ("next_action", lambda c: evolve(c, next_action="")),
    "an invented task": ("open_tasks", lambda c: evolve(c, tasks_remaining=(*c.tasks_remaining, "deploy"))),
    "a done task as open": (
        "open_tasks",
        lambda c: evolve(c, tasks_remaining=("convert", *c.tasks_remaining)),
    ),
    "an invented decision": ("decisions", lambda c: evolve(c, decisions=(*c.decisions, "use yacc"))),
    "an invented failure": (
        "failed_attempts",
        lambda c: evolve(c, failed_attempts=(*c.failed_attempts, Attempt(what="run x", why="y"))),
    ),
    "a foreign file": (
        "files",
        lambda c: evolve(c, files_changed=(*c.files_changed, ChangedPath(path="x", status="A"))),
    ),
}


@pytest.mark.parametrize(("name", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_wrong_or_invented_lowers_the_score(
    name: str, change: Callable[[Contract], Contract]
) -> None:
    less = of(change(WHOLE))
    assert less.score < 1.0
    assert [k.kind for k in less.kinds if k.score < 1.0] == [name]


def test_what_was_too_much_to_remember_counts_as_lost() -> None:
    work = Work().plan("  go on")
    for number in range(MOST + 10):
        work.says(f"Decision: number {number} it is.")
    facts = work.facts()
    found = score(build(facts, here()), facts, files=GIT)
    assert kind(found, "decisions").recall == MOST / (MOST + 10)
    assert found.score < 1.0


def test_without_a_plan_any_next_action_will_do_but_one_there_must_be() -> None:
    facts = Work().edit("src/parse.py").edit("src/gone.py").facts()
    contract = build(facts, here())
    assert score(contract, facts).score == 1.0
    assert score(evolve(contract, next_action=""), facts).score < 1.0


def test_an_announced_next_step_is_expected() -> None:
    facts = Work().says(f"All is written.\nNext: {NEXT}").ends().facts()
    contract = evolve(build(facts, here()), files_changed=())
    assert contract.next_action == NEXT
    assert score(evolve(contract, next_action="Sleep"), facts).score < score(contract, facts).score == 1.0


def test_nothing_carried_scores_next_to_nothing() -> None:
    empty = Contract(contract_id="c", session_id="s", task_id="t", version=2, task_goal="", next_action="")
    assert of(empty).score == 0.0


def test_expected_facts_can_be_written_down_by_hand() -> None:
    expected = Expected(
        goal="convert  the parser. never rename public functions.",
        open_tasks=("Write the tests", "document", "release"),
        next_action="write the tests",
    )
    found = {k.kind: k.recall for k in compare(WHOLE, expected).kinds}
    assert found == dict.fromkeys(WEIGHTS, 1.0)


@given(
    tasks=st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True, max_size=4),
    kept=st.sets(st.sampled_from(["a", "b", "c", "d"])),
    surplus=st.sets(st.sampled_from(["x", "y"])),
)
def test_the_score_lies_between_none_and_all(tasks: list[str], kept: set[str], surplus: set[str]) -> None:
    expected = Expected(goal="g", open_tasks=tuple(tasks))
    there = tuple(task for task in tasks if task in kept) + tuple(surplus)
    contract = Contract(
        contract_id="c",
        session_id="s",
        task_id="t",
        version=2,
        task_goal="g",
        next_action="n",
        tasks_remaining=there,
    )
    found = compare(contract, expected)
    assert 0.0 <= found.score <= 1.0
    assert (found.score == 1.0) == (set(there) == set(tasks))


def test_the_facts_say_what_is_expected() -> None:
    expected = expected_of(FACTS, files=GIT)
    assert expected.next_action == "write the tests"
    assert expected.done_tasks == ("read the grammar", "convert")
    assert expected.failed_attempts == ("run make test", "edit src/lex.py", "edit src/half.py")
    assert expected.lost == ()
