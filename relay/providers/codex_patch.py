"""Codex's own patch format, as far as it names files. Used by `relay.providers.codex_calls`."""

from __future__ import annotations

import re

from relay.core.paths import normal

BEGIN = "*** Begin Patch"

_FILE = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): ?(.+?)\r?$", re.MULTILINE)
_BEFORE = re.compile(r"^\s*cd\s+(\"[^\"]+\"|'[^']+'|[^\s;&|]+)\s*(?:&&|;)")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


def patched_files(text: str, folder: str = "") -> tuple[str, ...]:
    """The files that a patch adds, changes, deletes and moves, each once, in its order.

    Args:
        text: the patch, or a shell command that holds one ("cd lib && apply_patch <<EOF ...").
        folder: where it is applied; its relative names count from there.
    """
    start = text.find(BEGIN)
    if start < 0:
        return ()
    before = _BEFORE.match(text[:start])
    if before:
        folder = joined(folder, before[1].strip("\"'"))
    return tuple(dict.fromkeys(joined(folder, name.strip()) for name in _FILE.findall(text, start)))


def joined(folder: str, path: str) -> str:
    """`path` seen from `folder`; itself when it is absolute or the folder is not known. "" stays ""."""
    if not folder or not path or _ABSOLUTE.match(path):
        return path
    return normal(f"{folder}/{path}")
