"""The first look at this user's processes tells what psutil tells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from relay.effects.own_processes import _arguments, own_processes
from relay.providers.store_protocol import RunningProcess

ARGUMENTS = ((), ("", "two words", "", "\udcff"), ("--last=",), (" ",))


@pytest.fixture(params=ARGUMENTS, ids=repr)
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *request.param], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.communicate(timeout=10)


def seen(pid: int) -> RunningProcess | None:
    return next((process for process in own_processes() if process.pid == pid), None)


def test_name_and_arguments(child: subprocess.Popen[bytes]) -> None:
    told = psutil.Process(child.pid)
    process = seen(child.pid)

    assert process is not None
    assert (told.name(), told.cmdline()) == (process.name, list(process.argv))


@pytest.mark.parametrize(
    ("told", "want"),
    [
        (b"", ()),
        (b"cli\0--one\0", ("cli", "--one")),
        (b"cli", ("cli",)),
        (b"cli --with  spaces", ("cli", "--with", "", "spaces")),
        (b"cli --renamed\0", ("cli", "--renamed")),
        (b"cli\0\0\0", ("cli", "", "")),
    ],
)
def test_a_program_may_write_over_its_arguments(told: bytes, want: tuple[str, ...]) -> None:
    assert want == _arguments(told)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs a zombie that is not reaped")
def test_one_that_has_ended_is_not_told() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

    assert seen(ended.pid) is None
    ended.wait(timeout=10)
