from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relay.providers.claude_stream import ClaudeDialogue
from tests.fakes.claude import feed, names, printed, request, result, started
from tests.fakes.lifting import JSON

LINES = [data for name in names() for data in printed(name)]


def grown(record: object, at: int, value: object) -> object:
    """The record with the value at one of its places, whichever `at` falls on, replaced."""
    places: list[tuple[Any, Any]] = []

    def walk(node: object) -> None:
        children = (
            node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        )
        for key, child in children:
            places.append((node, key))
            walk(child)

    walk(record)
    if places:
        node, key = places[at % len(places)]
        node[key] = value
    return record


class TestDamage:
    @given(data=st.sampled_from(LINES), at=st.integers(0, 1000), value=JSON)
    def test_a_record_of_another_shape_ends_nothing(self, data: bytes, at: int, value: object) -> None:
        damaged = json.dumps(grown(json.loads(data), at, value)).encode()
        dialogue = started(allow="ask")
        for each in (damaged, data, damaged):
            dialogue.read(each, "out")
        dialogue.interrupt("i")
        for ended in feed(dialogue, result()):
            assert ended.kind in ("tool_result", "usage", "turn_ended")

    @given(data=st.sampled_from(LINES), cut=st.integers(0, 4000), junk=st.binary(max_size=12))
    def test_a_torn_line_ends_nothing(self, data: bytes, cut: int, junk: bytes) -> None:
        dialogue = started(allow="all")
        dialogue.read(data[:cut] + junk + data[cut + len(junk) :], "out")
        dialogue.read(data[cut:], "out")

    @given(lines=st.lists(st.sampled_from(LINES), max_size=12))
    def test_records_in_any_order_are_read_the_same_twice(self, lines: list[bytes]) -> None:
        def reading() -> list[Any]:
            dialogue = ClaudeDialogue(request(allow="all"))
            return [dialogue.read(data, "out") for data in lines]

        assert reading() == reading()
