"""Finding a store's files by a pattern: the same as `Path.glob` finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.effects.store_walk import files_below

FILES = (
    "a.jsonl",
    ".hidden.jsonl",
    "projects/one/s1.jsonl",
    "projects/one/s1/subagents/x.jsonl",
    "projects/two/s2.jsonl",
    "projects/two/s2.json",
    "projects/two/[odd] name.jsonl",
    "state/a/events.jsonl",
    "state/b/other.jsonl",
    "state/events.jsonl",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "projects" / "folder.jsonl").mkdir()
    (root / "projects" / "linked").symlink_to(root / "projects" / "one")
    (root / "projects" / "loop").symlink_to("loop")
    return root


@pytest.mark.parametrize(
    "pattern",
    [
        "*.jsonl",
        "projects/*",
        "projects/*/*.jsonl",
        "projects/*/*.json",
        "projects/*/*/subagents/*.jsonl",
        "projects/one/s1.jsonl",
        "projects/none/*.jsonl",
        "state/*/events.jsonl",
        "state/?/e*[s].jsonl",
        "none/*",
    ],
)
def test_the_same_files_are_found(home: Path, pattern: str) -> None:
    found = [(entry.path, entry.size) for entry in files_below(str(home), pattern)]

    expected = [(str(path), path.stat().st_size) for path in home.glob(pattern) if path.is_file()]
    assert sorted(expected) == sorted(found)


def test_a_home_that_is_no_folder_holds_nothing(home: Path) -> None:
    for no_folder in (home / "none", home / "a.jsonl", "\0"):
        assert list(files_below(str(no_folder), "*/*.jsonl")) == []
