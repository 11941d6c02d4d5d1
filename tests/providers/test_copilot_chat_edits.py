"""Edits of Copilot Chat that failed, as the result of a request tells them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.core.intel import Depth, SessionIntel
from relay.core.lift import Lift
from relay.providers.copilot_chat import lift_session, slim
from relay.providers.mutation_log import MutationLog

FILE = "/code/demo/a.py"
LINK = {"value": f"Created [](file://{FILE})"}
NO_MATCH = "String replacement failed: Could not find matching text to replace."
EXISTS = "ERROR while calling tool: File already exists. You must use an edit tool to modify it."
EDITED = f"The following files were successfully edited:\n{FILE}\n"


def shown(tool: str, message: object, **more: Any) -> dict[str, Any]:
    part = {"kind": "toolInvocationSerialized", "toolCallId": "1894ea97", "isComplete": True}
    return {**part, "toolId": tool, "pastTenseMessage": message, **more}


def call(name: str, answer: str | None, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call, and its result: as text when it is an error of the tool, as a tree otherwise."""
    call_id = f"toolu_{len(str(given))}_{name}__vscode-1759845028970"
    arguments = json.dumps(given or {"filePath": FILE})
    asked = {"name": name, "arguments": arguments, "id": call_id}
    if answer is None:
        return asked, {}
    texts = [{"type": 2, "text": line, "lineBreakBefore": True} for line in answer.split("\n")]
    tree = {"node": {"type": 1, "children": [{"type": 1, "children": texts}]}}
    value = answer if answer.startswith("ERROR") else tree
    return asked, {call_id: {"$mid": 20, "content": [{"$mid": 23, "value": value}]}}


