"""A user on a stage: a repository, agents with logins of their own, and a daemon that nobody else sees.

The tests of this folder ask it for what a user would do and see; it proves at the end of each that the
user's checkout is as it was and that nothing is left behind.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil
import trio
from attrs import define, field

from tests.fakes.llm.script import Step
from tests.fakes.llm.server import FakeLlm

T = TypeVar("T")

ENDED = ("COMPLETED", "FAILED", "STOPPED")
PATIENCE = 60.0
_QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
    "CLAUDE_CODE_ENABLE_TASKS": "0",
}
"""Claude Code without traffic of its own, and with the todo list that the fake model uses."""

_CODEX_CONFIG = """\
model = "gpt-5.5"
model_provider = "fake"
check_for_update_on_startup = false
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[features]
daemon_auto_start = false
apps = false
plugins = false
[tools.update_plan]
enabled = true
[analytics]
enabled = false
"""


@define
class Stage:
    """The folders, the agents and what they will do.

    Args:
        root: everything is in here; not below the temporary folder, where Codex refuses to work.
        llm: the fake of the model APIs.
        find_cli: the program of a real CLI; it skips the test, or fails it, where there is none.
        project: name of the folder of the repository.
    """

    root: Path
    llm: FakeLlm
    find_cli: Callable[[str], Path]
    settings: dict[str, str] = field(factory=dict)
    project: str = "project"
    _commands: dict[str, str] = field(factory=dict)
    _accounts: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        for folder in (self.repo, self.state, self.config, self.home):
            folder.mkdir(parents=True)
        (self.repo / "README.md").write_text("# A project\n")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A User")
        self.git("config", "user.email", "user@example.org")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Begin")

    @property
    def repo(self) -> Path:
        return self.root / self.project

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def home(self) -> Path:
        return self.root / "home"

    def worktree(self, sid: str) -> Path:
        return self.repo / ".relay" / "worktrees" / sid

    def git(self, *arguments: str) -> str:
        """What git says in the user's checkout, without touching its index."""
        ran = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=self.repo,
            check=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"},
        )
        return ran.stdout.decode()

    def checkout(self) -> tuple[bytes, str, str, dict[str, bytes]]:
        """All that a session must leave alone: index, HEAD and branch, status, files."""
        files = {
            str(path.relative_to(self.repo)): path.read_bytes()
            for path in self.repo.rglob("*")
            if path.is_file() and not {".git", ".relay"} & set(path.relative_to(self.repo).parts)
        }
        head = self.git("rev-parse", "HEAD") + self.git("symbolic-ref", "HEAD") + self.git("stash", "list")
        return (self.repo / ".git" / "index").read_bytes(), head, self.git("status", "--porcelain"), files

    def file(self, sid: str, path: str) -> str:
        """A file as the session's branch has it."""
        return self.git("show", f"relay/{sid}:{path}")

    def claude(self, label: str, *steps: Step) -> str:
        """A subscription account of the real Claude Code; returns its login at the fake."""
        self._commands["claude"] = str(self.find_cli("claude"))
        login = f"claude-{label}"
        env = {**_QUIET, "ANTHROPIC_BASE_URL": self.llm.url(login), "CLAUDE_CODE_OAUTH_TOKEN": _token(login)}
        self._account("claude", label, env, self.home / login)
        self.llm.script(login, *steps)
        return login

    def codex(self, label: str, *steps: Step) -> str:
        """An account of the real Codex; returns its login at the fake."""
        self._commands["codex"] = str(self.find_cli("codex"))
        login = f"codex-{label}"
        self._account("codex", label, {"FAKE_API_KEY": _token(login)}, self.home / login)
        (self.home / login / "config.toml").write_text(_CODEX_CONFIG.format(url=self.llm.url(login)))
        self.llm.script(login, *steps)
        return login

    def scripted(self, label: str, **scenario: Any) -> None:
        """An account of the scripted agent, which plays the scenario."""
        path = self.scripted_plays(label, **scenario)
        self._account("scripted", label, {"SCRIPTED_SCENARIO": str(path)}, None)

    def scripted_plays(self, label: str, **scenario: Any) -> Path:
        """What the account's agents play from the next start on; the scenario's file."""
        path = self.root / f"scenario-{label}.json"
        path.write_text(json.dumps({"tasks": [], **scenario}))
        return path

    def _account(self, provider: str, label: str, env: Mapping[str, str], folder: Path | None) -> None:
        lines = [f"[providers.{provider}.accounts.{label}]"]
        if folder is not None:
            folder.mkdir()
            lines.append(f"config_dir = {json.dumps(str(folder))}")
        lines.append("env = { " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in env.items()) + " }")
        self._accounts.append("\n".join(lines))

    def _write_config(self) -> None:
        parts = [f"[{section}]\n{text}" for section, text in self.settings.items()]
        parts += [
            f"[providers.{name}]\ncommand = {json.dumps(command)}" for name, command in self._commands.items()
        ]
        (self.config / "relay.toml").write_text("\n\n".join((*parts, *self._accounts)) + "\n")

    @asynccontextmanager
    async def daemon(
        self,
        *,
        touches_checkout: bool = False,
        killed: bool = False,
        leaves_sessions: bool = False,
        follows: Sequence[str] = (),
    ) -> AsyncIterator[Relay]:
        """A running daemon; at the end every promise that holds for every session is checked.

        Args:
            touches_checkout: the test changes the user's checkout.
            killed: it dies by SIGKILL, its sessions under way.
            leaves_sessions: it is stopped, its sessions under way.
            follows: sessions of an earlier daemon, which are this one's now.
        """
        self._write_config()
        before = self.checkout()
        async with _process(self) as (process, url):
            token = (self.state / "token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as client:
                relay = Relay(stage=self, client=client, url=url, token=token, sids=list(follows))
                yield relay
                if killed:
                    process.kill()
                else:
                    await (relay.stop() if leaves_sessions else relay.end())
            with trio.fail_after(PATIENCE):
                assert await process.wait() == (-9 if killed else 0)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0
        if not (killed or leaves_sessions):
            self._nothing_left(relay.sids)
        assert not self.llm.mistakes
        if not touches_checkout:
            assert self.checkout() == before

    def _nothing_left(self, sids: list[str]) -> None:
        assert list((self.state / "fifo").iterdir()) == []
        left = [found for sid in sids for found in marked(sid)]
        assert left == []


@asynccontextmanager
async def _process(stage: Stage) -> AsyncIterator[tuple[trio.Process, str]]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(stage.home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "RELAY_STATE_DIR": str(stage.state),
        "RELAY_CONFIG_DIR": str(stage.config),
    }
    with (stage.root / "daemon.err").open("ab") as errors:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "relay", "daemon", "run", "--port", "0"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=stage.home,
        )
    try:
        yield process, await _address(stage, process)
    finally:
        with trio.CancelScope(shield=True):
            if process.poll() is None:
                process.terminate()
            with trio.move_on_after(5.0):
                await process.wait()
            if process.poll() is None:
                process.kill()
                await process.wait()
            if process.stdout is not None:
                await process.stdout.aclose()


