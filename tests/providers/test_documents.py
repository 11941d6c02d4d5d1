"""JSON documents that are written as a whole: what is taken from damaged ones."""

from __future__ import annotations

import json

import pytest

from relay.core.events import TaskStatus
from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.documents import checklist, records_in
from relay.providers.json_texts import epoch_ms, json_of

RECORDS = [{"id": str(number), "inner": {"deep": [{"id": ""}]}, "text": 'a {"b": [}'} for number in range(4)]
LIST = json.dumps(RECORDS).encode()


def lift() -> Lift:
    return Lift(store="s", home="/h", native_id="n", path="/p")


def read(data: bytes, key: str = "") -> tuple[list[str], tuple[tuple[str, int], ...]]:
    into = lift()
    records = records_in(into, data, lambda value: shapes.text(value, "id") != "", key)
    return [shapes.text(record, "id") for record in records], into.intel().skipped


@pytest.mark.parametrize(
    ("data", "ids", "skipped"),
    [
        (LIST, "0123", ()),
        (LIST[:-10], "012", (("torn", 1),)),
        (LIST.replace(b'"2"', b'"2'), "013", (("malformed", 1),)),
        (LIST.replace(b', {"id": "2"', b'\0\0\0, {"id": "2"'), "0123", (("malformed", 1), ("nul", 1))),
        (b'[{"id": "0"}, 7, {"no": 1}]', "0", (("unknown", 2),)),
        (b'{"id": "0"}', "", (("malformed", 1),)),
        (b"[" * 100_000, "", (("torn", 1),)),
        (b'{"a":' * 100_000, "", (("torn", 1),)),
        (b"  ", "", ()),
        (b'"only words"', "", (("malformed", 1),)),
    ],
)
def test_what_is_whole_is_taken_and_the_damage_counted(
    data: bytes, ids: str, skipped: tuple[tuple[str, int], ...]
) -> None:
    assert read(data) == (list(ids), skipped)


def test_a_list_that_an_object_holds_is_read_also_when_the_object_is_torn() -> None:
    document = json.dumps({"version": 1, "messages": RECORDS, "system": "x"}).encode()
    assert read(document, "messages") == (list("0123"), ())
    assert read(document[:-5], "messages") == (list("0123"), (("torn", 1),))


def test_halves_of_surrogate_pairs_and_bytes_that_are_no_text_are_mended() -> None:
    assert json_of('["\\ud83d"]') == ["\ufffd"]
    assert json_of(b'["\xff"]') == ["\ufffd"]
    assert json_of("{") is None


def test_check_boxes_are_items_of_a_plan() -> None:
    items = checklist("# Focus\n\n- [x] One\n* [X] Two\n[-] Three\n- [ ] Four\n- none\n[link](x)")
    assert [(item.text, item.status) for item in items] == [
        ("One", TaskStatus.COMPLETED),
        ("Two", TaskStatus.COMPLETED),
        ("Three", TaskStatus.IN_PROGRESS),
        ("Four", TaskStatus.PENDING),
    ]


@pytest.mark.parametrize("value", [None, "1767323045678", True, 10**30, float("nan"), 0])
def test_what_is_no_time_is_none(value: object) -> None:
    assert epoch_ms({"at": value}, "at") is None
