"""The signing key and the token: made once, for the user alone, and refused when others can read them.

Called by the daemon at its start and by local clients. A signature made with the key says that Relay wrote
the file; an agent of the same user can read the key, so it says no more than that.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from pathlib import Path

from relay.errors import IntegrityError, NotAllowedError
from relay.store.atomic import OPS, FileOps, create, read, store_error

KEY_BYTES = 32
_TOKEN = re.compile(rb"[0-9A-Za-z_-]{43}\n?")


def load_or_make_signing_key(path: Path, *, ops: FileOps = OPS) -> bytes:
    """The 32 bytes that contracts and anchors are signed with.

    Raises:
        NotAllowedError: others may read or write the file, or it is another user's.
        IntegrityError: it does not hold 32 bytes.
        StoreError: it cannot be read or made.
    """
    key = _load_or_make(path, secrets.token_bytes(KEY_BYTES), ops)
    if len(key) != KEY_BYTES:
        raise IntegrityError(
            f"{path} is no signing key: it holds {len(key)} bytes, not {KEY_BYTES}",
            hint="put back a copy of it, or remove it: Relay makes a new one, and what was signed with the"
            " old one is then refused",
        )
    return key


def load_or_make_token(path: Path, *, ops: FileOps = OPS) -> str:
    """The token of local clients: 256 bits as 43 characters that a URL can hold.

    Raises:
        NotAllowedError: others may read or write the file, or it is another user's.
        IntegrityError: it holds no token.
        StoreError: it cannot be read or made.
    """
    data = _load_or_make(path, secrets.token_urlsafe(32).encode() + b"\n", ops)
    if not _TOKEN.fullmatch(data):
        raise IntegrityError(
            f"{path} holds no token",
            hint="remove it: Relay makes a new one, which browsers have to be given anew",
        )
    return data.strip().decode()


def token_hash(token: str) -> str:
    """What is kept of a token where it is only compared: its SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _load_or_make(path: Path, fresh: bytes, ops: FileOps) -> bytes:
    data = _load(path, ops)
    if data is None:
        create(path, fresh, 0o600, ops=ops)
        data = _load(path, ops)
    if data is None:
        raise IntegrityError(f"{path} was removed while it was made", hint="try again")
    return data


def _load(path: Path, ops: FileOps) -> bytes | None:
    try:
        facts = ops.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, f"look at {path}") from error
    mode = stat.S_IMODE(facts.st_mode)
    if stat.S_ISREG(facts.st_mode) and os.name != "nt":
        if facts.st_uid != os.geteuid():
            raise NotAllowedError(
                f"{path} belongs to another user (uid {facts.st_uid})", hint="run Relay as that user"
            )
        if mode & 0o077:
            raise NotAllowedError(
                f"{path} can be read or changed by others (mode {mode:04o})",
                hint=f"run: chmod 600 {path} - or remove it for a new one, if others may have seen it",
            )
    return read(path, ops=ops, limit=4096)
