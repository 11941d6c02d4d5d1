"""`relay eval`: scores for people and as JSON, the repository's own cases, and the floor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.repos import make_repo


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    (folder / "fidelity").mkdir(parents=True)
    case = {
        "name": "short",
        "stores": ["codex"],
        "steps": [{"user": "Add a flow. Never touch the ledger."}, {"edit": "a.py"}, {"agent": "Half."}],
        "expect": {
            "goal": "Add a flow. Never touch the ledger.",
            "files": ["a.py"],
            "constraints": ["Never touch the ledger."],
        },
    }
    (folder / "fidelity" / "short.json").write_text(json.dumps(case))
    tasks = [{"name": "page", "task": "Document the API", "kind": "docs"}]
    (folder / "tasks.json").write_text(json.dumps({"version": 1, "routing": tasks}))
    return folder


def test_a_suite_is_scored(relay: Callable[..., Any], suite: Path) -> None:
    ran = relay("eval", "--path", str(suite))

    assert (ran.code, ran.err) == (0, "")
    assert "routing   1.0000  1 of 1 task told right" in ran.out
    assert "fidelity  1.0000  over 1 session" in ran.out
    rows = {line.rsplit(None, 5)[0]: line.split()[-5:] for line in ran.out.split("\n") if line[:5] == "files"}
    assert rows == {"files": ["1.0000", "1.0000", "1", "0", "0"]}


def test_below_the_floor_it_fails_and_says_what_is_missing(relay: Callable[..., Any], suite: Path) -> None:
    path = suite / "fidelity" / "short.json"
    case = json.loads(path.read_text())
    case["expect"]["files"].append("b.py")
    case["expect"]["openTasks"] = ["Write the tests"]
    path.write_text(json.dumps(case))

    ran = relay("eval", "--path", str(suite))
    shown = json.loads(relay("eval", "--path", str(suite), "--json").out)

    assert ran.code == 1
    assert "below the floor of 0.95" in ran.err
    assert "misses files: b.py" in ran.out
    assert "misses open tasks: Write the tests" in ran.out
    assert shown["passed"] is False
    assert shown["fidelity"][0]["missing"] == [
        {"kind": "open_tasks", "text": "Write the tests"},
        {"kind": "files", "text": "b.py"},
    ]
    assert relay("eval", "--path", str(suite), "--floor", "0.2").code == 0


def test_the_repositorys_own_tasks_and_profiles_count(
    relay: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repo(tmp_path / "repo")
    monkeypatch.chdir(root)
    (root / ".relay" / "eval").mkdir(parents=True)
    (root / ".relay" / "relay.toml").write_text('[profiles.pages]\nkinds = ["docs"]\n')
    tasks = [{"name": "whose page", "task": "Document the API", "profile": "pages"}]
    (root / ".relay" / "eval" / "tasks.json").write_text(json.dumps({"version": 1, "routing": tasks}))

    shown = json.loads(relay("eval", "--json").out)

    assert shown["passed"] is True
    assert shown["routing"][-1]["name"] == "whose page"
    assert shown["routing"][-1]["profile"] == "pages"
    assert len(shown["fidelity"]) > 100


def test_a_broken_case_is_a_usage_error(relay: Callable[..., Any], suite: Path) -> None:
    (suite / "tasks.json").write_text("{")

    ran = relay("eval", "--path", str(suite))

    assert ran.code == 2
    assert "tasks.json" in ran.err
