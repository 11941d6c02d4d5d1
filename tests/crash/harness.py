"""A session whose daemon is killed, and what is left of it compared with one that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import psutil
import trio
from attrs import define, field, frozen

from relay.core.events import AgentTextDelta
from relay.core.framing import LineFramer
from relay.core.record import SessionRecord
from relay.effects import opening_file
from relay.effects.killpoints import VARIABLE
from relay.effects.spool import RunFolder
from relay.errors import RelayError
from relay.providers.protocol import LaunchRequest
from relay.providers.table import provider_named
from relay.store import audit_read, audit_verify
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.sessions import read_record

ROOT = Path(__file__).parent.parent.parent
PATIENCE = float(os.environ.get("RELAY_CRASH_PATIENCE", "60"))
WORKERS = int(os.environ.get("RELAY_CRASH_WORKERS", "5"))

FIRST = {
    "tasks": [
        {
            "name": "Begin",
            "steps": [
                {"say": {"text": "I begin with the first file.", "stream": True}},
                {"write": {"path": "first.txt", "content": "first\n"}},
                {"flood": {"events": 40, "per_second": 400}},
                {"shell": "sleep 0.1; echo more >> first.txt"},
            ],
        },
        {
            "name": "Go on",
            "steps": [
                {"append": {"path": "second.txt", "content": "half\n"}},
                {"limit": {"kind": "usage_limit", "resets_in": 7200}},
                {"append": {"path": "second.txt", "content": "never\n"}},
            ],
        },
    ],
}
SECOND = {
    "tasks": [
        {"name": "Begin", "steps": [{"append": {"path": "first.txt", "content": "done twice\n"}}]},
        {
            "name": "Go on",
            "steps": [
                {"append": {"path": "second.txt", "content": "whole\n"}},
                {"shell": "sleep 0.1; rm -f nothing"},
                {"flood": {"events": 20, "per_second": 400}},
            ],
        },
    ],
    "on_verify_failed": [{"append": {"path": "third.txt", "content": "as told, once\n"}}],
}
"""The first account comes to its limit; the second does the rest and is sent back once to be accepted."""

VERIFY = "grep -q once third.txt"
FILES = {
    "README.md": "# A project\n",
    "first.txt": "first\nmore\n",
    "second.txt": "half\nwhole\n",
    "third.txt": "as told, once\n",
}
"""What the session's branch holds in the end."""

_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


@frozen(kw_only=True)
class Outcome:
    """What became of a session: all that has to be as in an undisturbed run."""

    state: str
    reason: str
    targets: tuple[str, ...]
    statuses: tuple[str, ...]
    handoffs: int
    snapshots: int
    verified: bool
    tree: str
    files: Mapping[str, str]
    told: tuple[str, ...]
    """The message keys of the turns that the agents began, run by run."""


@define
class Losses:
    """What must be nothing. `passed` and `kills` count what was survived."""

    kills: int = 0
    missed: list[str] = field(factory=list)
    """Kill points that were not come to: the run went on undisturbed."""
    lost: list[str] = field(factory=list)
    doubled: list[str] = field(factory=list)
    invented: list[str] = field(factory=list)
    left: list[str] = field(factory=list)
    different: list[str] = field(factory=list)

    def told(self) -> str:
        return (
            f"{self.kills} kills survived, {len(self.lost)} events lost, {len(self.doubled)} events doubled, "
            f"{len(self.left)} processes left, {len(self.different)} other ends"
            f" ({len(self.missed)} points not come to)"
        )

    def check(self) -> None:
        wrong = [*self.lost, *self.doubled, *self.invented, *self.left, *self.different]
        assert not wrong, "\n".join([self.told(), *wrong[:40]])


@define
class Zygote:
    """See `zygote.py`."""

    process: trio.Process
    _lock: trio.Lock = field(factory=trio.Lock)

    async def daemon(self, env: Mapping[str, str], cwd: Path, log: Path) -> int:
        asked = json.dumps({"env": dict(env), "cwd": str(cwd), "log": str(log)}).encode()
        async with self._lock:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            await self.process.stdin.send_all(asked + b"\n")
            said = b""
            while not said.endswith(b"\n"):
                piece = await self.process.stdout.receive_some()
                assert piece, "the zygote has ended"
                said += piece
        return int(said)


