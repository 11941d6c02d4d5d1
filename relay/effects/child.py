"""Starts an agent's CLI so that it outlives the daemon.

Called by the effects port for `StartChild`. The CLI runs under a few lines of POSIX sh (the shim) in a
session of its own. Nothing ties it to the daemon: it prints into files, reads from a FIFO that a small
process (the holder) keeps open, and its status is put into the run folder by the shim.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psutil
import trio
from attrs import frozen

from relay.effects import processes
from relay.effects.marker import MARKER
from relay.effects.processes import Identity
from relay.effects.spool import RunFolder, RunRecord, store_error, storing
from relay.errors import ConfigError, InternalError, MissingBinaryError, StoreError, UserError
from relay.providers.protocol import LaunchSpec

SHELL = "/bin/sh"
_SHIM_NAME = "relay-run"

SHIM = r"""
_relay_dir=$1 _relay_fifo=$2 _relay_sh=$3 _relay_sleep=$4 _relay_mv=$5
shift 5
exec 3>&1 4>&2 >/dev/null 2>&1
# Caught, not ignored: a signal to the group must not end the shim before the status is written, and
# caught signals are back at their default in the CLI, where ignored ones would stay ignored.
trap : HUP INT QUIT TERM USR1 USR2
if [ -n "$_relay_fifo" ]; then
    # Opened for both ends first: each end alone would wait for the other. The reading end is closed before
    # the holder is forked: one that gets no processor for a while would read on in place of the CLI.
    exec 5<>"$_relay_fifo" 6>"$_relay_fifo" 5>&-
    { trap '' HUP INT QUIT TERM USR1 USR2; exec "$_relay_sleep" 2147483647; } >&6 3>&- 4>&- 6>&- &
    _relay_holder=$!
    echo "$_relay_holder" >"$_relay_dir/holder"
    exec 6>&-
fi
# The CLI's own process opens the FIFO: some shells would keep a redirection of the command open themselves,
# and then a line for a child that no longer reads would seem to arrive.
_relay_start='[ -z "$2" ] || exec <"$2"; echo "$$" >"$1/cli"; shift 2; exec "$@"'
# In the foreground: a background job of such a shell would ignore INT and QUIT.
"$_relay_sh" -c "$_relay_start" relay "$_relay_dir" "$_relay_fifo" "$@" >&3 2>&4 3>&- 4>&-
_relay_status=$?
[ -z "$_relay_fifo" ] || kill -KILL "$_relay_holder"
echo "$_relay_status" 1<>"$_relay_dir/exit.part" && "$_relay_mv" -f "$_relay_dir/exit.part" "$_relay_dir/exit"
"""
"""Arguments: run folder, FIFO or "", sh, sleep, mv, then the CLI's own. Runs under dash, bash and busybox."""


@frozen(kw_only=True)
class ChildStarted:
    """A child that is alive, or was a moment ago.

    Args:
        pid: the shim's, which leads the child's session and process group.
        start_time: when it started (epoch seconds).
        shim: its identity.
    """

    pid: int
    start_time: float
    shim: Identity


def environment(base_env: Mapping[str, str], spec: LaunchSpec, *, marker: str, cwd: str) -> dict[str, str]:
    """The child's environment: `base_env` without what the spec unsets, what it sets, and the marker."""
    prefixes = tuple(name[:-1] for name in spec.unset if name.endswith("*"))
    names = {"OLDPWD", *spec.unset}
    env = {
        name: value
        for name, value in base_env.items()
        if name not in names and not (prefixes and name.startswith(prefixes))
    }
    return {**env, **spec.env, "PWD": cwd, MARKER: marker}


def resolve(program: str, *, path: str, cwd: str) -> str:
    """The absolute path of a program: looked up on `path`, or relative to `cwd` when it names a folder.

    Relative entries of the search path are passed over: they would find a program that a repository brings.

    Raises:
        MissingBinaryError: there is none, or it may not be executed.
    """
    if os.sep in program:
        found = shutil.which(str(Path(cwd, program).absolute()))
        where = "no such program"
    else:
        folders = [folder for folder in path.split(os.pathsep) if Path(folder).is_absolute()]
        found = shutil.which(program, path=os.pathsep.join(folders)) if program and folders else None
        where = "it is not on the PATH"
    if found is None:
        raise MissingBinaryError(
            f"cannot start {program!r}: {where}",
            hint=f"install {Path(program).name or 'it'}, or name the program's path in relay.toml",
        )
    return found


async def start(
    folder: RunFolder,
    spec: LaunchSpec,
    *,
    cwd: str,
    marker: str,
    fifo: Path | None,
    base_env: Mapping[str, str],
    shell: str = SHELL,
) -> ChildStarted:
    """Start a run's child. It is started and on record, or nothing of it is left.

    A cancellation waits until one of both is so.

    Args:
        folder: the run's folder, which must not exist yet.
        spec: how the provider wants its CLI started.
        cwd: the folder it works in, absolute.
        marker: value of `RELAY_RUN`, unique to the run.
        fifo: where the stdin of a two-way child is made; outside the repository.
        base_env: the environment to begin with, the daemon's own.
        shell: a POSIX shell.

    Raises:
        MissingBinaryError: the CLI is not installed.
        UserError: the folder to work in is missing, or the arguments are too long to be passed.
        ConflictError: the run was started before.
        StoreError: the run folder, the FIFO or the process cannot be made.
    """
    processes.require_posix()
    if spec.two_way and fifo is None:
        raise InternalError("a two-way child needs a FIFO")
    launch = partial(_start, folder, spec, cwd, marker, fifo if spec.two_way else None, dict(base_env), shell)
    return await trio.to_thread.run_sync(launch)


