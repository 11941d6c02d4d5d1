from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

from relay.effects import child, processes
from relay.effects.spool import RunFolder, RunRecord, store_error
from relay.effects.stdin import close_stdin, write
from relay.errors import (
    ConfigError,
    ConflictError,
    DiskFullError,
    MissingBinaryError,
    RelayError,
    StoreError,
    UserError,
)
from relay.providers.protocol import LaunchSpec, Write
from tests.fakes.runs import CHILDREN, a_run, python

SHELLS = [shell for shell in ("/bin/sh", "/bin/bash", "/bin/dash") if Path(shell).exists()]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("two_way", [False, True])
async def test_output_and_status_are_kept(tmp_path: Path, shell: str, two_way: bool) -> None:
    async with a_run(tmp_path) as run:
        argv = ("sh", "-c", "pwd; echo oops >&2; exit 42")
        await run.start(*argv, two_way=two_way, shell=shell)
        ended = await run.follow()
        assert (ended.status, ended.signal) == (42, None)
        assert run.texts() == [str(run.cwd)]
        assert run.texts("err") == ["oops"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "KILL"])
async def test_a_cli_that_dies_of_a_signal_says_so(tmp_path: Path, shell: str, name: str) -> None:
    async with a_run(tmp_path) as run:
        # `exec sleep` shows that no signal is ignored in the CLI.
        await run.start("sh", "-c", "echo $$; exec sleep 1000", two_way=True, shell=shell)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.follow)
            await run.until(lambda: bool(run.texts()))
            number = signal.Signals[f"SIG{name}"]
            os.kill(int(run.texts()[0]), number)
        ended = await run.follow()
        assert (ended.status, ended.signal) == (128 + number, number)


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_signal_to_the_group_loses_no_status(tmp_path: Path, shell: str) -> None:
    async with a_run(tmp_path) as run:
        started = await run.start("sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.02; done",
                                  two_way=True, shell=shell)  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.follow)
            await run.until(lambda: bool(run.texts()))
            os.killpg(started.pid, signal.SIGTERM)
        assert (await run.follow()).status == 5


@pytest.mark.parametrize("two_way", [False, True])
async def test_the_cli_inherits_nothing_but_its_streams(tmp_path: Path, two_way: bool) -> None:
    async with a_run(tmp_path) as run:
        await run.start("sh", "-c", "ls -l /proc/self/fd | grep -v ' -> /proc/' | grep -c -- '->'",
                        two_way=two_way)  # fmt: skip
        await run.follow()
        assert run.texts() == ["3"]


