"""Rewrites what a run printed in redacted form, once the run has ended.

Called by the effects port after `EndChild`. Afterwards the run is sealed: offsets and places in its files no
longer hold, and it is not followed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import trio

from relay.core.framing import LINE_LIMIT, Line, LineFramer
from relay.effects.spool import Offsets, RunFolder, storing

_TURN = 256 * 1024


async def redact_files(folder: RunFolder, redact: Callable[[str], str], *, limit: int = LINE_LIMIT) -> None:
    """Rewrite `out`, `err` and the arguments in `argv.json` through `redact`, one line at a time.

    The number of lines stays. Bytes that are no UTF-8 come to `redact` as lone surrogates and stay what they
    are. Idempotent; a crash midway leaves each file either whole or rewritten, and the folder marked as
    sealed but not redacted. Runs in a thread, which a cancellation ends; memory is bounded by the longest
    line.

    Args:
        folder: a run that has ended.
        redact: takes a line without its newline and returns what may be kept of it.
        limit: bytes of a line that are kept; the rest of a longer one is dropped.

    Raises:
        DiskFullError: there is no room for the new file; the old one stays.
        StoreError: a file cannot be read or written.
    """
    await trio.to_thread.run_sync(_redact_files, folder, redact, limit)


def _redact_files(folder: RunFolder, redact: Callable[[str], str], limit: int) -> None:
    at = folder.offsets()
    if at.redacted:
        return
    folder.note_offsets(Offsets(out=at.out, err=at.err, sealed=True))
    for name in ("out", "err"):
        if folder.file(name).exists():
            with storing(f"rewrite {folder.file(name)} in redacted form"):
                folder.rewrite(name, _Rewriter(folder, name, redact, limit).fill)
    _redact_arguments(folder, redact)
    folder.note_offsets(Offsets(out=at.out, err=at.err, sealed=True, redacted=True))


def _redact_arguments(folder: RunFolder, redact: Callable[[str], str]) -> None:
    try:
        data = json.loads(folder.read("argv.json"))
        data["argv"] = [redact(argument) for argument in data["argv"]]
    except (ValueError, TypeError, KeyError):
        return
    with storing(f"rewrite {folder.file('argv.json')} in redacted form"):
        folder.rewrite("argv.json", lambda handle: _write(handle, json.dumps(data).encode() + b"\n"))


class _Rewriter:
    def __init__(self, folder: RunFolder, name: str, redact: Callable[[str], str], limit: int) -> None:
        self._folder, self._name, self._redact, self._limit = folder, name, redact, limit

    def fill(self, handle: int) -> None:
        framer = LineFramer(limit=self._limit)
        source = self._folder.open(self._name, os.O_RDONLY)
        try:
            while data := os.read(source, _TURN):
                # A gigabyte takes minutes; the daemon's end does not wait for it, and the next begins anew.
                trio.from_thread.check_cancelled()
                lines = framer.feed(data)
                _write(handle, b"".join(self._redacted(line) + b"\n" for line in lines))
            if last := framer.close():
                _write(handle, self._redacted(last))
        finally:
            os.close(source)

    def _redacted(self, line: Line) -> bytes:
        text = self._redact(line.data.decode("utf-8", "surrogateescape"))
        return text.encode("utf-8", "surrogateescape").replace(b"\n", b" ")


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
