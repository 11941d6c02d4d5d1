"""Finds the files of a store by a pattern: folders are listed once, and only what matches is looked at.

Used by `relay.effects.store_files`. In place of `Path.glob`, of which a list of many sessions was half the
time.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from relay.providers.store_protocol import FileEntry

_WILD = frozenset("*?[")


def files_below(home: str, pattern: str) -> Iterator[FileEntry]:
    """See `StoreFiles.glob`. A folder that vanished or can't be listed holds nothing for us."""
    root = str(Path(home))
    for path in _paths(root, pattern.split("/")):
        if entry := _file(path, root):
            yield entry


def entry_of(path: str, found: os.stat_result) -> FileEntry | None:
    """What is told of a file; None when it is not a regular one."""
    if not stat.S_ISREG(found.st_mode):
        return None
    return FileEntry(
        path=path, size=found.st_size, mtime=found.st_mtime, identity=(found.st_dev, found.st_ino)
    )


def _paths(folder: str, parts: list[str]) -> Iterator[str]:
    """What may be there: names without a wildcard are not looked up."""
    first, *rest = parts
    if _WILD.isdisjoint(first):
        path = os.path.join(folder, first)  # noqa: PTH118
        yield from _paths(path, rest) if rest else (path,)
        return
    try:
        with os.scandir(folder) as listing:
            entries = {entry.name: entry for entry in listing}
    except (OSError, ValueError):
        return
    for name in fnmatch.filter(entries, first):
        if not rest:
            yield entries[name].path
        elif _is_folder(entries[name]):
            yield from _paths(entries[name].path, rest)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _file(path: str, root: str) -> FileEntry | None:
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            if not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
                return None
            found = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return entry_of(path, found)
