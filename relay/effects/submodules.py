"""Submodules of a session's worktree, filled from those of the user's checkout; nothing is fetched.

Called by `worktree`. Each is a clone of the one in the checkout (the very same disk: git links the objects),
so commits that were never pushed are there too.
"""

from __future__ import annotations

import os
from pathlib import Path

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
            if await _is_dirty(await open_git(origin)):
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


async def lonely_submodules(source: Path, target: Path, depth: int = 0) -> tuple[str, ...]:
    """Submodules of `target`, at any depth, with changes or at a commit that `source` does not hold."""
    lonely: list[str] = []
    for path, _ in await _submodules(await open_git(target)) if _has_modules(target) else ():
        if not _has_git(target / path):
            continue
        shown = path_text(os.fsencode(path))
        try:
            too_deep = depth == _DEEPEST and _has_modules(target / path)
            if too_deep or await _is_lonely(source / path, target / path):
                lonely.append(shown)
            else:
                inside = await lonely_submodules(source / path, target / path, depth + 1)
                lonely += [f"{shown}/{each}" for each in inside]
        except RelayError:
            lonely.append(shown)
    return tuple(lonely)


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


async def _is_lonely(source: Path, target: Path) -> bool:
    here = await open_git(target)
    head = await here.commit_id("HEAD")
    if head is not None and not (_has_git(source) and await (await open_git(source)).commit_id(head) == head):
        return True
    return await _is_dirty(here)


async def _is_dirty(git: Git) -> bool:
    """Something is in no commit; submodules inside are not looked into."""
    flags = ("--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty")
    return bool((await git.run("status", *flags)).out)


def _has_git(path: Path) -> bool:
    return (path / ".git").exists()


def _has_modules(path: Path) -> bool:
    return (path / ".gitmodules").is_file()
