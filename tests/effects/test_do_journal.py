"""What is read of the breakers' file, whatever it holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from relay.core import effects
from relay.effects.do_journal import load_breakers
from relay.errors import StoreError
from relay.store.places import StatePlaces


@frozen
class Surroundings:
    """As much of a world as reading needs."""

    places: StatePlaces

    def clock(self) -> datetime:
        return datetime(2030, 6, 1, tzinfo=UTC)


async def loaded(tmp_path: Path, breakers: Any) -> dict[str, Any]:
    places = StatePlaces(root=tmp_path)
    places.breakers.write_text(json.dumps({"version": 1, "breakers": breakers}))
    world: Any = Surroundings(places)
    return dict((await load_breakers(world, effects.LoadBreakers(key="breakers"))).breakers)


async def test_one_of_an_odd_shape_keeps_no_other_from_being_read(tmp_path: Path) -> None:
    good = {"state": "isolated"}
    found = await loaded(tmp_path, {"alpha/default": None, "beta/default": "open", "gamma/default": good})
    assert found["gamma/default"] == good


@pytest.mark.parametrize("breakers", [[], "open", None, 1])
async def test_what_names_no_breakers_is_said(tmp_path: Path, breakers: Any) -> None:
    with pytest.raises(StoreError, match="names no breakers"):
        await loaded(tmp_path, breakers)
