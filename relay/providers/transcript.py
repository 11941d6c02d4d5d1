"""The common ground of stores whose sessions are files that grow: lines are read once, from where it stopped.

Subclassed by the stores' modules in this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.store_protocol import FileEntry, Found, StoreFiles

_TRIES = 200
"""At how many places of a damaged line a whole record is looked for."""


class LineTranscript(ABC):
    """A session in one or more files of JSON lines.

    A last line without a newline is taken as soon as it is whole JSON, and read again later when it is not.
    A file that shrank or was replaced is read anew from the start, into a new lift.
    """

    def __init__(self, files: StoreFiles, found: Found, depth: Depth) -> None:
        self.files = files
        self.found = found
        self.depth = depth
        self._offsets: dict[str, int] = {}
        self._identities: dict[str, tuple[int, int]] = {}
        self._torn: set[str] = set()
        self.lift = self._fresh()

    def read(self) -> Lift:
        """See `Transcript`."""
        entries = [entry for path in self.found.paths if (entry := self.files.entry(path))]
        if any(self._replaced(entry) for entry in entries):
            self._offsets.clear()
            self._torn.clear()
            self.lift = self._fresh()
        for entry in entries:
            self._identities[entry.path] = entry.identity
            if entry.size > self._offsets.get(entry.path, 0):
                self._read(entry.path)
        self.lift.bytes_read = sum(self._offsets.values())
        self.lift.torn = len(self._torn)
        self.finish()
        return self.lift

    @abstractmethod
    def begin(self) -> None:
        """Forget everything read so far: a new `self.lift` begins."""

    @abstractmethod
    def take(self, line: bytes) -> None:
        """Take one whole line, not empty. What cannot be understood is counted with `self.lift.skip`."""

    def take_block(self, data: bytes) -> None:
        """Take whole lines with line ends between them; a store that skims them does it here."""
        for line in data.split(b"\n"):
            self.take_line(line)

    def take_line(self, line: bytes) -> None:
        """Take one line that may be empty, or have the rest of a line end."""
        line = line[:-1] if line.endswith(b"\r") else line
        if line:
            self.take(line)

    def finish(self) -> None:  # noqa: B027  (most stores have nothing to do here)
        """All there is has been read by now; called after each reading."""

    def parsed(self, line: bytes) -> Mapping[str, Any] | None:
        """The line as a JSON object; None when it is none. Damage is counted as "malformed" or "nul".

        A whole record that was written behind a torn one, on the same line, is found.
        """
        return record_in(self.lift, line)

    def _fresh(self) -> Lift:
        found = self.found
        self.lift = Lift(
            store=found.store,
            home=found.home,
            native_id=found.native_id,
            path=found.paths[0] if found.paths else "",
            depth=self.depth,
        )
        self.begin()
        return self.lift

    def _replaced(self, entry: FileEntry) -> bool:
        before = self._identities.get(entry.path, entry.identity)
        return entry.identity != before or entry.size < self._offsets.get(entry.path, 0)

    def _read(self, path: str) -> None:
        for block in self.files.blocks(path, self._offsets.get(path, 0)):
            if block.cut:
                self.lift.skip("oversize")
            elif block.ended:
                self.take_block(block.data)
            elif shapes.record(block.data.removesuffix(b"\r")) is None:
                self._torn.add(path)
                return
            else:
                self.take_line(block.data)
            self._offsets[path] = block.end
        self._torn.discard(path)


def record_in(lift: Lift, line: bytes) -> Mapping[str, Any] | None:
    """The line as a JSON object, as `LineTranscript.parsed` gives it."""
    value = shapes.record(line)
    if value is not None:
        return value
    if b"\0" in line:
        lift.skip("nul")
        line = line.replace(b"\0", b"")
        value = shapes.record(line) if line.strip() else None
        if value is not None or not line.strip():
            return value
    lift.skip("malformed")
    return _behind_a_torn_one(line)


def _behind_a_torn_one(line: bytes) -> Mapping[str, Any] | None:
    start = 0
    for _ in range(_TRIES):
        start = line.find(b'{"', start + 1)
        if start < 0:
            return None
        # What is nested in a damaged record has closing braces too many, so only a whole one is taken.
        found = shapes.record(line[start:])
        if found is not None:
            return found
    return None
