from __future__ import annotations

import pytest

from relay.scripted_agent.reading import tasks_left

NAMES = ("Write converter.py", "Write test_converter.py", "Document it in README.md")
CASES: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "no brief": ("Add a temperature converter", None),
    "a task with headings of its own": ("# Title\n\n## Details\nWrite converter.py", None),
    "done and remaining": (
        "## Do not redo\n- Write converter.py\n\n## Remaining tasks\n- Document it in README.md\n",
        ("Document it in README.md",),
    ),
    "a task that was begun is left": (
        "## Done\n- Document it in README.md: half of it\n## Next action\nDocument it in README.md.",
        ("Document it in README.md",),
    ),
    "only what was done is told": ("## Already done\n- Write converter.py", NAMES[1:]),
    "all is done": ("## Completed\n1. " + "\n2. ".join(NAMES), ()),
    "boxes": (
        "## Plan\n- [x] Write converter.py\n- [ ] Write test_converter.py\n- [~] Document it in README.md\n\n"
        "## What must not be redone\n",
        NAMES[1:],
    ),
    "decorated names": (
        "## What remains to be done\n* **Write `test\\_converter.py`**\n* document it in  README.md",
        NAMES[1:],
    ),
    "a name within another name is not that task": (
        "## Remaining\n- Write converter.py.bak and Rewrite converter.py\n- Write test_converter.py",
        ("Write test_converter.py",),
    ),
    "a heading in a fence is text": (
        "## Remaining\n```\n# Done\n- Write converter.py\n```\n",
        ("Write converter.py",),
    ),
    "lines end as on Windows": ("## Remaining\r\n- Write converter.py\r\n", ("Write converter.py",)),
    "other sections do not count": (
        "## Goal\nWrite converter.py\n## Remaining\n- Write test_converter.py\n"
        "## Files\n- Write converter.py",
        ("Write test_converter.py",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_brief_leaves_to_do(name: str) -> None:
    text, want = CASES[name]
    assert tasks_left(text, NAMES) == want
