"""Decisions, constraints and rules in prose: those that are stated, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.remarks import MAX_TEXT, announced_next, constraints_in, decisions_in, rules_in

DECISIONS = {
    "a line": ("Decision: use an outbox.", ("use an outbox.",)),
    "in bold": ("**Decision:** use an outbox", ("use an outbox",)),
    "a bullet": ("- Design decision: one table", ("one table",)),
    "a list under a heading": ("## Decisions:\n- one table\n- no cache\n\nDone.", ("one table", "no cache")),
    "a sentence": (
        "I read it. I decided to keep the names. Then I ran it.",
        ("I decided to keep the names.",),
    ),
    "we": ("We've decided against a cache.", ("We've decided against a cache.",)),
    "chose": ("I chose SQLite for the tests.", ("I chose SQLite for the tests.",)),
    "not yet": ("Decision: TBD", ()),
    "none": ("Decisions: none.", ()),
    "a question": ("Decision: should we use a cache?", ()),
    "somebody else's": ("The team decided to wait.", ()),
    "not decided": ("I have not decided on a name.", ()),
    "quoted": ("> Decision: drop it", ()),
    "in code": ("```\nDecision: drop it\n```", ()),
    "in indented code": ("    Decision: drop it", ()),
    "in a table": ("| Decision: drop it | x |", ()),
    "within a word": ("indecision: none of it", ()),
    "with what comes next": ("Decision: one table. Next: wire it.", ("one table.",)),
    "at the end of a line": ("It is in. Decision: one table.", ("one table.",)),
    "will use": ("I'll use a cursor instead of paging.", ("I'll use a cursor instead of paging.",)),
    "will do": ("I'll use the shell.", ()),
}
CONSTRAINTS = {
    "a line": ("Constraint: Python 3.11", ("Python 3.11",)),
    "a list": ("Constraints:\n* no network\n* no threads", ("no network", "no threads")),
    "must not": ("It works. The handler must not block. Fine.", ("The handler must not block.",)),
    "a question": ("Must it not block? The handler must not block?", ()),
    "must": ("The tests must pass.", ()),
    "in code": ("```\n# must not block\n```", ()),
}
RULES = {
    "do not": ("Add refunds. Do not touch billing.", ("Do not touch billing.",)),
    "don't": ("Don\u2019t rename anything, please.", ("Don\u2019t rename anything, please.",)),
    "must": ("It must be idempotent.", ("It must be idempotent.",)),
    "never and always": ("Never push.\nAlways run the tests.", ("Never push.", "Always run the tests.")),
    "only": ("Use only the standard library.", ("Use only the standard library.",)),
    "the only": ("Fix the only failing test.", ()),
    "if only": ("It would be nice if only it worked.", ()),
    "a question": ("Must it be fast?", ()),
    "within a word": ("Mustard and commonly used.", ()),
    "nothing": ("Add a refund flow to the orders service.", ()),
    "a bullet": ("- never push", ("never push",)),
    "no new": ("No new dependencies. No problem.", ("No new dependencies.",)),
    "keep": ("Keep the API unchanged. Keep going.", ("Keep the API unchanged.",)),
    "leave": ("Leave the archive alone. Leave a note.", ("Leave the archive alone.",)),
    "has to stay": ("Python 3.9 has to stay supported.", ("Python 3.9 has to stay supported.",)),
    "without": ("Speed it up without changing the schema", ("Speed it up without changing the schema",)),
    "should not": ("It should not need root.", ("It should not need root.",)),
    "what somebody never did": ("I never understood it. We always fail here. It never worked.", ()),
    "what cannot be": ("The user can't log in.", ()),
}
NEXT = {
    "a line": ("Next: wire it", "wire it"),
    "a dash": ("Next step \u2014 wire it", "wire it"),
    "bold": ("**Next:** wire it", "wire it"),
    "a list": ("Next steps:\n- wire it\n- test it", "wire it"),
    "at the end of a line": ("The tests pass. Next: wire it", "wire it"),
    "what remains": ("Remaining:\n1. wire it\n2. test it", "wire it"),
    "still to do": ("Still to do: wire it", "wire it"),
    "remaining is no heading": ("The remaining tests pass.", ""),
    "the last one counts": ("Next: one\nNext: two", "two"),
    "within a sentence": ("The next: thing is fine, the Next.js page too.", ""),
    "none": ("Next: none", ""),
    "no colon": ("Next week is fine.", ""),
    "hyphenated": ("Next-gen parsers are fine.", ""),
}


@pytest.mark.parametrize(("text", "want"), DECISIONS.values(), ids=DECISIONS.keys())
def test_decisions(text: str, want: tuple[str, ...]) -> None:
    assert decisions_in(text) == want


@pytest.mark.parametrize(("text", "want"), CONSTRAINTS.values(), ids=CONSTRAINTS.keys())
def test_constraints(text: str, want: tuple[str, ...]) -> None:
    assert constraints_in(text) == want


@pytest.mark.parametrize(("text", "want"), RULES.values(), ids=RULES.keys())
def test_rules_of_the_user(text: str, want: tuple[str, ...]) -> None:
    assert rules_in(text) == want


@pytest.mark.parametrize(("text", "want"), NEXT.values(), ids=NEXT.keys())
def test_the_announced_next_step(text: str, want: str) -> None:
    assert announced_next(text) == want


@given(
    st.lists(
        st.sampled_from(
            ["Decision:", "I decided to ", "must not", "Next:", "- ", "```", "\n", " ", ". ", "a", "\x1b[1m"]
        ),
        max_size=60,
    )
)
def test_whatever_is_said_remarks_are_short_single_lines(pieces: list[str]) -> None:
    text = "".join(pieces)
    for remark in (*decisions_in(text), *constraints_in(text), *rules_in(text), announced_next(text)):
        assert len(remark) <= MAX_TEXT
        assert "\n" not in remark
        assert "\x1b" not in remark


@pytest.mark.parametrize(
    "text", ["must not " * 20_000, "I decided to " * 20_000, "- " * 50_000, "Next: " * 50_000]
)
def test_a_huge_message_is_read_in_bounded_time(text: str) -> None:
    for remark in (*decisions_in(text), *constraints_in(text), *rules_in(text), announced_next(text)):
        assert len(remark) <= MAX_TEXT
