"""Starts daemons cheaply: imports Relay once and forks for each, so that hundreds of kills fit into a test.

A line of JSON in ({"env", "cwd", "log"}), the daemon's pid out. Each is a process of its own, which runs
what `relay daemon run --port 0` runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback

from relay import daemon


def serve() -> None:
    # Reaped by the kernel: a daemon that was killed is gone, not a zombie.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become_daemon(asked)
        print(pid, flush=True)


def become_daemon(asked: dict[str, object]) -> None:
    status = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        if sys.platform == "linux":
            # prctl(2), PR_SET_PDEATHSIG: a test that failed or was killed leaves no daemon.
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(str(asked["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(asked["env"])  # type: ignore[arg-type]
        os.chdir(str(asked["cwd"]))
        status = daemon.run(0, quiet=True)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve()
