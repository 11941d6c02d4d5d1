"""Starts grandchildren of the kinds that agents leave behind, prints their pids, then waits.

`parent.py [--end] KIND...`; with --end it does not wait. Kinds, as words joined by "+":
    session     has a session of its own
    stubborn    ignores INT, TERM and HUP
    nameless    its environment is empty
    twice       is forked twice, so that its parent is gone
"""

import os
import signal
import sys


def run_forever(kind: str) -> None:
    if "session" in kind:
        os.setsid()
    if "stubborn" in kind:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    env = {} if "nameless" in kind else dict(os.environ)
    os.execve("/bin/sleep", ["sleep", "1000"], env)


def start(kind: str) -> int:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        if "twice" in kind and (inner := os.fork()):
            os.write(writing, str(inner).encode())
            os._exit(0)
        run_forever(kind)
    os.close(writing)
    if "twice" in kind:
        os.waitpid(pid, 0)
        pid = int(os.read(reading, 20))
    # An exec closes the pipe: from then on the grandchild is what it is meant to be.
    os.read(reading, 1)
    os.close(reading)
    return pid


kinds = [argument for argument in sys.argv[1:] if argument != "--end"]
for kind in kinds:
    print(start(kind), flush=True)
print("all started", flush=True)
if "--end" not in sys.argv:
    signal.pause()
