from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path

import orjson
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from relay.core.audit import NO_HASH, AuditLine, BadLine, canonical, read_line, seal, stamp, storable

TS = "2026-06-03T15:41:03.123Z"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=4)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=8)
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


class Colour(StrEnum):
    RED = "red"


@given(json_values)
@example({"ﬀ": 1, "😀": 2, "a": 3})
@example([1.0, 0.5, 1e16, 1e21, 1e-4, 9.9e-5, 1e-7, 5e-324, -0.0, 123456789012345.6])
@example(['\x7f\u2028\x1f\x00\b\f\n\r\t"\\/<>&'])
@example((1, 2))
def test_the_canonical_form_is_that_of_rfc_8785(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(math.nan, id="NaN"),
        pytest.param([math.inf], id="infinity"),
        pytest.param({"n": 2**53}, id="an integer a double cannot hold"),
        pytest.param(["\ud800"], id="a lone surrogate"),
        pytest.param({1: "x"}, id="a key that is a number"),
        pytest.param([b"x"], id="bytes"),
        pytest.param([datetime(2026, 1, 1, tzinfo=UTC)], id="an instant"),
    ],
)
def test_what_has_no_canonical_form_is_refused_but_can_be_stored(value: object) -> None:
    with pytest.raises(ValueError):
        canonical(value)
    assert canonical(storable(value))


def test_too_deep_a_nesting_is_refused_but_can_be_stored() -> None:
    value: object = 0
    for _ in range(5000):
        value = [value]
    with pytest.raises(ValueError):
        canonical(value)
    assert b"nested too deep" in canonical(storable(value))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("a\ud800b", "a\ufffdb", id="a lone surrogate"),
        pytest.param("\ud83d\ude00", "😀", id="two surrogates that belong together"),
        pytest.param(2**53, "9007199254740992", id="a large integer keeps its digits"),
        pytest.param({1: (True, None)}, {"1": [True, None]}, id="keys and tuples"),
        pytest.param(math.nan, "nan", id="NaN"),
        pytest.param([Colour.RED], ["red"], id="an enumeration"),
        pytest.param(b"\xff", "\ufffd", id="bytes"),
    ],
)
def test_the_nearest_value_is_stored(value: object, want: object) -> None:
    assert storable(value) == want


@given(anything)
def test_anything_can_be_stored(value: object) -> None:
    assert canonical(storable(value)) == rfc8785.dumps(storable(value))


