"""What is known of a session's work: nothing twice, nothing lost, nothing unbounded."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.events import (
    AgentEvent,
    AgentStarted,
    AgentText,
    PermissionAsked,
    PlanItem,
    PlanUpdated,
    TaskStatus,
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
)
from relay.core.facts import FEW, HANDING_OVER, MOST, MOST_FILES, CommandRun, SessionFacts
from relay.core.wire import event_from_wire, event_to_wire, from_wire, to_wire
from tests.fakes.work import WORKTREE, Work

WORDS = st.text(max_size=40)
PATHS = st.sampled_from(["a.py", f"{WORKTREE}/b.py", "/etc/hosts", "../up", "", f"{WORKTREE}", "..x", "c\nd"])
IDS = st.sampled_from(["1", "2", "3"])
EVENTS: st.SearchStrategy[AgentEvent] = st.one_of(
    st.builds(AgentText, text=WORDS),
    st.builds(AgentStarted, native_id=WORDS, model=WORDS),
    st.builds(
        ToolCall,
        call_id=IDS,
        tool=WORDS,
        tool_kind=st.sampled_from(list(ToolKind)),
        paths=st.lists(PATHS, max_size=3).map(tuple),
        command=st.sampled_from(["", "make", "make test", "grep x y"]),
        detail=WORDS,
    ),
    st.builds(
        ToolResult,
        call_id=IDS,
        ok=st.booleans(),
        exit_code=st.sampled_from([None, 0, 1, 2]),
        output=WORDS,
        denied=st.booleans(),
    ),
    st.builds(
        PlanUpdated,
        items=st.lists(
            st.builds(
                PlanItem, text=st.sampled_from(["a", "b", "c", ""]), status=st.sampled_from(list(TaskStatus))
            ),
            max_size=4,
        ).map(tuple),
    ),
    st.builds(UsageReported, usage=st.builds(TokenUsage, input=st.integers(0, 99))),
    st.builds(TurnStarted),
    st.builds(TurnEnded, outcome=st.sampled_from(list(TurnOutcome)), text=WORDS),
    st.builds(PermissionAsked, request_id=IDS, tool=WORDS, tool_kind=st.just(ToolKind.ASK), question=WORDS),
)


def work_of(events: list[AgentEvent | None]) -> Work:
    work = Work()
    for event in events:
        if event is None:
            work.run += 1
        else:
            work.event(event)
    return work


HISTORIES = st.lists(st.one_of(EVENTS, st.none()), max_size=30).map(work_of)


@given(work=HISTORIES, cut=st.integers(0, 30))
def test_facts_come_back_from_the_disk_in_mid_work(work: Work, cut: int) -> None:
    facts = SessionFacts.for_goal("Convert it. Never push.", worktree=WORKTREE)
    for seen in work.seen[:cut]:
        facts.fold(seen)
    stored = json.loads(json.dumps(to_wire(facts)))
    again = from_wire(stored, SessionFacts)
    copied = pickle.loads(pickle.dumps(facts))
    for seen in work.seen[cut:]:
        facts.fold(seen)
        again.fold(seen)
        copied.fold(seen)

    assert again == facts
    assert copied == facts


@given(work=HISTORIES)
def test_facts_are_rebuilt_from_the_audit_log(work: Work) -> None:
    rebuilt = SessionFacts.for_goal("Convert the parser", worktree=WORKTREE)
    for seen in work.seen:
        read = event_from_wire(json.loads(json.dumps(event_to_wire(seen, "claude/a"))), seen.at)
        assert read is not None
        rebuilt.fold(read)

    assert rebuilt == work.facts()


@given(work=HISTORIES)
def test_a_task_is_either_done_or_left(work: Work) -> None:
    facts = work.facts()

    assert not set(facts.done) & set(facts.remaining)
    assert len(set(facts.done)) == len(facts.done)
    assert len(set(facts.remaining)) == len(facts.remaining)


FILES = {
    "relative": ("src/a.py", "src/a.py"),
    "absolute": (f"{WORKTREE}/src/a.py", "src/a.py"),
    "with dots": (f"{WORKTREE}/src/../src/./a.py", "src/a.py"),
    "a name that begins with dots": ("..a/b", "..a/b"),
    "a sibling folder whose name begins alike": (f"{WORKTREE}2/a.py", None),
    "the folder above": ("../a.py", None),
    "out by dots": (f"{WORKTREE}/../a.py", None),
    "elsewhere": ("/etc/hosts", None),
}


@pytest.mark.parametrize(("path", "want"), FILES.values(), ids=FILES.keys())
def test_files_in_the_worktree_are_told_apart_from_others(path: str, want: str | None) -> None:
    facts = Work().edit(path).facts()

    assert list(facts.changed) == ([want] if want else [])
    assert len(facts.outside) == (0 if want else 1)


def test_a_file_counts_as_changed_once_and_only_when_the_edit_worked() -> None:
    facts = Work().edit("a.py").edit(f"{WORKTREE}/a.py").edit("b.py", ok=False, output="no match").facts()

    assert list(facts.changed) == ["a.py"]
    assert [(a.what, a.why) for a in facts.failures.values()] == [("edit b.py", "no match")]


def test_a_command_stands_once_with_its_last_outcome() -> None:
    facts = Work().shell("make test", exit_code=2).shell("ls").shell("make test").facts()

    assert facts.commands["make test"] == CommandRun(command="make test", exit_code=0, ok=True, times=2)
    assert list(facts.commands) == ["ls", "make test"]


SUCCEEDS = {
    "a command": Work().shell("make", exit_code=2, output="x.c: error").shell("make"),
    "an edit": Work().edit("a.py", ok=False).edit("a.py"),
    "an edit of several files": Work().edit("a.py", ok=False).edit("b.py", "a.py"),
    "an edit elsewhere": Work().edit("/tmp/a", ok=False).edit("/tmp/a"),
}


@pytest.mark.parametrize("work", SUCCEEDS.values(), ids=SUCCEEDS.keys())
def test_a_later_success_removes_the_failed_attempt(work: Work) -> None:
    assert not work.facts().failures


def test_a_failure_says_why_and_with_which_exit_code() -> None:
    facts = Work().shell("make", exit_code=2, output="cc a.c\n\x1b[31ma.c:3: error: no ';'\x1b[0m\n").facts()

    (failed,) = facts.failures.values()
    assert failed.what == "run make"
    assert failed.why == "exit code 2: a.c:3: error: no ';'"


def test_a_denied_command_is_no_command_that_ran() -> None:
    work = Work()
    work.close(work.call(ToolKind.SHELL, command="git push"), ok=False, denied=True)
    facts = work.facts()

    assert not facts.commands
    assert [f.why for f in facts.failures.values()] == ["permission was denied"]


@pytest.mark.parametrize("denied", [True, False])
def test_what_is_denied_for_the_handoff_itself_did_not_fail(denied: bool) -> None:
    work = Work()
    said = f"The user said: {HANDING_OVER}"
    work.close(work.call(ToolKind.SHELL, command="make"), ok=False, denied=denied, output=said)

    assert not work.facts().failures
    assert not work.facts().commands


def test_the_plan_outlives_its_agent() -> None:
    facts = Work().plan("x parse", "~ render", "  document").next_agent().says("hello").facts()

    assert facts.done == ("parse",)
    assert facts.remaining == ("render", "document")


def test_what_an_earlier_agent_finished_stays_done_when_the_next_plans_only_the_rest() -> None:
    facts = Work().plan("x parse", "  render").next_agent().plan("~ render", "  check").facts()

    assert facts.done == ("parse",)
    assert facts.remaining == ("render", "check")


def test_a_finished_task_that_is_opened_again_is_left_to_do() -> None:
    facts = Work().plan("x parse", "  render").plan("~ render").plan("~ parse", "x render").facts()

    assert facts.done == ("render",)
    assert facts.remaining == ("parse",)


def test_an_agent_without_a_plan_does_not_undo_the_one_before() -> None:
    assert Work().plan("~ render").next_agent().plan().facts().remaining == ("render",)


def test_the_task_in_progress_comes_first() -> None:
    assert Work().plan("  a", "  b", "~ c").facts().remaining == ("c", "a", "b")


def test_what_the_user_and_the_agent_state_is_kept_apart() -> None:
    work = Work().says("Decision: use SQLite.\nConstraint: no network in tests.\nNext: write the parser.")
    facts = work.facts("Convert it. Do not touch vendor/.")
    facts.replied("Never push to main. Thanks!")

    assert list(facts.rules) == ["Do not touch vendor/.", "Never push to main."]
    assert list(facts.decisions) == ["use SQLite."]
    assert list(facts.constraints) == ["no network in tests."]
    assert facts.next_step == "write the parser."
    assert facts.replies == ["Never push to main. Thanks!"]


def test_the_last_message_is_the_last_that_says_something() -> None:
    work = Work().says("first").says("half way").says(" \n").ends(text="half way")
    work.ends(TurnOutcome.FAILED, text="You've hit your limit")

    assert work.facts().last_message == "half way"


def test_tokens_are_counted_once_and_cached_ones_apart() -> None:
    facts = Work().spends(100, 900, 10).next_agent().spends(1, 2, 3).facts()

    assert facts.tokens == TokenUsage(input=101, cached_input=902, output=13)
    assert facts.tokens.total == 1016
    assert [run.tokens.total for run in facts.runs] == [1010, 6]


@pytest.mark.parametrize("outcome", [TurnOutcome.INTERRUPTED, TurnOutcome.FAILED])
def test_an_edit_that_was_cut_off_is_under_way(outcome: TurnOutcome) -> None:
    work = Work()
    work.call(ToolKind.EDIT, paths=("a.py",))
    before = work.facts().under_way
    after = work.ends(outcome).facts().under_way

    assert [call.paths for call in before] == [("a.py",)]
    assert after == before


def test_what_a_completed_turn_left_open_is_not_under_way() -> None:
    work = Work()
    work.call(ToolKind.EDIT, paths=("a.py",))

    assert not work.ends().facts().under_way


def test_what_was_cut_off_is_a_failed_attempt_once_the_next_agent_works() -> None:
    work = Work()
    work.call(ToolKind.SHELL, command="make deploy")
    facts = work.next_agent().facts()

    assert not facts.under_way
    assert list(facts.failures) == ["run make deploy"]


def many(work: Work, number: int) -> None:
    work.shell(f"false {number}", exit_code=3)
    work.says(f"Decision: take number {number}")
    work.says(f"Constraint: keep number {number}")
    work.asks(f"Number {number}?")
    work.edit(f"f{number}").edit(f"/tmp/f{number}").read(f"r{number}")
    work.call(ToolKind.EDIT, paths=(f"open{number}",))
    work.next_agent(f"model {number}")


def test_nothing_grows_without_bound_and_what_is_left_out_is_counted() -> None:
    work = Work()
    for number in range(MOST + 5):
        many(work, number)
    facts = work.facts()
    facts.changed.update(dict.fromkeys(map(str, range(MOST_FILES))))
    for number in range(MOST + 5):
        facts.replied(f"Never take number {number}.")
    work.edit("one more")
    facts.fold(work.seen[-2])
    facts.fold(work.seen[-1])

    sizes = {
        "commands": MOST,
        "failures": MOST,
        "decisions": MOST,
        "constraints": MOST,
        "outside": MOST,
        "replies": MOST,
        "rules": MOST,
        "questions": FEW,
        "runs": FEW,
    }
    assert {kind: len(getattr(facts, kind)) for kind in sizes} == sizes
    assert {kind: facts.dropped[kind] for kind in ("commands", "decisions", "replies", "rules")} == {
        "commands": 5,
        "decisions": 5,
        "replies": 5,
        "rules": 5,
    }
    assert facts.dropped["changed"] == 1
    assert len(facts.cut_off) <= FEW
    # The newest commands and replies are kept.
    assert f"false {MOST + 4}" in facts.commands
    assert facts.replies[-1] == f"Never take number {MOST + 4}."


def test_calls_that_are_never_closed_do_not_pile_up() -> None:
    work = Work()
    for number in range(MOST + 5):
        work.call(ToolKind.EDIT, paths=(f"{number}",))

    assert len(work.facts().open_calls) == MOST


def test_of_an_endless_plan_the_open_items_are_kept() -> None:
    facts = Work().plan(*(f"x done {n}" for n in range(MOST)), "  left", "~ now").facts()

    assert facts.remaining == ("now", "left")
    assert len(facts.plan) == MOST
    assert facts.dropped == {"plan": 2}


def test_long_texts_are_cut() -> None:
    huge = "x" * 1_000_000
    facts = Work().says(huge).plan(f"~ {huge}").shell(huge, exit_code=1, output=huge).asks(huge).facts()

    assert len(json.dumps(to_wire(facts))) < 10_000


@pytest.mark.parametrize("name", ["caf\udce9", "a\ud800b"])
def test_a_name_that_is_no_text_can_be_stored(name: str) -> None:
    facts = Work().edit(name).edit(f"/tmp/{name}", ok=False).shell(f"rm {name}").facts()

    assert json.dumps(to_wire(facts), ensure_ascii=False).encode()
