"""Files that are replaced whole or not at all, and read without following a link.

Everything in `relay.store` that writes goes through `FileOps`, so that a test can make any single
step fail. Called by the other modules of the store and by the effects that keep small files.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from relay.errors import DiskFullError, NewerFormatError, StoreError

MAX_FILE = 64 * 1024 * 1024
"""Bytes; a state file larger than this is refused unread."""

_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What `os.link` fails with where the file system knows no hard links."""
_HINTS = {
    errno.EACCES: "check the owner and the permissions of the file and its folder",
    errno.EPERM: "check the owner and the permissions of the file and its folder",
    errno.EROFS: "the file system is mounted read-only: make it writable",
    errno.ELOOP: "it is a symbolic link, which Relay does not follow here: remove the link",
    errno.ENOENT: "the folder is missing: create it, or run `relay init`",
    errno.EISDIR: "a folder stands where the file belongs: move it away",
    errno.ENOTDIR: "a file stands where a folder belongs: move it away",
    errno.EIO: "the disk reports an error: check it, then try again",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: close some programs, then try again",
}
_ELSE = "look at the file and its folder, then try again"


class FileOps:
    """The calls on the operating system that the store makes; a test hands in one that fails."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """Open without following a link and without leaving the file to child processes."""
        return os.open(path, flags | _ALWAYS, mode)

    def close(self, fd: int) -> None:
        """Close."""
        os.close(fd)

    def write(self, fd: int, data: memoryview) -> int:
        """Write some of the bytes; says how many."""
        return os.write(fd, data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read up to `size` bytes at an offset."""
        return os.pread(fd, size, offset)

    def fsync(self, fd: int) -> None:
        """Flush a file or folder to the disk."""
        os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """Flush a file's bytes and size to the disk."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def fstat(self, fd: int) -> os.stat_result:
        """Facts of an open file."""
        return os.fstat(fd)

    def lstat(self, path: Path) -> os.stat_result:
        """Facts of a path, of the link itself if it is one."""
        return path.lstat()

    def fchmod(self, fd: int, mode: int) -> None:
        """Set the permissions, whatever the umask."""
        os.fchmod(fd, mode)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file."""
        os.ftruncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        """Rename over whatever has the new name."""
        old.replace(new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name, which must be free."""
        new.hardlink_to(old)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        path.unlink()


OPS = FileOps()


def store_error(error: OSError, doing: str) -> StoreError:
    """The error of the tree for a failed call.

    Args:
        doing: following on "cannot ", with the file: "write /x/fsm.json".
    """
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _NO_SPACE:
        return DiskFullError(
            f"cannot {doing}: {why}", hint="free some space on that disk (or raise the quota), then try again"
        )
    return StoreError(f"cannot {doing}: {why}", hint=_HINTS.get(error.errno or 0, _ELSE))


def write_all(fd: int, data: bytes, ops: FileOps = OPS) -> None:
    """Write every byte, however few the system takes at a time. Raises OSError."""
    left = memoryview(data)
    while left:
        written = ops.write(fd, left)
        if written <= 0:
            raise OSError(errno.EIO, "the file takes no bytes")
        left = left[written:]


def sync_folder(folder: Path, ops: FileOps = OPS) -> None:
    """Make names that were made or changed in a folder last. Raises OSError."""
    if os.name == "nt":
        return
    fd = ops.open(folder, os.O_RDONLY)
    try:
        ops.fsync(fd)
    except OSError as error:
        # Some network file systems cannot flush a folder, and need not.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        ops.close(fd)


def replace(
    path: Path, data: bytes, mode: int = 0o600, *, ops: FileOps = OPS, keep: Path | None = None,
    flush_name: bool = True,
) -> None:  # fmt: skip
    """Put a whole new file in the place of `path`, or leave the old one as it is.

    Args:
        mode: the permissions, whatever the umask.
        keep: a path in the same folder that gets the old content; passed over when there is none.
        flush_name: False leaves out flushing the folder: after a power cut it may be the old file again.

    Raises:
        DiskFullError: no space; the old file is there still.
        StoreError: another failure; the old file is there still, unless only flushing the folder failed.
    """
    temp = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        _write_new(temp, data, mode, ops)
        try:
            if keep is not None:
                _keep(path, keep, ops)
            ops.rename(temp, path)
        except BaseException:
            _remove(temp, ops)
            raise
        if flush_name:
            sync_folder(path.parent, ops)
    except OSError as error:
        raise store_error(error, f"write {path}") from error


def create(path: Path, data: bytes, mode: int = 0o600, *, ops: FileOps = OPS) -> bool:
    """Make a file unless there is one; nobody ever sees it half written.

    Returns:
        False when something has that name already.

    Raises:
        StoreError: it could not be made; nothing is left of it.
    """
    temp = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        _write_new(temp, data, mode, ops)
        try:
            ops.link(temp, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            try:
                _write_new(path, data, mode, ops)
            except FileExistsError:
                return False
        finally:
            _remove(temp, ops)
        sync_folder(path.parent, ops)
    except OSError as error:
        raise store_error(error, f"write {path}") from error
    return True


def read(path: Path, *, ops: FileOps = OPS, limit: int = MAX_FILE) -> bytes | None:
    """The content of a regular file, None when there is none.

    Raises:
        StoreError: it is a link, no regular file, larger than `limit` bytes, or cannot be read.
    """
    try:
        # Without O_NONBLOCK a FIFO that was planted here would hold the reader for ever.
        fd = ops.open(path, os.O_RDONLY | _NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, f"read {path}") from error
    try:
        facts = ops.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise StoreError(f"{path} is not a regular file", hint="move it away; Relay makes it anew")
        if facts.st_size > limit:
            raise StoreError(f"{path} is too large: {facts.st_size} bytes, at most {limit} are expected")
        data = bytearray()
        while len(data) <= limit and (piece := ops.pread(fd, 1 << 20, len(data))):
            data += piece
    except OSError as error:
        raise store_error(error, f"read {path}") from error
    finally:
        with suppress(OSError):
            ops.close(fd)
    return bytes(data)


def read_versioned(path: Path, newest: int, *, ops: FileOps = OPS) -> dict[str, Any] | None:
    """A JSON object with a "version", None when there is no such file.

    Args:
        newest: the newest version of the format that the caller understands.

    Raises:
        NewerFormatError: its version is beyond `newest`.
        StoreError: it cannot be read, or is no such object (cut, NULs after a crash, another file).
    """
    data = read(path, ops=ops)
    return None if data is None else parse_versioned(data, path, newest)


def parse_versioned(data: bytes, path: Path, newest: int) -> dict[str, Any]:
    """What `read_versioned` does once the bytes are there; `path` is for the messages."""
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = _loads(data)
    if not isinstance(value, dict):
        if not data.strip(b"\0 \r\n\t"):
            what = "is empty" if not data.strip(b" \r\n\t") else "holds nothing but NUL bytes"
            raise StoreError(f"{path} {what}, as after a crash or a power cut", hint=_RESTORE)
        raise StoreError(f"{path} is damaged: it is not a JSON object", hint=_RESTORE)
    version = value.get("version")
    if type(version) is not int or version < 1:
        raise StoreError(f"{path} is damaged: its version is {version!r:.40}, not a number", hint=_RESTORE)
    if version > newest:
        raise NewerFormatError(
            f"{path} was written by a newer Relay (version {version}; this one knows up to {newest})",
            hint="update this Relay; the file is left as it is",
        )
    return value


def write_versioned(
    path: Path, values: Mapping[str, Any], version: int, *, mode: int = 0o600, ops: FileOps = OPS
) -> None:
    """Replace a JSON file by `values` with their "version".

    Raises:
        NewerFormatError: the file that is there was written by a newer version.
        StoreError, DiskFullError: as `replace`.
    """
    try:
        read_versioned(path, version, ops=ops)
    except NewerFormatError:
        raise
    except StoreError:
        pass
    replace(path, dump_versioned(values, version), mode, ops=ops)


def dump_versioned(values: Mapping[str, Any], version: int) -> bytes:
    """The bytes `write_versioned` writes: indented JSON, the version first."""
    whole = {"version": version, **values, **{"version": version}}
    try:
        return orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        # Lone surrogates (file names that are not UTF-8) and integers beyond 64 bits.
        return json.dumps(whole, indent=2).encode() + b"\n"


_RESTORE = "put back a copy of it, or move it away to begin without it"


def _loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


def _write_new(path: Path, data: bytes, mode: int, ops: FileOps) -> None:
    fd = ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            ops.fchmod(fd, mode)
            write_all(fd, data, ops)
            ops.fsync(fd)
        finally:
            ops.close(fd)
    except BaseException:
        _remove(path, ops)
        raise


def _keep(path: Path, keep: Path, ops: FileOps) -> None:
    # First by a name of its own: at no instant is there neither the former nor the new one.
    temp = keep.with_name(f".{keep.name}.{secrets.token_hex(6)}.tmp")
    try:
        ops.link(path, temp)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        old = read(path, ops=ops)
        if old is None:
            return
        _write_new(temp, old, 0o600, ops)
    try:
        ops.rename(temp, keep)
    finally:
        # It is still there where both were names of one file already.
        _remove(temp, ops)


def _remove(path: Path, ops: FileOps) -> None:
    with suppress(OSError):
        ops.unlink(path)
