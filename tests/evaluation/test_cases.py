"""Cases that users write: what is read, and what is said of a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relay.core.events import TaskStatus
from relay.errors import ConfigError
from relay.evaluation.cases import fidelity_cases, files_of, routing_cases
from relay.evaluation.scripts import EditedFile, Planned, Said
from relay.store.starter import write_starter
from tests.fakes.repos import make_repo

GOAL = {"expect": {"goal": "x"}}


def written(tmp_path: Path, told: Any) -> Path:
    path = tmp_path / "case.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    return path


def test_steps_are_repeated_and_numbered(tmp_path: Path) -> None:
    steps = [
        {"user": "go"},
        {"repeat": 2, "steps": [{"edit": "m{n}.py"}, {"plan": ["[x] a {n}", "[>] b", "[ ] c"]}]},
    ]
    expect = {"goal": "go", "files": [{"each": "m{n}.py", "to": 2}]}
    [case] = fidelity_cases(written(tmp_path, {"stores": ["qwen"], "steps": steps, "expect": expect}))

    assert case.expected.files == ("m1.py", "m2.py")
    assert case.steps[0] == Said("go")
    assert [step.path for step in case.steps if isinstance(step, EditedFile)] == ["m1.py", "m2.py"]
    plans = [step for step in case.steps if isinstance(step, Planned)]
    assert [item.text for item in plans[1].items] == ["a 2", "b", "c"]
    assert [item.status for item in plans[1].items] == list(reversed(TaskStatus))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("[]", "not a JSON object"),
        ("{", "not valid JSON"),
        ({"version": 2}, "version 2 is not known"),
        ({"steps": []}, "expect: must be an object"),
        ({**GOAL}, "either steps or a recording"),
        ({**GOAL, "steps": [], "recording": "x", "stores": ["claude"]}, "either steps or a recording"),
        ({**GOAL, "recording": "x"}, "name it in stores"),
        ({**GOAL, "recording": "../x", "stores": ["claude"]}, "no recording '../x'"),
        ({**GOAL, "steps": [], "stores": ["emacs"]}, "no store 'emacs'"),
        ({**GOAL, "steps": [], "without": {"emacs": "no such"}}, "no store 'emacs'"),
        ({**GOAL, "steps": [], "without": {"aider": ""}}, "without must say of each store why"),
        ({"steps": [], "expect": {"goal": ""}}, "goal is missing"),
        ({"steps": [], "expect": {"goal": "x", "colour": 1}}, "no 'colour'"),
        ({"steps": [], "expect": {"goal": "x", "files": [3]}}, "files must hold texts"),
        ({**GOAL, "steps": [{"user": 3}]}, "step 1: user must be a text, not 3"),
        ({**GOAL, "steps": [{"sing": "x"}]}, "step 1: none of user"),
        ({**GOAL, "steps": [{"user": "x"}, {"plan": ["a"]}]}, "step 2: 'a' must begin with [x]"),
        ({**GOAL, "steps": [{"repeat": -1, "steps": []}]}, "repeat must be a whole number"),
        ({**GOAL, "steps": [{"repeat": 200000, "steps": [{"user": "x"}]}]}, "more than 100000 steps"),
    ],
)
def test_a_mistake_in_a_session_is_named(tmp_path: Path, told: Any, said: str) -> None:
    path = written(tmp_path, told)

    with pytest.raises(ConfigError) as caught:
        list(fidelity_cases(path))

    assert said in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"routing": {}}, "routing must be a list"),
        ({"routing": ["x"]}, "case 1: must be an object"),
        ({"routing": [{"kind": "docs"}]}, "case 1: task is missing"),
        ({"routing": [{"name": "n", "task": "x"}]}, "case 1 (n): says neither the kind nor the profile"),
        ({"routing": [{"task": "x", "profile": "p", "profiles": [{"kinds": []}]}]}, "name is missing"),
    ],
)
def test_a_mistake_in_a_task_is_named(tmp_path: Path, told: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=r"case\.json") as caught:
        routing_cases(written(tmp_path, told))

    assert said in caught.value.message


def test_what_init_writes_can_be_read(tmp_path: Path) -> None:
    root = make_repo(tmp_path / "repo")
    write_starter(root)

    [tasks], sessions = files_of(root / ".relay" / "eval")

    assert [case.kind for case in routing_cases(tasks)] == ["docs", "docs", "bugfix"]
    assert sessions == []


def test_a_case_names_the_stores_that_it_cannot_be_written_for(tmp_path: Path) -> None:
    case = {**GOAL, "steps": [], "stores": ["aider", "roo"], "without": {"aider": "it has no plan"}}

    assert [each.store for each in fidelity_cases(written(tmp_path, case))] == ["roo"]


def test_a_folder_without_cases_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no cases"):
        files_of(tmp_path)
