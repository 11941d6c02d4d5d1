from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay.scripted_agent import tools, trouble
from relay.scripted_agent.scenario import STEPS, ScenarioError, embedded, load, parse, scenario_of


def one(step: object) -> dict[str, Any]:
    return {"tasks": [{"name": "Do it", "steps": ["hang", step]}]}


REFUSED: dict[str, tuple[object, str]] = {
    "no object": ([], "f: expected an object, got []"),
    "unknown key": ({"task": []}, "f: unknown key 'task'; did you mean 'tasks'?"),
    "tasks are no list": ({"tasks": {}}, "f: tasks: expected a list, got {}"),
    "task without a name": ({"tasks": [{}]}, "f: task 1: name: expected a text that is not empty, got null"),
    "task with an unknown key": (
        {"tasks": [{"name": "a", "stpes": []}]},
        "f: task 1: unknown key 'stpes'; did you mean 'steps'?",
    ),
    "two tasks of one name": ({"tasks": [{"name": "a"}, {"name": "a"}]}, "f: two tasks are named 'a'"),
    "step is no object": (
        one(3),
        'f: task \'Do it\', step 2: a step is an object with one key, such as {"say": "hello"}',
    ),
    "step with two keys": (
        one({"say": "a", "think": "b"}),
        'f: task \'Do it\', step 2: a step is an object with one key, such as {"say": "hello"}',
    ),
    "unknown step": (
        one({"wirte": {}}),
        "f: task 'Do it', step 2: unknown step 'wirte'; did you mean 'write'?",
    ),
    "missing argument": (one({"write": "a.py"}), "f: task 'Do it', step 2 (write): content is missing"),
    "unknown argument": (
        one({"write": {"path": "a", "contents": "b"}}),
        "f: task 'Do it', step 2 (write): unknown key 'contents'; did you mean 'content'?",
    ),
    "empty text": (
        one({"say": ""}),
        "f: task 'Do it', step 2 (say): text: expected a text that is not empty, got \"\"",
    ),
    "wrong number": (
        one({"sleep": -1}),
        "f: task 'Do it', step 2 (sleep): seconds: expected a number of 0 or more, got -1",
    ),
    "true is no number": (
        one({"sleep": True}),
        "f: task 'Do it', step 2 (sleep): seconds: expected a number of 0 or more, got true",
    ),
    "fraction where a count is due": (
        one({"flood": 1.5}),
        "f: task 'Do it', step 2 (flood): events: expected a whole number of 0 or more, got 1.5",
    ),
    "no flag": (
        one({"shell": {"command": "ls", "ask": "yes"}}),
        "f: task 'Do it', step 2 (shell): ask: expected true or false, got \"yes\"",
    ),
    "word that is none of the known": (
        one({"limit": {"kind": "usage"}}),
        "f: task 'Do it', step 2 (limit): kind: expected one of usage_limit, rate_limit, overload, auth, "
        'context, refusal, network, got "usage"',
    ),
    "argument for a step that takes none": (
        one({"hang": 3}),
        "f: task 'Do it', step 2 (hang): takes no arguments",
    ),
    "other lists of steps": (
        {"on_reply": [{"say": 1}]},
        "f: on_reply, step 1 (say): text: expected a text that is not empty, got 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_scenario_is_refused_by_the_place(name: str) -> None:
    data, want = REFUSED[name]
    with pytest.raises(ScenarioError) as caught:
        parse(data, "f")
    assert str(caught.value) == want


def test_short_and_long_forms_mean_the_same() -> None:
    short = parse({"tasks": [{"name": "a", "steps": [{"say": "x"}, "hang", {"crash": 3}]}]}, "f")
    long = parse(
        {
            "tasks": [
                {"name": "a", "steps": [{"say": {"text": "x"}}, {"hang": {}}, {"crash": {"status": 3}}]},
            ]
        },
        "f",
    )
    assert short == long


def test_a_list_of_lines_is_a_text() -> None:
    played = parse({"finally": [{"write": {"path": "a", "content": ["x", "", "y"]}}]}, "f")
    assert played.at_end[0].args["content"] == "x\n\ny\n"


@pytest.mark.parametrize(
    ("arguments", "env", "want"),
    [
        (["--scenario", "a"], {}, "a"),
        (["--scenario=a"], {"SCRIPTED_SCENARIO": "b"}, "a"),
        ([], {"SCRIPTED_SCENARIO": "b"}, "b"),
    ],
)
def test_the_scenario_is_named_by_argument_or_environment(
    arguments: list[str], env: dict[str, str], want: str
) -> None:
    assert scenario_of(arguments, env) == want


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], "no scenario: give --scenario NAME-OR-FILE or set SCRIPTED_SCENARIO"),
        (["--scenario"], "no scenario: give --scenario NAME-OR-FILE or set SCRIPTED_SCENARIO"),
        (["--scenarios", "a"], "unknown argument '--scenarios'; the only one is --scenario NAME-OR-FILE"),
    ],
)
def test_what_names_no_scenario_is_refused(arguments: list[str], want: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_of(arguments, {})
    assert str(caught.value) == want


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match="nowhere: No such file or directory; embedded scenarios: demo-first"
    ):
        load("nowhere")
    broken = tmp_path / "broken.json"
    broken.write_text("{", "utf-8")
    with pytest.raises(ScenarioError, match=r"broken\.json: not JSON: "):
        load(str(broken))


def test_every_embedded_scenario_is_sound() -> None:
    assert embedded() == ("demo-first", "demo-second")
    assert [load(name).name for name in embedded()] == list(embedded())


def test_every_step_is_played() -> None:
    assert set(STEPS) == {*tools.PLAYED, *trouble.PLAYED}
