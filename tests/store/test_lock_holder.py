"""Who holds the lock: the system's word where it gives one, else the file's, if a daemon has that pid."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.store.lock import DaemonLock
from relay.store.lock_holder import LOCKS, lock_holder

linux = pytest.mark.skipif(not LOCKS.exists(), reason="only Linux tells who holds a lock")


@pytest.fixture(params=["a module", "a script"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a daemon, as each of the two ways of starting one does."""
    script = tmp_path / "relay"
    script.write_text("import sys\nsys.stdin.read()\n")
    module = ["-c", script.read_text(), "-m", "relay", "daemon", "run"]
    words = module if request.param == "a module" else [str(script), "daemon", "run"]
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@linux
def test_a_lock_that_is_held_names_its_process_whatever_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    with DaemonLock.acquire(path):
        path.write_text('{"pid": 1}')
        assert lock_holder(path) == os.getpid()
    assert lock_holder(path) == 0


@linux
def test_a_lock_that_nobody_holds_is_free_although_its_pid_lives(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "daemon.lock"
    path.write_text(f'{{"pid": {other.pid}}}')

    assert lock_holder(path) == 0


def test_where_the_system_does_not_tell_the_file_does(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "daemon.lock"
    path.write_text(f'{{"pid": {other.pid}}}')

    assert lock_holder(path, locks=tmp_path / "none") == other.pid


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": "x"}', '{"pid": -1}', '{"pid": 1}', '{"pid": true}', "\0\0"]
)
def test_a_file_that_names_no_daemon(tmp_path: Path, content: str) -> None:
    path = tmp_path / "daemon.lock"
    path.write_text(content)

    assert lock_holder(path, locks=tmp_path / "none") == 0


def test_no_file(tmp_path: Path) -> None:
    assert lock_holder(tmp_path / "daemon.lock") == 0
