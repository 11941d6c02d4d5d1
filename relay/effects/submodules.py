"""Submodules of a session's worktree, filled from those of the user's checkout; nothing is fetched.

Called by `worktree`. Each is a clone of the one in the checkout (the very same disk: git links the objects),
so commits that were never pushed are there too.
"""

from __future__ import annotations

import os
from pathlib import Path

import pygit2
import trio

from relay.effects.git import Git, open_git
from relay.effects.gitnames import path_text
from relay.errors import DiskFullError, RelayError

_DEEPEST = 5


async def fill_submodules(source: Path, target: Path, notes: list[str], depth: int = 0) -> None:
    """Check out in `target` every submodule that is checked out in `source`.

    What is not possible becomes a note, never an error, a full disk apart.

    Raises:
        DiskFullError: no space is left.
    """
    git = await open_git(target)
    for path, name in await _submodules(git):
        shown = path_text(os.fsencode(path))
        origin = source / path
        if not _has_git(origin):
            notes.append(f"The submodule {shown} is not checked out in the checkout; it was left empty.")
            continue
        try:
            url = await _fill(git, origin, path, name)
            if await trio.to_thread.run_sync(_is_dirty, origin):
                notes.append(f"Uncommitted changes inside of the submodule {shown} were not carried.")
            if depth < _DEEPEST:
                await fill_submodules(origin, target / path, notes, depth + 1)
            if not url:
                notes.append(f"The submodule {shown} has no address to fetch from or push to.")
        except DiskFullError:
            raise
        except RelayError as error:
            last = error.message.strip().split("\n")[-1]
            notes.append(f"The submodule {shown} could not be filled: {last}")


async def lonely_submodules(source: Path, target: Path) -> tuple[str, ...]:
    """Submodules of `target` with changes, or at a commit, that `source` does not hold.

    Read by libgit2, which runs no program that a submodule's configuration names.
    """
    if not _has_modules(target):
        return ()
    found = await _submodules(await open_git(target))
    return await trio.to_thread.run_sync(_lonely, source, target, [path for path, _ in found])


async def _submodules(git: Git) -> list[tuple[str, str]]:
    """(path, name) of the submodules that the index and .gitmodules agree on."""
    if not _has_modules(git.cwd):
        return []
    listing = await git.run("ls-files", "--stage", "-z")
    links = {
        os.fsdecode(entry.split(b"\t", 1)[1]) for entry in listing.fields if entry.startswith(b"160000 ")
    }
    config = await git.run(
        "config",
        "--null",
        "--no-includes",
        "--file",
        ".gitmodules",
        "--get-regexp",
        r"^submodule\..*\.path$",
        accept=(0, 1, 128),
    )
    pairs: list[tuple[str, str]] = []
    for entry in config.fields:
        key, _, path = os.fsdecode(entry).partition("\n")
        if path in links:
            pairs.append((path, key[len("submodule.") : -len(".path")]))
    return pairs


async def _fill(git: Git, origin: Path, path: str, name: str) -> str:
    """Clone the checked-out submodule `origin` to `path`; returns the address it was cloned from."""
    there = await open_git(origin)
    store = await there.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    url = await there.text("config", "--get", "remote.origin.url", accept=(0, 1))
    await git.run(
        "submodule",
        "--quiet",
        "update",
        "--init",
        "--checkout",
        "--",
        path,
        config=((f"submodule.{name}.url", store), ("submodule.alternateErrorStrategy", "info")),
        env={"GIT_ALLOW_PROTOCOL": "file"},
        writes=True,
        timeout=300,
    )
    if url:
        here = await open_git(git.cwd / path)
        await here.run("config", "remote.origin.url", url, writes=True)
    return url


def _lonely(source: Path, target: Path, paths: list[str]) -> tuple[str, ...]:
    lonely: list[str] = []
    for path in paths:
        if not _has_git(target / path):
            continue
        try:
            here = pygit2.Repository(str(target / path))
            if here.head_is_unborn:
                continue
            known = (
                _has_git(source / path)
                and pygit2.Repository(str(source / path)).get(here.head.target) is not None
            )
            if not known or _changed(here):
                lonely.append(path_text(os.fsencode(path)))
        except (pygit2.GitError, KeyError, ValueError):
            lonely.append(path_text(os.fsencode(path)))
    return tuple(lonely)


def _is_dirty(path: Path) -> bool:
    try:
        return _changed(pygit2.Repository(str(path)))
    except (pygit2.GitError, KeyError, ValueError):
        return True


def _changed(repository: pygit2.Repository) -> bool:
    clean = pygit2.enums.FileStatus.CURRENT | pygit2.enums.FileStatus.IGNORED
    return any(flags & ~clean for flags in repository.status().values())


def _has_git(path: Path) -> bool:
    return (path / ".git").exists()


def _has_modules(path: Path) -> bool:
    return (path / ".gitmodules").is_file()
