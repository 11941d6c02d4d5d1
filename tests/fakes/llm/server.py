"""A fake of the model APIs on the loopback interface, in the test's own process.

Each login has a base URL and a script of its own. Every request is kept, so that a test can see what
an agent was really told. Used as a context manager.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from attrs import frozen

from tests.fakes.llm import messages, responses
from tests.fakes.llm.script import Step


@frozen(kw_only=True)
class Request:
    """A request for an answer of the model.

    Args:
        login: whose base URL it came to.
        path: behind the login's base URL.
        headers: by lower-case name.
        body: as decoded.
    """

    login: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Every text that the model sees in the conversation, tool calls and results included."""
        return "\n".join(_texts(self.body.get("messages") or self.body.get("input") or []))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("type", "role", "id"):
                yield from _texts(item)


class FakeLlm:
    """The server and what it was told to do."""

    def __init__(self) -> None:
        self.closing = threading.Event()
        self.mistakes: list[str] = []
        self._lock = threading.Lock()
        self._scripts: dict[str, tuple[Step, ...]] = {}
        self._played: dict[str, int] = {}
        self._requests: list[Request] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"llm": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, login: str) -> str:
        """The base URL of a login, without the API's own `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{login}"

    def script(self, login: str, *steps: Step) -> None:
        """What the login's model does from now on."""
        with self._lock:
            self._scripts[login] = steps
            self._played[login] = 0

    def requests(self, login: str) -> list[Request]:
        """The login's conversation so far, oldest first."""
        with self._lock:
            return [request for request in self._requests if request.login == login]

    def next_step(self, request: Request) -> tuple[Step, int] | None:
        """Keep the request; its step, and the step's number for ids. None without a script."""
        with self._lock:
            self._requests.append(request)
            steps = self._scripts.get(request.login)
            if not steps:
                self.mistakes.append(f"{request.login} was asked without a script: {request.path}")
                return None
            at = self._played[request.login]
            self._played[request.login] = at + 1
            return steps[min(at, len(steps) - 1)], len(self._requests)


class _Handler(BaseHTTPRequestHandler):
    llm: FakeLlm
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._json(200, {"object": "list", "data": [], "models": [], "has_more": False})
        else:
            self._json(404, {"error": {"type": "not_found_error", "message": "no such path"}})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        login, _, rest = self.path.partition("?")[0].lstrip("/").partition("/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(login=login, path=f"/{rest}", headers=headers, body=body)
        if rest.endswith("messages/count_tokens"):
            self._json(200, {"input_tokens": len(json.dumps(body)) // 4})
        elif rest.endswith("messages") and messages.is_side(body):
            self._json(200, messages.whole('{"title": "A task"}', str(body.get("model"))))
        elif rest.endswith("messages"):
            self._play(messages, request)
        elif rest.endswith("responses"):
            self._play(responses, request)
        else:
            self._json(404, {"error": {"type": "not_found_error", "message": "no such path"}})

    def _play(self, api: Any, request: Request) -> None:
        found = self.llm.next_step(request)
        if found is None:
            self._json(500, {"error": {"type": "api_error", "message": "this login has no script"}})
            return
        step, number = found
        if step.failure is not None:
            status, headers, body = api.failed(step.failure)
            self._json(status, body, headers)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        for name, value in api.headers(step.used).items():
            self.send_header(name, value)
        self.end_headers()
        for count, frame in enumerate(api.stream(step, request.body, number)):
            if frame is None:
                self._stand_still(step)
                continue
            name, data = frame
            self._chunk(name, {"type": name, "sequence_number": count, **data})
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _stand_still(self, step: Step) -> None:
        while step.hold is not None and not step.hold.wait(0.05):
            if self.llm.closing.is_set():
                raise ConnectionAbortedError("the test is over")

    def _chunk(self, name: str, data: Mapping[str, Any]) -> None:
        frame = f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.flush()

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

    def _json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "content-type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
