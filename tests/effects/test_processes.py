from __future__ import annotations

import os
import subprocess
import sys

import pytest

from relay.effects import processes
from relay.effects.marker import MARKER
from relay.errors import UserError

READS = ["/bin/sh", "-c", "read line"]


@pytest.mark.skipif(os.name != "posix", reason="no children yet")
def test_a_child_is_known_by_its_marker_from_its_first_instant() -> None:
    # For a moment after it began its program the kernel tells of no environment; one in ten was met there.
    known = set()
    for number in range(300):
        marker = f"run-{number}"
        with subprocess.Popen(READS, env={MARKER: marker}, stdin=subprocess.PIPE) as child:
            found = processes.look(child.pid)
            child.communicate()
        known.add(found is not None and found.marker == marker)

    assert known == {True}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells it")
def test_processes_without_an_environment_carry_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    with subprocess.Popen(["/bin/cat"], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"begun\n")
        child.stdin.flush()
        child.stdout.readline()
        monkeypatch.setattr("relay.effects.processes.time.sleep", waits.append)
        found = processes.look(child.pid)
        child.communicate()

    assert found is not None
    assert (found.marker, waits) == ("", [])


def test_no_agent_is_run_on_windows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        with pytest.raises(UserError) as refused:
            processes.require_posix()

    assert "Windows Subsystem for Linux" in refused.value.hint
