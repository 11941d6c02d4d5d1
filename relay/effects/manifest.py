"""Manifests: the hashes of files as they lie, so that a later reader can tell whether they still do.

Called when a contract is built and when it is read again. Never follows a link: of a symbolic link the
target's text is hashed, and a path through a linked folder counts as missing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import trio
from attrs import frozen

from relay.effects.gitnames import check_path, path_bytes

_CHUNK = 1 << 20


@frozen(kw_only=True)
class FileHash:
    """One file of a manifest: its path, the SHA-256 of its content in hex, and its size in bytes."""

    path: str
    sha256: str
    size: int


async def manifest(worktree: Path, paths: Iterable[str]) -> tuple[FileHash, ...]:
    """The hashes of those of `paths` that are files; read in a thread.

    Args:
        paths: relative to `worktree`, as `gitnames.path_text` writes them.

    Raises:
        BadNameError: a path leads out of the worktree.
    """
    checked = tuple(check_path(path) for path in paths)
    return await trio.to_thread.run_sync(_manifest, worktree, checked)


async def drift(worktree: Path, expected: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The paths of `expected`, pairs of path and SHA-256, whose files differ now or are missing."""
    pairs = tuple(expected)
    found = {item.path: item.sha256 for item in await manifest(worktree, (path for path, _ in pairs))}
    return tuple(path for path, sha in pairs if found.get(path) != sha)


def _manifest(worktree: Path, paths: tuple[str, ...]) -> tuple[FileHash, ...]:
    root = os.path.realpath(os.fsencode(worktree))
    return tuple(found for path in paths if (found := _hash(root, path)) is not None)


def _hash(root: bytes, path: str) -> FileHash | None:
    full = os.path.join(root, path_bytes(path))  # noqa: PTH118 - bytes: a name need not be text
    folder = os.path.dirname(full)  # noqa: PTH120
    if os.path.realpath(folder) != folder:
        return None
    try:
        if stat.S_ISLNK(os.lstat(full).st_mode):
            target = os.readlink(full)  # noqa: PTH115
            return FileHash(path=path, sha256=hashlib.sha256(target).hexdigest(), size=len(target))
        # Not blocking: a FIFO must not hold us up.
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    digest, size = hashlib.sha256(), 0
    with os.fdopen(fd, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileHash(path=path, sha256=digest.hexdigest(), size=size)
