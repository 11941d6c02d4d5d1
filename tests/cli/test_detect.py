"""`relay detect show` says of a session what a person has to know before taking it over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.stores import place

EVER = ("--since-hours", "43000")


def shown(relay, tmp_path: Path, recording: str) -> dict[str, str]:
    """What is printed of the one session of a recording, by its names."""
    place(recording, tmp_path)
    ran = relay("detect", "show", "latest", *EVER)
    assert ran.code == 0, ran.err
    lines = (line.partition("  ") for line in ran.out.split("\n\n")[0].split("\n"))
    return {name: told.strip() for name, _, told in lines if name}


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (
            "claude/limit_midway",
            {
                "status": "idle, in the middle of a turn",
                "limits": "- usage limit (code usage_limit_reached), resets 2026-12-02 08:03:59",
            },
        ),
        ("claude/bad_model", {"limits": "- code model_not_found"}),
        ("codex/rate_limit", {"limits": '- rate limit (transcript: "Too Many Requests")'}),
        (
            "claude/stdin_interrupt_tool",
            {
                "failed": "- run echo started; sleep 300 & sleep 301: "
                "the user refused it, or stopped it while it ran"
            },
        ),
        ("claude/work", {"status": "idle"}),
    ],
)
def test_how_a_session_stands(relay, tmp_path: Path, recording: str, said: dict[str, str]) -> None:
    facts = shown(relay, tmp_path, recording)

    assert {name: facts[name] for name in said} == said


def test_a_list_says_of_every_session_how_it_is_taken_over(relay, tmp_path: Path) -> None:
    for recording in ("claude/work", "codex/work", "gemini/todo"):
        place(recording, tmp_path)
    told = json.loads(relay("--json", "detect", *EVER).out)["agents"]
    ids = [agent["id"][:13] for agent in told if agent["takeOver"]]

    listed = relay("detect", *EVER).out

    assert len(ids) == 3
    assert [line.split()[3] for line in listed.split("\n") if line.startswith("  relay detect")] == ids


def test_what_was_cut_off_is_told_once(relay, tmp_path: Path) -> None:
    facts = shown(relay, tmp_path, "claude/sigkill_tool")

    assert facts["cut off"] == "- run echo started; sleep 300 & sleep 301"
    assert "failed" not in facts
