"""Runs a program for its answer, within a deadline that holds whatever the program starts itself."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from attrs import frozen

SECONDS = 20.0
_KEPT_BYTES = 64 * 1024


@frozen(kw_only=True)
class Answer:
    """What came of it.

    Args:
        status: exit status; below 0 for a signal, and -1 with `err` saying why when there is no answer.
        out, err: what it printed, 64 KiB of each at the most.
    """

    status: int
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """The first line it printed that is not empty, of stderr before stdout; cut at 200 characters."""
        lines = [line.strip() for line in f"{self.err}\n{self.out}".split("\n")]
        return next((line for line in lines if line), "")[:200]


def ask(
    program: str, *words: str, env: Mapping[str, str], cwd: str = "/", seconds: float = SECONDS
) -> Answer:
    """Run it with nothing to read.

    Args:
        program: absolute path.
        cwd: where; not in a repository, so that nothing of one has a say.
    """
    # Files, not pipes: a pipe is open until the last grandchild has gone, and the deadline would not hold.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                [program, *words],
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (OSError, ValueError) as failure:
            return Answer(status=-1, err=str(failure))
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            _end(child)
            return Answer(status=-1, err=f"no answer within {seconds:g} s")
        except BaseException:
            _end(child)
            raise
        return Answer(status=status, out=_text(out), err=_text(err))


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_KEPT_BYTES).decode("utf-8", "replace")
