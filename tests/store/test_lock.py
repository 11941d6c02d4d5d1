from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import pytest

from relay.errors import ConflictError, DiskFullError, StoreError
from relay.store.lock import DaemonLock
from tests.fakes.fileops import FailingOps, every_failure

CHILD = Path(__file__).parents[1] / "fakes" / "children" / "lock.py"


@contextmanager
def starter(path: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def test_of_several_that_start_at_once_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    with ExitStack() as stack:
        children = [stack.enter_context(starter(path)) for _ in range(5)]
        assert [said(child) for child in children] == ["ready"] * 5
        for child in children:
            go(child)
        answers = sorted(said(child).split(" ")[0] for child in children)
    assert answers == ["refused"] * 4 + ["won"]


def test_a_killed_holder_leaves_the_lock_free(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    with starter(path) as child:
        said(child)
        go(child)
        assert said(child) == "won"
        with pytest.raises(ConflictError, match="already running") as caught:
            DaemonLock.acquire(path)
        assert f"pid {child.pid}" in caught.value.hint
    with DaemonLock.acquire(path):
        assert orjson.loads(path.read_bytes())["pid"] == os.getpid()


def test_the_one_who_is_refused_is_told_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    with DaemonLock.acquire(path) as lock:
        lock.note({"pid": 4242, "port": 4748, "started": "2026-06-03T15:41:03Z"})
        with pytest.raises(ConflictError) as caught:
            DaemonLock.acquire(path)
    assert "pid 4242, port 4748, since 2026-06-03T15:41:03Z" in caught.value.hint
    assert caught.value.exit_code != 0


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="0 bytes, as after a kill for lack of memory"),
        pytest.param(b"\0" * 100, id="NULs"),
        pytest.param(b'{"pid": 1, "port"', id="cut"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b'{"pid": "x", "port": true, "started": 7}', id="other types"),
        pytest.param(b'{"pid": 1, "port": 4748, "started": "long ago"}', id="a stale pid"),
    ],
)
def test_what_the_file_says_does_not_matter(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "daemon.lock"
    path.write_bytes(content)
    with DaemonLock.acquire(path, started="now"):
        assert orjson.loads(path.read_bytes()) == {"pid": os.getpid(), "port": None, "started": "now"}
        path.write_bytes(content)
        with pytest.raises(ConflictError, match="already running"):
            DaemonLock.acquire(path)


def test_it_can_be_taken_again_once_released(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    lock.close()
    lock.close()
    assert path.exists()
    with pytest.raises(StoreError, match="not held"):
        lock.note({})
    DaemonLock.acquire(path).close()


def test_the_file_is_the_users_alone_under_any_umask(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    old = os.umask(0)
    try:
        with DaemonLock.acquire(path):
            assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "no folder"])
def test_what_cannot_be_a_lock_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "daemon.lock"
    if kind == "symlink":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = tmp_path / "none" / "daemon.lock"
    with pytest.raises(StoreError, match=str(path)):
        DaemonLock.acquire(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_that_is_removed_meanwhile_is_not_locked_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"

    class Removing(FailingOps):
        def fstat(self, fd: int) -> os.stat_result:
            facts = super().fstat(fd)
            if self.calls.count("fstat") == 1:
                path.unlink()
            return facts

    with DaemonLock.acquire(path, ops=Removing()), pytest.raises(ConflictError):
        DaemonLock.acquire(path)


def test_a_failure_at_any_step_leaves_the_lock_free_or_held(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"

    def attempt(ops: FailingOps) -> None:
        try:
            lock = DaemonLock.acquire(path, ops=ops)
        except StoreError as error:
            assert type(error) is DiskFullError
            assert str(path) in error.message
        else:
            # What the file says is a hint: it does not matter that it could not be written.
            with pytest.raises(ConflictError):
                DaemonLock.acquire(path)
            lock.close()
        DaemonLock.acquire(path).close()

    assert every_failure(attempt, code=errno.ENOSPC) == [
        "open", "fstat", "lstat", "fchmod", "truncate", "write", "truncate", "close",
    ]  # fmt: skip
