"""Looking at a repository: what it is, whether Relay works in it, and which commit a text names.

Called before a session is created, by `relay init`, and by every request that names a commit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import trio
from attrs import frozen

from relay.effects.git import Git, open_git
from relay.effects.gitnames import check_sha, session_branch
from relay.effects.moving import read_status
from relay.errors import GitError, NoRepositoryError, NotFoundError, RepositoryRefusedError


@frozen(kw_only=True)
class Repository:
    """A repository that Relay works in.

    Args:
        root: the top folder of the checkout (of the linked worktree, when the path lies in one).
        git_dir: the checkout's own git folder.
        common_dir: the git folder shared by all its worktrees.
        head_commit: the commit that is checked out.
        branch: the branch that is checked out, or None when HEAD is detached.
        dirty_count: changed, staged and untracked entries (an untracked folder counts as one).
        has_submodules: there is a .gitmodules file.
        sparse: the checkout is a sparse one.
        busy: what is under way in it ("merge", "rebase", ...), or "".
        notes: what was switched off to look at it safely.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    head_commit: str
    branch: str | None
    dirty_count: int = 0
    has_submodules: bool = False
    sparse: bool = False
    busy: str = ""
    notes: tuple[str, ...] = ()


async def inspect(path: Path, *, home: Path | None = None) -> Repository:
    """Look at the repository that `path` lies in.

    Args:
        path: a folder.
        home: the user's home folder; None for that of this process.

    Raises:
        NoRepositoryError: there is no such folder, or no repository around it.
        RepositoryRefusedError: it is bare, has no commit yet, belongs to somebody else, or its checkout
            holds the user's whole home folder.
        GitError: git failed otherwise.
    """
    root, git_dir, common_dir = await _places(_folder(path))
    if _holds(root, home or Path.home()):
        raise RepositoryRefusedError(
            f"the repository at {root} holds your whole home folder",
            hint="Work in a repository of its own: `git init` in the project's folder.",
        )
    git = await open_git(root)
    status, unread = await read_status(
        git, "--porcelain=v2", "-z", "--branch", "--no-renames", "--ignore-submodules=dirty", timeout=120
    )
    head: str | None = None
    branch: str | None = None
    dirty = len(unread)
    for entry in status.fields:
        if entry.startswith(b"# branch.oid "):
            head = entry[13:].decode()
        elif entry.startswith(b"# branch.head "):
            branch = entry[14:].decode("utf-8", "surrogateescape")
        elif not entry.startswith(b"# "):
            dirty += 1
    if head is None or head == "(initial)":
        raise RepositoryRefusedError(
            f"the repository at {root} has no commit yet",
            hint=f'Make a first one: git -C {root} add -A && git -C {root} commit -m "First commit"',
        )
    return Repository(
        root=root,
        git_dir=git_dir,
        common_dir=common_dir,
        head_commit=head,
        branch=None if branch == "(detached)" else branch,
        dirty_count=dirty,
        has_submodules=(root / ".gitmodules").is_file(),
        sparse=await git.text("config", "--type=bool", "--get", "core.sparseCheckout", accept=(0, 1))
        == "true",
        busy=under_way(git_dir),
        notes=git.notes,
    )


async def resolve_commit(git: Git, text: str, *, sid: str | None = None) -> str:
    """The full id of the commit that `text`, 7 to 64 hex digits, names.

    Args:
        sid: the commit must be part of this session's branch or of one of its refs.

    Raises:
        BadNameError: `text` is no commit id.
        NotFoundError: there is no such commit, or it is none of the session's.
    """
    commit = await git.commit_id(check_sha(text))
    if commit is not None and sid is not None:
        refs = await git.text(
            "for-each-ref",
            f"--contains={commit}",
            "--count=1",
            f"refs/heads/{session_branch(sid)}",
            f"refs/relay/{sid}/",
        )
        commit = commit if refs else None
    if commit is None:
        whose = f" of session {sid}" if sid else ""
        raise NotFoundError(f"there is no commit {text}{whose}", hint="`relay history` lists the commits.")
    return commit


async def session_refs(git: Git, sid: str) -> dict[str, str]:
    """The commits of the session's refs: by "branch", "base", "carried", ..., or a snapshot's number."""
    return _refs_in(await git.text("for-each-ref", "--format=%(objectname) %(refname)", *_patterns(sid)), sid)


