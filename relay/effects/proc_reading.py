"""Reads files of /proc. Used by `relay.effects.processes` and `relay.effects.own_processes`."""

from __future__ import annotations

import os


def whole(path: str) -> bytes:
    """All of a file that tells no size.

    Read so often that the layers of a file object would be what it costs.

    Raises:
        OSError: it is gone with its process, or not for us.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(handle, 64 * 1024):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(handle)