@asynccontextmanager
async def zygote() -> AsyncIterator[Zygote]:
    """For the time of a test."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(ROOT / "tests" / "crash" / "zygote.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield Zygote(process)
    finally:
        with trio.CancelScope(shield=True):
            assert process.stdin is not None
            await process.stdin.aclose()
            with trio.move_on_after(5):
                await process.wait()
            if process.poll() is None:
                process.kill()
                await process.wait()


def make_repository(folder: Path) -> Path:
    """A repository to copy; making one takes several calls of git."""
    folder.mkdir()
    (folder / "README.md").write_text("# A project\n")
    for command in (
        "init -q -b main",
        "config user.name A",
        "config user.email a@example.org",
        "add -A",
        "commit -q -m Begin",
    ):
        subprocess.run(["git", *command.split()], cwd=folder, check=True, env={**os.environ, **_GIT})
    return folder


@define
class Case:
    """One user: a repository, a state folder, and a daemon that is killed.

    Args:
        root: where it lies; must not exist.
        repository: copied from here.
    """

    root: Path
    zygote: Zygote
    scenarios: Mapping[str, Mapping[str, Any]] = field(factory=lambda: {"one": FIRST, "two": SECOND})
    pid: int = 0
    url: str = ""

    @classmethod
    def made(cls, root: Path, repository: Path, starter: Zygote, **more: Any) -> Case:
        case = cls(root=root, zygote=starter, **more)
        for folder in (case.root, case.home, case.config):
            folder.mkdir()
        shutil.copytree(repository, case.repo, symlinks=True)
        lines = []
        for label, played in case.scenarios.items():
            path = root / f"{label}.json"
            path.write_text(json.dumps(played))
            lines.append(f"[providers.scripted.accounts.{label}]\nenv = {{ SCRIPTED_SCENARIO = '{path}' }}")
        (case.config / "relay.toml").write_text("\n".join(lines) + "\n")
        return case

    @property
    def repo(self) -> Path:
        return self.root / "project"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def places(self) -> RepoPlaces:
        return RepoPlaces(root=self.repo)

    @property
    def state(self) -> StatePlaces:
        return StatePlaces(root=self.root / "state")

    def git(self, *arguments: str) -> str:
        ran = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=self.repo,
            check=True,
            stdout=subprocess.PIPE,
            env={**os.environ, **_GIT},
        )
        return ran.stdout.decode()

    def record(self, sid: str) -> SessionRecord:
        return read_record(self.places, sid)[0]

    def sids(self) -> list[str]:
        """The sessions that are on disk."""
        found = []
        for sid in self.places.session_ids():
            try:
                found.append(self.record(sid).sid)
            except RelayError:
                continue
        return found

    # -- lives ---------------------------------------------------------------------------------

    async def start(self, kill_at: str = "") -> bool:
        """Begin a life of the daemon; False when it died before it could be asked anything."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "RELAY_STATE_DIR": str(self.state.root),
            "RELAY_CONFIG_DIR": str(self.config),
            **({VARIABLE: kill_at} if kill_at else {}),
        }
        self.pid = await self.zygote.daemon(env, self.home, self.log)
        with trio.fail_after(PATIENCE):
            while self.alive():
                try:
                    said = json.loads(self.state.daemon.read_bytes())
                except (OSError, ValueError):
                    said = {}
                if said.get("pid") == self.pid:
                    self.url = said["url"]
                    return True
                await trio.sleep(0.02)
        return False

    @property
    def log(self) -> Path:
        return self.root / "daemon.err"

    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    async def kill(self, number: int = signal.SIGKILL) -> bool:
        """Kill it; False when it was dead already."""
        was = self.alive()
        if was:
            os.kill(self.pid, number)
        await self.death()
        return was

    async def death(self) -> None:
        with trio.fail_after(PATIENCE):
            while self.alive():  # noqa: ASYNC110  (a process of the zygote's, not of ours)
                await trio.sleep(0.01)

    async def begin(self, **asked: Any) -> bool:
        """Ask for the session, unless it is there; False when the daemon died of it."""
        if self.sids():
            return True
        body = {
            "task": "Make three files",
            "cwd": str(self.repo),
            "providers": ["scripted/one", "scripted/two"],
            "verify": [VERIFY],
            "allow": "all",
            **asked,
        }
        return await self.post("/api/sessions", body) is not None

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer; None when the daemon died over it."""
        token = self.state.token.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE) as client:
                answer = await client.post(path, json=dict(body))
        except httpx2.TransportError:
            await self.death()
            return None
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def over(self) -> bool:
        """Wait until the session is over and the daemon idle; False when the daemon died before that."""

        async def there() -> bool:
            return self.ended()

        return await self.until(there)

    def ended(self) -> bool:
        """There are sessions, and none is under way."""
        sids = self.sids()
        return bool(sids) and all(self.record(sid).ended for sid in sids)

    async def until(self, check: Callable[[], Awaitable[bool]]) -> bool:
        with trio.move_on_after(PATIENCE) as scope:
            while self.alive():
                if await check():
                    return True
                await trio.sleep(0.05)
        assert not scope.cancelled_caught, f"stuck: {self.story()}"
        return False

    async def settled(self) -> bool:
        """Wait until what follows the end is done, too: the output is rewritten, the log is whole."""

        async def done() -> bool:
            record = self.record(self.sids()[0])
            folders = [RunFolder(self.places.run(record.sid, run.number)) for run in record.runs]
            # A run that was never started has nothing to rewrite.
            sealed = all(f.offsets().redacted for f in folders if f.path.exists())
            return sealed and any(e.data.get("to") == record.state for e in self.entries(record.sid, "fsm"))

        return await self.until(done)

    async def life(self, kill_at: str = "") -> bool:
        """A life of the daemon up to the session's end and all that follows; False when it died before."""
        return await self.start(kill_at) and await self.begin() and await self.over() and await self.settled()

    async def end(self) -> None:
        await self.kill(signal.SIGTERM)

    # -- what is left --------------------------------------------------------------------------

    def entries(self, sid: str, kind: str = "") -> list[audit_read.AuditEntry]:
        found = audit_read.entries(self.places.audit, session=sid)
        return [entry for entry in found if not kind or entry.event == kind]

    def outcome(self) -> Outcome:
        sid = self.sids()[0]
        record = self.record(sid)
        branch = f"relay/{sid}"
        names = self.git("ls-tree", "-r", "--name-only", branch).split()
        told = []
        for run in record.runs:
            for line in _bytes(self.places.run(sid, run.number) / "out").split(b"\n"):
                said = json.loads(line) if line else {}
                if said.get("type") == "turn_started":
                    told.append(f"{run.number}:{said['key']}")
        return Outcome(
            state=record.state.value,
            reason=record.end_reason,
            targets=tuple(str(run.target) for run in record.runs),
            statuses=tuple("ended" if run.ended_at else "open" for run in record.runs),
            handoffs=record.handoffs,
            snapshots=record.snapshots,
            verified=record.verified,
            tree=self.git("rev-parse", f"{branch}^{{tree}}").strip(),
            files={name: self.git("show", f"{branch}:{name}") for name in names},
            told=tuple(told),
        )

    def judge(self, losses: Losses, what: str) -> None:
        """Add what is wrong, whatever the end was."""
        sid = self.sids()[0]
        record = self.record(sid)
        printed = Counter(place for run in record.runs for place in self._printed(record, run.number))
        entries = self.entries(sid)
        journaled = Counter(
            tuple(entry.data["place"])
            for entry in entries
            if entry.event == "agent_event" and entry.data["place"][1] == "out"
        )
        losses.lost += [f"{what}: lost {place}" for place in printed - journaled]
        losses.invented += [f"{what}: invented {place}" for place in journaled.keys() - printed.keys()]
        losses.doubled += [f"{what}: doubled {place}" for place, n in journaled.items() if n > 1]
        for run in record.runs:
            sent = [k for k in _bytes(self.places.run(sid, run.number) / "writes").split(b"\n") if k]
            losses.doubled += [f"{what}: sent twice {key!r}" for key, n in Counter(sent).items() if n > 1]
        numbers = [entry.seq for entry in entries]
        if any(b <= a for a, b in pairwise(numbers)):
            losses.doubled.append(f"{what}: event numbers do not grow")
        key = self.state.signing_key.read_bytes()
        verdict = audit_verify.verify(self.places.audit, self.state.anchor(self.repo), key)
        if not verdict.ok:
            losses.different.append(f"{what}: the audit chain: {verdict.reason}")
        if (
            self.git("status", "--porcelain")
            or self.git("rev-parse", "--abbrev-ref", "HEAD").strip() != "main"
        ):
            losses.different.append(f"{what}: the user's checkout was touched")
        losses.left += [f"{what}: FIFO {path.name}" for path in self.state.fifos.iterdir()]

    def _printed(self, record: SessionRecord, number: int) -> list[tuple[int, str, int, int]]:
        """The places of the events that a run printed, read as its provider reads them."""
        run = record.runs[number - 1]
        try:
            opening = opening_file.kept(record, number)
        except RelayError:
            return []
        request = LaunchRequest(session_id=record.sid, run=number, cwd=record.worktree, prompt=opening.prompt)
        dialogue = provider_named(run.target.provider).dialogue(request)
        dialogue.open()
        framer = LineFramer()
        lines = framer.feed(_bytes(self.places.run(record.sid, number) / "out"))
        last = framer.close()
        return [
            (number, "out", line.end, index)
            for line in (*lines, *([last] if last else []))
            for index, event in enumerate(dialogue.read(line.data, "out").events)
            if not isinstance(event, AgentTextDelta)
        ]

    def story(self) -> str:
        lines = [_bytes(self.log).decode()[-4000:]]
        for sid in self.sids():
            record = self.record(sid)
            lines.append(f"{record.state} {record.wait_reason} {record.reason}")
            for entry in self.entries(sid):
                if entry.event != "agent_event":
                    data = {k: v for k, v in entry.data.items() if v and k not in ("session",)}
                    lines.append(f"{entry.ts} {entry.event} {json.dumps(data)[:300]}")
        return "\n".join(lines)


