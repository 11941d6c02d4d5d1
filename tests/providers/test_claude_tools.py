from __future__ import annotations

from typing import Any

import pytest

from relay.core.events import PlanItem, PlanUpdated, TaskStatus, ToolKind
from relay.providers.claude_plan import Plan
from relay.providers.claude_tools import call_of, kind_of, permission, result_of


@pytest.mark.parametrize(
    ("tool", "want"),
    [
        ("Read", ToolKind.READ),
        ("Write", ToolKind.EDIT),
        ("NotebookEdit", ToolKind.EDIT),
        ("Bash", ToolKind.SHELL),
        ("Grep", ToolKind.SEARCH),
        ("WebFetch", ToolKind.WEB),
        ("mcp__github__create_issue", ToolKind.MCP),
        ("ExitPlanMode", ToolKind.PLAN),
        ("AskUserQuestion", ToolKind.ASK),
        ("Agent", ToolKind.SUBAGENT),
        ("ToolOfTomorrow", ToolKind.OTHER),
        ("", ToolKind.OTHER),
    ],
)
def test_tools_are_known_by_name(tool: str, want: ToolKind) -> None:
    assert kind_of(tool) is want


@pytest.mark.parametrize(
    ("tool", "given", "want"),
    [
        ("Edit", {"file_path": "/w/a"}, (("/w/a",), "", "/w/a")),
        ("NotebookEdit", {"notebook_path": "/w/a.ipynb"}, (("/w/a.ipynb",), "", "/w/a.ipynb")),
        ("Grep", {"pattern": "x", "path": "src"}, (("src",), "", "x")),
        ("Bash", {"command": "make\ntest"}, ((), "make\ntest", "make test")),
        ("Bash", {"command": "make", "description": "Build"}, ((), "make", "Build")),
        ("mcp__db__run", {"command": "drop"}, ((), "", "")),
        ("Write", {"file_path": 3}, ((), "", "")),
    ],
)
def test_a_call_names_its_files_and_its_command(tool: str, given: Any, want: Any) -> None:
    call = call_of({"id": "a", "name": tool, "input": given}, "")
    assert (call.paths, call.command, call.detail) == want


@pytest.mark.parametrize(
    ("content", "is_error", "told", "want"),
    [
        ("fine", False, {"stdout": "fine"}, (True, 0)),
        ("fine", False, None, (True, None)),
        ("No matches", False, {"stdout": "", "returnCodeInterpretation": "No matches found"}, (True, None)),
        ("started", False, {"stdout": "", "backgroundTaskId": "b1"}, (True, None)),
        ("Exit code 137\nstarted", True, "Error", (False, 137)),
        ("Error: Exit code 2", True, "Error", (False, 2)),
        ("it said: Exit code 3", True, "Error", (False, None)),
        ("Exit code 12345", True, "Error", (False, None)),
    ],
)
def test_a_command_is_done_or_failed_with_its_code(
    content: str, is_error: bool, told: Any, want: Any
) -> None:
    block = {"tool_use_id": "a", "content": content, "is_error": is_error}
    result = result_of({"tool_use_result": told}, block, shell=True, denied=False)
    assert (result.ok, result.exit_code) == want


def test_only_a_command_has_an_exit_code() -> None:
    block = {"tool_use_id": "a", "content": "Exit code 3", "is_error": True}
    assert result_of({}, block, shell=False, denied=False).exit_code is None


def test_long_output_is_cut() -> None:
    block = {"tool_use_id": "a", "content": [{"type": "text", "text": "x" * 100_000}, {"type": "image"}]}
    assert len(result_of({}, block, shell=False, denied=False).output) <= 4096


def test_a_tool_that_ran_was_not_denied() -> None:
    block = {"tool_use_id": "a", "content": "done"}
    assert not result_of({}, block, shell=False, denied=True).denied


def test_a_refusal_without_a_note_still_says_something() -> None:
    assert permission({"tool_name": "Write"}, False, "")["message"]


class TestPlan:
    def created(self, *subjects: str) -> Plan:
        plan = Plan()
        for number, subject in enumerate(subjects, 1):
            call = f"c{number}"
            plan.opened(call, "TaskCreate", {"subject": subject})
            plan.closed(call, True, {"task": {"id": str(number), "subject": subject}})
        return plan

    def update(self, plan: Plan, **given: str) -> PlanUpdated | None:
        plan.opened("u", "TaskUpdate", given)
        return plan.closed("u", True, {"success": True})

    def test_an_update_gives_the_whole_plan(self) -> None:
        assert self.update(self.created("A", "B"), taskId="2", status="in_progress") == PlanUpdated(
            items=(PlanItem(text="A"), PlanItem(text="B", status=TaskStatus.IN_PROGRESS))
        )

    def test_an_item_may_be_worded_anew_or_dropped(self) -> None:
        plan = self.created("A", "B")
        assert self.update(plan, taskId="1", subject="A2") == PlanUpdated(
            items=(PlanItem(text="A2"), PlanItem(text="B"))
        )
        assert self.update(plan, taskId="1", status="deleted") == PlanUpdated(items=(PlanItem(text="B"),))

    def test_an_item_of_an_earlier_run_is_not_made_up(self) -> None:
        assert self.update(self.created("A"), taskId="7", status="completed") is None

    def test_a_list_tells_items_of_an_earlier_run(self) -> None:
        plan = Plan()
        plan.opened("l", "TaskList", {})
        tasks = [{"id": "7", "subject": "A", "status": "completed"}]
        assert plan.closed("l", True, {"tasks": tasks}) == PlanUpdated(
            items=(PlanItem(text="A", status=TaskStatus.COMPLETED),)
        )

    def test_a_call_that_failed_changes_nothing(self) -> None:
        plan = Plan()
        plan.opened("t", "TodoWrite", {"todos": [{"content": "A", "status": "pending"}]})
        assert plan.closed("t", False, {}) is None

    def test_an_emptied_list_is_an_empty_plan(self) -> None:
        plan = Plan()
        for todos in ([{"content": "A", "status": "pending"}], []):
            plan.opened("t", "TodoWrite", {"todos": todos})
            last = plan.closed("t", True, {"newTodos": todos})
        assert last == PlanUpdated(items=())