@given(json_objects, st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example({"n": 1e17, "m": 1.2345678901234567e20, "k": [1e300, 0.1]}, "agent_event")
@example({"tail": "}"}, 'quo"te\\')
def test_a_line_is_read_back_as_it_was_sealed(data: dict[str, object], event: str) -> None:
    digest, line = seal(NO_HASH, event, data, TS)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    entry = read_line(line[:-1])
    assert isinstance(entry, AuditLine)
    assert (entry.hash, entry.prev_hash, entry.event, entry.ts) == (digest, NO_HASH, event, TS)
    assert entry.data == orjson.loads(canonical(data))


@given(st.dictionaries(st.text(st.characters()), anything, max_size=3), st.text(st.characters()))
def test_whatever_is_sealed_can_be_read_back(data: dict[str, object], event: str) -> None:
    assert isinstance(read_line(seal(NO_HASH, event, data, TS)[1][:-1]), AuditLine)


def test_the_hash_can_be_computed_by_the_documented_formula() -> None:
    digest, line = seal("a" * 64, "fsm", {"to": "PAUSING", "from": "RUNNING"}, TS)
    text = '{"data":{"from":"RUNNING","to":"PAUSING"},"event":"fsm","ts":"2026-06-03T15:41:03.123Z"}'
    assert digest == hashlib.sha256(("a" * 64 + text).encode()).hexdigest()
    assert list(json.loads(line)) == ["ts", "prevHash", "hash", "event", "data"]


@given(json_objects, st.data())
def test_any_bit_that_is_flipped_is_noticed(value: dict[str, object], data: st.DataObject) -> None:
    line = bytearray(seal(NO_HASH, "fsm", {"x": "\x1f", "e": 1e-9, **value}, TS)[1][:-1])
    bit = data.draw(st.integers(0, len(line) * 8 - 1))
    line[bit // 8] ^= 1 << bit % 8
    entry = read_line(bytes(line))
    # A changed prevHash is covered by the hash too.
    assert isinstance(entry, BadLine)


def sealed_as(content: str, shown: str) -> bytes:
    """A line whose hash is right for its own bytes, as somebody could make it who computes hashes."""
    digest = hashlib.sha256(
        (NO_HASH + f'{{"data":{content},"event":"fsm","ts":"{TS}"}}').encode()
    ).hexdigest()
    return f'{{"ts":"{TS}","prevHash":"{NO_HASH}","hash":"{digest}","event":"fsm","data":{shown}}}'.encode()


@pytest.mark.parametrize(
    ("line", "want", "torn"),
    [
        pytest.param(b"", "is not JSON", True, id="empty"),
        pytest.param(b"\0" * 50, "is not JSON", True, id="NULs"),
        pytest.param(b"\xff\xfe\x00", "is not JSON", True, id="binary"),
        pytest.param(b'{"ts":"2026', "is not JSON", True, id="cut"),
        pytest.param(b"[1]", "is no JSON object", True, id="another value"),
        pytest.param(b"{}", "is not in the form that Relay writes", False, id="fields missing"),
        pytest.param(sealed_as('{"a":1}', '{"a":2}'), "was edited", False, id="edited"),
        pytest.param(sealed_as('{"a":1,"a":2}', '{"a":1,"a":2}'), "holds the key 'a' twice", False,
                     id="a key twice in data"),
        pytest.param(sealed_as('{},"data":{}', '{},"data":{}'), "holds the key 'data' twice", False,
                     id="data twice"),
        pytest.param(sealed_as('{"b":1,"a":2}', '{"b":1,"a":2}'), "is not in the form", False,
                     id="keys out of order"),
        pytest.param(sealed_as('{"a": 1}', '{"a": 1}'), "is not in the form", False, id="a space"),
        pytest.param(sealed_as('{"a":1.0}', '{"a":1.0}'), "is not in the form", False, id="1.0 for 1"),
        pytest.param(sealed_as('{"a":9007199254740993}', '{"a":9007199254740993}'), "is not in the form",
                     False, id="an integer that no double holds"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(line: bytes, want: str, torn: bool) -> None:
    entry = read_line(line)
    assert isinstance(entry, BadLine)
    assert want in entry.reason
    assert entry.torn == torn


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_judged_without_failing(line: bytes) -> None:
    assert isinstance(read_line(line), BadLine)


@pytest.mark.parametrize(
    ("at", "want"),
    [
        pytest.param(datetime(2026, 6, 3, 15, 41, 3, 123999, UTC), "2026-06-03T15:41:03.123Z", id="UTC"),
        pytest.param(
            datetime(2026, 6, 3, 1, 0, tzinfo=timezone(timedelta(hours=2))),
            "2026-06-02T23:00:00.000Z",
            id="another zone",
        ),
    ],
)
def test_an_instant_is_stamped_in_utc_and_milliseconds(at: datetime, want: str) -> None:
    assert stamp(at) == want


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        stamp(datetime(2026, 6, 3))


def test_the_documented_lines_are_right() -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    lines = [line for line in text.split("\n") if line.startswith('{"ts":')]
    entries = [read_line(line.encode()) for line in lines]
    assert [entry.event for entry in entries if isinstance(entry, AuditLine)] == ["audit_started", "fsm"]
    first, second = entries
    assert isinstance(first, AuditLine)
    assert isinstance(second, AuditLine)
    assert second.prev_hash == first.hash
    hashed = next(line.strip() for line in text.split("\n") if line.strip().startswith(first.hash + "{"))
    assert hashlib.sha256(hashed.encode()).hexdigest() == second.hash
    assert f'"head": "{second.hash}"' in text
    assert f'"size": {sum(len(line) + 1 for line in lines)},' in text
