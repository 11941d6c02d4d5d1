"""Asking a program: its answer, and a deadline that what it started can't stretch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from relay.doctor.ask import ask

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(script: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ASKED_BY") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_an_answer(program: Callable[[str], str]) -> None:
    answer = ask(program("echo one; echo two >&2; exit 3"), env=ENV)

    assert (answer.status, answer.out, answer.err, answer.said) == (3, "one\n", "two\n", "two")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert ask(str(tmp_path / "none"), env=ENV).status == -1


def test_it_has_ended_although_something_it_started_holds_its_output(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    mark = str(tmp_path)
    try:
        answer = ask(program("sleep 600 & echo 1.2.3"), env={**ENV, "ASKED_BY": mark})
        assert (answer.status, answer.out) == (0, "1.2.3\n")
    finally:
        for process in marked(mark):
            process.kill()


def test_past_the_deadline_nothing_of_it_is_left(program: Callable[[str], str], tmp_path: Path) -> None:
    mark = str(tmp_path)

    answer = ask(program("sleep 600 & sleep 600"), env={**ENV, "ASKED_BY": mark}, seconds=0.3)

    assert (answer.status, answer.err) == (-1, "no answer within 0.3 s")
    psutil.wait_procs(marked(mark), timeout=10)
    assert marked(mark) == []
