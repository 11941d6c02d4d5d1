"""A small real HTTP server in the daemon's place: answers as a test told it, and keeps what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from attrs import define, field, frozen

TOKEN = "t" * 43
HEALTH = {"ok": True, "port": 0, "version": "0.0.test"}
Answer = tuple[int, Any]


@frozen
class Asked:
    """A request that came."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]


def refusal(status: int, code: str, message: str, hint: str = "") -> Answer:
    """An error as the daemon words it."""
    return status, {"error": {"code": code, "message": message, "hint": hint}}


def session(sid: str = "s-aaaaaa", state: str = "RUNNING", **more: Any) -> dict[str, Any]:
    """A session as the API shows it."""
    return {
        "sessionId": sid,
        "taskGoal": "mend the tests",
        "repository": "/src/app",
        "worktree": f"/src/app/.relay/worktrees/{sid}",
        "branch": f"relay/{sid}",
        "fsmState": state,
        "handoffsDone": 0,
        "chain": ["one/default", "two/default"],
        "runs": [{"number": 1, "target": "one/default", "tokens": 10}],
        "notes": [],
        "live": {},
        **more,
    }


def event(seq: int, kind: str, data: Mapping[str, Any], *, sid: str = "s-aaaaaa") -> dict[str, Any]:
    """An event as the API gives it, one second after the one before."""
    return {
        "seq": seq,
        "ts": f"2026-06-03T12:00:{seq % 60:02}+00:00",
        "session": sid,
        "type": kind,
        "data": dict(data),
    }


def fsm(seq: int, before: str, after: str, **more: Any) -> dict[str, Any]:
    """A transition."""
    return event(seq, "fsm", {"from": before, "to": after, "target": "one", **more})


@define
class ApiServer:
    """The server. In a `with` block it listens, and `state` leads a client to it.

    Args:
        state: a state folder, in which daemon.json and the token are written.
        answers: "GET /api/x" -> (status, value), or a callable that makes it.
        views: the sessions.
        events: of every session, the oldest first.
        asked: the requests, the health checks left out.
    """

    state: Path
    answers: dict[str, Answer | Callable[[Asked], Answer]] = field(factory=dict)
    views: list[dict[str, Any]] = field(factory=list)
    events: list[dict[str, Any]] = field(factory=list)
    asked: list[Asked] = field(factory=list)
    health: Any = field(factory=lambda: dict(HEALTH))
    health_headers: list[Mapping[str, str]] = field(factory=list)
    news: threading.Event = field(factory=threading.Event)
    _http: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve("GET")

            def do_POST(self) -> None:
                self._serve("POST")

            def _serve(self, method: str) -> None:
                parts = urlsplit(self.path)
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(
                    method=method,
                    path=parts.path,
                    query={name: values[0] for name, values in parse_qs(parts.query).items()},
                    body=json.loads(data) if data else None,
                    headers=dict(self.headers.items()),
                )
                status, value = server.answer(asked)
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.state / "token").write_text(TOKEN + "\n")
        (self.state / "daemon.json").write_text(json.dumps({"url": self.url, "pid": 1}))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._http is not None
        assert self._thread is not None
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        assert self._http is not None
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, asked: Asked) -> Answer:
        """What a request gets."""
        if asked.path == "/api/health":
            self.health_headers.append(asked.headers)
            return 200, self.health
        self.asked.append(asked)
        self.news.set()
        if asked.headers.get("Authorization") != f"Bearer {TOKEN}":
            return refusal(401, "unauthorized", "no valid token", "send it")
        told = self.answers.get(f"{asked.method} {asked.path}")
        if told is not None:
            return told(asked) if callable(told) else told
        return self._session(asked)

    def _session(self, asked: Asked) -> Answer:
        if asked.path == "/api/sessions":
            return 200, self.views
        _, _, rest = asked.path.partition("/api/sessions/")
        sid, _, what = rest.partition("/")
        view = next((view for view in self.views if view["sessionId"] == sid), None)
        if view is None:
            return refusal(404, "not_found", f"no {asked.path}")
        if what == "events":
            after, limit = int(asked.query.get("after", "0")), int(asked.query.get("limit", "5000"))
            return 200, [event for event in self.events if event["seq"] > after][:limit]
        if what == "diff":
            return 200, {"stat": "1 file changed", "patch": "+a\n", "files": []}
        return 200, view

    def posted(self) -> list[tuple[str, Any]]:
        """Path and body of every POST."""
        return [(asked.path, asked.body) for asked in self.asked if asked.method == "POST"]
