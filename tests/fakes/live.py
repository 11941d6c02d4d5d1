"""A whole daemon as a process of its own, with scripted agents: what a client of it can do and see.

Everything lies in one folder; at the end nothing of it is left running.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil
import trio
from attrs import define, field
from trio_websocket import open_websocket_url

T = TypeVar("T")
ENDED = ("COMPLETED", "FAILED", "STOPPED")
PATIENCE = float(os.environ.get("RELAY_PATIENCE", "60"))
Event = dict[str, Any]


@define
class Live:
    """See the module.

    Args:
        root: an empty folder.
        launcher: what starts the daemon's command, which is put behind it.
    """

    root: Path
    launcher: tuple[str, ...] = ()
    accounts: dict[str, Mapping[str, str]] = field(factory=dict)
    settings: str = ""
    more_env: dict[str, str] = field(factory=dict)
    process: trio.Process | None = None
    client: Any = None
    url: str = ""
    said: str = ""

    def __attrs_post_init__(self) -> None:
        for folder in (self.state, self.config, self.home):
            folder.mkdir(parents=True)

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "RELAY_STATE_DIR": str(self.state),
            "RELAY_CONFIG_DIR": str(self.config),
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.more_env,
        }

    # -- what there is -----------------------------------------------------------------------

    def repository(self, name: str = "project", files: Mapping[str, str] | None = None) -> Path:
        """A new repository with one commit."""
        folder = self.root / name
        folder.mkdir()
        for path, text in (files or {"README.md": "# A project\n"}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        self.git(folder, "init", "-q", "-b", "main")
        self.git(folder, "add", "-A")
        self.git(folder, "commit", "-q", "-m", "Begin")
        return folder

    def git(self, folder: Path, *arguments: str) -> str:
        who = ("-c", "user.name=A User", "-c", "user.email=user@example.org")
        ran = subprocess.run(
            ["git", *who, *arguments], cwd=folder, env=self.env, check=True, capture_output=True
        )
        return ran.stdout.decode()

    def plays(self, label: str, *steps: object, **scenario: Any) -> None:
        """An account of the scripted agent, and what its agents do from their next start on."""
        played = {"tasks": [{"name": "Do it", "steps": list(steps)}] if steps else [], **scenario}
        path = self.root / f"scenario-{label}.json"
        path.write_text(json.dumps(played))
        self.account(label, {"SCRIPTED_SCENARIO": str(path)})

    def account(self, label: str, env: Mapping[str, str]) -> None:
        """An account of the scripted agent."""
        self.accounts[label] = env
        sections = [self.settings]
        for name, values in self.accounts.items():
            listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
            sections.append(f"[providers.scripted.accounts.{name}]\nenv = {{ {listed} }}\n")
        (self.config / "relay.toml").write_text("\n".join(sections))

    # -- the daemon --------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the daemon, and wait until it listens."""
        with (self.root / "daemon.err").open("ab") as errors:
            process = await trio.lowlevel.open_process(
                [*self.launcher, sys.executable, "-m", "relay", "daemon", "run", "--port", "0"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.home,
            )
        self.process = process
        said = b""
        with trio.fail_after(PATIENCE):
            while b"\n" not in said:
                piece = await process.stdout.receive_some()  # type: ignore[union-attr]
                assert piece, (self.root / "daemon.err").read_text()
                said += piece
        self.url = said.decode().split("listening on ")[1].strip()
        headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE)

    @property
    def token(self) -> str:
        return (self.state / "token").read_text().strip()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def ended(self) -> int:
        """Wait for the daemon's end; its exit status."""
        assert self.process is not None
        with trio.fail_after(PATIENCE):
            status = await self.process.wait()
        await self.client.aclose()
        await self.process.stdout.aclose()  # type: ignore[union-attr]
        return status

    async def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        await self.ended()

    async def stop(self) -> None:
        """End it by the API."""
        await self.post("/api/daemon/stop")
        assert await self.ended() == 0, (self.root / "daemon.err").read_text()

    async def cli(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run the command line beside the daemon."""
        command = [sys.executable, "-m", "relay", *words]
        return await trio.run_process(
            command,
            env=self.env,
            cwd=cwd or self.home,
            check=False,
            capture_stdout=True,
            capture_stderr=True,
        )

    # -- a client ----------------------------------------------------------------------------

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, **body: Any) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, path: str, **body: Any) -> tuple[int, dict[str, str]]:
        """Status and error of a request that is not done."""
        answer = await self.client.post(path, json=body)
        assert answer.status_code != 200, answer.text
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "hint"}
        return answer.status_code, error

    async def run(self, repository: Path, *providers: str, task: str = "Do the task", **body: Any) -> str:
        """Begin a session; its id."""
        made = await self.post(
            "/api/sessions", task=task, cwd=str(repository), providers=providers or ["scripted"], **body
        )
        return str(made["sessionId"])

    async def reach(self, sid: str, *states: str) -> Any:
        """The session once it is in one of the states."""

        async def there() -> Any:
            seen = await self.get(f"/api/sessions/{sid}")
            if seen["fsmState"] in states:
                return seen
            assert seen["fsmState"] not in ENDED, (seen["endReason"], await self.story(sid))
            return None

        return await self.until(f"{sid} is {' or '.join(states)}", there)

    async def until(self, what: str, check: Callable[[], Awaitable[T | None]]) -> T:
        """The first answer of `check` that is something."""
        with trio.move_on_after(PATIENCE):
            while True:
                found = await check()
                if found:
                    return found
                await trio.sleep(0.03)
        raise AssertionError(f"never: {what}")

    async def story(self, sid: str) -> str:
        """The session's events, for the message of a failed test."""
        return "\n".join(json.dumps(event)[:400] for event in await self.get(f"/api/sessions/{sid}/events"))

    @asynccontextmanager
    async def watching(self, query: str = "") -> AsyncIterator[Any]:
        """A WebSocket client."""
        url = f"{self.url.replace('http', 'ws', 1)}/ws{query}"
        headers = [("Authorization", f"Bearer {self.token}")]
        async with open_websocket_url(url, extra_headers=headers) as ws:
            yield ws

    # -- what is on disk ---------------------------------------------------------------------

    def audit(self, repository: Path) -> list[Event]:
        """The log's events in the form of the WebSocket's, in the order of the file."""
        found = []
        for line in (repository / ".relay" / "audit.jsonl").read_bytes().split(b"\n")[:-1]:
            entry = json.loads(line)
            data = dict(entry["data"])
            seq, sid = data.pop("seq", 0), data.pop("session", "")
            if seq:
                found.append(
                    {"seq": seq, "ts": entry["ts"], "session": sid, "type": entry["event"], "data": data}
                )
        return found

    def processes(self) -> list[psutil.Process]:
        """What runs of this daemon's agents."""
        found = []
        for process in psutil.process_iter():
            try:
                environ = process.environ()
            except psutil.Error:
                continue
            if environ.get("RELAY_RUN") and environ.get("HOME") == str(self.home):
                found.append(process)
        return found


@asynccontextmanager
async def live(root: Path) -> AsyncIterator[Live]:
    """A folder for a daemon, and at the end nothing of it alive."""
    made = Live(root=root)
    try:
        yield made
    finally:
        with trio.CancelScope(shield=True):
            if made.process is not None and made.process.poll() is None:
                made.process.kill()
                await made.process.wait()
            for process in made.processes():
                try:
                    process.kill()
                except psutil.Error:
                    continue


async def collect(ws: Any, into: list[Event], until: Callable[[Event], bool]) -> None:
    """Take what comes until an event says that it is enough."""
    with trio.fail_after(PATIENCE):
        while True:
            frame = json.loads(await ws.get_message())
            into.extend(frame)
            if any(until(event) for event in frame):
                return


def texts(events: list[Event], sid: str) -> list[str]:
    """What a session's agents said, in order."""
    return [
        event["data"]["text"]
        for event in events
        if event["session"] == sid and event["type"] == "agent_event" and event["data"]["kind"] == "text"
    ]


def all_over(count: int) -> Callable[[Event], bool]:
    """Tells the event by which the last of so many sessions has ended."""
    over: set[str] = set()

    def check(event: Event) -> bool:
        if event["type"] == "fsm" and event["data"]["to"] in ENDED:
            over.add(event["session"])
        return len(over) == count

    return check
