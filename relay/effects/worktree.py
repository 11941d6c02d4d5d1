"""A session's worktree: made beside the user's checkout, which is never touched, and taken away again.

Owns the branch `relay/<sid>`, its folder, and the refs "base" (where it began), "carried" (the checkout's
uncommitted state), "creating" (half-made) and "discarded". Called when a session is created and ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from relay.effects.git import Git, mutex, open_git
from relay.effects.gitnames import check_limit_mb, names, path_text, session_branch, session_ref
from relay.effects.moving import write_tree
from relay.effects.repository import Repository, places, session_refs, update_refs
from relay.effects.staging import MOVING, RELAY, Staged, commit_tree, private_index, stage_all
from relay.effects.submodules import fill_submodules, lonely_submodules
from relay.errors import ConflictError, GitError, NoRepositoryError, RelayError
from relay.store.atomic import store_error


@frozen(kw_only=True)
class WorktreeMade:
    """A session's worktree.

    Args:
        path: its folder, absolute.
        branch: "relay/<sid>".
        base_commit: the commit that was checked out when the session began.
        carried_commit: the commit of the checkout's uncommitted state on top of it, or None.
        carried_files: the paths in it.
        notes: what the user should know: left out, switched off, not possible.
    """

    path: Path
    branch: str
    base_commit: str
    carried_commit: str | None = None
    carried_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Discarded:
    """A session's work, put away.

    Args:
        ref: the ref that keeps it, or None when there was nothing.
        commit: what the ref names.
        hint: how to get it back.
    """

    ref: str | None
    commit: str | None
    hint: str


async def create(
    repo: Repository, sid: str, target_path: Path, *, carry: bool, max_file_mb: float | None = None
) -> WorktreeMade:
    """Make the worktree of session `sid` at `target_path`, or find the one that was made before.

    With `carry`, what is uncommitted in the checkout (staged, unstaged, untracked, deleted) becomes a
    commit on the session's branch. The checkout, its index and its branch stay as they are, byte for byte.
    When anything fails the folder and the branch are gone again.

    Args:
        repo: as `inspect` found it.
        target_path: an absolute folder that does not exist yet.
        max_file_mb: files above so many megabytes are not carried; None for no limit.

    Raises:
        ConflictError: the branch or the folder exists and is not this session's.
        GitError, DiskFullError, TimedOutError: git could not do it.
    """
    branch = session_branch(sid)
    max_bytes = check_limit_mb(max_file_mb)
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        refs = await session_refs(git, sid)
        if "base" in refs and "branch" in refs:
            return await _made_before(git, repo, sid, target_path, refs)
        if "creating" in refs:
            await _roll_back(git, repo, sid, target_path)
        elif "branch" in refs:
            raise ConflictError(
                f"the branch {branch} exists already and is not of this session",
                hint=f"Rename it (`git branch -m {branch} <name>`) or start a new session.",
            )
        _check_target(target_path)
        base = await git.commit_id("HEAD")
        if base is None:
            raise NoRepositoryError(f"{repo.root} has no commit", hint="Make a first commit.")
        notes = list(git.notes)
        carried, files = await _carry(git, repo, base, max_bytes, notes) if carry else (None, ())
        tip = carried or base
        try:
            await _create_refs(git, sid, tip)
            await _add(git, sid, target_path, notes)
            await fill_submodules(repo.root, target_path, notes)
            done: dict[str, tuple[str | None, str | None]] = {
                session_ref(sid, "base"): (base, ""),
                session_ref(sid, "creating"): (None, tip),
            }
            if carried:
                done[session_ref(sid, "carried")] = (carried, "")
            await update_refs(git, done, "relay: session begun")
        except BaseException:
            with trio.CancelScope(shield=True):
                await _roll_back(git, repo, sid, target_path)
            raise
    return WorktreeMade(
        path=target_path,
        branch=branch,
        base_commit=base,
        carried_commit=carried,
        carried_files=files,
        notes=tuple(notes),
    )


@frozen(kw_only=True)
class WorktreeState:
    """What would be lost with a session's folder.

    Args:
        dirty: names of what is in no commit; "" when there is nothing.
        merged: its commits are in the branch that is checked out, or it made none.
    """

    dirty: str
    merged: bool


async def look(repo: Repository, sid: str, path: Path, base: str) -> WorktreeState:
    """Look at a session's folder without changing anything.

    Args:
        base: the commit that the session began from.

    Raises:
        ConflictError, GitError: it is no worktree of this repository, or git can't look at it.
    """
    async with mutex(repo.common_dir):
        if not await _is_worktree(path, repo.common_dir):
            raise ConflictError(f"{path} is no worktree of this repository", hint="Look at it by hand.")
        git = await open_git(repo.root)
        refs = await session_refs(git, sid)
        dirty = ""
        try:
            await _refuse_dirty(path, repo, session_branch(sid))
        except ConflictError as error:
            dirty = error.message
        head = await (await open_git(path)).commit_id("HEAD")
        tips = {tip for tip in (refs.get("branch"), head) if tip}
        lonely = [tip for tip in tips if tip != base and not await _is_ancestor(git, tip, repo.head_commit)]
        return WorktreeState(dirty=dirty, merged=not lonely)


async def remove(repo: Repository, sid: str, path: Path, *, force: bool = False) -> None:
    """Remove the session's folder; its branch and refs stay. Nothing to do when it is gone.

    Raises:
        ConflictError: it holds changes that no commit holds, and `force` is false.
        GitError: git could not do it.
    """
    branch = session_branch(sid)
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        if _exists(path):
            if not await _is_worktree(path, repo.common_dir):
                raise ConflictError(
                    f"{path} is no worktree of this repository", hint="Look at it, then remove it by hand."
                )
            if not force:
                await _refuse_dirty(path, repo, branch)
        await _remove_folder(git, path)


async def discard(repo: Repository, sid: str, path: Path, *, force: bool = False) -> Discarded:
    """End the session unmerged: folder and branch go, `refs/relay/<sid>/discarded` keeps all of it.

    What the folder holds uncommitted is committed first. Snapshots that the last commit does not contain
    keep their own refs.

    Raises:
        ConflictError: a submodule in it has work that is nowhere else, and `force` is false.
        GitError: git could not do it.
    """
    branch = session_branch(sid)
    kept = session_ref(sid, "discarded")
    async with mutex(repo.common_dir):
        git = await open_git(repo.root)
        refs = await session_refs(git, sid)
        tip = refs.get("branch")
        if _exists(path) and not half_made(path) and await _is_worktree(path, repo.common_dir):
            lonely = await lonely_submodules(repo.root, path)
            if lonely and not force:
                raise _lonely(lonely)
            tip = await _last_state(path, tip)
        if tip is not None:
            await update_refs(git, {kept: (tip, "")}, "relay: session discarded")
        await _remove_folder(git, path)
        inside = await git.text(
            "for-each-ref", f"--merged={tip or 'HEAD'}", "--format=%(refname)", f"refs/relay/{sid}/"
        )
        gone: dict[str, tuple[str | None, str | None]] = {
            ref: (None, "") for ref in inside.split("\n") if ref and ref != kept and tip
        }
        if "branch" in refs:
            gone[f"refs/heads/{branch}"] = (None, refs["branch"])
        if gone:
            await update_refs(git, gone, "relay: session discarded")
    commit = tip or refs.get("discarded")
    if commit is None:
        return Discarded(ref=None, commit=None, hint="There was nothing to keep.")
    return Discarded(ref=kept, commit=commit, hint=f"To get it back: git branch {branch} {kept}")


def left_out_notes(staged: Staged, what: str) -> list[str]:
    """One line for each kind of thing that was not taken into `what`."""
    notes = [
        f"{item.path} ({item.size / 2**20:.1f} MB) is {item.why} and was left out of {what}."
        if item.size
        else f"{item.path} is {item.why} and was left out of {what}."
        for item in staged.left_out
    ]
    if staged.nested:
        notes.append(f"Repositories inside this one were left out of {what}: {names(staged.nested)}.")
    if staged.conflicted:
        notes.append(f"Unmerged files were taken as they lie: {names(staged.conflicted)}.")
    return notes


async def _carry(
    git: Git, repo: Repository, base: str, max_bytes: int | None, notes: list[str]
) -> tuple[str | None, tuple[str, ...]]:
    if not _exists(repo.git_dir / "index"):
        notes.append("The checkout has no index (nothing is checked out); nothing was carried.")
        return None, ()
    async with private_index(repo.git_dir) as index:
        staged = await stage_all(git, index, max_bytes)
        notes += left_out_notes(staged, "the carried changes")
        if repo.busy:
            notes.append(f"A {repo.busy} is under way in the checkout; its files were carried as they lie.")
        tree = await write_tree(git.with_index(index))
    if tree == await git.text("rev-parse", f"{base}^{{tree}}"):
        return None, ()
    where = repo.branch or f"detached at {base[:12]}"
    message = f"Uncommitted changes of the checkout ({where})\n\nTaken along when the session began.\n"
    carried = await commit_tree(git, tree, [base], message, RELAY)
    return carried, await _paths_between(git, base, carried)


async def _paths_between(git: Git, old: str, new: str) -> tuple[str, ...]:
    listing = await git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", old, new)
    return tuple(path_text(p) for p in listing.fields)


async def _create_refs(git: Git, sid: str, tip: str) -> None:
    branch = session_branch(sid)
    try:
        await update_refs(
            git,
            {f"refs/heads/{branch}": (tip, None), session_ref(sid, "creating"): (tip, None)},
            "relay: session made",
        )
    except GitError as error:
        if "exists; cannot create" in error.message:
            raise ConflictError(
                f"the branch {branch} cannot be made, because a branch of a shorter name is in its way",
                hint="Rename the branch `relay`: git branch -m relay <name>",
            ) from error
        raise


async def _add(git: Git, sid: str, path: Path, notes: list[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise store_error(error, f"make the folder {path.parent}") from error
    await _forget(git, path)
    # Files in a second step: what the configuration says may depend on folder and branch (includeIf). The
    # lock tells, after a crash in between, that it is `half_made`.
    flags = ("--quiet", "--no-checkout", "--lock")
    await git.run("worktree", "add", *flags, str(path), session_branch(sid), writes=True)
    here = await open_git(path)
    notes += [note for note in here.notes if note not in notes]
    made = await here.run(
        "reset", "--hard", "--quiet", "--no-recurse-submodules", "HEAD", "--", writes=True, timeout=600
    )
    if "required" in made.err and "filter" in made.err:
        notes.append(f"git could not filter some files: {made.err.strip()[-300:]}")
    await git.run("worktree", "unlock", str(path), writes=True)


def half_made(path: Path) -> bool:
    """The folder is a worktree whose making was cut off: files are missing, and no agent has been in it."""
    try:
        git_dir = path / (path / ".git").read_text().removeprefix("gitdir:").strip()
        reason = (git_dir / "locked").read_bytes()
    except (OSError, UnicodeDecodeError):
        return False
    return reason.startswith((b"added with --lock", b"initializing"))


async def _made_before(
    git: Git, repo: Repository, sid: str, path: Path, refs: dict[str, str]
) -> WorktreeMade:
    notes = list(git.notes)
    if half_made(path):
        await _remove_folder(git, path)
    if not (_exists(path) and await _is_worktree(path, repo.common_dir)):
        _check_target(path)
        await _add(git, sid, path, notes)
        await fill_submodules(repo.root, path, notes)
        notes.append("The session's folder was gone; it was made again from its last snapshot.")
    base, carried = refs["base"], refs.get("carried")
    return WorktreeMade(
        path=path,
        branch=session_branch(sid),
        base_commit=base,
        carried_commit=carried,
        carried_files=await _paths_between(git, base, carried) if carried else (),
        notes=tuple(notes),
    )


async def _roll_back(git: Git, repo: Repository, sid: str, path: Path) -> None:
    """Take a half-made worktree away. No agent has run in it: it holds nothing but copies."""
    refs = await session_refs(git, sid)
    if "creating" not in refs:
        return
    # Left by our own call that was ended: nobody else has known of this branch yet.
    lock = repo.common_dir / "refs" / "heads" / f"{session_branch(sid)}.lock"
    await trio.to_thread.run_sync(partial(lock.unlink, missing_ok=True))
    await _remove_folder(git, path)
    gone: dict[str, tuple[str | None, str | None]] = {session_ref(sid, "creating"): (None, refs["creating"])}
    if refs.get("branch") == refs["creating"]:
        gone[f"refs/heads/{session_branch(sid)}"] = (None, refs["creating"])
    await update_refs(git, gone, "relay: session not made")


async def _remove_folder(git: Git, path: Path) -> None:
    if _exists(path):
        try:
            await git.run("worktree", "remove", "--force", "--force", str(path), writes=True, timeout=600)
        except GitError:
            # Half-made, or with a file in it that git cannot delete: the folder goes first, then the entry.
            await trio.to_thread.run_sync(_delete_tree, path)
    await _forget(git, path)


async def _forget(git: Git, path: Path) -> None:
    """Have git forget the worktree of a folder that is gone.

    `git worktree prune` would forget the user's own too, when they lie on a disk that is not there.
    """
    if not _exists(path):
        await git.run("worktree", "remove", "--force", "--force", str(path), writes=True, accept=(0, 128))


async def _refuse_dirty(path: Path, repo: Repository, branch: str) -> None:
    git = await open_git(path)
    status = await git.run(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty"
    )
    changed = [path_text(entry[3:]) for entry in status.fields]
    if changed:
        raise ConflictError(
            f"{path} holds changes that are in no commit: {names(changed)}",
            hint=f"Commit them there, or remove it by force; {branch} holds the rest.",
        )
    lonely = await lonely_submodules(repo.root, path)
    if lonely:
        raise _lonely(lonely)
    head = await git.commit_id("HEAD")
    if head and not await git.text("for-each-ref", "--count=1", f"--contains={head}"):
        raise ConflictError(
            f"{path} is at commit {head[:12]}, which is on no branch",
            hint=f"Keep it by `git branch <name> {head[:12]}`, or remove the folder by force.",
        )


async def _last_state(path: Path, tip: str | None) -> str | None:
    """The commit that holds all of the folder's present state and of `tip`."""
    git = await open_git(path)
    _, git_dir, _ = await places(git)
    async with private_index(git_dir) as index:
        staged = await stage_all(git, index, None)
        moving = [item.path for item in staged.left_out if item.why == MOVING]
        if moving:
            raise ConflictError(
                f"{path} can't be put away: {names(moving)} is {MOVING}",
                hint="End what writes there, then try again.",
            )
        tree = await write_tree(git.with_index(index))
    parents = [p for p in (staged.head, tip) if p]
    if len(parents) == 2 and await _is_ancestor(git, parents[1], parents[0]):
        parents.pop()
    if len(parents) == 1 and tree == await git.text("rev-parse", f"{parents[0]}^{{tree}}"):
        return parents[0]
    return await commit_tree(git, tree, parents, "What the session had not committed when it ended\n", RELAY)


async def _is_ancestor(git: Git, old: str, new: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", old, new, accept=(0, 1))).code == 0


async def _is_worktree(path: Path, common_dir: Path) -> bool:
    """`path` is the top of a linked worktree of the repository whose git folder is `common_dir`."""
    try:
        root, git_dir, common = await places(await open_git(path))
    except RelayError:
        return False
    return _same(root, path) and _same(common, common_dir) and not _same(git_dir, common)


def _check_target(path: Path) -> None:
    if not path.is_absolute():
        raise ConflictError(f"the folder {path} is not absolute", hint="Give the whole path.")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        raise ConflictError(
            f"{path} exists already and is not this session's", hint="Look at it, then move it away."
        )


def _lonely(paths: tuple[str, ...]) -> ConflictError:
    return ConflictError(
        f"submodules hold work that is nowhere else: {names(paths)}",
        hint="Commit and push it from there, or copy it elsewhere, first.",
    )


def _delete_tree(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