async def recover(folder: RunFolder, marker: str) -> Identity | None:
    """The shim of a run that may have been started, also when the daemon ended before it noted the pid.

    Returns:
        its identity, dead or alive. None: none is on record and none is alive (`folder.cli_pid()` tells
        whether one ever was).
    """
    if shim := folder.shim():
        return shim
    return await trio.to_thread.run_sync(_find_shim, folder, marker)


def cli(folder: RunFolder) -> Identity | None:
    """The CLI itself, the shim's child, while it is alive; None also before it has been started."""
    pid, shim = folder.cli_pid(), folder.shim()
    found = processes.look(pid) if pid is not None else None
    if found is None or found.dead:
        return None
    record = folder.record()
    carries = record is not None and found.marker == record.marker
    is_child = shim is not None and found.parent == shim.pid and processes.same(shim)
    return found.who if carries or is_child else None


def _find_shim(folder: RunFolder, marker: str) -> Identity | None:
    for found in processes.scan():
        if found.marker != marker or found.dead or found.session != found.who.pid:
            continue
        with suppress(psutil.Error):
            command = psutil.Process(found.who.pid).cmdline()
            if _SHIM_NAME in command and str(folder.path) in command:
                folder.note_shim(found.who, _created(found.who.pid))
                return found.who
    return None


def _start(
    folder: RunFolder,
    spec: LaunchSpec,
    cwd: str,
    marker: str,
    fifo: Path | None,
    base_env: dict[str, str],
    shell: str,
) -> ChildStarted:
    if not Path(cwd).is_dir():
        raise UserError(
            f"the folder to work in is missing: {cwd}",
            hint="it may have been moved or removed; start a new session",
        )
    env = environment(base_env, spec, marker=marker, cwd=cwd)
    program = resolve(spec.argv[0], path=base_env.get("PATH", os.defpath), cwd=cwd)
    tools = [_tool(name, base_env) for name in ("sleep", "mv")]
    record = RunRecord(
        argv=(program, *spec.argv[1:]),
        env=tuple(sorted(spec.env)),
        unset=spec.unset,
        cwd=cwd,
        marker=marker,
        fifo=str(fifo or ""),
        started=datetime.now(UTC),
    )
    folder.create(record)
    handle = None
    try:
        if fifo is not None:
            _make_fifo(fifo)
        command = [shell, "-c", SHIM, _SHIM_NAME, str(folder.path), record.fifo, shell, *tools]
        command += record.argv
        handle = _launch(folder, command, cwd, env)
        found = processes.look(handle.pid, environ=False)
        if found is None:
            raise InternalError(f"the process {handle.pid} cannot be seen")
        created = _created(handle.pid)
        folder.note_shim(found.who, created)
    except BaseException:
        if handle is not None:
            _undo(handle)
        if fifo is not None:
            with suppress(OSError):
                fifo.unlink()
        with suppress(OSError):
            folder.remove()
        raise
    processes.adopt(handle)
    return ChildStarted(pid=handle.pid, start_time=created, shim=found.who)


def _launch(folder: RunFolder, command: list[str], cwd: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    streams: list[int] = []
    try:
        with storing(f"write to the run folder {folder.path}"):
            streams += [folder.open(name, os.O_WRONLY | os.O_APPEND) for name in ("out", "err")]
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=streams[0],
            stderr=streams[1],
            start_new_session=True,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise UserError(
                "the agent's arguments are too long for the system",
                hint="shorten the task, or put its details into a file and name that",
            ) from error
        raise store_error(error, f"start {command[0]}") from error
    except ValueError as error:
        raise ConfigError(
            f"the agent's arguments cannot be passed on: {error}", hint="remove the NUL or broken characters"
        ) from error
    finally:
        for stream in streams:
            os.close(stream)


def _make_fifo(fifo: Path) -> None:
    with storing(f"make the child's input {fifo}"):
        fifo.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fifo.is_fifo():
            fifo.unlink()
        try:
            os.mkfifo(fifo, 0o600)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise StoreError(
                    f"the file system of {fifo.parent} has no FIFOs",
                    hint="put Relay's state folder on a local disk (XDG_STATE_HOME)",
                ) from error
            raise
        fifo.chmod(0o600)


def _tool(name: str, base_env: Mapping[str, str]) -> str:
    found = shutil.which(name, path=os.defpath) or shutil.which(name, path=base_env.get("PATH"))
    if found is None:
        raise MissingBinaryError(f"the system has no {name!r}", hint="install its basic tools (coreutils)")
    return found


def _created(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return datetime.now(UTC).timestamp()


def _undo(handle: subprocess.Popen[bytes]) -> None:
    # Not reaped yet, so the number is still its own.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(handle.pid, 9)
    handle.wait()
