"""A private index: how a working tree becomes a tree and a commit without touching anybody's index.

Owns copying an index, staging all of a working tree into the copy, writing commits, and putting an index
in its place by git's own lock protocol. Called by worktree, snapshot and merge.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import psutil
import trio
from attrs import frozen

from relay.effects.git import LOCK_HINT, LOCK_WAITS, Git
from relay.effects.gitnames import path_text
from relay.effects.moving import index_files, read_status
from relay.errors import ConflictError, DiskFullError, GitError, StoreError
from relay.store.atomic import NO_LINKS, write_all

MOVING = "being written to all the time"
"""Why a file was skipped that could not be read whole at any try."""

_PRIVATE = "relay-index-"
_ours: set[bytes] = set()
"""Marks of the locks that this process holds or waits for."""
_SHARED = {b".relay/relay.toml", b".relay/pipelines.json", b".relay/.gitignore"}


@frozen(kw_only=True)
class Identity:
    """Who a commit is by."""

    name: str
    email: str

    def env(self) -> dict[str, str]:
        """The variables by which git takes it as author and committer."""
        name = re.sub(r"[<>\x00-\x1f]", " ", self.name).strip() or "Relay"
        email = re.sub(r"[<>\x00-\x20]", "", self.email) or "relay@localhost"
        return {
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": email,
        }


RELAY = Identity(name="Relay", email="relay@localhost")


@frozen(kw_only=True)
class Skipped:
    """A file that was not taken: its size in bytes (0 where it has none) and why."""

    path: str
    size: int
    why: str


@frozen(kw_only=True)
class Staged:
    """What staging a working tree found.

    Args:
        head: the commit that HEAD names, or None before the first.
        branch: the branch that HEAD names, or None when detached.
        changed: paths that differ from HEAD or were unmerged.
        left_out: files that were not taken.
        nested: untracked repositories inside; they are not taken.
        conflicted: paths that were unmerged; they are taken as they lie.
    """

    head: str | None
    branch: str | None
    changed: tuple[str, ...]
    left_out: tuple[Skipped, ...]
    nested: tuple[str, ...]
    conflicted: tuple[str, ...]


@contextlib.asynccontextmanager
async def private_index(git_dir: Path, *, copy: bool = True) -> AsyncIterator[Path]:
    """A private index file in `git_dir`, a copy of the index there (or none yet); gone at the end.

    Raises:
        DiskFullError, StoreError: the copy cannot be written.
    """
    path = private_path(git_dir, _PRIVATE)
    try:
        with store_errors(path):
            await trio.to_thread.run_sync(_prepare, git_dir, path, copy)
        yield path
    finally:
        for leftover in (path, path.with_name(path.name + ".lock")):
            leftover.unlink(missing_ok=True)


def private_path(git_dir: Path, prefix: str) -> Path:
    """A new name in `git_dir` that tells which process it belongs to."""
    return git_dir / f"{prefix}{os.getpid()}-{os.urandom(4).hex()}"


def abandoned(git_dir: Path, prefix: str) -> Iterator[Path]:
    """What has a name of `private_path` and belongs to a process that is gone."""
    for old in git_dir.glob(f"{prefix}*"):
        pid = old.name[len(prefix) :].split("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            yield old


async def stage_all(git: Git, index: Path, max_bytes: int | None) -> Staged:
    """Bring `index` to what lies in the working tree, as `git add --all` would.

    Ignored files, nested repositories, Relay's own state, files above `max_bytes` and files that change
    whenever they are read stay as the index has them. `git add` itself is not used: it would start
    `git status` inside of every submodule, whose configuration nobody has looked at.

    Args:
        git: git in the root of the working tree.
        index: a private index of it.
        max_bytes: the size limit of one file, None for none.

    Raises:
        GitError and its kin: as `Git.run`.
    """
    on_index = git.with_index(index)
    listing, unread = await read_status(
        on_index,
        "--porcelain=v2",
        "-z",
        "--branch",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
        timeout=300,
    )
    seen = _read_status(listing.fields)
    root = os.fsencode(git.cwd)
    sorted_out = await trio.to_thread.run_sync(_sort_out, root, seen.update + unread, max_bytes)
    if seen.remove or sorted_out.remove:
        await on_index.run(
            "update-index", "-z", "--force-remove", "--stdin", stdin=_nul(seen.remove + sorted_out.remove)
        )
    moving: tuple[bytes, ...] = ()
    if sorted_out.add:
        moving = await index_files(on_index, sorted_out.add)
    return Staged(
        head=seen.head,
        branch=seen.branch,
        changed=tuple(sorted(path_text(p) for p in {*seen.remove, *seen.update, *unread, *seen.staged})),
        left_out=(*sorted_out.left_out, *(_moved(root, path) for path in moving)),
        nested=tuple(path_text(p) for p in seen.nested),
        conflicted=tuple(path_text(p) for p in seen.conflicted),
    )


async def commit_tree(git: Git, tree: str, parents: Iterable[str], message: str, who: Identity | None) -> str:
    """Write a commit of `tree` and return its id; no hook runs and nothing is signed.

    Args:
        who: author and committer; None for the user's own identity.
    """
    args = ["commit-tree", tree]
    for parent in parents:
        args += ["-p", parent]
    text = message.replace("\0", "").encode("utf-8", "replace")
    env = who.env() if who else None
    return (await git.run(*args, "-F", "-", stdin=text, env=env, writes=True)).text


@contextlib.asynccontextmanager
async def index_lock(git_dir: Path, waits: tuple[float, ...] = LOCK_WAITS) -> AsyncIterator[Path]:
    """Hold git's own lock of the index in `git_dir`; yields the lock file's path.

    Who holds it may rename a file over "index" (`replace_index`). A lock that a Relay left, whose process is
    gone, is taken over; any other is waited for and never deleted.

    Raises:
        ConflictError: another process kept it.
    """
    lock = git_dir / "index.lock"
    mark = f"relay {os.getpid()} {psutil.Process().create_time()} {os.urandom(8).hex()}\n".encode()
    _ours.add(mark)
    pending = iter(waits)
    try:
        while True:
            with store_errors(lock):
                if _take_lock(lock, mark):
                    break
            wait = next(pending, None)
            if wait is None:
                raise ConflictError(
                    f"another git process holds {lock}",
                    hint=LOCK_HINT,
                )
            await trio.sleep(wait)
        yield lock
    finally:
        _ours.discard(mark)
        if _content(lock) == mark:
            lock.unlink(missing_ok=True)


async def install_index(git_dir: Path, index: Path) -> None:
    """Put the private `index` in the place of the index in `git_dir`.

    Raises:
        ConflictError: another process kept the index's lock.
    """
    async with index_lock(git_dir) as lock:
        with store_errors(lock):
            replace_index(lock, index)


def replace_index(lock: Path, index: Path) -> None:
    """Rename `index` to the index whose `lock` is held.

    Not through the lock, as git does: a crash between the two renames would leave a lock that does not say
    whose it is, and nobody could take over.
    """
    index.replace(lock.with_suffix(""))


@frozen(kw_only=True)
class _Seen:
    head: str | None
    branch: str | None
    update: tuple[bytes, ...]
    remove: tuple[bytes, ...]
    staged: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    conflicted: tuple[bytes, ...]


@frozen(kw_only=True)
class _Sorted:
    add: tuple[bytes, ...]
    remove: tuple[bytes, ...]
    left_out: tuple[Skipped, ...]


def _read_status(fields: list[bytes]) -> _Seen:
    """Read `git status --porcelain=v2 -z --branch --no-renames` (format of git 2.39)."""
    head = branch = None
    update: list[bytes] = []
    remove: list[bytes] = []
    staged: list[bytes] = []
    nested: list[bytes] = []
    conflicted: list[bytes] = []
    for entry in fields:
        kind = entry[:2]
        if kind == b"1 ":
            parts = entry.split(b" ", 8)
            path, work = parts[8], parts[1][1:2]
            {b"D": remove, b".": staged}.get(work, update).append(path)
        elif kind == b"u ":
            path = entry.split(b" ", 10)[10]
            conflicted.append(path)
            update.append(path)
        elif kind == b"? ":
            path = entry[2:]
            if path.endswith(b"/"):
                nested.append(path.rstrip(b"/"))
            elif not path.startswith(b".relay/") or path in _SHARED:
                update.append(path)
        elif entry.startswith(b"# branch.oid "):
            name = entry[13:].decode()
            head = None if name == "(initial)" else name
        elif entry.startswith(b"# branch.head "):
            text = entry[14:].decode("utf-8", "surrogateescape")
            branch = None if text == "(detached)" else text
    return _Seen(
        head=head,
        branch=branch,
        update=tuple(update),
        remove=tuple(remove),
        staged=tuple(staged),
        nested=tuple(p for p in nested if not p.startswith(b".relay/")),
        conflicted=tuple(conflicted),
    )


def _sort_out(root: bytes, paths: tuple[bytes, ...], max_bytes: int | None) -> _Sorted:
    add: list[bytes] = []
    remove: list[bytes] = []
    left_out: list[Skipped] = []
    for path in paths:
        full = os.path.join(root, path)  # noqa: PTH118 - bytes: a name need not be text
        try:
            found = os.lstat(full)
        except OSError:
            remove.append(path)
            continue
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            # A submodule, or a file that became a folder (whose files are listed themselves).
            (add if os.path.lexists(full + b"/.git") else remove).append(path)
        elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            left_out.append(Skipped(path=path_text(path), size=0, why="not a file"))
        elif max_bytes is not None and found.st_size > max_bytes:
            left_out.append(Skipped(path=path_text(path), size=found.st_size, why="too large"))
        elif stat.S_ISREG(mode) and not os.access(full, os.R_OK):
            left_out.append(Skipped(path=path_text(path), size=found.st_size, why="not readable"))
        else:
            add.append(path)
    return _Sorted(add=tuple(add), remove=tuple(remove), left_out=tuple(left_out))


def _moved(root: bytes, path: bytes) -> Skipped:
    try:
        size = os.lstat(os.path.join(root, path)).st_size  # noqa: PTH118 - bytes: a name need not be text
    except OSError:
        size = 0
    return Skipped(path=path_text(path), size=size, why=MOVING)


def _prepare(git_dir: Path, path: Path, copy: bool) -> None:
    for old in abandoned(git_dir, _PRIVATE):
        old.unlink(missing_ok=True)
    source = git_dir / "index"
    if copy and source.exists():
        # The time goes along: git compares it with the files' to know which entries it must not trust.
        shutil.copy2(source, path)


def _take_lock(lock: Path, mark: bytes) -> bool:
    if _is_orphan(_content(lock)):
        lock.unlink(missing_ok=True)
    made = private_path(lock.parent, _PRIVATE)
    try:
        fd = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        try:
            write_all(fd, mark)
        finally:
            os.close(fd)
        _place(made, lock)
    except FileExistsError:
        return False
    finally:
        # What stays goes with the next private index. The lock is held, and has to be let go of.
        with contextlib.suppress(OSError):
            made.unlink(missing_ok=True)
    return True


def _place(made: Path, lock: Path) -> None:
    """Have the lock there with its mark from the first moment on; without it nobody could take it over."""
    try:
        os.link(made, lock)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            made.replace(lock)
        except OSError:
            lock.unlink(missing_ok=True)
            raise


def _content(lock: Path) -> bytes:
    try:
        with lock.open("rb") as file:
            return file.read(128)
    except OSError:
        return b""


def _is_orphan(mark: bytes) -> bool:
    """The lock was taken by a Relay process that is gone, or by this one, which could not remove it."""
    words = mark.split()
    if len(words) != 4 or words[0] != b"relay" or not words[1].isdigit():
        return False
    if int(words[1]) == os.getpid():
        return mark not in _ours
    try:
        return str(psutil.Process(int(words[1])).create_time()).encode() != words[2]
    except psutil.NoSuchProcess:
        return True


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """What keeps a file in a git folder from being written becomes an error that says what to do."""
    try:
        yield
    except PermissionError as error:
        raise GitError(
            f"{path.parent} is not writable: {error.strerror}", hint=f"Make {path.parent} writable for you."
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"no space is left at {path.parent}", hint="Free some space, then try again."
            ) from error
        raise StoreError(
            f"{path} cannot be written: {error.strerror}", hint="Check the disk, then try again."
        ) from error


def _nul(paths: tuple[bytes, ...]) -> bytes:
    return b"".join(p + b"\0" for p in paths)
