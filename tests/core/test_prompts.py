"""What a user typed, out of what CLIs store."""

from __future__ import annotations

import pytest

from relay.core.prompts import typed

CASES = {
    "plain": ("fix the bug", "fix the bug"),
    "a reminder before": ("<system-reminder>\nToday\n</system-reminder>\nfix it", "fix it"),
    "a reminder behind, with attributes": ('fix it<system-reminder kind="x">no</system-reminder>', "fix it"),
    "only a reminder": ("<system-reminder>x</system-reminder>", ""),
    "a reminder that never ends": ("fix it <system-reminder>and on", "fix it"),
    "the environment of Codex": ("<environment_context><cwd>/w</cwd></environment_context>", ""),
    "the session of Gemini": ("<session_context>\nThis is the CLI.\n</session_context>", ""),
    "a wrapped prompt of Cline": ('<user_input mode="act">add tests</user_input>', "add tests"),
    "a wrapped prompt of Cursor": ("<user_query>\nadd tests\n</user_query>", "add tests"),
    "a task of Roo": (
        "<task>\nadd tests\n</task>\n<environment_details>cwd</environment_details>",
        "add tests",
    ),
    "a slash command": (
        "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
        "<command-args>the parser</command-args>",
        "/review the parser",
    ),
    "a slash command alone": ("<command-name>/compact</command-name>", "/compact"),
    "output of a local command": ("<local-command-stdout>ok</local-command-stdout>", ""),
    "an interruption": ("[Request interrupted by user for tool use]", ""),
    "markup of the user's own": ("make <b>this</b> bold & <i>", "make <b>this</b> bold & <i>"),
    "a comparison": ("if a < b then <task> is fine", "if a < b then  is fine"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("stored", "words"), CASES.values(), ids=CASES.keys())
def test_what_was_typed(stored: str, words: str) -> None:
    assert typed(stored) == words


def test_a_long_prompt_is_read_in_linear_time() -> None:
    assert typed("<task>" * 50_000 + "x") == "x"
    assert typed("<system-reminder>" * 50_000) == ""
