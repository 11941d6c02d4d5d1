"""The catalogue of messages: values that pickle, travel as JSON, and share nothing that can change."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.actors.messages import CATALOGUE
from relay.core import reports
from relay.core.chain import Target
from relay.core.facts import SessionFacts
from relay.core.wire import from_wire, to_wire

TARGETS = st.builds(
    Target, provider=st.sampled_from(["alpha", "beta"]), account=st.sampled_from(["default", "a"])
)
INSTANTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))
DATA = st.dictionaries(
    st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=4), st.none()), max_size=2
)
FACTS = st.builds(SessionFacts.for_goal, st.text(max_size=9))

st.register_type_strategy(Target, TARGETS)
st.register_type_strategy(datetime, INSTANTS)
st.register_type_strategy(float, st.integers(0, 10**6).map(float))
st.register_type_strategy(Mapping, DATA)
st.register_type_strategy(SessionFacts, FACTS)

HANDED_OVER = {(reports.SessionLoaded, "facts")}
"""Made for who asked, and never touched by who made it."""


def mutable(cls: type[Any], seen: frozenset[type[Any]] = frozenset()) -> list[str]:
    """Fields of a class, and of the classes in it, that could be changed after it was sent."""
    if cls in seen:
        return []
    attrs.resolve_types(cls)
    found = [] if cls.__setattr__ is not object.__setattr__ else [cls.__name__]
    for field in attrs.fields(cls):
        if (cls, field.name) in HANDED_OVER:
            continue
        text = str(field.type)
        if any(kind in text for kind in ("list[", "dict[", "set[")):
            found.append(f"{cls.__name__}.{field.name}")
        for inner in (field.type, *getattr(field.type, "__args__", ())):
            if attrs.has(inner):
                found += mutable(inner, seen | {cls})
    return found


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.__name__)
def test_it_holds_nothing_that_can_change(cls: type[Any]) -> None:
    assert mutable(cls) == []
    with_defaults = [f for f in attrs.fields(cls) if isinstance(f.default, list | dict | set)]
    assert with_defaults == []


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.__name__)
@settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_it_travels(cls: type[Any], data: st.DataObject) -> None:
    message = data.draw(st.from_type(cls))
    assert pickle.loads(pickle.dumps(message)) == message
    assert from_wire(json.loads(json.dumps(to_wire(message))), cls) == message


def test_no_two_messages_have_the_same_name() -> None:
    names = [cls.__name__ for cls in CATALOGUE]
    assert len(names) == len(set(names))