def marked(sids: Sequence[str]) -> list[str]:
    """The processes that carry the mark of a run of one of the sessions."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RELAY_RUN", "").partition(".")[0] in sids:
                found.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
        except psutil.Error:
            continue
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


@define
class Trial:
    """Many cases, several at a time; what they lose comes together in `losses`."""

    folder: Path
    zygote: Zygote
    losses: Losses = field(factory=Losses)
    want: Outcome | None = None
    sids: list[str] = field(factory=list)
    _number: int = 0
    _repository: Path = Path()

    def __attrs_post_init__(self) -> None:
        self._repository = make_repository(self.folder / "repository")

    def case(self, **more: Any) -> Case:
        self._number += 1
        return Case.made(self.folder / f"case-{self._number}", self._repository, self.zygote, **more)

    async def undisturbed(self, kill_at: str = "") -> Outcome:
        """A run that nobody disturbs."""
        case = self.case()
        assert await case.life(kill_at), case.story()
        await self.finish(case, "undisturbed")
        self.want = case.outcome()
        return self.want

    async def finish(self, case: Case, what: str) -> None:
        """The session is over: look at all of it."""
        await case.end()
        self.sids += case.sids()
        case.judge(self.losses, what)
        if self.want is not None and case.outcome() != self.want:
            self.losses.different.append(f"{what}: {case.outcome()}\ninstead of {self.want}\n{case.story()}")

    async def at_point(self, point: str) -> None:
        """Killed at a named point."""
        case = self.case()
        try:
            if await case.life(point):
                self.losses.missed.append(point)
            else:
                self.losses.kills += 1
                assert await case.life(), case.story()
            await self.finish(case, point)
        except (AssertionError, trio.TooSlowError) as error:
            self.losses.different.append(f"{point}: {error!r}\n{case.story()}")
        finally:
            await self._clear(case)

    async def at_instants(self, rng: random.Random, *, most: int = 12, longest: float = 0.7) -> None:
        """Killed at random instants, again and again, until the session is over."""
        lives: list[float] = []
        case = self.case()
        try:
            while len(lives) < most:
                lives.append(rng.uniform(0, longest))
                if not await case.start():
                    raise AssertionError(case.story())
                with trio.move_on_after(lives[-1]):
                    await case.begin()
                    await case.over()
                self.losses.kills += await case.kill()
                if case.ended():
                    break
            assert await case.life(), case.story()
            await self.finish(case, f"killed after {', '.join(f'{life:.3f}' for life in lives)} s")
        except (AssertionError, trio.TooSlowError) as error:
            self.losses.different.append(f"killed after {lives}: {error!r}\n{case.story()}")
        finally:
            await self._clear(case)

    async def _clear(self, case: Case) -> None:
        with trio.CancelScope(shield=True):
            await case.kill()
        if not self.losses.different:
            await trio.to_thread.run_sync(shutil.rmtree, case.root)

    async def all(self, tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Several at a time; then nothing of them may be alive."""
        limiter = trio.CapacityLimiter(WORKERS)

        async def one(task: Callable[[], Awaitable[None]]) -> None:
            async with limiter:
                await task()

        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(one, task)
        self.losses.left += await trio.to_thread.run_sync(marked, self.sids)
