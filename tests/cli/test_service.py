"""`relay daemon install`: what is written, what the service manager is asked, and what is not overwritten."""

from __future__ import annotations

import json
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.cli import service

UNIT = "systemd/user/relay.service"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A systemctl that writes down how it was called; it fails for words in `failing`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "calls"
    program = folder / "systemctl"
    failing = tmp_path / "failing"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {shlex.quote(str(log))}\n'
        f'case "$*" in *is-active*) echo failed; exit 3;; *MainPID*) echo 0;; esac\n'
        f"if [ -e {shlex.quote(str(failing))} ]; then echo no bus >&2; exit 1; fi\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return lambda: log.read_text().splitlines() if log.exists() else []


def unit(tmp_path: Path) -> Path:
    return tmp_path / "xdg-config" / UNIT


def test_installing_writes_a_unit_and_has_it_started(
    relay: Callable, tmp_path: Path, calls: Callable[[], list[str]]
) -> None:
    ran = relay("daemon", "install")

    assert ran.code == 0, ran.err
    assert str(unit(tmp_path)) in ran.out
    assert "--user daemon-reload" in calls()
    assert "--user enable --now relay.service" in calls()
    text = unit(tmp_path).read_text()
    assert "Type=notify\n" in text
    assert "KillMode=process\n" in text
    assert f'ExecStart="{sys.executable}" "-P" "-m" "relay" "daemon" "run" "--quiet"\n' in text
    assert f'Environment="RELAY_STATE_DIR={tmp_path / "state"}"\n' in text
    assert "TOKEN" not in text

    again, removed, gone = (
        relay("daemon", "install"),
        relay("daemon", "uninstall"),
        relay("daemon", "uninstall"),
    )
    assert (again.code, removed.code, gone.code) == (0, 0, 5)
    assert "--user disable --now relay.service" in calls()
    assert not unit(tmp_path).exists()


def test_a_dry_run_prints_and_changes_nothing(
    relay: Callable, tmp_path: Path, calls: Callable[[], list[str]]
) -> None:
    ran = relay("daemon", "install", "--dry-run")

    assert ran.code == 0
    assert "[Service]" in ran.out
    assert not unit(tmp_path).exists()
    assert calls() == []


def test_somebody_elses_unit_is_left_alone(
    relay: Callable, tmp_path: Path, calls: Callable[[], list[str]]
) -> None:
    unit(tmp_path).parent.mkdir(parents=True)
    unit(tmp_path).write_text("[Service]\nExecStart=/usr/bin/other\n")

    install, uninstall = relay("daemon", "install"), relay("daemon", "uninstall")

    assert (install.code, uninstall.code) == (1, 1)
    assert "was not written by Relay" in install.err
    assert "--force" in install.err
    assert "other" in unit(tmp_path).read_text()
    assert relay("daemon", "install", "--force").code == 0
    assert "relay" in unit(tmp_path).read_text()


def test_a_manager_that_can_not_be_reached_is_said(
    relay: Callable, tmp_path: Path, calls: Callable[[], list[str]]
) -> None:
    (tmp_path / "failing").touch()

    ran = relay("daemon", "install", "--json")

    assert ran.code == 3
    assert "no bus" in json.loads(ran.out)["problem"]
    assert "no bus" in ran.err
    assert "relay daemon start" in ran.err
    assert unit(tmp_path).exists()


def test_the_status_tells_of_the_service_and_of_what_is_left(
    relay: Callable, tmp_path: Path, calls: Callable[[], list[str]], state: Path
) -> None:
    relay("daemon", "install")
    (state / "log").mkdir(parents=True, exist_ok=True)
    (state / "log" / "daemon.log").write_text(
        "2026-01-01 INFO x: fine\n2026-01-01 ERROR relay.daemon: ends: boom\n"
    )
    (state / "daemon.lock").write_text('{"pid": 1, "port": 3}')

    ran = relay("daemon", "status")

    assert ran.code == 3
    assert "the installed service is failed: journalctl --user -u relay.service" in ran.err
    assert "ends: boom" in ran.err
    assert "holds its lock" not in ran.err


def test_words_are_quoted_as_systemd_reads_them() -> None:
    text = service.systemd_unit(('/opt/my apps/py"thon', "100%", "$HOME", "a\\b"), {"PATH": "/a b:$x"})

    assert 'ExecStart="/opt/my apps/py\\"thon" "100%%" "$$HOME" "a\\\\b"\n' in text
    assert 'Environment="PATH=/a b:$x"\n' in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "relay.service"
    path.write_text(service.systemd_unit((sys.executable, "-m", "relay"), {"PATH": "/usr/bin:/b 100%"}))

    ran = subprocess.run(
        ["systemd-analyze", "verify", "--user", path], capture_output=True, text=True, check=False
    )

    assert "relay.service" not in ran.stderr


def test_the_agent_of_launchd() -> None:
    described = service.describe({"HOME": "/Users/a", "PATH": "/usr/bin", "ANTHROPIC_API_KEY": "k"}, "darwin")

    told = plistlib.loads(described.content)
    assert str(described.path) == "/Users/a/Library/LaunchAgents/dev.relay.daemon.plist"
    assert told["ProgramArguments"][1:] == ["-P", "-m", "relay", "daemon", "run", "--quiet"]
    assert told["EnvironmentVariables"] == {"PATH": "/usr/bin"}
    assert (told["KeepAlive"], told["AbandonProcessGroup"]) == ({"SuccessfulExit": False}, True)
