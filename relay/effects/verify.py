"""Acceptance commands: run by the shell in the session's worktree, one after the other, until one fails."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO

import trio

from relay.core.redact import DEFAULT
from relay.core.reports import CommandChecked
from relay.effects.marker import MARKER
from relay.effects.stop import sweep
from relay.errors import StoreError

OUTPUT_TAIL = 6_000


async def run_commands(
    commands: tuple[str, ...], *, cwd: str, timeout: float, marker: str, env: Mapping[str, str]
) -> tuple[CommandChecked, ...]:
    """Run them; the last of the result is the first that failed, if one did.

    Args:
        cwd: the worktree.
        timeout: seconds for each.
        marker: what their processes carry, so that nothing of them is left alive.
        env: the environment to begin with.

    Raises:
        StoreError: the worktree is gone, or the shell can't be started.
    """
    checked: list[CommandChecked] = []
    for command in commands:
        result = await _run(command, cwd=cwd, timeout=timeout, marker=marker, env=env)
        checked.append(result)
        if not result.passed:
            break
    return tuple(checked)


async def _run(
    command: str, *, cwd: str, timeout: float, marker: str, env: Mapping[str, str]
) -> CommandChecked:
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = await trio.lowlevel.open_process(
                ["/bin/sh", "-c", command],
                cwd=cwd,
                env={**env, MARKER: marker, "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                stdout=output.fileno(),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise StoreError(f"cannot run {command!r} in {cwd}: {error.strerror or error}") from error
        try:
            with trio.move_on_after(timeout) as scope:
                await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                await sweep(marker)
                await process.wait()
        return CommandChecked(
            command=command,
            status=process.returncode,
            seconds=time.monotonic() - begun,
            output=DEFAULT.redact(_tail(output)).text,
            timed_out=scope.cancelled_caught,
        )


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT_TAIL))
    text = output.read().decode(errors="replace")
    return f"[...]\n{text}" if size > OUTPUT_TAIL else text
