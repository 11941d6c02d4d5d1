"""Manifests: the hashes of files as they lie, so that a later reader can tell whether they still do.

Called when a contract is built and when it is read again. Never follows a link: of a symbolic link the
target's text is hashed, and a path through a linked folder counts as missing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import trio
from attrs import frozen

from relay.effects.gitnames import check_path, path_bytes

_CHUNK = 1 << 20


@frozen(kw_only=True)
class FileHash:
    """One file of a manifest; `sha256` is "" and `size` (bytes) 0 for a path that is not there."""

    path: str
    sha256: str
    size: int


async def manifest(worktree: Path, paths: tuple[str, ...]) -> tuple[FileHash, ...]:
    """The hashes of `paths`, relative to `worktree` and as `gitnames.path_text` writes them; in a thread.

    Raises:
        BadNameError: a path leads out of the worktree.
    """
    for path in paths:
        check_path(path)
    return await trio.to_thread.run_sync(_manifest, worktree, paths)


async def drift(worktree: Path, expected: tuple[FileHash, ...]) -> tuple[str, ...]:
    """The paths of `expected` whose files differ now, are missing, or are there although they were not."""
    found = await manifest(worktree, tuple(entry.path for entry in expected))
    return tuple(was.path for was, now in zip(expected, found, strict=True) if was != now)


def _manifest(worktree: Path, paths: tuple[str, ...]) -> tuple[FileHash, ...]:
    root = os.path.realpath(os.fsencode(worktree))
    return tuple(_hash(root, path) for path in paths)


def _hash(root: bytes, path: str) -> FileHash:
    missing = FileHash(path=path, sha256="", size=0)
    full = os.path.join(root, path_bytes(path))  # noqa: PTH118 - bytes: a name need not be text
    folder = os.path.dirname(full)  # noqa: PTH120
    if os.path.realpath(folder) != folder:
        return missing
    try:
        if stat.S_ISLNK(os.lstat(full).st_mode):
            target = os.readlink(full)  # noqa: PTH115
            return FileHash(path=path, sha256=hashlib.sha256(target).hexdigest(), size=len(target))
        # Not blocking: a FIFO must not hold us up.
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return missing
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return missing
        digest, size = hashlib.sha256(), 0
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileHash(path=path, sha256=digest.hexdigest(), size=size)
