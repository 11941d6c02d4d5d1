"""The top of the repository that a folder belongs to, without asking git."""

from __future__ import annotations

from pathlib import Path


def repository_root(folder: Path) -> Path:
    """The nearest folder upward that has a `.git`; the folder itself when none has."""
    resolved = folder.resolve()
    for candidate in (resolved, *resolved.parents):
        if (candidate / ".git").exists():
            return candidate
    return resolved
