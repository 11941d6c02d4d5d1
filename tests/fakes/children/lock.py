"""Takes the daemon's lock at a word on stdin, says whether it got it, and holds it until stdin ends."""

from __future__ import annotations

import sys
from pathlib import Path

from relay.errors import ConflictError
from relay.store.lock import DaemonLock

print("ready", flush=True)
sys.stdin.readline()
try:
    lock = DaemonLock.acquire(Path(sys.argv[1]), started="2026-06-03")
except ConflictError as error:
    print(f"refused {error.message} {error.hint}", flush=True)
else:
    print("won", flush=True)
sys.stdin.read()
