"""`relay daemon install`: what is written, what the service manager is asked, and what is not overwritten."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from attrs import define

from relay.cli import service

UNIT = "systemd/user/relay.service"


SYSTEMCTL = """#!/bin/sh
cd {folder} && echo "$*" >> calls || exit 9
if [ -e unreachable ]; then echo "no bus" >&2; exit 1; fi
end() {{ [ ! -s pid ] || kill -9 "$(cat pid)" 2>/dev/null; : > pid; }}
begin() {{
  if [ -e broken ]; then echo "Job for relay.service failed" >&2; exit 1; fi
  [ -e pretend ] && return
  {python} -P -m relay daemon run --quiet --port 0 >/dev/null 2>&1 </dev/null &
  echo $! > pid
}}
case "$*" in
  *is-active*) cat state; exit 3;;
  *Result*) cat result;;
  *MainPID*) cat pid;;
  *" start "*|*" enable --now "*) [ -s pid ] || begin;;
  *" restart "*) end; begin;;
  *" stop "*|*" disable "*) end;;
esac
"""


@define
class Systemctl:
    """A systemctl of the test's own, in front of the PATH.

    Its folder holds what it was called with, and how it behaves: `unreachable`, `broken` (the daemon does
    not start), `pretend` (none is started), `state`, `result`.
    """

    folder: Path

    def calls(self) -> list[str]:
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def behave(self, *how: str, state: str = "active", result: str = "success") -> None:
        for name in how:
            (self.folder / name).touch()
        (self.folder / "state").write_text(state + "\n")
        (self.folder / "result").write_text(result + "\n")

    @property
    def pid(self) -> int:
        return int((self.folder / "pid").read_text() or 0)


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemctl:
    fake = Systemctl(tmp_path / "systemctl")
    fake.folder.mkdir()
    (fake.folder / "pid").touch()
    fake.behave()
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(
        SYSTEMCTL.format(folder=shlex.quote(str(fake.folder)), python=shlex.quote(sys.executable))
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return fake


def unit(tmp_path: Path) -> Path:
    return tmp_path / "xdg-config" / UNIT


def test_installing_writes_a_unit_and_has_it_started(
    relay: Callable, tmp_path: Path, systemctl: Systemctl
) -> None:
    systemctl.behave("pretend")
    ran = relay("daemon", "install")

    assert ran.code == 0, ran.err
    assert str(unit(tmp_path)) in ran.out
    assert "--user daemon-reload" in systemctl.calls()
    assert "--user enable --now relay.service" in systemctl.calls()
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
    assert "--user disable --now relay.service" in systemctl.calls()
    assert not unit(tmp_path).exists()


def test_a_dry_run_prints_and_changes_nothing(relay: Callable, tmp_path: Path, systemctl: Systemctl) -> None:
    ran = relay("daemon", "install", "--dry-run")

    assert ran.code == 0
    assert "[Service]" in ran.out
    assert not unit(tmp_path).exists()
    assert systemctl.calls() == []


def test_somebody_elses_unit_is_left_alone(relay: Callable, tmp_path: Path, systemctl: Systemctl) -> None:
    systemctl.behave("pretend")
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
    relay: Callable, tmp_path: Path, systemctl: Systemctl
) -> None:
    systemctl.behave("unreachable")

    ran = relay("daemon", "install", "--json")

    assert ran.code == 3
    assert "no bus" in json.loads(ran.out)["problem"]
    assert "no bus" in ran.err
    assert "relay daemon start" in ran.err
    assert unit(tmp_path).exists()


def test_the_status_tells_of_the_service_and_of_what_is_left(
    relay: Callable, tmp_path: Path, systemctl: Systemctl, state: Path
) -> None:
    systemctl.behave("pretend", state="failed", result="watchdog")
    relay("daemon", "install")
    (state / "log").mkdir(parents=True, exist_ok=True)
    (state / "log" / "daemon.log").write_text(
        "2026-01-01 INFO x: fine\n2026-01-01 ERROR relay.daemon: ends: boom\n"
    )
    (state / "daemon.lock").write_text('{"pid": 1, "port": 3}')

    ran = relay("daemon", "status")

    assert ran.code == 3
    assert (
        "the installed service is failed (watchdog); its log: journalctl --user -u relay.service" in ran.err
    )
    assert "ends: boom" in ran.err
    assert "holds its lock" not in ran.err
    told = json.loads(relay("daemon", "status", "--json").out)
    assert (told["url"], told["service"]) == ("", "failed (watchdog)")
    assert len(told["problems"]) == 2


def test_words_are_quoted_as_systemd_reads_them() -> None:
    text = service.systemd_unit(('/opt/my apps/py"thon', "100%", "$HOME", "a\\b"), {"PATH": "/a b:$x"})

    assert 'ExecStart="/opt/my apps/py\\"thon" "100%%" "$$HOME" "a\\\\b"\n' in text
    assert 'Environment="PATH=/a b:$x"\n' in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit_whatever_the_paths(tmp_path: Path) -> None:
    program = tmp_path / "my $HOME 100% programs" / "python"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    path = tmp_path / "relay.service"
    env = {"PATH": "/usr/bin:/b 100% $x", "XDG_STATE_HOME": "/a\\b"}
    path.write_text(service.systemd_unit((str(program), "-P", "-m", "relay"), env))

    ran = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", path],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
    )

    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_dry_run_as_json(relay: Callable, tmp_path: Path, systemctl: Systemctl) -> None:
    told = json.loads(relay("daemon", "install", "--dry-run", "--json").out)

    assert (told["path"], told["manager"]) == (str(unit(tmp_path)), "systemd")
    assert "Type=notify" in told["content"]


def test_what_agents_need_of_the_shell_is_kept_and_keys_are_not() -> None:
    kept = {"PATH": "/bin", "RELAY_CONFIG_DIR": "/c", "XDG_STATE_HOME": "/s", "CODEX_HOME": "/work"}
    env = {
        "HOME": "/home/a",
        **kept,
        "OPENAI_API_KEY": "k",
        "RELAY_TOKEN": "t",
        "HTTPS_PROXY": "http://u:p@h",
    }

    text = service.describe(env, "linux").content.decode()

    told = [line for line in text.split("\n") if line.startswith("Environment=")]
    assert sorted(told) == sorted(f'Environment="{name}={value}"' for name, value in kept.items())


@pytest.mark.parametrize(
    ("given", "folder"), [("", "/home/a/.config"), ("x", "/home/a/.config"), ("/xdg", "/xdg")]
)
def test_where_the_unit_lies(given: str, folder: str) -> None:
    described = service.describe({"HOME": "/home/a", "XDG_CONFIG_HOME": given}, "linux")

    assert str(described.path) == f"{folder}/systemd/user/relay.service"


@pytest.mark.parametrize("trouble", ["somebody else's unit", "a manager that can't be reached"])
def test_a_daemon_that_runs_goes_on_when_the_service_cannot_take_over(
    relay: Callable, tmp_path: Path, systemctl: Systemctl, cleared: Path, trouble: str
) -> None:
    relay("daemon", "start", "--port", "0")
    before = json.loads((cleared / "daemon.json").read_bytes())
    systemctl.behave("pretend")
    if trouble == "somebody else's unit":
        unit(tmp_path).parent.mkdir(parents=True)
        unit(tmp_path).write_text("[Service]\n")
    else:
        systemctl.behave("unreachable")

    assert relay("daemon", "install").code != 0

    assert json.loads((cleared / "daemon.json").read_bytes()) == before
    assert psutil.pid_exists(before["pid"])


def test_a_daemon_that_was_ended_for_a_service_that_does_not_start_runs_again(
    relay: Callable, systemctl: Systemctl, cleared: Path, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "config" / "relay.toml").write_text(f"[relay]\nserver_port = {port}\n")
    relay("daemon", "start")
    systemctl.behave("broken", state="failed")

    ran = relay("daemon", "install")

    assert ran.code == 3
    assert "the daemon that ran before runs again" in ran.err
    assert relay("daemon", "status").code == 0


def test_the_life_of_the_service(
    relay: Callable, systemctl: Systemctl, cleared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> dict[str, Any]:
        return dict(json.loads(relay("daemon", "status", "--json").out))

    relay("daemon", "start", "--port", "0")
    by_hand = told()["pid"]
    assert relay("daemon", "install").code == 0
    assert not psutil.pid_exists(by_hand) or psutil.Process(by_hand).status() == psutil.STATUS_ZOMBIE
    assert relay("daemon", "start").code == 0
    first = told()
    assert (first["pid"], first["service"]) == (systemctl.pid, "active")

    assert relay("daemon", "restart").code == 0
    assert "--user restart relay.service" in systemctl.calls()
    second = told()["pid"]
    assert second == systemctl.pid != first["pid"]

    assert relay("daemon", "stop").code == 0
    assert "--user stop relay.service" in systemctl.calls()
    systemctl.behave(state="inactive")
    assert relay("daemon", "status").code == 3

    assert relay("daemon", "start").code == 0
    assert told()["pid"] == systemctl.pid

    # One that hangs answers nobody; its manager can end it all the same.
    monkeypatch.setattr("relay.cli.client.HEALTH_SECONDS", 0.2)
    hung = psutil.Process(systemctl.pid)
    hung.suspend()
    ran = relay("daemon", "status")
    assert f"pid {hung.pid} holds its lock and does not answer" in ran.err
    assert relay("daemon", "stop").code == 0
    hung.wait(10)
    assert relay("daemon", "uninstall").code == 0


def test_a_service_that_does_not_start_is_a_failure_with_the_reason(
    relay: Callable, systemctl: Systemctl, state: Path
) -> None:
    systemctl.behave("pretend", state="inactive")
    relay("daemon", "install")
    systemctl.behave("broken", state="failed", result="exit-code")
    (state / "log").mkdir(parents=True)
    (state / "log" / "daemon.log").write_text("2026-01-01 ERROR relay.daemon: not started: port 1 is taken\n")

    ran = relay("daemon", "start")

    assert (ran.code, ran.out) == (3, "")
    assert "Job for relay.service failed" in ran.err
    assert "failed (exit-code)" in ran.err
    assert "port 1 is taken" in ran.err
    assert not (state / "daemon.json").exists()


def test_a_manager_that_is_gone_does_not_keep_the_daemon_from_starting(
    relay: Callable, systemctl: Systemctl, cleared: Path, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "config" / "relay.toml").write_text(f"[relay]\nserver_port = {port}\n")
    systemctl.behave("unreachable")
    relay("daemon", "install")

    ran = relay("daemon", "start")

    assert (ran.code, ran.out) == (0, f"listening on http://127.0.0.1:{port}\n")
    assert ran.err.startswith("note: started without the service manager")


def test_a_service_of_another_relay_is_said(relay: Callable, systemctl: Systemctl, tmp_path: Path) -> None:
    systemctl.behave("pretend", state="failed")
    relay("daemon", "install")
    unit(tmp_path).write_text(unit(tmp_path).read_text().replace(sys.executable, "/gone/python"))

    assert 'the service starts "/gone/python"' in relay("daemon", "status").err
    relay("daemon", "install")
    assert "/gone/python" not in relay("daemon", "status").err


def test_the_agent_of_launchd() -> None:
    described = service.describe({"HOME": "/Users/a", "PATH": "/usr/bin", "ANTHROPIC_API_KEY": "k"}, "darwin")

    told = plistlib.loads(described.content)
    assert str(described.path) == "/Users/a/Library/LaunchAgents/dev.relay.daemon.plist"
    assert told["ProgramArguments"][1:] == ["-P", "-m", "relay", "daemon", "run", "--quiet"]
    assert told["EnvironmentVariables"] == {"PATH": "/usr/bin"}
    assert (told["KeepAlive"], told["AbandonProcessGroup"]) == ({"SuccessfulExit": False}, True)
