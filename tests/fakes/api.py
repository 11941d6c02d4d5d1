"""The API over a scripted actor tree: every request is answered at once, with what the test says."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import define, field
from hypercorn.config import Config
from hypercorn.trio import serve

from relay.actors import messages
from relay.actors.facade import Facade
from relay.api.app import create_app
from relay.api.auth import Gatekeeper
from relay.api.context import Adoption, AgentReader, ApiContext
from relay.api.stream import EventStream
from relay.core.chain import Target
from relay.core.commands import Accepted, Answer, Refused
from relay.core.fsm import State
from relay.core.record import Options, SessionRecord
from relay.core.wire import to_wire
from relay.errors import NotFoundError
from relay.store.places import StatePlaces

TOKEN = "-".join(("a", "token", "for", "tests"))
PORT = 4748
HOST = f"127.0.0.1:{PORT}"
NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)
AUTHORIZED = {"Host": HOST, "Authorization": f"Bearer {TOKEN}"}


def record(sid: str, repository: Path, state: State = State.RUNNING, goal: str = "Build it") -> SessionRecord:
    """A session as it would lie on disk."""
    return SessionRecord(
        sid=sid,
        repository=str(repository),
        worktree=str(repository / ".relay" / "worktrees" / sid),
        branch=f"relay/{sid}",
        options=Options(goal=goal, chain=(Target(provider="scripted"),)),
        created_at=NOON,
        updated_at=NOON,
        state=state,
    )


@define(eq=False)
class FakeActors:
    """Stands for the actor tree, behind the facade.

    Args:
        sessions: what has an actor.
        answer: for a command or a new session; None: accepted.
        asked: every request so far.
    """

    facade: Facade
    sessions: list[SessionRecord] = field(factory=list)
    answer: Answer | None = None
    silent: bool = False
    asked: list[Any] = field(factory=list)

    def ask_root(self, message: Any) -> None:
        self.asked.append(message)
        if not self.silent:
            answered = messages.Answered(correlation=message.correlation, answer=self._answer(message))
            self.facade.deliver(answered)

    def _answer(self, message: Any) -> Answer:
        match message:
            case messages.DescribeSessions():
                views = [{**to_wire(known), "live": {"alive": True}} for known in self.sessions]
                return Accepted(data={"sessions": views})
            case messages.DescribeProviders():
                return Accepted(data={"circuits": []})
            case messages.ListApprovals():
                return Accepted(data={"approvals": []})
            case messages.DecideApproval():
                return Refused(code="not_found", message=f"no approval {message.approval!r}")
            case messages.DescribeTree():
                return Accepted(data={"tree": {"name": "root"}})
            case messages.CreateSession():
                return self.answer or Accepted(data={"sessionId": message.sid})
        return self.answer or Accepted(data={})


class FakeWork:
    async def diff(self, record: SessionRecord) -> Mapping[str, Any]:
        return {"stat": "", "files": [], "patch": ""}

    async def commits(self, record: SessionRecord) -> list[Mapping[str, Any]]:
        return []


class FakeMachine:
    async def providers(self, repository: Path | None) -> list[Mapping[str, Any]]:
        return [
            {
                "name": "scripted",
                "displayName": "Scripted agent",
                "program": "python",
                "installed": True,
                "path": "",
                "enabled": True,
                "model": "",
                "declaredCap": None,
                "accounts": ["default"],
            }
        ]


class FakeAgents:
    def seen_from(self, cwd: Path, env: Mapping[str, str]) -> AgentReader:
        return self

    async def agents(self, hours: int) -> Mapping[str, Any]:
        return {"agents": [], "problems": [], "sinceHours": hours}

    async def agent(self, wanted: str, hours: int) -> Mapping[str, Any]:
        raise NotFoundError(f"no agent session {wanted!r} was found")

    async def adopt(self, wanted: str, **order: Any) -> Adoption:
        raise NotFoundError(f"no agent session {wanted!r} was found")


@define
class Stand:
    """An application and what is behind it."""

    root: Path
    actors: FakeActors
    context: ApiContext
    app: Any
    stops: list[bool]

    @property
    def repository(self) -> Path:
        return self.root / "project"

    async def call(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Any:
        """One request; with the token and a right Host unless headers are given."""
        sent = AUTHORIZED if headers is None else headers
        return await self.app.test_client().open(path, method=method, headers=dict(sent), **more)

    async def error(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, str]]:
        """Status and error of a request that is refused."""
        answer = await self.call(method, path, **more)
        body = await answer.get_json()
        assert body is not None, (answer.status_code, await answer.get_data())
        assert set(body) == {"error"}, body
        assert set(body["error"]) == {"code", "message", "hint"}, body
        return answer.status_code, body["error"]


def stand(root: Path, *, port: int = PORT) -> Stand:
    """An application over fakes, in `root`."""
    (root / "project" / ".git").mkdir(parents=True)
    (root / "config").mkdir()
    facade = Facade(lambda: NOON, deadline=5.0)
    actors = FakeActors(facade=facade)
    facade.bind(actors)  # type: ignore[arg-type]
    stops: list[bool] = []
    context = ApiContext(
        facade=facade,
        places=StatePlaces.locate({"RELAY_STATE_DIR": str(root / "state")}).ensure(),
        signing_key=b"k" * 32,
        stream=EventStream(),
        gatekeeper=Gatekeeper(token=TOKEN, port=port),
        clock=lambda: NOON,
        work=FakeWork(),
        machine=FakeMachine(),
        agents=FakeAgents(),
        provider_names=("scripted", "claude"),
        config_dir=root / "config",
        stop=lambda: stops.append(True),
    )
    return Stand(root=root, actors=actors, context=context, app=create_app(context), stops=stops)


@asynccontextmanager
async def served(root: Path) -> AsyncIterator[tuple[Stand, int]]:
    """The application behind a real server on a free port of the loopback interface."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(64)
        port: int = bound.getsockname()[1]
        api = stand(root, port=port)
        config = Config()
        config.bind = [f"fd://{os.dup(bound.fileno())}"]
        config.graceful_timeout = config.shutdown_timeout = 0.1
        config.accesslog = config.errorlog = None
        ending = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, api.app, config, shutdown_trigger=ending.wait))
            try:
                yield api, port
            finally:
                ending.set()
                nursery.cancel_scope.cancel()
