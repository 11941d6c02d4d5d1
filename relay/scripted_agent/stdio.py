"""The agent's side of its line protocol: JSON objects, one a line, both ways.

In: {"type": "user", "text", "key"}, {"type": "interrupt"}, {"type": "answer", "id", "allowed", "note"}.
Out: records with a "type"; `relay.providers.scripted` maps them to events.
"""

from __future__ import annotations

import json
import os
import threading
from queue import Empty, SimpleQueue
from typing import Any

_PIECE = 65536


class Inbox:
    """What comes in on a file descriptor, in order, read by a thread so that waiting can be cut short."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._queue: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def get(self, timeout: float | None) -> dict[str, Any] | None:
        """The next message; None, once, at the end of input.

        Args:
            timeout: seconds; None waits for as long as it takes.

        Raises:
            TimeoutError: nothing came in time.
        """
        try:
            # A lock cannot wait for longer than threading.TIMEOUT_MAX.
            return self._queue.get(timeout=None if timeout is None else min(max(timeout, 0.0), 1e6))
        except Empty:
            raise TimeoutError from None

    def _read(self) -> None:
        rest = b""
        # os.read: a buffered reader's lock, held by this thread, would break the interpreter's end.
        while piece := os.read(self._descriptor, _PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._put(line)
        self._put(rest)
        self._queue.put(None)

    def _put(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            message = {"type": "nonsense", "text": line.decode("utf-8", "replace")}
        self._queue.put(message)


class Outlet:
    """Where records go: a file descriptor, written through at once."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor

    def record(self, record_type: str, **fields: Any) -> None:
        """Write one record; fields that are None are left out."""
        kept = {key: value for key, value in fields.items() if value is not None}
        self.raw(json.dumps({"type": record_type, **kept}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
