"""Effects on the work itself: snapshot, contract, verify, merge, discard."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from relay.core import effects, reports
from relay.core.approval import is_inside
from relay.core.brief import render
from relay.core.contract import sign
from relay.effects import manifest, merge, repository, snapshot, verify, worktree
from relay.effects.make_again import make_again
from relay.effects.world import World, marker
from relay.store import contracts
from relay.store.places import RepoPlaces

MANIFEST_FILES = 500


async def take_snapshot(world: World, effect: effects.TakeSnapshot) -> reports.SnapshotTaken:
    """Commit the worktree on the session's branch, and describe the work since the session's base."""
    record = effect.record
    tree = Path(record.worktree)
    if not record.base_commit:
        note = "no repository, so no snapshot"
        return reports.SnapshotTaken(
            key=effect.key, at=world.clock(), number=effect.number, commit="", made=False, notes=(note,)
        )
    remade = await make_again(record)
    taken = await snapshot.take(
        tree,
        record.sid,
        effect.number,
        effect.message,
        max_file_mb=record.options.max_file_mb,
        move_branch=bool(record.branch),
        since=record.base_commit,
    )
    present = tuple(change.path for change in taken.changed if change.status != "D")[:MANIFEST_FILES]
    digests = await manifest.manifest(tree, present)
    return reports.SnapshotTaken(
        key=effect.key,
        at=world.clock(),
        number=effect.number,
        commit=taken.commit,
        made=taken.made,
        changed=tuple(
            reports.ChangedFile(
                path=change.path, status=change.status, added=change.added, removed=change.removed
            )
            for change in taken.changed
        ),
        manifest=tuple(reports.FileDigest(path=d.path, sha256=d.sha256) for d in digests),
        left_out=tuple(left.path for left in taken.left_out),
        notes=(*remade, *taken.notes),
        diff_stat=snapshot.stat_line(taken.changed),
    )


async def seal_contract(world: World, effect: effects.SealContract) -> reports.ContractSealed:
    """Render the Markdown, bind it into the JSON, sign, write both."""
    record = effect.record
    folder = RepoPlaces(root=Path(record.repository)).session(record.sid)
    adopted = record.options.adopted
    budget = adopted.brief_chars if adopted and not record.runs else None

    def seal() -> str:
        markdown = render(effect.contract, budget_chars=budget)
        signed = sign(effect.contract, markdown.encode(), world.signing_key)
        contracts.write(folder, signed, markdown)
        return signed.contract_id

    contract_id = await trio.to_thread.run_sync(seal)
    return reports.ContractSealed(
        key=effect.key, at=world.clock(), contract_id=contract_id, path=str(folder / "envelope.md")
    )


async def run_verify(world: World, effect: effects.RunVerify) -> reports.VerifyDone:
    """Run the acceptance commands."""
    checked = await verify.run_commands(
        effect.commands,
        cwd=effect.record.worktree,
        timeout=effect.timeout,
        marker=f"{marker(effect.record.sid, 0)}.verify",
        env=world.env,
    )
    return reports.VerifyDone(key=effect.key, at=world.clock(), commands=checked)


async def locate_paths(world: World, effect: effects.LocatePaths) -> reports.PathsLocated:
    """Follow the links on the way to each path, the last part's included."""
    outside = await trio.to_thread.run_sync(leading_out, effect.root, effect.paths)
    return reports.PathsLocated(key=effect.key, at=world.clock(), outside=outside)


def leading_out(root: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the paths (absolute, or relative to `root`) that lead out of it when links are followed."""
    real = os.path.realpath(root)
    return tuple(
        path
        for path in paths
        if not is_inside(os.path.realpath(os.path.join(root, path)), real)  # noqa: PTH118
    )


async def merge_session(world: World, effect: effects.MergeSession) -> reports.SessionMerged:
    """Merge the session's branch into the user's checkout."""
    found = await repository.inspect(Path(effect.record.repository))
    done = await merge.merge(found, effect.record.sid)
    return reports.SessionMerged(
        key=effect.key, at=world.clock(), branch=done.branch, commit=done.commit, files=len(done.files)
    )


async def discard_session(world: World, effect: effects.DiscardSession) -> reports.SessionDiscarded:
    """Remove the session's worktree and branch; a ref keeps the work."""
    record = effect.record
    found = await repository.inspect(Path(record.repository))
    kept = await worktree.discard(found, record.sid, Path(record.worktree), force=effect.force)
    return reports.SessionDiscarded(key=effect.key, at=world.clock(), kept_as=kept.ref or "", hint=kept.hint)