async def test_without_a_dialogue_the_input_is_empty(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"))
        assert (await run.follow()).status == 7
        assert run.texts() == ["ready", "end of input"]


async def test_the_environment_is_the_daemons_less_and_more(tmp_path: Path) -> None:
    spec = LaunchSpec(argv=("x",), env={"SET": "1", "RELAY_RUN": "forged"}, unset=("SECRET", "CLAUDE_*"))
    base = {
        "PATH": "/bin",
        "SECRET": "s",
        "CLAUDE_A": "a",
        "CLAUDE_": "b",
        "CLAUDED": "c",
        "OLDPWD": "/",
        "SET": "0",
    }
    assert child.environment(base, spec, marker="m", cwd="/w") == {
        "PATH": "/bin",
        "CLAUDED": "c",
        "SET": "1",
        "PWD": "/w",
        "RELAY_RUN": "m",
    }
    async with a_run(tmp_path) as run:
        await run.start("env", env={"fifo": "kept", "dir": "kept too"})
        await run.follow()
        assert {f"RELAY_RUN={run.marker}", f"PWD={run.cwd}", "fifo=kept", "dir=kept too"} <= set(run.texts())
        assert not [line for line in run.texts() if line.startswith("_relay")]


async def test_the_run_folder_is_private_and_names_no_values(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        old = os.umask(0)
        try:
            started = await run.start(*python("echo"), two_way=True, env={"API_KEY": "geheim"})
        finally:
            os.umask(old)
        for path in [run.folder.path, run.folder.path.parent]:
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for path in [*run.folder.path.iterdir(), run.fifo]:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "geheim" not in run.folder.file("argv.json").read_text()
        record = run.folder.record()
        assert record is not None
        assert (record.env, record.marker, record.cwd) == (("API_KEY",), run.marker, str(run.cwd))
        assert run.folder.shim() == started.shim
        pid = json.loads(run.folder.file("pid.json").read_text())
        assert (pid["pid"], pid["session"]) == (started.pid, os.getsid(started.pid))


@pytest.mark.parametrize("shell", SHELLS)
async def test_the_child_outlives_a_killed_daemon(tmp_path: Path, shell: str) -> None:
    async with a_run(tmp_path) as run:
        daemon = await trio.lowlevel.open_process(
            [sys.executable, CHILDREN / "daemon.py", run.folder.path, run.fifo, run.marker, *python("count")],
            stdout=subprocess.PIPE,
            cwd=run.cwd,
            env={**os.environ, "PYTHONPATH": str(Path(child.__file__).parents[2])},
        )
        assert daemon.stdout is not None
        async with daemon.stdout:
            shim = int(await daemon.stdout.receive_some())
        daemon.kill()
        await daemon.wait()

        assert (await child.recover(run.folder, run.marker)) == processes.identity(shim)
        await write(run.fifo, run.folder, [Write(key="1", line="one"), Write(key="2", line="two")])
        assert await close_stdin(run.folder)
        assert (await run.follow()).status == 0
        assert run.texts() == ["1", "2"]


async def test_a_child_whose_pid_was_not_noted_is_found_again(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        started = await run.start(*python("count"), two_way=True)
        # The kernel shows a program's environment a moment after it has begun.
        assert await processes.until(lambda: run.folder.cli_pid() is not None, 10)
        run.folder.file("pid.json").unlink()
        assert run.folder.shim() is None
        assert await child.recover(run.folder, run.marker) == started.shim
        assert run.folder.shim() == started.shim


async def test_a_run_that_was_never_started_is_not_found(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        assert await child.recover(run.folder, run.marker) is None


def _lacks_folder(home: Path) -> dict[str, object]:
    return {"cwd": str(home / "missing")}


def _lacks_program(home: Path) -> dict[str, object]:
    return {"argv": ("no-such-agent",)}


def _lacks_execute_bit(home: Path) -> dict[str, object]:
    (home / "agent").write_text("#!/bin/sh\n")
    return {"argv": (str(home / "agent"),)}


def _has_program_in_repository_only(home: Path) -> dict[str, object]:
    (home / "work" / "agent").write_text("#!/bin/sh\n")
    (home / "work" / "agent").chmod(0o755)
    return {"argv": ("agent",), "base_env": {"PATH": f".:{''}:work"}}


def _has_a_file_for_a_folder(home: Path) -> dict[str, object]:
    (home / "sessions").write_text("")
    return {}


def _has_a_file_for_a_state_folder(home: Path) -> dict[str, object]:
    (home / "state").write_text("")
    return {}


def _has_a_file_for_a_fifo(home: Path) -> dict[str, object]:
    (home / "state").mkdir()
    (home / "state" / "other.fifo").write_text("not ours")
    return {"fifo": home / "state" / "other.fifo"}


def _lacks_a_shell(home: Path) -> dict[str, object]:
    return {"shell": str(home / "no-shell")}


def _has_a_long_argument(home: Path) -> dict[str, object]:
    return {"argv": ("echo", "x" * 3_000_000)}


def _has_a_nul_in_an_argument(home: Path) -> dict[str, object]:
    return {"argv": ("echo", "a\0b")}


@pytest.mark.parametrize(
    ("arrange", "want", "want_words"),
    [
        (_lacks_folder, UserError, "folder to work in is missing"),
        (_lacks_program, MissingBinaryError, "no-such-agent"),
        (_lacks_execute_bit, MissingBinaryError, "agent"),
        (_has_program_in_repository_only, MissingBinaryError, "not on the PATH"),
        (_has_a_file_for_a_folder, StoreError, "run folder"),
        (_has_a_file_for_a_state_folder, StoreError, "input"),
        (_has_a_file_for_a_fifo, StoreError, "other.fifo"),
        (_lacks_a_shell, StoreError, "no-shell"),
        (_has_a_long_argument, UserError, "too long"),
        (_has_a_nul_in_an_argument, ConfigError, "null byte"),
    ],
)
async def test_a_failed_start_is_explained_and_leaves_nothing(
    tmp_path: Path, arrange: object, want: type[RelayError], want_words: str
) -> None:
    async with a_run(tmp_path) as run:
        options = {
            "argv": ("true",),
            "cwd": str(run.cwd),
            "fifo": run.fifo,
            "base_env": os.environ,
            "shell": "/bin/sh",
            **arrange(tmp_path),  # type: ignore[operator]
        }
        spec = LaunchSpec(argv=options.pop("argv"))
        with pytest.raises(want, match=want_words) as caught:
            await child.start(run.folder, spec, marker=run.marker, **options)
        assert type(caught.value) is want
        assert not run.folder.path.exists()
        assert not run.fifo.exists()
        assert await run.alive() == []


class FullDisk(RunFolder):
    """A folder on a disk that fills up just when the child has been started."""

    def note_shim(self, shim: processes.Identity, created: float) -> None:
        raise DiskFullError("cannot write pid.json")


async def test_a_child_that_cannot_be_put_on_record_is_ended_again(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        run.folder = FullDisk(run.folder.path)
        with pytest.raises(DiskFullError):
            await run.start("sleep", "1000", two_way=True)
        assert await run.alive() == []
        assert not run.folder.path.exists()
        assert not run.fifo.exists()


async def test_a_cancelled_start_starts_nothing_or_a_child_on_record(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        with trio.CancelScope() as scope:
            scope.cancel()
            await run.start("sleep", "1000", two_way=True)
        assert not run.folder.path.exists()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run.start("sleep", "1000", two_way=True))
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert (run.folder.shim() is not None) == run.folder.path.exists()
        assert bool(await run.alive()) == run.folder.path.exists()


async def test_a_run_is_not_started_twice(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"), two_way=True)
        with pytest.raises(ConflictError, match="started before"):
            await run.start("true")
        assert run.folder.shim() is not None


async def test_no_link_is_followed(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        precious = tmp_path / "precious"
        precious.mkdir()
        run.folder.path.parent.mkdir(parents=True)
        run.folder.path.symlink_to(precious)
        with pytest.raises(ConflictError):
            await run.start("true")
        assert list(precious.iterdir()) == []
        run.folder.path.unlink()


@pytest.mark.parametrize(
    ("number", "want", "want_hint"),
    [
        ("ENOSPC", DiskFullError, "free some space"),
        ("EDQUOT", DiskFullError, "free some space"),
        ("EROFS", StoreError, "read-only"),
        ("EACCES", StoreError, "permissions"),
        ("EMFILE", StoreError, "ulimit"),
    ],
)
def test_errors_of_the_disk_say_what_to_do(number: str, want: type[StoreError], want_hint: str) -> None:
    code = getattr(errno, number)
    error = store_error(OSError(code, "reason"), "write out")
    assert type(error) is want
    assert f"cannot write out: {os.strerror(code)}" in error.message
    assert want_hint in error.hint


def test_a_half_written_number_is_no_number(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for content, want in [(b"", None), (b"12", None), (b"137\n          \n", 137), (b"x\n", None)]:
        folder.file("exit").write_bytes(content)
        assert folder.status() == want


def test_a_broken_record_is_no_record(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for content in ["", "{", "[]", '{"argv": 1}']:
        folder.file("argv.json").write_text(content)
        folder.file("pid.json").write_text(content)
        folder.file("offset").write_text(content)
        assert folder.record() is None
        assert folder.shim() is None
        assert folder.offsets().out == 0


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run-1")
    record = RunRecord(
        argv=("a", "ü\udcff"),
        env=("E",),
        unset=("U*",),
        cwd="/w",
        marker="m",
        fifo="",
        started=datetime.now(UTC),
    )
    folder.create(record)
    assert folder.record() == record