def session(parts: list[dict[str, Any]], *calls: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    results = {name: told for _, result in calls for name, told in result.items()}
    rounds = [{"response": "", "toolCalls": [asked]} for asked, _ in calls]
    request = {
        "requestId": "r1",
        "timestamp": 1767323045678,
        "message": {"text": "Do it"},
        "response": parts,
        "result": {"metadata": {"toolCallRounds": rounds, "toolCallResults": results}},
    }
    return {"version": 3, "sessionId": "s1", "requests": [request]}


def lifted(told: dict[str, Any], depth: Depth = Depth.FULL, cwd: str = "/code/demo") -> SessionIntel:
    lift = Lift(store="copilot-chat", home="/h", native_id="s1", path="/h/s1", depth=depth)
    lift.named(cwd=cwd)
    lift_session(lift, told)
    return lift.intel()


def logged(told: dict[str, Any]) -> dict[str, Any]:
    """The same session as a log of changes, as it is kept in memory."""
    log = MutationLog(slim)
    request = {**told["requests"][0]}
    result = request.pop("result")
    log.take({"kind": 0, "v": {**told, "requests": [request]}})
    log.take({"kind": 1, "k": ["requests", 0, "result"], "v": result})
    return log.state


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize("form", [lambda told: told, logged], ids=["document", "log"])
def test_a_file_whose_edit_failed_was_not_changed(form: Any, depth: Depth) -> None:
    told = session([shown("copilot_createFile", LINK)], call("create_file", EXISTS))
    intel = lifted(form(told), depth)

    assert intel.files_changed == ()
    assert [(each.what, each.why) for each in intel.failed_attempts] == (
        [("edit a.py", EXISTS)] if depth is Depth.FULL else []
    )


@pytest.mark.parametrize(
    ("name", "answer", "given"),
    [
        ("replace_string_in_file", NO_MATCH, {"filePath": FILE}),
        (
            "apply_patch",
            "Applying patch failed with error: Invalid context",
            {"input": f"*** Update File: {FILE}"},
        ),
        (
            "insert_edit_into_file",
            "ERROR: Your input to the tool was invalid (must be array)",
            {"filePath": FILE},
        ),
        ("edit_notebook_file", "The user cancelled the tool call.", {"filePath": FILE}),
    ],
)
def test_an_edit_of_which_nothing_is_shown_failed(name: str, answer: str, given: dict[str, str]) -> None:
    intel = lifted(session([], call(name, answer, **given)))

    assert [(each.what, each.why) for each in intel.failed_attempts] == [("edit a.py", answer)]
    assert intel.files_changed == ()


def test_an_edit_that_worked_in_the_end_did_not_fail() -> None:
    group = {"kind": "textEditGroup", "uri": {"path": FILE, "scheme": "file"}}
    told = session(
        [group],
        call("replace_string_in_file", NO_MATCH, filePath=FILE, oldString="a"),
        call("replace_string_in_file", EDITED, filePath=FILE),
    )

    assert (lifted(told).files_changed, lifted(told).failed_attempts) == (("a.py",), ())


def test_of_a_call_that_edits_several_files_some_may_fail() -> None:
    replacements = [{"filePath": FILE, "oldString": "a"}, {"filePath": "/code/demo/b.py", "oldString": "b"}]
    answer = f"{EDITED}{NO_MATCH}"
    intel = lifted(session([], call("multi_replace_string_in_file", answer, replacements=replacements)))

    assert intel.files_changed == ("a.py",)
    assert [each.what for each in intel.failed_attempts] == ["edit b.py"]


def test_an_edit_that_left_errors_in_the_file_was_made() -> None:
    answer = f"The edit to {FILE} was applied successfully.\nThe edit resulted in these lint errors:\nERROR x"
    intel = lifted(session([], call("replace_string_in_file", answer)))

    assert (intel.files_changed, intel.failed_attempts) == (("a.py",), ())


@pytest.mark.parametrize("answer", [None, "", "Something that is not known"])
def test_what_is_shown_counts_where_no_end_is_told(answer: str | None) -> None:
    intel = lifted(session([shown("copilot_createFile", LINK)], call("create_file", answer)))

    assert (intel.files_changed, intel.failed_attempts) == (("a.py",), ())


def test_an_edit_that_the_user_refused_is_told_as_it_was_shown() -> None:
    part = shown("copilot_createFile", LINK, isConfirmed={"type": 0})
    intel = lifted(session([part], call("create_file", "The user cancelled the tool call.")))

    assert intel.files_changed == ()
    assert [each.what for each in intel.failed_attempts] == ["edit a.py"]


def test_on_windows_the_letter_of_the_drive_may_differ() -> None:
    link = {"value": "Created [](file:///c%3A/code/demo/a.py)"}
    told = session(
        [shown("copilot_createFile", link)], call("create_file", EXISTS, filePath="C:\\code\\demo\\a.py")
    )
    intel = lifted(told, cwd="c:/code/demo")

    assert (intel.files_changed, intel.files_outside) == ((), ())
    assert [each.what for each in intel.failed_attempts] == ["edit a.py"]


def test_what_is_said_around_an_edit_stays_apart() -> None:
    parts = [{"value": "First."}, shown("copilot_createFile", LINK), {"value": "Then."}]
    intel = lifted(session(parts, call("create_file", EDITED)))

    assert [turn.text for turn in intel.turns] == ["Do it", "First.", "Then."]


def test_a_log_is_kept_without_the_contents_of_files() -> None:
    told = session(
        [], call("create_file", EDITED, filePath=FILE, content="x" * 5_000), call("read_file", "y" * 5_000)
    )

    assert len(json.dumps(logged(told))) < 1_000
    assert lifted(logged(told)).files_changed == ("a.py",)


@pytest.mark.parametrize("odd", [3, None, "x", [3], {"node": 3}, {"node": {"children": [3, {"text": 3}]}}])
def test_values_of_wrong_types_tell_nothing(odd: Any) -> None:
    asked, _ = call("create_file", EXISTS)
    broken = session(
        [shown("copilot_createFile", LINK)], (asked, {asked["id"]: {"content": [odd, {"value": odd}]}})
    )
    rounds = session([], ({"toolCalls": odd}, {}))
    rounds["requests"][0]["result"]["metadata"] = {"toolCallRounds": odd, "toolCallResults": odd}

    assert lifted(broken).files_changed == lifted(logged(broken)).files_changed == ("a.py",)
    assert lifted(rounds).files_changed == lifted(logged(rounds)).files_changed == ()
