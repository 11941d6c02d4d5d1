"""Whose folders are searched, as whoever asks sees them; and how one session in them is named."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from relay.effects.discovery import Discovery, Surroundings
from relay.providers.store_protocol import VARIABLES, Machine
from relay.providers.stores import store_named, store_names
from relay.store.places import StatePlaces
from relay.store.repositories import remember_repository
from tests.fakes.stores import place


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    for name in ("config", "here/.relay", "known/.relay", "home"):
        (tmp_path / name).mkdir(parents=True)
    places = StatePlaces(root=tmp_path / "state").ensure()
    remember_repository(places, str(tmp_path / "known"))
    return Surroundings(
        places=places,
        config_dir=tmp_path / "config",
        env={"HOME": str(tmp_path / "home")},
        cwd=tmp_path / "here",
    )


def test_without_a_file_no_account_is_known(around: Surroundings) -> None:
    assert Discovery(around).machine().accounts == {}


@pytest.mark.parametrize("file", ["config/relay.toml", "here/.relay/relay.toml", "known/.relay/relay.toml"])
def test_the_accounts_of_every_file_are_known(around: Surroundings, tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('[providers.claude.accounts.work]\nconfig_dir = "/w/claude"\n')

    assert Discovery(around).machine().accounts == {"claude": ("/w/claude",)}


class Asked(dict[str, str]):
    """An environment that remembers what was asked of it, and names a folder for everything."""

    def get(self, name: str, default: Any = None) -> Any:
        self[name] = ""
        return "/named"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_every_variable_that_a_store_asks_for_is_among_those_that_clients_tell(platform: str) -> None:
    asked = Asked()
    for name in store_names():
        store_named(name).homes(Machine(env=asked, home="/home/me", platform=platform))

    assert set(asked) <= set(VARIABLES)
    assert {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"} <= set(asked)


def test_somebody_elsewhere_has_their_own_folder_and_variables(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "there" / ".git").mkdir(parents=True)
    (tmp_path / "there" / "sub").mkdir()
    own = Discovery(evolve(around, cwd=None, env={**around.env, "CODEX_HOME": "/daemon/codex"}))

    there = own.seen_from(tmp_path / "there" / "sub", {"CLAUDE_CONFIG_DIR": "/my/claude", "HOME": "/other"})

    machine = there.machine()
    assert machine.home == str(tmp_path / "home")
    assert dict(machine.env) == {"HOME": machine.home, "CLAUDE_CONFIG_DIR": "/my/claude"}
    assert {str(tmp_path / "there"), str(tmp_path / "there" / "sub")} <= set(machine.folders)
    assert own.machine().env["CODEX_HOME"] == "/daemon/codex"
    assert str(tmp_path / "there") not in own.machine().folders


@pytest.fixture
def long_ago(around: Surroundings, tmp_path: Path) -> Path:
    """A transcript that nobody has touched for a year."""
    place("claude/plan_tasks", tmp_path)
    [transcript] = (tmp_path / "home").glob(".claude/projects/*/*.jsonl")
    before = time.time() - 366 * 86_400
    os.utime(transcript, (before, before))
    return transcript


def test_an_old_session_is_found_by_its_id(around: Surroundings, long_ago: Path) -> None:
    finder = Discovery(around)

    assert long_ago.stem not in {agent.id for agent in finder.scan().agents}
    assert finder.named(long_ago.stem).intel.path == str(long_ago)
    assert finder.named(long_ago.stem[:13]).id == long_ago.stem


@pytest.mark.parametrize("way", ["itself", "up and down", "a link", "below a link"])
def test_a_transcript_of_a_store_is_known_by_every_path_to_it(
    around: Surroundings, long_ago: Path, tmp_path: Path, way: str
) -> None:
    (tmp_path / "link.jsonl").symlink_to(long_ago)
    (tmp_path / "folder").symlink_to(long_ago.parent)
    ways = {
        "itself": long_ago,
        "up and down": long_ago.parent / ".." / long_ago.parent.name / long_ago.name,
        "a link": tmp_path / "link.jsonl",
        "below a link": tmp_path / "folder" / long_ago.name,
    }

    found = Discovery(around).named(str(ways[way]))

    assert (found.account, found.intel.home) == ("default", str(tmp_path / "home" / ".claude"))
