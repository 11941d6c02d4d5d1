"""The person at the terminal: `relay run` and `attach` in a pseudo-terminal, and the desk as a value."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay.cli.asking import Desk
from tests.fakes.api_server import ApiServer, Asked, event, fsm, session

SHELL = {"id": "a-1", "status": "open", "target": "one", "toolKind": "shell", "command": "rm -rf build"}
QUESTION = {"id": "a-2", "status": "open", "target": "one", "toolKind": "ask", "question": "Which?"}
LIMIT_SECONDS = 20.0


def approval(seq: int, data: dict[str, str]) -> dict[str, object]:
    return event(seq, "approval", data)


@pytest.mark.parametrize(
    ("asked", "line", "want"),
    [
        (SHELL, "y\n", {"approved": True, "note": ""}),
        (SHELL, " YES \n", {"approved": True, "note": ""}),
        (SHELL, "n\n", {"approved": False, "note": ""}),
        (SHELL, "\n", None),
        (SHELL, "maybe\n", None),
        (QUESTION, "the first\n", {"approved": True, "note": "the first"}),
        (QUESTION, "n\n", {"approved": True, "note": "n"}),
        (QUESTION, "\n", None),
    ],
)
def test_what_a_line_means(asked: dict[str, str], line: str, want: object) -> None:
    desk = Desk()
    desk.see([approval(1, asked)])
    desk.question()

    assert desk.answer(line) == want


def test_one_question_at_a_time_the_oldest_first() -> None:
    desk = Desk()
    desk.see([approval(1, SHELL), approval(2, QUESTION)])

    assert desk.question() == "allow a-1, run: rm -rf build? [y/n] "
    assert desk.question() == ""
    desk.see([approval(3, {"id": "a-1", "status": "denied"})])
    assert desk.question() == "your answer to a-2 (empty to leave it): "


def test_what_was_answered_elsewhere_is_not_asked() -> None:
    desk = Desk()
    desk.see([approval(1, SHELL), approval(2, QUESTION)])
    desk.keep(["a-2"])

    assert list(desk.open) == ["a-2"]


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.seen = ""

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while words not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{words!r} did not come; there was: {self.seen}"
            if not select.select([self._fd], [], [], left)[0]:
                continue
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                data = b""
            assert data, f"it ended before {words!r}; there was: {self.seen}"
            self.seen += data.decode()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())


@contextmanager
def terminal(*arguments: str) -> Iterator[tuple[Terminal, list[int]]]:
    """Run a command; behind the block, its exit code is in the list."""
    codes: list[int] = []
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "relay", *arguments])
    try:
        at = Terminal(fd)
        yield at, codes
        while True:
            try:
                if not os.read(fd, 65536):
                    break
            except OSError:
                break
    except BaseException:
        os.kill(pid, 9)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        codes.append(os.waitstatus_to_exitcode(status))


@pytest.fixture
def waiting(server: ApiServer, state: Path, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """A session that runs until something is posted, and then ends."""
    monkeypatch.setenv("NO_COLOR", "1")
    server.views = [session()]
    server.events = [event(1, "session", {"goal": "mend it", "branch": "relay/s-aaaaaa"})]
    server.answers["GET /api/approvals"] = (200, [])
    server.answers["POST /api/sessions"] = (200, {"sessionId": "s-aaaaaa", "notes": []})
    return server


def ends_as(server: ApiServer, state: str) -> object:
    def answer(asked: Asked) -> tuple[int, object]:
        server.views = [session("s-aaaaaa", state)]
        server.events = [*server.events, fsm(9, "RUNNING", state)]
        return 200, {"sessionId": "s-aaaaaa"}

    return answer


def test_a_permission_is_answered_at_the_terminal(waiting: ApiServer) -> None:
    waiting.events.append(approval(2, SHELL))
    waiting.answers["POST /api/approvals/a-1"] = ends_as(waiting, "COMPLETED")

    with terminal("run", "mend it") as (at, codes):
        at.read_until("allow a-1, run: rm -rf build? [y/n] ")
        at.type("y\n")
        at.read_until("RUNNING -> COMPLETED")

    assert codes == [0]
    assert waiting.posted()[1:] == [("/api/approvals/a-1", {"approved": True, "note": ""})]


def test_events_go_on_while_a_question_stands(waiting: ApiServer) -> None:
    waiting.answers["GET /api/approvals"] = (200, [SHELL])
    waiting.events.append(approval(2, SHELL))

    with terminal("attach") as (at, codes):
        at.read_until("[y/n] ")
        waiting.events.append(event(3, "agent_event", {"kind": "text", "target": "one", "text": "meanwhile"}))
        at.read_until("meanwhile")
        waiting.events.append(approval(4, {"id": "a-1", "status": "denied", "by": "timeout"}))
        at.read_until("a-1 denied by timeout")
        ends_as(waiting, "FAILED")(waiting.asked[0])  # type: ignore[operator]
        at.read_until("ended")

    assert codes == [1]
    assert waiting.posted() == []


@pytest.mark.parametrize(
    ("typed", "want_posts", "want_words", "want_code"),
    [
        ("d\n", [], "the session goes on", 0),
        ("\x03", [], "the session goes on", 0),
        ("p\n", ["/api/sessions/s-aaaaaa/pause"], "paused at the next safe point", 0),
        ("x\ns\n", ["/api/sessions/s-aaaaaa/stop"], "ended   STOPPED", 1),
    ],
    ids=["detach", "twice", "pause", "stop"],
)
def test_ctrl_c_asks(
    typed: str, want_posts: list[str], want_words: str, want_code: int, waiting: ApiServer
) -> None:
    waiting.answers["POST /api/sessions/s-aaaaaa/pause"] = (200, {})
    waiting.answers["POST /api/sessions/s-aaaaaa/stop"] = ends_as(waiting, "STOPPED")

    with terminal("attach") as (at, codes):
        at.read_until("task: mend it")
        at.type("\x03")
        at.read_until("[d]etach")
        at.type(typed)
        at.read_until(want_words)

    assert codes == [want_code]
    assert [path for path, _ in waiting.posted()] == want_posts


def test_without_a_ui_nothing_is_asked(waiting: ApiServer) -> None:
    waiting.events.append(approval(2, SHELL))

    with terminal("run", "mend it", "--no-ui") as (at, codes):
        at.read_until("yes: relay approvals approve a-1")
        at.type("\x03")
        at.read_until("the session goes on")

    assert codes == [130]
    assert "[y/n]" not in at.seen
