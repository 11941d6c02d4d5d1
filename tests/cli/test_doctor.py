"""`relay doctor`: each thing that can be wrong is a line with what to do, and nothing is changed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.providers.table import provider_named
from relay.store.keys import load_or_make_signing_key, load_or_make_token
from relay.store.places import StatePlaces

CLAUDE = """#!/bin/sh
case "$1" in
  --version) echo "{version} (Claude Code)";;
  auth) if [ -e "$CLAUDE_CONFIG_DIR/in" ]; then echo '{{"loggedIn": true, "authMethod": "oauth"}}'
        else echo '{{"loggedIn": false}}'; fi;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with git and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("git", "sh"):
        found = next(
            Path(each) / name for each in os.environ["PATH"].split(":") if (Path(each) / name).exists()
        )
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return folder


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "app"
    root.mkdir()
    (tmp_path / "home").mkdir()
    who = ("-c", "user.name=A User", "-c", "user.email=user@example.org")
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    subprocess.run(["git", *who, "-C", root, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    monkeypatch.chdir(root)
    return root


def install(folder: Path, version: str = "99.0.0", name: str = "claude") -> None:
    program = folder / name
    program.write_text(CLAUDE.format(version=version))
    program.chmod(0o755)


@pytest.fixture
def doctor(relay: Callable) -> Callable[[], dict[str, dict[str, Any]]]:
    def run() -> dict[str, dict[str, Any]]:
        ran = relay("doctor", "--json")
        found = json.loads(ran.out)
        assert ran.code == (1 if any(each["status"] == "error" for each in found) else 0)
        for each in found:
            assert set(each) == {"check", "status", "summary", "detail", "mend"}
            assert bool(each["mend"]) == (each["status"] in ("error", "warning")), each
        return {each["check"]: each for each in found}

    return run


def status(found: dict[str, dict[str, Any]], name: str) -> str:
    return str(found[name]["status"])


def test_all_is_well(doctor: Callable, programs: Path, repository: Path, state: Path, tmp_path: Path) -> None:
    install(programs)
    home = tmp_path / "home"
    (home / ".claude").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "relay.toml").write_text(
        f'[providers.claude.accounts.work]\nconfig_dir = "{home / ".claude"}"\n'
    )
    (home / ".claude" / "in").touch()
    places = StatePlaces.locate(os.environ).ensure()
    load_or_make_signing_key(places.signing_key)
    load_or_make_token(places.token)
    before = {path: path.stat().st_mtime_ns for path in state.rglob("*") if path.is_file()}

    found = doctor()

    assert [name for name, each in found.items() if each["status"] == "error"] == []
    for name in (
        "python",
        "git",
        "clock",
        "state folder",
        "signing key",
        "token",
        "repository",
        "relay.toml",
    ):
        assert status(found, name) == "ok", found[name]
    assert found["agent claude"]["summary"].startswith("Claude Code 99.0.0")
    assert (status(found, "login claude/work"), status(found, "agent codex")) == ("ok", "skipped")
    assert {path: path.stat().st_mtime_ns for path in state.rglob("*") if path.is_file()} == before


def test_no_agent_at_all(doctor: Callable, programs: Path, repository: Path) -> None:
    assert status(doctor(), "agents") == "error"


def test_an_agent_that_nobody_is_logged_in_to(doctor: Callable, programs: Path, repository: Path) -> None:
    install(programs)

    found = doctor()

    assert (status(found, "agent claude"), status(found, "login claude/default")) == ("ok", "warning")
    assert found["agents"]["summary"] == "none of the agents is known to be logged in"


def test_an_old_agent_and_one_that_does_not_run(doctor: Callable, programs: Path, repository: Path) -> None:
    install(programs, "1.0.3")
    (programs / "codex").write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    (programs / "codex").chmod(0o755)

    found = doctor()

    assert status(found, "agent claude") == "warning"
    assert provider_named("claude").tested_version in found["agent claude"]["mend"]
    assert status(found, "agent codex") == "error"
    assert "broken" in found["agent codex"]["summary"]


def test_no_git(doctor: Callable, programs: Path, repository: Path) -> None:
    (programs / "git").unlink()

    assert status(doctor(), "git") == "error"


@pytest.mark.parametrize("name", ["token", "signing.key"])
def test_a_key_that_others_may_read(
    doctor: Callable, programs: Path, repository: Path, state: Path, name: str
) -> None:
    places = StatePlaces.locate(os.environ).ensure()
    load_or_make_signing_key(places.signing_key)
    load_or_make_token(places.token)
    (state / name).chmod(0o644)

    check = doctor()["signing key" if name == "signing.key" else "token"]

    assert (check["status"], check["mend"]) == ("error", f"chmod 600 {state / name}")


def test_a_signing_key_that_was_cut(doctor: Callable, programs: Path, repository: Path, state: Path) -> None:
    StatePlaces.locate(os.environ).ensure()
    (state / "signing.key").write_bytes(b"short")
    (state / "signing.key").chmod(0o600)

    check = doctor()["signing key"]

    assert (check["status"], "5 bytes" in check["summary"]) == ("error", True)


def test_a_broken_relay_toml_and_one_that_is_not_trusted(
    doctor: Callable, programs: Path, repository: Path
) -> None:
    folder = repository / ".relay"
    folder.mkdir(mode=0o700)
    (folder / "relay.toml").write_text("[relay]\nserver_prot = 3\n")
    assert (status(doctor(), "relay.toml"), "server_port" in str(doctor()["relay.toml"])) == ("error", True)

    (folder / "relay.toml").write_text('[verify]\ncommands = ["make test"]\n')
    found = doctor()["relay.toml"]
    assert found["status"] == "warning"
    assert "relay trust" in found["mend"]


def test_a_relay_folder_that_others_may_look_into(doctor: Callable, programs: Path, repository: Path) -> None:
    (repository / ".relay").mkdir(mode=0o755)
    (repository / ".relay").chmod(0o755)

    assert status(doctor(), ".relay") == "error"


def test_outside_of_a_repository_and_without_a_home(
    doctor: Callable, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.delenv("HOME")

    assert status(doctor(), "repository") == "skipped"


def test_a_state_folder_that_is_a_file(
    doctor: Callable, programs: Path, repository: Path, state: Path
) -> None:
    state.write_text("not a folder")

    found = doctor()

    assert "error" in {status(found, name) for name in found}


def test_an_audit_log_that_was_changed(
    doctor: Callable, programs: Path, repository: Path, state: Path
) -> None:
    places = StatePlaces.locate(os.environ).ensure()
    places.audit.write_text('{"not": "ours"}\n')

    assert status(doctor(), "audit log") == "error"


def test_people_see_what_to_do(relay: Callable, programs: Path, repository: Path) -> None:
    ran, quiet = relay("doctor"), relay("doctor", "--quiet")

    assert ran.code == 1
    assert "error    agents: no coding agent was found\n         -> install one" in ran.out
    assert ran.out.rstrip().endswith("1 error, 1 warning")
    assert quiet.out.startswith("warning  git identity")
    assert "ok " not in quiet.out


def test_nothing_that_a_repository_names_is_run_before_it_is_trusted(
    doctor: Callable, relay: Callable, programs: Path, repository: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    (repository / "agent").write_text(f"#!/bin/sh\n: > {ran}\necho 99.0.0\n")
    (repository / "agent").chmod(0o755)
    (repository / ".relay").mkdir(mode=0o700)
    (repository / ".relay" / "relay.toml").write_text(
        f'[providers.claude]\ncommand = "{repository / "agent"}"\n'
    )
    assert (status(doctor(), "relay.toml"), ran.exists()) == ("warning", False)

    relay("trust", "--yes")
    assert (status(doctor(), "agent claude"), ran.exists()) == ("ok", True)


def test_nothing_is_found_by_a_relative_entry_of_the_path(
    doctor: Callable, programs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(repository)
    monkeypatch.setenv("PATH", f".:{programs}")

    assert status(doctor(), "agent claude") == "skipped"


def test_a_login_is_asked_for_as_a_run_of_the_account_is_started(
    doctor: Callable, programs: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs)
    (programs / "claude").write_text(
        '#!/bin/sh\n[ "$1" = auth ] || { echo 99.0.0; exit; }\n'
        'if [ -n "$ANTHROPIC_API_KEY" ]; then in=true; else in=false; fi\n'
        'echo "{\\"loggedIn\\": $in}"\n'
    )
    (tmp_path / "config").mkdir()
    folder = tmp_path / "work"
    (tmp_path / "config" / "relay.toml").write_text(
        f'[providers.claude.accounts.work]\nconfig_dir = "{folder}"\n'
    )
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of the shell, which no account gets")

    found = doctor()["login claude/work"]

    assert found["status"] == "warning"
    assert f"CLAUDE_CONFIG_DIR={folder}" in found["mend"]