async def session_refs_and_trees(git: Git, sid: str) -> tuple[dict[str, str], dict[str, str]]:
    """The same, and the trees of these commits; no tree where not all of them can be read."""
    wanted = ("--format=%(objectname) %(refname) %(tree)", *_patterns(sid))
    found = await git.run("for-each-ref", *wanted, accept=(0, 1, 128))
    if found.code:
        return await session_refs(git, sid), {}
    rows = [line.split(" ") for line in found.text.split("\n") if line.count(" ") == 2]
    return _refs_in(found.text, sid), {commit: tree for commit, _, tree in rows if tree}


def _patterns(sid: str) -> tuple[str, str]:
    return f"refs/heads/{session_branch(sid)}", f"refs/relay/{sid}/"


def _refs_in(listing: str, sid: str) -> dict[str, str]:
    branch, prefix = _patterns(sid)
    refs: dict[str, str] = {}
    for line in filter(None, listing.split("\n")):
        commit, name = line.split(" ")[:2]
        if name == branch:
            refs["branch"] = commit
        elif name.startswith(prefix):
            refs[name[len(prefix) :]] = commit
    return refs


async def update_refs(git: Git, changes: Mapping[str, tuple[str | None, str | None]], reason: str) -> None:
    """Move refs in one transaction: all or none. Not cancelled: ended in the middle, git would leave some.

    Args:
        changes: ref to (new, old): new None deletes; old None means it must not exist yet, "" that it may be
            anything.
        reason: for the reflog.

    Raises:
        GitError, ConflictError: a ref was not at its old value, or could not be locked.
    """
    commands = []
    for ref, (new, old) in changes.items():
        if new is None:
            commands.append(f"delete {ref}\0{old or ''}\0")
        elif old is None:
            commands.append(f"create {ref}\0{new}\0")
        else:
            commands.append(f"update {ref}\0{new}\0{old}\0")
    stdin = "".join(commands).encode()
    with trio.CancelScope(shield=True):
        await git.run("update-ref", "-m", reason, "--stdin", "-z", stdin=stdin, writes=True)


def under_way(git_dir: Path) -> str:
    """What is unfinished in the checkout of `git_dir`: "merge", "rebase", "cherry-pick", ..., or ""."""
    signs = {
        "MERGE_HEAD": "merge",
        "rebase-merge": "rebase",
        "rebase-apply": "rebase",
        "CHERRY_PICK_HEAD": "cherry-pick",
        "REVERT_HEAD": "revert",
        "BISECT_LOG": "bisect",
    }
    return next((name for sign, name in signs.items() if (git_dir / sign).exists()), "")


async def places(git: Git) -> tuple[Path, Path, Path]:
    """Root, own git folder and common git folder of the checkout that `git` stands in; all absolute.

    Raises:
        RepositoryRefusedError: it is bare, or the path lies inside a git folder.
    """
    flags = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
    try:
        lines = (await git.text(*flags)).split("\n")
    except (GitError, RepositoryRefusedError) as error:
        if any(word in error.message for word in ("work tree", "bare repository")):
            raise RepositoryRefusedError(
                f"{git.cwd} is in a bare repository or inside a git folder: there is no checkout",
                hint="Clone it (`git clone <it> <folder>`) and work in the clone.",
            ) from error
        raise
    if len(lines) != 3:
        raise RepositoryRefusedError(
            f"the path of the repository around {git.cwd} has a line break in it", hint="Rename that folder."
        )
    return Path(lines[0]), Path(lines[1]), Path(lines[2])


async def _places(folder: Path) -> tuple[Path, Path, Path]:
    git = Git(cwd=folder, exact=False)
    try:
        found = await places(git)
    except NoRepositoryError as error:
        raise NoRepositoryError(
            f"{folder} is in no git repository",
            hint="Run `git init` there and commit once, or start with --in-place, which makes no snapshots.",
        ) from error
    if not _holds(found[0], folder):
        raise RepositoryRefusedError(
            f"the repository around {folder} has its checkout elsewhere, at {found[0]} (core.worktree)",
            hint="Work in that folder, or unset core.worktree.",
        )
    return found


def _folder(path: Path) -> Path:
    folder = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would hide a link that the user typed
    if not folder.is_dir():
        raise NoRepositoryError(f"{path} is not a folder", hint="Give the folder of a git repository.")
    return folder


def _holds(outer: Path, inner: Path) -> bool:
    return inner.resolve().is_relative_to(outer.resolve())
