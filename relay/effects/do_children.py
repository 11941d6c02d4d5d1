"""Effects on a run's child: start, follow, write, end, seal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from relay.core import effects, reports
from relay.core.brief import render_resume
from relay.core.contract import Contract
from relay.core.record import SessionRecord
from relay.core.redact import DEFAULT
from relay.effects import child, follow, manifest, native_session, opening_file, processes, spool, stdin, stop
from relay.effects.make_again import make_again
from relay.effects.opening_file import KeptOpening
from relay.effects.seal import redact_files
from relay.effects.settings import launch_settings
from relay.effects.world import World, marker
from relay.errors import ConflictError
from relay.providers.protocol import LaunchRequest, Write
from relay.providers.table import provider_named
from relay.store import contracts
from relay.store.places import RepoPlaces

IDLE_GRACE = 3.0


def run_folder(record: SessionRecord, run: int) -> spool.RunFolder:
    """Where a run's files lie."""
    return spool.RunFolder(RepoPlaces(root=Path(record.repository)).run(record.sid, run))


def fifo_of(world: World, record: SessionRecord, run: int) -> Path:
    """Where a two-way child's input is made."""
    return world.places.fifos / f"{record.sid}.{run}"


async def start_child(world: World, effect: effects.StartChild) -> reports.ChildStarted:
    """Verify what is injected, copy a native session where one is resumed, start the child."""
    record, run = effect.record, effect.run
    folder = run_folder(record, run)
    mark = marker(record.sid, run)
    shim = await child.recover(folder, mark)
    if shim is not None or folder.cli_pid() is not None or folder.ended():
        opening = opening_file.kept(record, run)
        return _started(world, effect, opening, shim.pid if shim else 0, found=True)
    if folder.path.exists():
        folder.remove()
    remade = await make_again(record)
    provider = provider_named(effect.target.provider)
    settings = await launch_settings(world, record, effect.target)
    opening, contract = await _opening(world, effect)
    opening = evolve(opening, notes=(*remade, *opening.notes))
    if effect.opening.resume_native:
        copied = await native_session.bring(world, effect, provider, settings)
        resumed = render_resume(contract) if contract else effect.opening.text
        opening = evolve(
            opening,
            prompt=_with_postscript(resumed, effect.opening.postscript) if copied.done else opening.prompt,
            native_id=effect.opening.resume_native if copied.done else "",
            notes=(*opening.notes, copied.note),
        )
    request = LaunchRequest(
        session_id=record.sid,
        run=run,
        cwd=record.worktree,
        prompt=opening.prompt,
        account=settings.account,
        allow=record.options.allow,
        native_id=opening.native_id or None,
        model=record.options.model or settings.model,
        command=settings.command,
        args=settings.args,
        env=settings.env,
        base_url=settings.base_url,
    )
    kept = KeptOpening(
        prompt=opening.prompt,
        native_id=opening.native_id,
        model=request.model,
        command=request.command,
        args=request.args,
        drift=opening.drift,
        notes=opening.notes,
    )
    await trio.to_thread.run_sync(opening_file.keep, record, run, kept)
    started = await child.start(
        folder,
        provider.launch(request),
        cwd=record.worktree,
        marker=mark,
        fifo=fifo_of(world, record, run),
        base_env=world.env,
    )
    return _started(world, effect, kept, started.pid, found=False)


def _started(
    world: World, effect: effects.StartChild, opening: KeptOpening, pid: int, *, found: bool
) -> reports.ChildStarted:
    return reports.ChildStarted(
        key=effect.key,
        at=world.clock(),
        run=effect.run,
        pid=pid,
        native_id=opening.native_id,
        found_alive=found,
        drift=opening.drift,
        notes=opening.notes,
    )


async def _opening(world: World, effect: effects.StartChild) -> tuple[KeptOpening, Contract | None]:
    """The first message: the task, or the brief of the verified contract."""
    said = effect.opening
    record = effect.record
    if not said.contract_id:
        return KeptOpening(prompt=_with_postscript(said.text, said.postscript)), None
    folder = RepoPlaces(root=Path(record.repository)).session(record.sid)

    def load() -> tuple[Contract, str]:
        return contracts.load_verified(folder, world.signing_key, session_id=record.sid)

    contract, markdown = await trio.to_thread.run_sync(load)
    if contract.contract_id != said.contract_id:
        raise ConflictError(
            f"the contract on disk is {contract.contract_id}, not {said.contract_id}",
            hint="the session is handed over again",
        )
    expected = tuple((entry.path, entry.sha256) for entry in contract.file_manifest)
    drift = await manifest.drift(Path(record.worktree), expected)
    notes: tuple[str, ...] = ()
    text = markdown
    if drift:
        listed = ", ".join(drift[:20])
        notes = (f"{len(drift)} files differ from the contract's manifest: {listed}",)
        text = f"{markdown}\n\nThese files changed after the contract was written: {listed}\n"
    prompt = _with_postscript(text, said.postscript)
    return KeptOpening(prompt=prompt, drift=drift, notes=notes), contract


def _with_postscript(text: str, postscript: tuple[str, ...]) -> str:
    if not postscript:
        return text
    return text.rstrip() + "\n\nThe user adds:\n\n" + "\n\n".join(postscript) + "\n"


async def follow_child(world: World, effect: effects.FollowChild, tell: Callable[[Any], None]) -> None:
    """Deliver the run's output from its start, then its end."""
    record, run, key = effect.record, effect.run, effect.key
    folder = run_folder(record, run)
    opening = await trio.to_thread.run_sync(opening_file.kept, record, run)
    tell(
        reports.RunOpened(
            key=key,
            at=world.clock(),
            run=run,
            prompt=opening.prompt,
            native_id=opening.native_id,
            model=opening.model,
            command=opening.command,
            args=opening.args,
        )
    )

    async def deliver(chunk: follow.OutputChunk) -> None:
        tell(reports.OutputRead(key=key, at=world.clock(), run=run, stream=chunk.stream, lines=chunk.lines))

    ended = await follow.follow(folder, from_out=0, from_err=0, deliver=deliver, watch=world.watch)
    tell(reports.ChildEnded(key=key, at=world.clock(), run=run, status=ended.status))


async def write_child(world: World, effect: effects.WriteChild) -> reports.ChildWritten:
    """Write each line that has not been written yet."""
    record = effect.record
    writes = [Write(key=line.key, line=line.line) for line in effect.lines]
    written = await stdin.write(fifo_of(world, record, effect.run), run_folder(record, effect.run), writes)
    return reports.ChildWritten(
        key=effect.key, at=world.clock(), run=effect.run, written=tuple(written.keys), lost=written.lost
    )


async def end_child(world: World, effect: effects.EndChild) -> reports.ChildGone:
    """Leave nothing of the run alive."""
    record = effect.record
    ended = await stop.end(
        run_folder(record, effect.run),
        marker(record.sid, effect.run),
        provider_named(effect.target.provider).stop_steps,
        input_grace=IDLE_GRACE if effect.idle else 0.0,
    )
    return reports.ChildGone(
        key=effect.key, at=world.clock(), run=effect.run, how=ended.how, status=ended.status, left=ended.left
    )


async def seal_run(world: World, effect: effects.SealRun) -> None:
    """Rewrite the finished run's output in redacted form."""
    folder = run_folder(effect.record, effect.run)
    shim = folder.shim()
    # A child that died together with its shim has left no status.
    over = folder.ended() or shim is None or not processes.same(shim)
    if over and folder.path.is_dir() and not folder.offsets().redacted:
        await redact_files(folder, lambda text: DEFAULT.redact(text).text)
