"""What git knows of the worktrees and refs of ended sessions: reads only, for `relay.effects.gc_git`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio
from attrs import frozen

from relay.core.gc import WorktreeFacts
from relay.core.record import SessionRecord
from relay.effects import worktree
from relay.effects.git import Git, open_git
from relay.effects.gitnames import names, path_text
from relay.effects.repository import Repository, places, session_refs, under_way
from relay.errors import ConflictError

_OURS = ("refs/heads/relay/", "refs/heads/relay-rewind/")


@frozen(kw_only=True)
class Entry:
    """Git's note of a worktree.

    Args:
        path: its folder, whether it is there or not.
        head: the commit it stands at, "" when that is not known.
        detached: it is on no branch.
        locked: by `git worktree lock`.
        reason: the words given for that.
    """

    path: Path
    head: str = ""
    detached: bool = False
    locked: bool = False
    reason: str = ""


async def look(
    repo: Repository, record: SessionRecord, path: Path, entry: Entry | None, roots: Sequence[Path]
) -> WorktreeFacts:
    """What would be lost with a session's folder. Changes nothing.

    Raises:
        ConflictError: it is no worktree of this repository, or not of this session.
        GitError and its kin: git could not look.
    """
    if record.worktree != str(path):
        raise ConflictError(f"its session worked elsewhere, in {record.worktree}", hint=f"ls {path}")
    state = await worktree.look(repo, record.sid, path, record.base_commit)
    git = await open_git(path)
    ignored = await _listing(git, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory")
    inside = await trio.to_thread.run_sync(_inside, path, ignored, abandon_on_cancel=True)
    top = Path(real(path))
    inside += [str(root) for root in roots if Path(real(root)).is_relative_to(top)]
    _, git_dir, _ = await places(git)
    return WorktreeFacts(
        over=record.ended,
        dirty=state.dirty,
        hidden=names(await _hidden(git, path)),
        inside=names(sorted(set(inside))),
        busy=under_way(git_dir),
        locked=entry is not None and entry.locked,
        lock_reason=entry.reason if entry else "",
        merged=state.merged or await _is_merged(git, repo, record),
        ignored=names([path_text(name) for name in ignored]),
    )


async def _listing(git: Git, *args: str) -> list[bytes]:
    return (await git.run(*args, "-z")).fields


async def _hidden(git: Git, path: Path) -> list[str]:
    """Files that are there and of which git was told not to notice changes."""
    flagged = [
        line[2:] for line in await _listing(git, "ls-files", "-v") if line[:1].islower() or line[:1] == b"S"
    ]
    return [path_text(name) for name in flagged if await trio.Path(path / os.fsdecode(name)).exists()]


def _inside(path: Path, ignored: Sequence[bytes]) -> list[str]:
    """Repositories, and folders with sessions of Relay, in the folders that git does not look into."""
    found = []
    for name in ignored:
        top = os.fsencode(path / os.fsdecode(name))
        for folder, folders, files in os.walk(top):
            sessions = folder.rsplit(b"/", 1)[-1] == b".relay" and (
                b"sessions" in folders or b"audit.jsonl" in files
            )
            if sessions or b".git" in folders or b".git" in files:
                found.append(path_text(os.path.relpath(folder, os.fsencode(path))))
    return found


async def _is_merged(git: Git, repo: Repository, record: SessionRecord) -> bool:
    """The folder's commit and the session's branch are in branches of the user's, or their content is."""
    refs = await session_refs(git, record.sid)
    tips = {tip for tip in (refs.get("branch"), await git.commit_id("HEAD")) if tip}
    for tip in sorted(tips - {record.base_commit}):
        listing = ("for-each-ref", f"--contains={tip}", "--format=%(refname)", "refs/heads", "refs/remotes")
        holders = (await git.text(*listing)).split("\n")
        if not any(map(_of_the_user, holders)) and not await _content_is_in(git, tip, repo.head_commit):
            return False
    return True


def _of_the_user(ref: str) -> bool:
    if ref.startswith("refs/remotes/"):
        return not ref.split("/", 3)[-1].startswith(("relay/", "relay-rewind/"))
    return ref.startswith("refs/heads/") and not ref.startswith(_OURS)


async def _content_is_in(git: Git, tip: str, head: str) -> bool:
    """Every file that was changed up to `tip` stands in `head` as in `tip`: it was merged as one commit."""
    base = (await git.run("merge-base", tip, head, accept=(0, 1))).text
    if not base:
        return False
    compare = ("diff-tree", "-r", "--name-only", "--no-renames", "--no-ext-diff")
    changed = await _listing(git, *compare, base, tip)
    return not set(changed) & set(await _listing(git, *compare, tip, head))


async def registered(git: Git) -> Mapping[str, Entry]:
    """Git's notes of worktrees, by the real path of the folder."""
    entries: dict[str, Entry] = {}
    for block in (await git.text("worktree", "list", "--porcelain")).split("\n\n"):
        facts = dict(line.partition(" ")[::2] for line in block.split("\n") if line)
        if "worktree" in facts:
            entries[real(facts["worktree"])] = Entry(
                path=Path(facts["worktree"]),
                head=facts.get("HEAD", ""),
                detached="detached" in facts,
                locked="locked" in facts,
                reason=facts.get("locked", ""),
            )
    return entries


async def entry_kept(git: Git, repo: Repository, entry: Entry) -> str:
    """Why git must not forget a worktree whose folder is gone; "" when nothing would be lost."""
    if entry.locked:
        return f"it is locked by `git worktree lock`{': ' * bool(entry.reason)}{entry.reason}"
    if entry.detached and not await git.text("for-each-ref", "--count=1", f"--contains={entry.head}"):
        return f"it stands at commit {entry.head[:12]}, which is on no branch"
    index = await trio.to_thread.run_sync(_index_of, repo.common_dir, entry.path)
    if index is not None:
        staged = await git.with_index(index).run(
            "diff-index", "--cached", "--quiet", entry.head, accept=(0, 1)
        )
        if staged.code:
            return "its index holds changes that are in no commit"
    return ""


def _index_of(common_dir: Path, path: Path) -> Path | None:
    for note in common_dir.glob("worktrees/*/gitdir"):
        named = Path(os.fsdecode(note.read_bytes().strip()))
        if real(named.parent) == real(path) and note.with_name("index").exists():
            return note.with_name("index")
    return None


async def lonely_refs(git: Git) -> frozenset[str]:
    """Those of Relay's refs and branches whose commits no branch of the user's contains."""
    listing = await git.text("for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes")
    kept = [f"--no-merged={ref}" for ref in listing.split("\n") if _of_the_user(ref)]
    alone = await git.text("for-each-ref", "--format=%(refname)", *kept, "refs/relay", "refs/heads/relay")
    return frozenset(filter(None, alone.split("\n")))


def real(path: Path | str) -> str:
    """The path without links on the way to it."""
    return os.path.realpath(path)
