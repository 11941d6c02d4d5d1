"""Stands for the daemon: starts a child as Relay does, tells its pid, and then only waits to be killed.

`daemon.py <run folder> <FIFO> <marker> <program> <argument>...`
"""

import os
import sys
from pathlib import Path

import trio

from relay.effects import child
from relay.effects.spool import RunFolder
from relay.providers.protocol import LaunchSpec


async def main() -> None:
    folder, fifo, marker, *argv = sys.argv[1:]
    spec = LaunchSpec(argv=tuple(argv))
    started = await child.start(
        RunFolder(Path(folder)),
        spec,
        cwd=str(Path.cwd()),
        marker=marker,
        fifo=Path(fifo),
        base_env=os.environ,
    )
    print(started.pid, flush=True)
    await trio.sleep_forever()


trio.run(main)
