"""The reads of `history` by git itself: of files as they lie, and of what libgit2 cannot open.

Called by `history`. libgit2 would read every file for a difference that leads to files; git knows from its
index which ones to. Nothing in the repository is changed: what is not committed is written as objects into a
folder of its own, which is gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

import trio
from attrs import evolve

from relay.effects.difference import LARGE, Commit, Diff
from relay.effects.git import Git, open_git
from relay.effects.gitnames import path_bytes, path_text
from relay.effects.moving import write_tree
from relay.effects.repository import places, resolve_commit, session_refs
from relay.effects.snapshot import FileChange, stat_line
from relay.effects.staging import abandoned, private_index, private_path, stage_all, store_errors
from relay.errors import GitError, NotFoundError

_DIFF = ("diff-tree", "-r", "-M", "-l1000", "--no-commit-id", "--no-ext-diff", "--no-textconv")
_SCRATCH = "relay-objects-"
_TRIES = 4


async def diff(root: Path, base: str, tip: str, limit: int) -> Diff:
    """As `history.diff`."""
    git = await _open(root)
    return await _describe(git, await resolve_commit(git, base), await resolve_commit(git, tip), limit)


async def commit_diff(root: Path, sha: str, limit: int) -> Diff:
    """As `history.commit_diff`."""
    git = await _open(root)
    tip = await resolve_commit(git, sha)
    return await _describe(git, await git.commit_id(f"{tip}^") or "", tip, limit)


async def branch_diff(root: Path, sid: str, base: str, limit: int) -> Diff:
    """A session's work since `base`, up to its last commit."""
    git = await _open(root)
    start = await resolve_commit(git, base)
    return await _describe(git, start, await _tip(git, sid), limit)


async def worktree_diff(worktree: Path, base: str, limit: int) -> Diff:
    """The difference between a commit ("HEAD" too) and the files as they lie in a checkout.

    Args:
        limit: bytes of patch at most; 0 for none.
    """
    for _ in range(_TRIES - 1):
        # An agent wrote to a file while git read it: git then gives up, or dies of a bus error.
        with contextlib.suppress(GitError):
            return await _worktree_diff(worktree, base, limit)
    return await _worktree_diff(worktree, base, limit)


async def _worktree_diff(worktree: Path, base: str, limit: int) -> Diff:
    git = await open_git(worktree)
    _, git_dir, common_dir = await places(git)
    start = await git.commit_id("HEAD") if base == "HEAD" else await resolve_commit(git, base)
    if start is None:
        raise NotFoundError(f"{worktree} has no commit", hint="Make a first commit.")
    async with _scratch(git_dir, common_dir) as objects, private_index(git_dir) as index:
        git = evolve(git, objects=objects)
        staged = await stage_all(git, index, LARGE)
        tree = await write_tree(git.with_index(index))
        found = await _describe(git, start, tree, limit)
        large = [item.path for item in staged.left_out if item.size]
        known = await _known(git, start, large)
    if not large:
        return evolve(found, tip="")
    more = (FileChange(path=path, status="M" if path in known else "A", binary=True) for path in large)
    files = tuple(sorted((*found.files, *more), key=lambda change: path_bytes(change.path)))
    return evolve(found, tip="", files=files, stat=stat_line(files), cut=True)


async def commits(root: Path, sid: str, base: str, limit: int) -> tuple[Commit, ...]:
    """As `history.session_commits`."""
    git = await _open(root)
    start = await resolve_commit(git, base)
    tip = await _tip(git, sid)
    named: dict[str, list[str]] = {}
    for name, at in (await session_refs(git, sid)).items():
        if name != "branch":
            named.setdefault(at, []).append(name)
    listing = await git.run(
        "log",
        "-z",
        "--topo-order",
        "--encoding=UTF-8",
        "--no-show-signature",
        f"--max-count={limit}",
        "--format=tformat:%H%x00%P%x00%an%x00%cI%x00%B",
        tip,
        f"^{start}",
        "--",
    )
    fields = iter(listing.fields)
    return tuple(
        Commit(
            sha=sha.decode(),
            parents=tuple(parents.decode().split()),
            author=author.decode("utf-8", "replace"),
            at=datetime.fromisoformat(at.decode()),
            subject=message.decode("utf-8", "replace").split("\n", 1)[0],
            refs=tuple(sorted(named.get(sha.decode(), ()))),
        )
        for sha, parents, author, at, message in zip(fields, fields, fields, fields, fields, strict=True)
    )


