"""Sessions that are written, read again: refusals, and edits that were cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.core.intel import SessionIntel
from relay.evaluation.scripts import CutOff, EditedFile, Refused, Said, Step
from relay.evaluation.writers import FOLDER, WRITERS
from relay.providers.store_protocol import Machine
from relay.providers.stores import store_named, store_names
from tests.fakes.lifting import lifted

NO_REFUSAL = {"gemini", "continue", "continue-cn", "cursor-agent"}
"""Those that store no refusal, or none that is known."""
NO_CALL = {"gemini", "aider"}
"""Those that store no call before it has ended."""
BEGUN: list[Step] = [Said("Add a refund flow"), EditedFile("orders/models.py")]


def session(tmp_path: Path, name: str, steps: list[Step]) -> SessionIntel:
    writer = WRITERS[name](tmp_path, "/src/shop", "written")
    writer.write(steps)
    machine = Machine(env={}, home=str(tmp_path), folders=(f"{tmp_path}/{FOLDER}",))
    [intel] = lifted(store_named(writer.store), machine)
    return intel


def test_every_store_but_one_can_be_written() -> None:
    assert {writer.store for writer in WRITERS.values()} == set(store_names()) - {"antigravity"}


@pytest.mark.parametrize("name", WRITERS)
def test_a_refusal_is_a_limit_that_was_met(tmp_path: Path, name: str) -> None:
    intel = session(tmp_path, name, [*BEGUN, Refused("You've hit your usage limit. Try again later.")])

    assert bool(intel.limits) == (name not in NO_REFUSAL)
    assert intel.first_prompt == "Add a refund flow"


@pytest.mark.parametrize("name", WRITERS)
def test_an_edit_without_a_result_was_cut_off(tmp_path: Path, name: str) -> None:
    intel = session(tmp_path, name, [*BEGUN, CutOff("orders/api.py")])

    assert intel.cut_off == (() if name in NO_CALL else ("edit orders/api.py",))
    assert intel.files_changed == ("orders/models.py",)
