from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from relay.core.config import Config
from relay.core.config_keys import SECTIONS
from relay.core.config_parse import parse
from relay.errors import StoreError
from relay.store.config_file import load
from relay.store.starter import starter_toml, write_starter

NAMES = [".relay/.gitignore", ".relay/relay.toml", ".relay/eval/tasks.json"]


def uncommented() -> str:
    return re.sub(r"(?m)^#(?=\S)", "", starter_toml())


def test_it_writes_what_a_repository_begins_with(tmp_path: Path) -> None:
    made = write_starter(tmp_path)
    assert [str(path.relative_to(tmp_path.resolve())) for path in made] == NAMES
    assert json.loads((tmp_path / ".relay/eval/tasks.json").read_text())["routing"]
    assert (tmp_path / ".relay").stat().st_mode & 0o777 == 0o700


def test_as_written_it_changes_nothing(tmp_path: Path) -> None:
    write_starter(tmp_path)
    loaded = load(tmp_path / ".relay" / "relay.toml")
    assert loaded.present
    assert loaded.document == {}
    assert loaded.config == Config()


def test_with_every_comment_taken_away_it_is_read_and_says_the_defaults() -> None:
    got = parse(tomllib.loads(uncommented()), file="f", line_of=lambda _: None, known=("claude",))
    default = Config()
    for name in ("relay", "retry", "circuit", "vision", "verify", "approvals"):
        assert getattr(got, name) == getattr(default, name)
    assert [p.name for p in got.providers] == ["my-agent"]


def test_it_shows_every_key() -> None:
    document = tomllib.loads(uncommented())
    for section in SECTIONS:
        table = document
        for name in section.path:
            table = table[name]
            if section.name_check is not None:
                table = next(iter(table.values()))
        shown = set(table) - ({"accounts"} if section.path == ("providers",) else set())
        assert shown == {key.name for key in section.keys}


def test_each_line_is_a_setting_or_a_sentence() -> None:
    assert all(line == "" or line.startswith("#") for line in starter_toml().split("\n"))
    assert max(len(line) for line in starter_toml().split("\n")) <= 110


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".relay").mkdir()
    config = tmp_path / ".relay" / "relay.toml"
    config.write_text("[relay]\nmax_handoffs = 1\n")
    made = write_starter(tmp_path)
    assert config not in made
    assert config.read_text() == "[relay]\nmax_handoffs = 1\n"
    assert write_starter(tmp_path) == []


@pytest.mark.parametrize("name", [".relay", *NAMES, ".relay/eval"])
def test_a_link_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    outside, repo = tmp_path / "outside", tmp_path / "repo"
    outside.mkdir()
    repo.mkdir()
    (repo / name).parent.mkdir(exist_ok=True, parents=True)
    (repo / name).symlink_to(outside if "." not in name[1:] else outside / "file")
    before = sorted(repo.rglob("*"))
    with pytest.raises(StoreError, match="symbolic link"):
        write_starter(repo)
    assert sorted(repo.rglob("*")) == before
    assert list(outside.iterdir()) == []


def test_git_sees_the_configuration_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write_starter(tmp_path)
    seen = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert seen.stdout.split("\n") == ["?? .relay/relay.toml", ""]
