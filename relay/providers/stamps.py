"""Tells whether the files of a session have changed. Used by the stores' modules where they list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from relay.providers.store_protocol import FileEntry


def stamp_of(entries: Iterable[FileEntry]) -> str:
    """A `Found.stamp` over files: another when one of them was written, replaced, added or removed."""
    told = sorted(f"{e.path}:{e.size}:{e.mtime}:{e.identity[0]}:{e.identity[1]}" for e in entries)
    return hashlib.blake2b("\0".join(told).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
