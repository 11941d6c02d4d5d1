"""Workers that read much for a list: what they tell, what is left to read when they die, and no process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from relay.core.detect import DetectedAgent
from relay.effects.detect import Detector, Scan
from relay.providers.claude_store import ClaudeStore
from relay.providers.store_protocol import Found, Machine, StoreFiles
from tests.fakes.stores import place

EVER = datetime.fromtimestamp(0, UTC)


def own_children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def sessions(scan: Scan) -> list[DetectedAgent]:
    """Those of the stores; which other processes run on this machine changes meanwhile."""
    return [agent for agent in scan.agents if agent.intel.path]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = ""
    for name in ("claude/continue", "codex/appserver_work", "gemini/todo"):
        home = str(place(name, tmp_path)[0])
    return Machine(env={}, home=home)


def test_workers_tell_what_is_read_without_them(machine: Machine) -> None:
    before = own_children()
    alone = Detector(lambda: machine).scan(EVER)
    together = Detector(lambda: machine, workers_from=1).scan(EVER)

    assert {agent.intel.store for agent in alone.agents} >= {"claude", "codex"}
    assert (sessions(together), together.read, together.bytes_read) == (
        sessions(alone),
        alone.read,
        alone.bytes_read,
    )
    assert not together.problems
    assert own_children() == before


def test_what_dead_workers_did_not_read_is_read_all_the_same(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_children()
    alone = Detector(lambda: machine).scan(EVER)
    dying = tmp_path / "dying"
    dying.write_text("#!/bin/sh\nkill -9 $$\n")
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", os.fspath(dying))

    together = Detector(lambda: machine, workers_from=1).scan(EVER)

    assert sessions(together) == sessions(alone)
    assert not together.problems
    assert own_children() == before


class InterruptedStore(ClaudeStore):
    """The user's Ctrl-C while it is listed."""

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        yield from super().find(files, home, since)
        raise KeyboardInterrupt


def test_workers_that_are_not_asked_end(machine: Machine) -> None:
    before = own_children()

    with pytest.raises(KeyboardInterrupt):
        Detector(lambda: machine, stores=[InterruptedStore()], workers_from=1).scan(EVER)

    assert own_children() == before
