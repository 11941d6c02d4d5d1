"""What sort of task a text is. The golden suite has the table; here are the rules behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.config import ProfileSettings
from relay.core.routing import KINDS, kind_of, profile_for

DOCS = ProfileSettings(name="docs", kinds=("docs",))
CSS = ProfileSettings(name="css", kinds=("CSS", "react native"))
SAFE = ProfileSettings(name="safe", kinds=("security", "bugfix"))


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("Document the API", "docs"),
        ("please, could you document the API?", "docs"),
        ("Fix `document()`", "bugfix"),
        ("Add a test for `fix_bug`", "test"),
        ("Show the contested orders", "feature"),
        ("```\nfix the bug\n```", ""),
        ("", ""),
        ("42", ""),
    ],
)
def test_whole_words_outside_of_code_decide(task: str, kind: str) -> None:
    assert kind_of(task) == kind


@given(st.text(max_size=3000))
def test_any_text_has_a_known_sort_or_none(task: str) -> None:
    assert kind_of(task) in (*KINDS, "")


@pytest.mark.parametrize(
    ("task", "profile"),
    [
        ("Document the API", DOCS),
        ("Fix the crash of the CSS minifier", SAFE),
        ("Build the css of the start page", CSS),
        ("Build the React Native app", CSS),
        ("Build the ccss page", None),
        ("Add a webhook", None),
        ("", None),
    ],
)
def test_a_profile_is_chosen_by_its_sorts_then_by_its_words(
    task: str, profile: ProfileSettings | None
) -> None:
    assert profile_for(task, (DOCS, CSS, SAFE)) == profile


def test_the_first_profile_that_fits_is_taken() -> None:
    other = ProfileSettings(name="also", kinds=("docs",))

    assert profile_for("Document the API", (other, DOCS)) == other
    assert profile_for("Document the API", ()) is None
