"""VS Code's log of changes: what the lines come to, and what damage does to it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relay.providers.mutation_log import MutationLog


def told(*entries: dict[str, Any]) -> dict[str, Any]:
    log = MutationLog()
    entries = copy.deepcopy(entries)
    assert [log.take(entry) for entry in entries] == [True] * len(entries)
    return log.state


START = {"kind": 0, "v": {"name": "a", "list": [1, 2, 3]}}


def test_a_snapshot_replaces_everything() -> None:
    assert told(START, {"kind": 0, "v": {"b": 1}}) == {"b": 1}


def test_set_puts_a_value_at_a_path() -> None:
    assert told(START, {"kind": 1, "k": ["name"], "v": "b"})["name"] == "b"
    assert told(START, {"kind": 1, "k": ["list", 1], "v": 9})["list"] == [1, 9, 3]


def test_push_appends_after_cutting_the_list_where_it_is_told_to() -> None:
    assert told(START, {"kind": 2, "k": ["list"], "v": [4]})["list"] == [1, 2, 3, 4]
    assert told(START, {"kind": 2, "k": ["list"], "v": [4], "i": 1})["list"] == [1, 4]
    assert told(START, {"kind": 2, "k": ["list"], "i": 2})["list"] == [1, 2]


def test_delete_takes_a_key_away() -> None:
    assert told(START, {"kind": 3, "k": ["name"]}) == {"list": [1, 2, 3]}


def test_what_a_lost_line_would_have_made_is_made_so_that_later_lines_count() -> None:
    log = MutationLog()
    assert log.take({"kind": 2, "k": ["requests", 1, "response"], "v": ["x"]})
    assert log.state == {"requests": [{}, {"response": ["x"]}]}


def test_a_change_far_behind_the_end_of_a_list_is_no_reason_to_fill_the_memory() -> None:
    log = MutationLog()
    assert not log.take({"kind": 1, "k": ["requests", 10**12, "a"], "v": 1})
    assert len(str(log.state)) < 100


KEYS = st.one_of(st.sampled_from(["requests", "response", "v"]), st.integers(-2, 3), st.none(), st.booleans())
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"kind": st.one_of(st.integers(0, 4), st.none(), st.text(max_size=2))},
            optional={"k": st.one_of(st.lists(KEYS, max_size=4), VALUES), "v": VALUES, "i": VALUES},
        ),
        max_size=12,
    )
)
def test_no_line_whatever_it_holds_raises(entries: list[dict[str, Any]]) -> None:
    log = MutationLog()
    for entry in entries:
        assert log.take(entry) in (True, False)
        assert isinstance(log.state, dict)
