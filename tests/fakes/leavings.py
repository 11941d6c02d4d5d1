"""A repository with sessions of every kind on disk, as ended sessions leave it, without a daemon.

Run as a program it clears away, and kills itself before its N-th step that changes something:
`python leavings.py ROOT N`. What it printed last is how many such steps there were.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trio
from attrs import define, evolve

from relay.core import effects, reports
from relay.core.chain import Target
from relay.core.fsm import State
from relay.core.record import FORMAT_VERSION, Options, Run, SessionRecord
from relay.core.wire import to_wire
from relay.effects import worktree
from relay.effects.do_gc import collect_garbage
from relay.effects.repository import inspect
from relay.effects.snapshot import take
from relay.effects.world import World
from relay.store import state_file
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repositories import remember_repository

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=60)
TARGET = Target(provider="scripted")


@define
class Leavings:
    """See the module.

    Args:
        root: the folder that holds the state folder and the repository.
    """

    root: Path

    @property
    def state(self) -> StatePlaces:
        return StatePlaces(root=self.root / "state")

    @property
    def places(self) -> RepoPlaces:
        return RepoPlaces(root=self.root / "project")

    @property
    def world(self) -> World:
        return World(
            places=self.state,
            signing_key=b"k" * 32,
            clock=lambda: NOW,
            env={},
            config_dir=self.root / "config",
            publish=lambda entries: None,
            end=lambda reason: None,
        )

    async def session(
        self, sid: str, files: dict[str, str] | None = None, *, state: State = State.COMPLETED, runs: int = 1
    ) -> SessionRecord:
        """A session that wrote these files, with a snapshot of them."""
        self.state.ensure()
        self.places.ensure_session(sid)
        remember_repository(self.state, str(self.places.root))
        repo = await inspect(self.places.root)
        path = self.places.worktree(sid)
        made = await worktree.create(repo, sid, path, carry=True)
        for name, text in (files or {}).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        if files:
            await take(path, sid, 1, "Work")
        record = SessionRecord(
            sid=sid,
            repository=str(self.places.root),
            worktree=str(path),
            branch=made.branch,
            base_commit=made.carried_commit or made.base_commit,
            options=Options(goal="Do it", chain=(TARGET,)),
            created_at=LONG_AGO,
            updated_at=LONG_AGO,
            state=state,
            runs=tuple(Run(number=number, target=TARGET) for number in range(1, runs + 1)),
        )
        self.save(record)
        for run in record.runs:
            self.printed(sid, run.number)
        return record

    def save(self, record: SessionRecord, **changes: Any) -> SessionRecord:
        changed = evolve(record, **changes)
        state_file.save(self.places.fsm(record.sid), to_wire(changed), FORMAT_VERSION)
        return changed

    def printed(self, sid: str, number: int, *, redacted: bool = True) -> Path:
        """A run's folder."""
        folder = self.places.run(sid, number)
        folder.mkdir(mode=0o700)
        for name in ("argv.json", "err", "exit", "out"):
            (folder / name).write_text("{}\n")
        (folder / "offset").write_text(json.dumps({"out": 3, "err": 3, "sealed": True, "redacted": redacted}))
        return folder

    def fifo(self, name: str) -> Path:
        self.state.fifos.mkdir(exist_ok=True)
        os.mkfifo(self.state.fifos / name)
        return self.state.fifos / name

    async def collect(
        self, *, keep_days: float = 14.0, dry_run: bool = False, output_max_bytes: int = 10**9
    ) -> reports.GarbageCollected:
        return await collect_garbage(
            self.world,
            effects.CollectGarbage(
                key="gc", dry_run=dry_run, keep_days=keep_days, output_max_bytes=output_max_bytes
            ),
        )


def _main(root: Path, at: int) -> None:
    done = 0

    def step(event: str, args: tuple[Any, ...]) -> None:
        nonlocal done
        if event == "subprocess.Popen":
            words = [str(word) for word in args[1]]
            changes = ("worktree" in words[:3] and "list" not in words) or "update-ref" in words[:3]
        else:
            changes = event in ("os.remove", "os.rmdir", "os.rename")
        if changes:
            done += 1
            if done == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(step)
    found = trio.run(Leavings(root).collect)
    print(json.dumps({"steps": done, "problems": found.problems}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
