"""File names as agents write them, told apart by whether they lie in a worktree.

Pure text: nothing is looked up on a disk, and nothing here decides what may be opened.
"""

from __future__ import annotations

import ntpath
import posixpath
import re

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def normal(path: str) -> str:
    """`path` without "." and ".." parts and doubled slashes; a Windows path with forward slashes."""
    if not path:
        return ""
    if _DRIVE.match(path):
        return ntpath.normpath(path).replace("\\", "/")
    return posixpath.normpath(path)


def is_absolute(path: str) -> bool:
    """The path begins at the top of a file system, or with a drive or a share of Windows."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def inside(path: str, root: str) -> str | None:
    """`path` from the folder `root`, or None when it lies elsewhere or is `root` itself.

    Args:
        path: absolute, or relative to `root`.
        root: as `normal` writes it; "" when there is none: then only relative paths lie inside.
    """
    full = normal(path)
    if not is_absolute(full):
        return None if full in ("", ".", "..") or full.startswith(("../", "~")) else full
    for base in (root, *_aliases(root)):
        if base and full.startswith(base.rstrip("/") + "/"):
            return full[len(base.rstrip("/")) + 1 :]
    return None


def _aliases(root: str) -> tuple[str, ...]:
    # macOS keeps /tmp, /var and /etc under /private, and agents print either name.
    if root.startswith("/private/"):
        return (root[len("/private") :],)
    return (f"/private{root}",) if root.startswith(("/tmp/", "/var/", "/etc/")) else ()
