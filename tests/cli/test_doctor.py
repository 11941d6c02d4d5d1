"""`relay doctor`: each thing that can be wrong is a line with what to do, and nothing is changed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from relay.core.chain import Target
from relay.core.fsm import State
from relay.core.record import FORMAT_VERSION, Run
from relay.core.wire import to_wire
from relay.providers.table import provider_named
from relay.store import state_file
from relay.store.keys import load_or_make_signing_key, load_or_make_token
from relay.store.lock import DaemonLock
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repositories import remember_repository
from tests.fakes.api import record
from tests.fakes.api_server import ApiServer

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

    assert (status(found, "state folder"), status(found, "daemon")) == ("error", "error")


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
    # What else runs on this machine may be worth a warning too.
    warnings = sum(line.startswith("warning") for line in ran.out.split("\n"))
    assert ran.out.rstrip().endswith(f"1 error, {warnings} warning{'s' if warnings > 1 else ''}")
    assert "warning  git identity" in quiet.out
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


def test_a_daemon_of_another_version(
    doctor: Callable, programs: Path, repository: Path, server: ApiServer
) -> None:
    found = doctor()["daemon"]

    assert (found["status"], "0.0.test" in found["summary"]) == ("warning", True)
    assert "relay daemon restart" in found["mend"]


def test_a_lock_that_is_held_and_a_daemon_that_left_its_file(
    doctor: Callable, programs: Path, repository: Path
) -> None:
    places = StatePlaces.locate(os.environ).ensure()
    places.daemon.write_text('{"pid": 1, "url": "http://127.0.0.1:1"}')
    with DaemonLock.acquire(places.lock):
        held = doctor()["daemon"]
    left = doctor()["daemon"]

    assert (held["status"], f"pid {os.getpid()} holds the lock" in held["summary"]) == ("error", True)
    assert (left["status"], "daemon.json is old" in left["summary"]) == ("warning", True)


def test_a_clock_that_was_set_back(doctor: Callable, programs: Path, repository: Path) -> None:
    places = StatePlaces.locate(os.environ).ensure()
    (places.log / "daemon.log").touch()
    ahead = time.time() + 86_400
    os.utime(places.log / "daemon.log", (ahead, ahead))

    found = doctor()["clock"]

    assert (found["status"], "was set back" in found["summary"]) == ("warning", True)


def test_git_that_does_not_run(doctor: Callable, programs: Path, repository: Path) -> None:
    (programs / "git").unlink()
    (programs / "git").write_text("#!/bin/sh\necho 'no such library' >&2; exit 127\n")
    (programs / "git").chmod(0o755)

    found = doctor()["git"]

    assert (found["status"], "no such library" in found["summary"]) == ("error", True)


def test_a_relay_folder_that_is_a_link(
    doctor: Callable, programs: Path, repository: Path, tmp_path: Path
) -> None:
    (repository / ".relay").symlink_to(tmp_path)

    assert status(doctor(), ".relay") == "error"


def test_what_ended_sessions_left_is_counted(
    doctor: Callable, programs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_places, places = StatePlaces.locate(os.environ).ensure(), RepoPlaces(root=repository).ensure()
    remember_repository(state_places, str(repository))
    over = evolve(
        record("s-aaaaaa", repository, State.COMPLETED),
        worktree=str(places.worktree("s-aaaaaa")),
        runs=(Run(number=1, target=Target(provider="one"), started_at=datetime.now(UTC)),),
    )
    lost = evolve(record("s-bbbbbb", repository), worktree=str(repository / "gone"))
    for each in (over, lost):
        places.session(each.sid).mkdir(parents=True)
        state_file.save(places.fsm(each.sid), to_wire(each), FORMAT_VERSION)
    places.worktree("s-aaaaaa").mkdir(parents=True)
    places.run("s-aaaaaa", 1).mkdir()
    (places.run("s-aaaaaa", 1) / "out").write_bytes(bytes(1_500_000))

    found = doctor()["leftovers"]
    assert found["status"] == "ok"
    assert found["summary"].startswith("1 worktrees and 1 outputs (1.5 MB)")
    assert "relay gc --dry-run" in found["summary"]

    monkeypatch.setattr("relay.doctor.state.MANY_WORKTREES", 1)
    assert status(doctor(), "leftovers") == "warning"


def test_a_disk_that_is_full(
    doctor: Callable, programs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.doctor.machine.DISK_FULL", 1 << 62)

    found = doctor()

    assert (status(found, "disk of state"), status(found, "disk of repository")) == ("error", "error")
    assert "relay gc" in found["disk of state"]["mend"]


def test_nothing_at_all_can_be_relied_on(
    doctor: Callable, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No home, no repository, no state folder, no settings, and the folder we stand in is gone."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.delenv("HOME")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "relay.toml").write_text("[relay")
    (tmp_path / "state").write_text("not a folder")

    found = doctor()

    assert (status(found, "home"), status(found, "state folder"), status(found, "relay.toml")) == (
        "warning",
        "error",
        "error",
    )
    assert status(found, "repository") == "skipped"

    monkeypatch.setenv("RELAY_STATE_DIR", "relative")
    assert status(doctor(), "state folder") == "error"


def test_a_session_whose_beginning_was_cut_off_is_no_error(
    doctor: Callable, programs: Path, repository: Path
) -> None:
    state_places, places = StatePlaces.locate(os.environ).ensure(), RepoPlaces(root=repository).ensure()
    remember_repository(state_places, str(repository))
    places.ensure_session("s-aaaaaa")

    found = doctor()["sessions"]

    assert found["status"] != "error"
