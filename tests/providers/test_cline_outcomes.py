"""What the model was told of a task's tools, beside what the extension's window shows."""

from __future__ import annotations

from typing import Any

import pytest

from relay.core.intel import SessionIntel
from relay.core.lift import Lift
from relay.providers.cline_outcomes import Outcomes
from relay.providers.cline_tasks import TaskLift

FAILED = "Exit code: 2\nOutput:\n1 failed"


def exchange(tool: str, given: dict[str, str], answer: object, call: str = "t1") -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": tool, "input": given}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": answer}]},
    ]


def lift(shown: list[dict[str, Any]], outcomes: Outcomes) -> SessionIntel:
    task = Lift(store="roo", home="/h", native_id="1", path="/h/1")
    task.named(cwd="/code/shop")
    said = {"type": "say", "say": "text", "text": "Mend it"}
    TaskLift(task, outcomes).take_all({**each, "ts": 1_000 + n} for n, each in enumerate([said, *shown]))
    return task.intel()


def command(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "ask", "ask": "command", "text": text},
        {"type": "say", "say": "command_output", "text": "1 failed"},
    ]


def edit(path: str, **more: Any) -> dict[str, Any]:
    return {"type": "ask", "ask": "tool", "text": f'{{"tool": "appliedDiff", "path": "{path}"}}', **more}


def test_a_commands_exit_code_is_told_to_the_model_alone() -> None:
    told = exchange("execute_command", {"command": "make"}, FAILED)
    told += exchange("execute_command", {"command": "make"}, "Exit code: 0\nOutput:\nok", "t2")
    again = [*command("make"), {"type": "say", "say": "text", "text": "Again."}, *command("make")]

    assert [run.exit_code for run in lift(command("make"), Outcomes.of(told)).commands] == [2]
    assert [run.exit_code for run in lift(again, Outcomes.of(told)).commands] == [0]
    assert lift(again, Outcomes.of(told)).failed_attempts == ()


def test_a_tool_that_was_called_in_prose_has_a_result_too() -> None:
    blocks = [
        {"type": "text", "text": "[execute_command for 'make'] Result:"},
        {"type": "text", "text": FAILED},
    ]
    intel = lift(command("make"), Outcomes.of([{"role": "user", "content": blocks}]))

    assert [each.what for each in intel.failed_attempts] == ["run make"]


def test_an_edit_that_failed_is_shown_nowhere() -> None:
    blocks = [{"type": "text", "text": "<error_details>\nNo sufficiently similar match\n</error_details>"}]
    told = exchange("apply_diff", {"path": "/code/shop/a.py"}, blocks)
    intel = lift([edit("a.py", partial=True)], Outcomes.of(told, "/code/shop"))

    assert [(each.what, each.why) for each in intel.failed_attempts] == [("edit a.py", "<error_details>")]
    assert intel.files_changed == ()


def test_an_edit_that_worked_in_the_end_did_not_fail() -> None:
    told = exchange("apply_diff", {"path": "a.py"}, "<error>\nno match\n</error>")
    told += exchange("apply_diff", {"path": "a.py"}, "Saved.", "t2")
    done = {"type": "say", "say": "text", "text": "Saved."}
    intel = lift([edit("a.py", partial=True), edit("a.py"), done], Outcomes.of(told))

    assert intel.failed_attempts == ()
    assert intel.files_changed == ("a.py",)


def test_a_message_of_the_window_that_names_a_file_is_a_failed_edit() -> None:
    named = {"type": "say", "say": "diff_error", "text": "a.py"}
    details = {"type": "say", "say": "diff_error", "text": "<error_details>\nno match\n</error_details>"}

    assert [each.what for each in lift([named], Outcomes()).failed_attempts] == ["edit a.py"]
    assert lift([details], Outcomes()).failed_attempts == ()


def test_what_is_no_message_is_passed_over() -> None:
    odd: list[Any] = [{}, {"role": "user", "content": [3, {"type": "tool_result"}]}, {"content": "x"}]

    assert list(Outcomes.of(odd).left()) == []


