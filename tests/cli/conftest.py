"""The command line, run in this process against a state folder of the test's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from attrs import frozen

from relay.cli import app
from tests.fakes.api_server import ApiServer


@frozen
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str


Relay = Callable[..., Ran]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RELAY_URL", "RELAY_TOKEN", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "state"
    monkeypatch.setenv("RELAY_STATE_DIR", str(folder))
    monkeypatch.setenv("RELAY_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    return folder


@pytest.fixture
def relay(state: Path, capsys: pytest.CaptureFixture[str]) -> Relay:
    def run(*arguments: str) -> Ran:
        code = app.run(arguments)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def server(state: Path) -> Iterator[ApiServer]:
    with ApiServer(state) as running:
        yield running


@pytest.fixture
def cleared(state: Path) -> Iterator[Path]:
    """The state folder; whatever daemon is left of the test is killed."""
    yield state
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("RELAY_STATE_DIR") == str(state) and process.pid != os.getpid()
        except psutil.Error:
            continue
        if ours:
            process.kill()
            process.wait(10)
