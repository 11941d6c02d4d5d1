"""Merging a session's branch into the branch that is checked out in the user's checkout.

Called by `relay merge`. The merge is computed apart (`merge_trees`, no merge driver runs); the checkout is
touched only when the whole of it can be put in place. What is uncommitted there is never overwritten,
except where the very same content is in the merge, or was carried into the session when it began: then
it is part of the history afterwards, and nothing is lost.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import trio
from attrs import frozen

from relay.effects.git import Git, mutex, open_git
from relay.effects.gitnames import names, path_text, session_branch, session_ref
from relay.effects.merge_trees import merged_tree
from relay.effects.repository import Repository, session_refs, under_way, update_refs
from relay.effects.staging import RELAY, commit_tree, index_lock, private_index, replace_index
from relay.errors import ConflictError, GitError, NotFoundError

_Entry = tuple[str, str]
"""Mode and object id of a path in a tree; ("", "") where there is none."""

_ABSENT: _Entry = ("", "")
_BATCH = 200


@frozen(kw_only=True)
class MergeDone:
    """A merge.

    Args:
        branch: the user's branch that was merged into.
        commit: where it is now.
        previous: where it was; `git reset --keep <previous>` takes the merge back.
        files: the paths that changed in the checkout's branch.
        fast_forward: no merge commit was needed.
        notes: what the user should know.
    """

    branch: str
    commit: str
    previous: str
    files: tuple[str, ...] = ()
    fast_forward: bool = False
    notes: tuple[str, ...] = ()


async def merge(repo: Repository, sid: str) -> MergeDone:
    """Merge `relay/<sid>` into the branch checked out in `repo`'s checkout.

    Done again after a crash, it ends in the same state. No hook runs, nothing is signed.

    Raises:
        NotFoundError: the session has no branch (any more).
        ConflictError: it would overwrite what is uncommitted, both sides changed the same lines, HEAD is
            detached, or something else is under way there. The checkout is as it was.
        GitError, DiskFullError, TimedOutError: git could not do it.
    """
    source = session_branch(sid)
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        refs = await session_refs(git, sid)
        theirs = refs.get("branch")
        if theirs is None:
            raise NotFoundError(
                f"there is no branch {source}",
                hint=_kept(sid, source, refs),
            )
        branch, ours = await _target(git, repo)
        if await _contains(git, ours, theirs):
            return MergeDone(branch=branch, commit=ours, previous=ours, fast_forward=True)
        fast = await _contains(git, theirs, ours)
        if fast:
            tree = await git.text("rev-parse", f"{theirs}^{{tree}}")
        else:
            tree = await merged_tree(git, ours, theirs, source)
        changed = await _differences(git, ours, tree)
        if fast:
            commit = theirs
        else:
            commit = await _merge_commit(git, tree, ours, theirs, source, branch)
        async with index_lock(repo.git_dir) as lock, private_index(repo.git_dir) as index:
            start = await _settle(git, repo, index, ours, tree, changed, refs.get("carried"))
            # A request that is given up must not leave half of a merge behind.
            with trio.CancelScope(shield=True):
                await _put_in_place(git, index, start, tree)
                replace_index(lock, index)
                moves = {f"refs/heads/{branch}": (commit, ours), "ORIG_HEAD": (ours, "")}
                await update_refs(git, moves, f"merge {source} (relay)")
    return MergeDone(
        branch=branch,
        commit=commit,
        previous=ours,
        files=tuple(path_text(path) for path in changed),
        fast_forward=fast,
        notes=git.notes,
    )


async def _target(git: Git, repo: Repository) -> tuple[str, str]:
    """The branch checked out, as it is now, and its commit."""
    busy = under_way(repo.git_dir)
    if busy:
        raise ConflictError(
            f"a {busy} is under way in {repo.root}", hint=f"Finish it, or `git {busy} --abort`, then merge."
        )
    head = await git.run("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1))
    ours = await git.commit_id("HEAD")
    if head.code != 0 or ours is None:
        raise ConflictError(
            f"no branch is checked out in {repo.root} (detached HEAD)",
            hint="Switch to the branch that shall get the work (`git switch <branch>`), then merge.",
        )
    return head.text, ours


async def _contains(git: Git, commit: str, part: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", part, commit, accept=(0, 1))).code == 0


async def _differences(git: Git, ours: str, tree: str) -> dict[bytes, tuple[_Entry, _Entry]]:
    """Path to (entry in `ours`, entry in `tree`) of everything that differs."""
    listing = await git.run(
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--no-ext-diff",
        f"{ours}^{{tree}}",
        tree,
    )
    fields = iter(listing.fields)
    found: dict[bytes, tuple[_Entry, _Entry]] = {}
    for meta in fields:
        old_mode, new_mode, old_id, new_id, _ = meta[1:].decode().split(" ")
        found[next(fields)] = (_entry(old_mode, old_id), _entry(new_mode, new_id))
    return found


async def _settle(
    git: Git,
    repo: Repository,
    index: Path,
    ours: str,
    tree: str,
    changed: dict[bytes, tuple[_Entry, _Entry]],
    carried: str | None,
) -> str:
    """The tree from which the checkout can go to `tree` without a loss; `index` is made to match it.

    It is that of `ours`, with those uncommitted files whose content is in the merge or was carried.
    """
    dirty, lost = await _uncommitted(git, repo.root, changed)
    saved = await _entries(git, carried, dirty) if carried and dirty else {}
    lying = await _lying(git, repo.root, dirty)
    settled: dict[bytes, _Entry] = {}
    for path in dirty:
        entry = lying.get(path)
        if entry is not None and entry in (changed[path][1], saved.get(path)):
            settled[path] = entry
        else:
            lost.append(path)
    if lost:
        raise ConflictError(
            f"the merge would overwrite what is uncommitted in {repo.root}: "
            f"{names([path_text(path) for path in lost])}",
            hint="Nothing was changed. Commit these files (or `git stash` them), then merge again.",
        )
    if not settled:
        return ours
    info = b"".join(_index_line(path, entry, len(ours)) for path, entry in settled.items())
    on_index = git.with_index(index)
    await on_index.run("update-index", "-z", "--replace", "--index-info", stdin=info)
    await on_index.run("update-index", "-q", "--refresh", accept=(0, 1))
    async with private_index(repo.git_dir, copy=False) as scratch:
        on_scratch = git.with_index(scratch)
        await on_scratch.run("read-tree", ours)
        await on_scratch.run("update-index", "-z", "--replace", "--index-info", stdin=info)
        return (await on_scratch.run("write-tree")).text


async def _uncommitted(
    git: Git, root: Path, changed: dict[bytes, tuple[_Entry, _Entry]]
) -> tuple[list[bytes], list[bytes]]:
    """Paths of `changed` whose uncommitted content may be in the merge, and those that cannot be settled."""
    status = await git.run(
        "status",
        "--porcelain=v2",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignored=matching",
        "--ignore-submodules=dirty",
        timeout=300,
    )
    tracked: dict[bytes, bytes] = {}
    others: set[bytes] = set()
    for entry in status.fields:
        if entry.startswith(b"1 "):
            parts = entry.split(b" ", 8)
            tracked[parts[8]] = parts[1]
        elif entry.startswith(b"u "):
            raise ConflictError(
                f"{path_text(entry.split(b' ', 10)[10])} is unmerged in {root}",
                hint="Resolve and commit it, then merge again.",
            )
        elif entry[:2] in (b"? ", b"! "):
            others.add(entry[2:].rstrip(b"/"))
    base = os.fsencode(root)
    holders = {parent for other in (*others, *tracked) for parent in _parents(other)}
    check: list[bytes] = []
    lost: list[bytes] = []
    for path, (_, new) in changed.items():
        blocking = [p for p in _parents(path) if p in others and not _is_folder(base, p)]
        if blocking:
            lost.append(blocking[0])
        elif b"." not in tracked.get(path, b"."):
            # Staged and then changed again: two states, of which a merge could keep one.
            lost.append(path)
            continue
        in_the_way = path in holders or (_inside(path, others) and _kind(base, path) != "")
        if path in tracked or path in others or (new != _ABSENT and in_the_way):
            check.append(path)
    return check, lost


def _parents(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:n]) for n in range(1, len(parts))]


def _inside(path: bytes, folders: set[bytes]) -> bool:
    return any(parent in folders for parent in _parents(path))


async def _entries(git: Git, commit: str, paths: list[bytes]) -> dict[bytes, _Entry]:
    """The entries of `paths` in `commit`; absent ones too."""
    listing = await git.run("ls-tree", "-r", "-z", "--full-tree", commit, timeout=120)
    found: dict[bytes, _Entry] = dict.fromkeys(paths, _ABSENT)
    for line in listing.fields:
        meta, _, path = line.partition(b"\t")
        if path in found:
            mode, _, oid = meta.decode().split(" ")
            found[path] = (mode, oid)
    return found


async def _lying(git: Git, root: Path, paths: list[bytes]) -> dict[bytes, _Entry]:
    """The entries that git would make of what lies in the checkout at `paths`. Nothing is written."""
    found: dict[bytes, _Entry] = {}
    base = os.fsencode(root)
    files: list[tuple[bytes, str]] = []
    for path in paths:
        kind = _kind(base, path)
        if kind == "120000":
            target = os.readlink(os.path.join(base, path))  # noqa: PTH115, PTH118
            hashed = await git.run("hash-object", "--no-filters", "--stdin", stdin=target)
            found[path] = (kind, hashed.text)
        elif kind == "":
            found[path] = _ABSENT
        elif kind != "?":
            files.append((path, kind))
    for start in range(0, len(files), _BATCH):
        batch = files[start : start + _BATCH]
        hashed = await git.run("hash-object", "--", *(os.fsdecode(path) for path, _ in batch))
        for (path, kind), oid in zip(batch, hashed.text.split("\n"), strict=True):
            found[path] = (kind, oid)
    return found


def _kind(root: bytes, path: bytes) -> str:
    """The mode git gives what lies at `path`: "" for nothing, "?" for what git does not keep."""
    full = os.path.join(root, path)  # noqa: PTH118 - bytes: a name need not be text
    try:
        mode = os.lstat(full).st_mode
    except OSError:
        return ""
    if stat.S_ISLNK(mode):
        return "120000"
    if stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    return "?"


def _is_folder(root: bytes, path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(os.path.join(root, path)).st_mode)  # noqa: PTH118
    except OSError:
        return False


async def _put_in_place(git: Git, index: Path, start: str, tree: str) -> None:
    """Bring files and `index` from `start` to `tree`, all or nothing (git checks before it writes)."""
    try:
        await git.with_index(index).run("read-tree", "-m", "-u", start, tree, timeout=600)
    except GitError as error:
        if "not uptodate" in error.message or "would be overwritten" in error.message:
            raise ConflictError(
                error.message, hint="Nothing was changed. Commit or stash these files, then merge again."
            ) from error
        raise


async def _merge_commit(git: Git, tree: str, ours: str, theirs: str, source: str, branch: str) -> str:
    named = await git.run("var", "GIT_COMMITTER_IDENT", accept=(0, 128))
    who = None if named.code == 0 else RELAY
    return await commit_tree(git, tree, [ours, theirs], f"Merge branch '{source}' into {branch}\n", who)


def _entry(mode: str, oid: str) -> _Entry:
    return _ABSENT if mode == "000000" else (mode, oid)


def _index_line(path: bytes, entry: _Entry, id_length: int) -> bytes:
    mode, oid = entry if entry != _ABSENT else ("0", "0" * id_length)
    return f"{mode} {oid}\t".encode() + path + b"\0"


def _kept(sid: str, branch: str, refs: Mapping[str, str]) -> str:
    """How to get a session's work back whose branch is gone: what was discarded, or the last snapshot."""
    snapshots = [int(name) for name in refs if name.isdecimal()]
    if "discarded" not in refs and not snapshots:
        return ""
    newest = "discarded" if "discarded" in refs else max(snapshots)
    return f"Its work is kept: git branch {branch} {session_ref(sid, newest)}"
