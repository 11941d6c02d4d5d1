"""A real daemon, started and ended by the command line, in a state folder of the test's own."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from relay.cli.base import Settings
from relay.cli.launch import ensure_daemon
from relay.errors import NoDaemonError


def recorded(state: Path) -> psutil.Process:
    return psutil.Process(json.loads((state / "daemon.json").read_bytes())["pid"])


def test_the_life_of_a_daemon(relay: Callable, cleared: Path) -> None:
    assert relay("daemon", "status").code == 3

    started = relay("daemon", "start", "--port", "0")
    assert (started.code, started.err) == (0, "")
    assert started.out.startswith("listening on http://127.0.0.1:")
    first = recorded(cleared)
    assert os.getsid(first.pid) == first.pid
    assert relay("daemon", "start").out.startswith("runs already, on http://127.0.0.1:")
    facts = json.loads(relay("daemon", "status", "--json").out)
    assert facts["pid"] == first.pid
    assert relay("sessions").out == "there are no sessions yet\n"

    assert relay("daemon", "restart", "--port", "0").code == 0
    second = recorded(cleared)
    assert second.pid != first.pid

    assert relay("daemon", "stop").code == 0
    assert not second.is_running() or second.status() == psutil.STATUS_ZOMBIE
    assert relay("daemon", "stop").code == 3


def test_a_killed_daemon_leaves_nothing_in_the_way(relay: Callable, cleared: Path) -> None:
    relay("daemon", "start", "--port", "0")
    killed = recorded(cleared)
    killed.send_signal(signal.SIGKILL)
    killed.wait(10)

    assert relay("sessions").code == 3
    assert relay("daemon", "start", "--port", "0").code == 0
    assert recorded(cleared).pid != killed.pid


def test_what_was_wrong_before_a_daemon_ran_is_not_said_of_its_end(relay: Callable, cleared: Path) -> None:
    cleared.mkdir(exist_ok=True)
    cleared.chmod(0o700)
    token = cleared / "token"
    token.write_text("")
    token.chmod(0o600)
    assert "holds no token" in relay("daemon", "start", "--port", "0").err
    assert "holds no token" in relay("daemon", "status").err
    token.unlink()
    assert relay("daemon", "start", "--port", "0").code == 0
    recorded(cleared).send_signal(signal.SIGKILL)

    ended = relay("daemon", "status")

    assert ended.code == 3
    assert "holds no token" not in ended.err


def test_of_a_daemon_that_hangs_every_command_says_how_to_end_it(
    relay: Callable, cleared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay("daemon", "start", "--port", "0")
    hung = recorded(cleared)
    hung.suspend()
    monkeypatch.setattr("relay.cli.client.HEALTH_SECONDS", 0.2)
    monkeypatch.setattr("relay.cli.launch.ANOTHER_SECONDS", 0.0)

    for words in (("sessions",), ("daemon", "status"), ("daemon", "stop"), ("daemon", "start")):
        ran = relay(*words)
        assert (ran.code, ran.out) == (3, "")
        assert "does not answer" in ran.err
        assert f"kill -9 {hung.pid}" in ran.err

    hung.send_signal(signal.SIGKILL)
    hung.wait(10)
    assert relay("daemon", "start", "--port", "0").code == 0


def test_nothing_of_the_folder_we_stand_in_is_run(
    relay: Callable, cleared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('a file of the repository was run')")
    (tmp_path / "relay.py").write_text("raise SystemExit('a file of the repository was run')")
    monkeypatch.chdir(tmp_path)

    assert relay("daemon", "start", "--port", "0").code == 0


def test_a_daemon_that_cannot_start_says_why(cleared: Path, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "relay.toml").write_text("[relay]\nserver_prot = 1\n")

    with pytest.raises(NoDaemonError) as caught:
        ensure_daemon(Settings())

    assert "server_prot" in caught.value.hint


@pytest.mark.parametrize("trouble", ["a port that is taken", "a file of settings", "a state folder"])
def test_a_start_that_fails_ends_with_a_failure_and_the_reason(
    relay: Callable, cleared: Path, tmp_path: Path, trouble: str
) -> None:
    (tmp_path / "config").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if trouble == "a port that is taken":
            reason = f"port {port} of 127.0.0.1 cannot be had"
        elif trouble == "a file of settings":
            (tmp_path / "config" / "relay.toml").write_text("[relay\n")
            reason = "relay.toml:1:7: not valid TOML"
        else:
            cleared.write_text("a file is in its place")
            reason = f"{cleared} is not a folder"
        ran = relay("daemon", "start", "--port", str(port))

    assert (ran.code, ran.out) == (1 if trouble == "a state folder" else 3, "")
    assert reason in ran.err
    if trouble != "a state folder":
        assert reason in relay("daemon", "status").err


def test_a_named_daemon_is_never_started(cleared: Path) -> None:
    with pytest.raises(NoDaemonError):
        ensure_daemon(Settings(url="http://127.0.0.1:1", token="x"))
    assert not (cleared / "daemon.json").exists()