NO = "The user denied this operation. The file was not updated, and maintains its original contents."
JSON_NO = '{"status": "denied", "feedback": "Use the Money type."}'
PROSE = "[replace_in_file for 'a.py'] Result:"
FOLLOWS = {"type": "say", "say": "api_req_started", "text": "{}"}
DENIAL = [("edit a.py", "permission was denied")]


def prose(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(exchange("replace_in_file", {"path": "a.py"}, NO), id="called natively"),
        pytest.param(exchange("replace_in_file", {"path": "a.py"}, f"{PROSE}\n{NO}"), id="titled"),
        pytest.param(exchange("apply_diff", {"path": "/code/shop/a.py"}, JSON_NO), id="json"),
        pytest.param(exchange("apply_diff", {"path": "a.py"}, [{"type": "text", "text": NO}]), id="blocks"),
        pytest.param(prose(PROSE, NO), id="in prose"),
        pytest.param(
            prose("The user provided the following feedback: no", f"{PROSE}\n{NO}"), id="in one block"
        ),
    ],
)
def test_an_edit_that_the_user_denied_changed_nothing(told: list[dict[str, Any]]) -> None:
    intel = lift([edit("a.py"), FOLLOWS], Outcomes.of(told, "/code/shop"))

    assert intel.files_changed == ()
    assert [(each.what, each.why) for each in intel.failed_attempts] == DENIAL


def test_a_patch_that_the_user_denied_changed_none_of_its_files() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n+x\n*** End Patch"
    told = exchange("apply_patch", {"input": patch}, "The user denied this patch operation.")
    intel = lift([edit("a.py"), FOLLOWS], Outcomes.of(told))

    assert intel.files_changed == ()
    assert [each.what for each in intel.failed_attempts] == ["edit a.py", "edit b.py"]


def test_of_several_edits_of_a_file_the_denied_one_alone_does_not_count() -> None:
    told = exchange("apply_diff", {"path": "b.py"}, "<error>\nno match\n</error>")
    told += exchange("apply_diff", {"path": "b.py"}, NO, "t2")
    told += exchange("apply_diff", {"path": "a.py"}, "Saved.", "t3")
    told += exchange("apply_diff", {"path": "a.py"}, NO, "t4")
    intel = lift([edit("b.py"), edit("a.py"), edit("a.py"), FOLLOWS], Outcomes.of(told))

    assert intel.files_changed == ("a.py",)
    assert [each.what for each in intel.failed_attempts] == ["edit b.py", "edit a.py"]


def test_an_edit_that_was_allowed_in_the_end_was_made() -> None:
    told = exchange("apply_diff", {"path": "a.py"}, NO)
    told += exchange(
        "apply_diff", {"path": "a.py"}, "Skipping tool [apply_diff for 'a.py'] due to user ...", "t2"
    )
    told += exchange("apply_diff", {"path": "a.py"}, "Saved.", "t3")
    intel = lift([edit("a.py"), FOLLOWS, edit("a.py"), FOLLOWS], Outcomes.of(told))

    assert intel.files_changed == ("a.py",)
    assert intel.failed_attempts == ()


def test_a_command_that_the_user_denied_was_not_run() -> None:
    told = exchange("execute_command", {"command": "make"}, "The user denied this operation.")
    intel = lift([{"type": "ask", "ask": "command", "text": "make"}, FOLLOWS], Outcomes.of(told))

    assert intel.commands == ()
    assert [(each.what, each.why) for each in intel.failed_attempts] == [
        ("run make", "permission was denied")
    ]


def test_a_file_that_speaks_of_denials_is_no_denial() -> None:
    told = exchange("write_to_file", {"path": "a.py"}, f"The content was saved.\n{NO}")
    intel = lift([edit("a.py"), FOLLOWS], Outcomes.of(told))

    assert (intel.files_changed, intel.failed_attempts) == (("a.py",), ())
