"""Whose folders are searched: those of the accounts that a relay.toml names."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.effects.discovery import Discovery, Surroundings
from relay.store.places import StatePlaces
from relay.store.repositories import remember_repository


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
