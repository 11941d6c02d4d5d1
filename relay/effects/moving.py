"""git's reads of a working tree in which something writes meanwhile: an agent's server, a build, an editor.

git maps files into memory. One that shrinks while it is read ends git with a bus error, and one whose
content changes meanwhile ends it with words of its own (git 2.39: object-file.c). Neither is a reason not to
take all the other files. Called by staging and repository.
"""

from __future__ import annotations

import os
import re

import trio

from relay.effects.git import BUS_ERROR, Git, Output, failure

_TRIES = 4
_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 0.25
_UPDATE = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
_WORDS = re.compile(
    r"(?:short read|read error) while indexing|confused by unstable object source data|deflate error"
    r"|deflateEnd on "
)


async def read_status(git: Git, *args: str, timeout: float) -> tuple[Output, tuple[bytes, ...]]:
    """Run `git status` with `args`, as often as it takes.

    Returns:
        What it printed, and the tracked paths that it does not tell of, since they moved at every try.

    Raises:
        GitError and its kin: as `Git.run`.
    """
    for _ in range(_TRIES):
        output = await _try(git, "status", *args, timeout=timeout)
        if output.code == 0:
            return output, ()
    # Which file it was git does not say; this looks at their times and sizes alone.
    listing = await _read(git, "diff-files", "-z", "--name-only", "--ignore-submodules=dirty")
    root = os.fsencode(git.cwd)
    before = {path: _look(root, path) for path in listing.fields}
    await trio.sleep(_LOOK_SECONDS)
    moving = tuple(path for path, seen in before.items() if _look(root, path) != seen)
    others = [f":(top,exclude,literal){os.fsdecode(path)}" for path in moving]
    return await _read(git, "status", *args, "--", *others, timeout=timeout), moving


async def index_files(git: Git, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Bring the entries of `paths` in the private index of `git` to what lies in the working tree.

    Returns:
        The paths that moved at every try; their entries are as they were.

    Raises:
        GitError and its kin: as `Git.run`.
    """
    moving: list[bytes] = []
    pending = [paths]
    while pending:
        some = pending.pop()
        stdin = b"".join(path + b"\0" for path in some)
        for _ in range(1 if len(some) > 1 else _TRIES):
            if (await _try(git, *_UPDATE, stdin=stdin, timeout=600)).code == 0:
                break
        else:
            # git does not write the index before it has read all: the halves are asked for anew.
            half = len(some) // 2
            pending += [some[half:], some[:half]] if half else []
            moving += () if half else some
    return tuple(moving)


async def write_tree(git: Git) -> str:
    """The tree of the private index of `git`. Writing an index back, git reads files that look unchanged.

    Raises:
        GitError and its kin: as `Git.run`.
    """
    return (await _read(git, "write-tree")).text


async def _read(git: Git, *args: str, timeout: float = 120.0) -> Output:
    for _ in range(_TRIES):
        output = await _try(git, *args, timeout=timeout)
        if output.code == 0:
            return output
    raise failure(args, output, git.cwd)


async def _try(git: Git, *args: str, stdin: bytes = b"", timeout: float) -> Output:
    """Run git; when a file moved, the output has another code than 0, and it is time to try again."""
    output = await git.run(*args, stdin=stdin, timeout=timeout, accept=(0, 128, BUS_ERROR))
    if output.code == 0:
        return output
    if output.code != BUS_ERROR and not _WORDS.search(output.err):
        raise failure(args, output, git.cwd)
    if git.index_file is not None:
        # A bus error leaves the lock, and this index is ours alone.
        git.index_file.with_name(git.index_file.name + ".lock").unlink(missing_ok=True)
    await trio.sleep(_PAUSE_SECONDS)
    return output


def _look(root: bytes, path: bytes) -> tuple[int, int] | None:
    try:
        found = os.lstat(os.path.join(root, path))  # noqa: PTH118 - bytes: a name need not be text
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
