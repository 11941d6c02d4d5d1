"""JSON for `--json`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.cli.tables import print_json


@pytest.mark.parametrize(
    "value",
    [
        {"agents": [], "none": None, "nested": {"list": [1, 2.5, True], "empty": {}}, "text": 'ü "\n'},
        {"path": "/h/\udcff.jsonl"},
        {"number": 2**70, "keys": {1: "one"}},
    ],
    ids=["plain", "a path that is no UTF-8", "what only json takes"],
)
def test_a_value_looks_the_same_whoever_writes_it(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr("click.echo", printed.append)

    print_json(value)

    assert [json.dumps(value, indent=2, ensure_ascii=False)] == printed
