"""A session's fsm.json, with the version before it kept as fsm.json.prev.

Saved before a state is entered, loaded at a restart. A file that a power cut left damaged is answered from
the one before, and the caller is told so; a session's state is never taken for fresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from relay.errors import NewerFormatError, NotFoundError, StoreError
from relay.store.atomic import OPS, FileOps, dump_versioned, parse_versioned, read, replace


@frozen(kw_only=True)
class Loaded:
    """A state that was read.

    Args:
        values: the JSON object, "version" included.
        fallback: why the previous state was taken instead of the current one; "" when it was not.
    """

    values: dict[str, Any]
    fallback: str = ""


def previous(path: Path) -> Path:
    """Where the state before the current one lies."""
    return path.with_name(path.name + ".prev")


def save(path: Path, values: Mapping[str, Any], version: int, *, ops: FileOps = OPS) -> None:
    """Replace the state; the one that was there becomes the previous one, unless it is damaged.

    Raises:
        NewerFormatError: the file was written by a newer version; it is left alone.
        DiskFullError, StoreError: it could not be written; the old state is there still.
    """
    keep: Path | None = None
    data = read(path, ops=ops)
    if data is not None:
        try:
            parse_versioned(data, path, version)
        except NewerFormatError:
            raise
        except StoreError:
            pass
        else:
            keep = previous(path)
    replace(path, dump_versioned(values, version), keep=keep, ops=ops)


def load(path: Path, newest: int, *, ops: FileOps = OPS) -> Loaded:
    """Read the state, or the previous one when the current is missing or damaged.

    Args:
        newest: the newest version of the format that the caller understands.

    Raises:
        NotFoundError: there is neither.
        NewerFormatError: it was written by a newer version.
        StoreError: neither can be used, the message names both; or one cannot be read at all.
    """
    data = read(path, ops=ops)
    why = f"{path} is missing"
    if data is not None:
        try:
            return Loaded(values=parse_versioned(data, path, newest))
        except NewerFormatError:
            raise
        except StoreError as error:
            why = error.message
    before = previous(path)
    older = read(before, ops=ops)
    if older is not None:
        try:
            values = parse_versioned(older, before, newest)
        except NewerFormatError:
            raise
        except StoreError as error:
            raise StoreError(f"{why}; and {error.message}", hint="put back a copy of either") from error
        return Loaded(values=values, fallback=f"{why}; the state before it was taken")
    if data is None:
        raise NotFoundError(f"no session state at {path}")
    raise StoreError(f"{why}; and there is no {before.name}", hint="put back a copy of either")
