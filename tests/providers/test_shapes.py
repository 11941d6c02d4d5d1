from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.providers.shapes import clip, instant, integer, items, mapping, number, one_line, record, text


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (b'{"a":1}', {"a": 1}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (rb'{"a":"x\ud83d y"}', {"a": "x\ufffd y"}),
        (rb'{"a":"\ud83d\ude00 \ud83d"}', {"a": "\U0001f600 \ufffd"}),
        (rb'{"a":"\\ud83d \ud83d"}', {"a": "\\ud83d \ufffd"}),
        (b"[1]", None),
        (b"12", None),
        (b'{"a":', None),
        (b"[" * 5000, None),
        (b"", None),
    ],
)
def test_record(line: bytes, want: object) -> None:
    assert record(line) == want


@given(st.binary())
def test_record_takes_any_bytes(line: bytes) -> None:
    record(line)


@pytest.mark.parametrize("data", [None, 3, "x", [], {"k": None}, {"k": True}, {}])
def test_what_is_not_there_is_empty(data: object) -> None:
    assert text(data, "k") == ""
    assert number(data, "k") is None
    assert integer(data, "k") == 0
    assert mapping(data, "k") == {}
    assert items(data, "k") == ()
    assert instant(data, "k") is None


def test_what_is_there_is_given() -> None:
    data = {"t": "x", "n": 1.5, "m": {"a": 1}, "l": [1, 2], "i": 1796200084}
    assert (text(data, "t"), number(data, "n"), integer(data, "n")) == ("x", 1.5, 1)
    assert (mapping(data, "m"), items(data, "l")) == ({"a": 1}, (1, 2))
    assert instant(data, "i") == datetime(2026, 12, 2, 8, 28, 4, tzinfo=UTC)


@given(st.text(), st.integers(32, 200))
def test_a_clipped_text_fits(value: str, limit: int) -> None:
    assert len(clip(value, limit).encode()) <= limit


def test_one_line() -> None:
    assert one_line(" a\n b\t c ") == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"


def test_the_end_of_time_is_no_instant_to_wait_for() -> None:
    assert instant({"resets_at": 253402300799}, "resets_at") is None
    assert instant({"resets_at": 1791979200}, "resets_at") is not None
