"""The anchor of an audit log: how long it was and how it ended, signed, and kept outside the repository.

A hash chain alone cannot show that its end was cut off; the anchor can. Written by `relay.store.audit` at
sync points, read by it at a start and by the verifier.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

from attrs import frozen

from relay.core.audit import canonical
from relay.errors import IntegrityError
from relay.store.atomic import OPS, FileOps, dump_versioned, read_versioned, replace

VERSION = 1


@frozen(kw_only=True)
class Anchor:
    """What an audit log held at its last sync point.

    Args:
        path: the log.
        count: its entries.
        head: hash of the last of them.
        size: its bytes up to the end of that entry.
    """

    path: str
    count: int
    head: str
    size: int


def write_anchor(anchor_path: Path, anchor: Anchor, key: bytes, *, ops: FileOps = OPS) -> None:
    """Sign the anchor and replace the file. Raises StoreError, DiskFullError; the old one stays then."""
    values = {
        "path": anchor.path,
        "count": anchor.count,
        "head": anchor.head,
        "size": anchor.size,
        "hmac": _sign(anchor, key),
    }
    # A power cut may bring back the anchor before this one, which the log satisfies as well.
    replace(anchor_path, dump_versioned(values, VERSION), ops=ops, flush_name=False)


def read_anchor(anchor_path: Path, path: Path, key: bytes | None, *, ops: FileOps = OPS) -> Anchor | None:
    """The anchor of the log at `path`, None when there is none.

    Args:
        key: the signing key; None leaves the signature unchecked.

    Raises:
        IntegrityError: its signature is wrong, or it belongs to another log.
        NewerFormatError, StoreError: it cannot be read.
    """
    values = read_versioned(anchor_path, VERSION, ops=ops)
    if values is None:
        return None
    hint = f"to accept the log as it now is, remove {anchor_path}"
    where, count, head, size = (values.get(name) for name in ("path", "count", "head", "size"))
    if not (isinstance(where, str) and type(count) is int and isinstance(head, str) and type(size) is int):
        raise IntegrityError(f"the anchor {anchor_path} is damaged: a field is missing", hint=hint)
    anchor = Anchor(path=where, count=count, head=head, size=size)
    if key is not None and not hmac.compare_digest(_sign(anchor, key), _text(values.get("hmac"))):
        raise IntegrityError(
            f"the anchor {anchor_path} was not signed with this user's key: it was changed, or the key was",
            hint=hint,
        )
    if where != _name(path):
        raise IntegrityError(f"the anchor {anchor_path} belongs to another log: {where!r:.200}", hint=hint)
    return anchor


def anchor_for(path: Path, *, count: int, head: str, size: int) -> Anchor:
    """The anchor of a log of this length and end."""
    return Anchor(path=_name(path), count=count, head=head, size=size)


def _name(path: Path) -> str:
    # File names are bytes; what is no UTF-8 has no canonical JSON.
    return str(path).encode("utf-8", "backslashreplace").decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.isascii() else ""


def _sign(anchor: Anchor, key: bytes) -> str:
    signed = {
        "kind": "relay audit anchor",
        "path": anchor.path,
        "count": anchor.count,
        "head": anchor.head,
        "size": anchor.size,
    }
    try:
        return hmac.new(key, canonical(signed), hashlib.sha256).hexdigest()
    except ValueError:
        return ""