async def _address(stage: Stage, process: trio.Process) -> str:
    said = b""
    assert process.stdout is not None
    with trio.fail_after(PATIENCE):
        while b"\n" not in said:
            piece = await process.stdout.receive_some()
            assert piece, (stage.root / "daemon.err").read_text()
            said += piece
    words = said.decode().split("listening on ")
    assert len(words) == 2, said
    return words[1].strip()


def _token(login: str) -> str:
    return "-".join(("sk", "ant", "oat01", "fake", login))


def marked(sid: str) -> list[str]:
    """The command lines of the processes that carry the mark of one of the session's runs."""
    found = []
    for process in psutil.process_iter():
        try:
            if sid in process.environ().get("RELAY_RUN", ""):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return found


@define
class Relay:
    """What a client of the daemon can do."""

    stage: Stage
    client: httpx2.AsyncClient
    url: str
    token: str
    sids: list[str] = field(factory=list)

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, want: int = 200, **body: Any) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code == want, answer.text
        return answer.json()

    async def run(self, task: str, *providers: str, **body: Any) -> str:
        """Begin a session in the user's checkout; its id."""
        asked = {"task": task, "cwd": str(self.stage.repo), "providers": providers, **body}
        made = await self.post("/api/sessions", **asked)
        self.sids.append(made["sessionId"])
        return self.sids[-1]

    async def session(self, sid: str) -> Any:
        return await self.get(f"/api/sessions/{sid}")

    async def act(self, sid: str, verb: str, want: int = 200, **body: Any) -> Any:
        return await self.post(f"/api/sessions/{sid}/{verb}", want, **body)

    async def events(self, sid: str, kind: str = "") -> list[dict[str, Any]]:
        """The data of the session's events, with their `type`; all, or those of one type."""
        found = await self.get(f"/api/sessions/{sid}/events")
        return [{"type": e["type"], **e["data"]} for e in found if not kind or e["type"] == kind]

    async def reach(self, sid: str, *states: str) -> Any:
        """The session once it is in one of the states."""

        async def there() -> Any:
            seen = await self.session(sid)
            if seen["fsmState"] in states:
                return seen
            assert seen["fsmState"] not in ENDED, await self.story(sid)
            return None

        return await self.until(f"{sid} is {' or '.join(states)}", there)

    async def event(self, sid: str, entry: str, /, **wanted: Any) -> dict[str, Any]:
        """The first event of this type whose data has what is wanted, once there is one."""

        async def there() -> dict[str, Any] | None:
            for event in await self.events(sid, entry):
                if all(event.get(name) == value for name, value in wanted.items()):
                    return event
            return None

        return await self.until(f"{entry} {wanted} of {sid}", there)

    async def until(self, what: str, check: Callable[[], Awaitable[T | None]]) -> T:
        """The first answer of `check` that is something.

        Raises:
            AssertionError: there was none in good time; tells what did happen.
        """
        with trio.move_on_after(PATIENCE):
            while True:
                found = await check()
                if found:
                    return found
                await trio.sleep(0.03)
        stories = "\n".join([await self.story(sid) for sid in self.sids])
        raise AssertionError(f"never: {what}\n{stories}\n{(self.stage.root / 'daemon.err').read_text()}")

    async def appears(self, path: Path) -> str:
        """The text of a file, once there is one with something in it."""

        target = trio.Path(path)

        async def there() -> str:
            return await target.read_text() if await target.exists() else ""

        return await self.until(f"there is {path}", there)

    async def story(self, sid: str) -> str:
        """The session's events, for the message of a failed test."""
        return "\n".join(json.dumps(event)[:400] for event in await self.events(sid))

    async def end(self) -> None:
        """End every session and the daemon, having checked what holds for all of them."""
        for sid in self.sids:
            if (await self.session(sid))["fsmState"] not in ENDED:
                await self.act(sid, "stop")
            await self.reach(sid, *ENDED)
            one_at_a_time(await self.events(sid))
            assert (await self.get("/api/audit/verify", session=sid))["ok"]
        await self.stop()

    async def stop(self) -> None:
        """End the daemon; agents go on."""
        await self.post("/api/daemon/stop")


def one_at_a_time(events: list[dict[str, Any]]) -> None:
    """Each agent of the session was gone before the next one was started."""
    alive: list[int] = []
    for event in events:
        if event["type"] == "dispatched":
            assert not alive, events
            alive.append(event["run"])
        elif event["type"] == "child_gone" and event["run"] in alive:  # a failed start is ended too
            alive.remove(event["run"])
    assert not alive, events