async def _open(root: Path) -> Git:
    git = await open_git(root)
    await places(git)
    return git


async def _tip(git: Git, sid: str) -> str:
    refs = await session_refs(git, sid)
    tip = refs.get("branch") or refs.get("discarded")
    if tip is None:
        raise NotFoundError(f"session {sid} has no branch", hint="`relay status` lists the sessions.")
    return tip


async def _describe(git: Git, base: str, tip: str, limit: int) -> Diff:
    """The difference from `base` ("" for nothing) to the commit or tree `tip`."""
    between = [base, tip] if base else ["--root", tip]
    bound = (("core.bigFileThreshold", str(LARGE)),)
    git = git.without_index()
    listing = await git.run(*_DIFF, "-z", "--raw", "--no-abbrev", "--numstat", *between, config=bound)
    changes = await trio.to_thread.run_sync(lambda: tuple(_read(iter(listing.fields))))
    cut = await _has_large(git, [oid for change, ids in changes if change.binary for oid in ids])
    text = b""
    if limit and changes:
        text = (await git.run(*_DIFF, "-p", *between, config=bound, most=limit + 1)).out
    files = tuple(change for change, _ in changes)
    return Diff(
        base=base,
        tip=tip,
        stat=stat_line(files),
        files=files,
        patch=text[:limit].decode("utf-8", "replace"),
        cut=cut or len(text) > limit,
    )


def _read(fields: Iterator[bytes]) -> Iterator[tuple[FileChange, tuple[str, str]]]:
    """Read `git diff-tree -z --raw --numstat -M` (git 2.39): all raw records, then the counts."""
    raw: dict[bytes, tuple[str, bytes, tuple[str, str]]] = {}
    for entry in fields:
        if entry.startswith(b":"):
            _, _, old_id, new_id, status = entry.decode().split(" ")
            old = next(fields) if status[0] in "RC" else b""
            raw[next(fields)] = (status[0], old, (old_id, new_id))
            continue
        added, removed, path = entry.split(b"\t", 2)
        if not path:
            _, path = next(fields), next(fields)
        letter, old, ids = raw[path]
        binary = added == b"-"
        change = FileChange(
            path=path_text(path),
            status=letter,
            added=0 if binary else int(added),
            removed=0 if binary else int(removed),
            binary=binary,
            old_path=path_text(old) if old else "",
        )
        yield change, ids


async def _has_large(git: Git, oids: list[str]) -> bool:
    asked = "".join(f"{oid}\n" for oid in oids if oid.strip("0"))
    if not asked:
        return False
    told = await git.run("cat-file", "--batch-check=%(objectsize)", stdin=asked.encode())
    return any(line.isdigit() and int(line) > LARGE for line in told.text.split("\n"))


async def _known(git: Git, commit: str, paths: list[str]) -> frozenset[str]:
    """Those of `paths` that `commit` holds."""
    if not paths:
        return frozenset()
    listing = await git.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", commit)
    return frozenset(paths) & {path_text(path) for path in listing.fields}


@contextlib.asynccontextmanager
async def _scratch(git_dir: Path, common_dir: Path) -> AsyncIterator[Path]:
    """A folder for new objects beside those of the repository; gone at the end.

    Raises:
        DiskFullError, StoreError, GitError: it cannot be made.
    """
    path = private_path(git_dir, _SCRATCH)

    def prepare() -> None:
        for old in abandoned(git_dir, _SCRATCH):
            shutil.rmtree(old, ignore_errors=True)
        (path / "info").mkdir(parents=True)
        (path / "info" / "alternates").write_bytes(os.fsencode(common_dir / "objects") + b"\n")

    try:
        with store_errors(path):
            await trio.to_thread.run_sync(prepare)
        yield path
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: shutil.rmtree(path, ignore_errors=True))
