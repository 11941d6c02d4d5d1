"""Names that reach git: checked by shape first, and one way to write any file name as text.

Owns the shape of session ids, commit ids, branch names and repository paths, and the names of the refs
that belong to a session. Called by every module here that talks to git, and by the API before it asks.
"""

from __future__ import annotations

import re

from relay.errors import ConfigError, UserError

_SID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SHA = re.compile(r"[0-9a-f]{7,64}")
_BRANCH_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$|^@$")
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


class BadNameError(UserError):
    """A commit id, branch, path or session id that does not look like one."""

    code = "bad_name"


def check_sid(text: str) -> str:
    """Return `text` if it is a session id: 1 to 64 of A-Z a-z 0-9 _ -, not starting with a dash.

    Raises:
        BadNameError: it is not.
    """
    if not _SID.fullmatch(text):
        raise BadNameError(
            f"session id {_short(text)} is not one", hint="`relay status` lists the sessions with their ids."
        )
    return text


def check_sha(text: str) -> str:
    """Return `text` if it has the shape of a commit id: 7 to 64 lower-case hex digits.

    Raises:
        BadNameError: it has not.
    """
    if not _SHA.fullmatch(text):
        raise BadNameError(
            f"commit id {_short(text)} is not 7 to 64 hex digits", hint="`relay history` lists the commits."
        )
    return text


def check_branch(text: str) -> str:
    """Return `text` if git would take it as a branch name (rules of `git check-ref-format`, git 2.39).

    Raises:
        BadNameError: it would not.
    """
    if not text or len(text) > 200 or _BRANCH_BAD.search(text):
        raise BadNameError(
            f"branch name {_short(text)} is not one that git takes",
            hint="Use letters, digits, '-', '_' and '/'; do not start with a dash.",
        )
    return text


def check_path(text: str) -> str:
    """Return `text`, written as by `path_text`, if it is a relative path without "." and ".." parts and NUL.

    Raises:
        BadNameError: it is not.
    """
    raw = path_bytes(text)
    parts = raw.split(b"/")
    if b"\0" in raw or any(part in (b"", b".", b"..") for part in parts) or parts[0].lower() == b".git":
        raise BadNameError(
            f"path {_short(text)} is not one inside the repository",
            hint="Give it relative to the repository's root, without '..'.",
        )
    return text


def check_limit_mb(value: float | None) -> int | None:
    """The size limit in bytes of `value` megabytes (2**20), None for none.

    Raises:
        ConfigError: it is not above zero.
    """
    if value is None:
        return None
    if not value > 0:
        raise ConfigError(
            f"snapshot_max_file_mb is {value}; it must be above 0", hint="Leave it out for no limit."
        )
    return int(value * 1024 * 1024)


def session_branch(sid: str) -> str:
    """The branch of session `sid`, without refs/heads/."""
    return f"relay/{check_sid(sid)}"


def session_ref(sid: str, name: str | int) -> str:
    """A ref of session `sid`: a snapshot's number, or "base", "carried", "creating", "discarded"."""
    return f"refs/relay/{check_sid(sid)}/{name}"


def path_text(raw: bytes) -> str:
    r"""A file name as text that survives JSON and turns back into the same bytes.

    A name in valid UTF-8 stands as it is; any other, and one that begins with a double quote, is written
    the way git quotes names: `"caf\351.txt"`.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = '"'
    if not text.startswith('"'):
        return text
    body = "".join(chr(b) if 0x20 <= b < 0x7F and b not in (0x22, 0x5C) else f"\\{b:03o}" for b in raw)
    return f'"{body}"'


def path_bytes(text: str) -> bytes:
    """The file name that `path_text` wrote as `text`."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _OCTAL.sub(lambda m: bytes([int(m[1], 8)]), text[1:-1].encode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def names(paths: tuple[str, ...] | list[str], limit: int = 8) -> str:
    """Paths for a message: the first `limit`, control characters escaped, then how many more."""
    shown = ", ".join(_short(p) if not p.isprintable() else p for p in paths[:limit])
    return shown + (f" and {len(paths) - limit} more" if len(paths) > limit else "")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
