"""Bodies, ids and errors: what is wrong is said by path and name, in one shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from relay.actors import messages
from relay.api.app import MAX_BODY, ROUTES
from relay.core.commands import Refused
from relay.core.fsm import State
from tests.fakes.api import AUTHORIZED, Stand, record

GOOD = {"task": "Build it", "cwd": "/", "providers": ["scripted"]}
POSTS = [re.sub(r"\{\w+\}", "s-none0000", route.path) for route in ROUTES if route.method == "POST"]


@pytest.mark.parametrize(
    ("name", "body", "wanted"),
    [
        ("unknown key", {**GOOD, "agent": "x"}, "extra fields found (agent) @ $"),
        ("a name of Python's", {**GOOD, "max_handoffs": 1}, "extra fields found (max_handoffs) @ $"),
        ("task is missing", {"cwd": "/"}, "required field missing @ $.task"),
        ("cwd is missing", {"task": "x"}, "required field missing @ $.cwd"),
        ("a number as task", {**GOOD, "task": 5}, "expected str @ $.task"),
        ("null as task", {**GOOD, "task": None}, "expected str @ $.task"),
        ("a word as flag", {**GOOD, "clean": "false"}, "expected bool @ $.clean"),
        ("a number as flag", {**GOOD, "inPlace": 1}, "expected bool @ $.inPlace"),
        ("a word as number", {**GOOD, "maxHandoffs": "5"}, "expected int | None @ $.maxHandoffs"),
        ("a fraction as number", {**GOOD, "maxHandoffs": 1.5}, "expected int | None @ $.maxHandoffs"),
        ("a flag as number", {**GOOD, "threshold": True}, "expected float | None @ $.threshold"),
        ("a text as list", {**GOOD, "verify": "make test"}, "$.verify"),
        ("a text as chain", {**GOOD, "providers": "claude"}, "expected list @ $.providers"),
        ("a number in a list", {**GOOD, "providers": ["claude", 7]}, "expected str @ $.providers[1]"),
        ("an empty task", {**GOOD, "task": " \n"}, "task is empty"),
        ("a relative folder", {**GOOD, "cwd": "project"}, "cwd 'project' is not an absolute path"),
        ("a level unheard of", {**GOOD, "allow": "everything"}, "allow 'everything' is none of"),
        ("a threshold too high", {**GOOD, "threshold": 1.5}, "threshold 1.5"),
        ("a threshold of nothing", {**GOOD, "threshold": 0}, "threshold 0"),
        ("less than no handoffs", {**GOOD, "maxHandoffs": -1}, "maxHandoffs -1"),
        ("no such profile", {**GOOD, "providers": [], "profile": "fast"}, "no profile 'fast'"),
    ],
)
async def test_what_is_wrong_with_a_body_is_said(
    api: Stand, name: str, body: dict[str, Any], wanted: str
) -> None:
    for path in ("/api/sessions", "/api/run"):
        code, error = await api.error("POST", path, json=body)
        assert code == 400, error
        assert wanted in error["message"]
    assert api.actors.asked == []


async def test_an_unknown_provider_names_those_that_are_known(api: Stand) -> None:
    code, error = await api.error("POST", "/api/sessions", json={**GOOD, "providers": ["claud"]})
    assert (code, error["code"]) == (400, "unknown_provider")
    assert "claud" in error["message"]
    assert "claude" in error["message"] + error["hint"]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body", [b"[1]", b'"x"', b"null", b"{", b"\xff", b'{"a": \xed\xa0\x80}', b"{" * 2000]
)
async def test_a_body_that_is_no_object_is_refused(api: Stand, path: str, body: bytes) -> None:
    headers = {**AUTHORIZED, "Content-Type": "application/json"}
    code, error = await api.error("POST", path, headers=headers, data=body)
    assert code == 400
    assert "body" in error["message"]


@pytest.mark.parametrize("path", POSTS)
async def test_every_body_refuses_unknown_keys(api: Stand, path: str) -> None:
    code, error = await api.error("POST", path, json={"surprise": 1})
    assert code == 400
    assert "surprise" in error["message"] or "required field" in error["message"]
    assert api.stops == []


@pytest.mark.parametrize("path", POSTS)
async def test_a_body_that_is_too_large_is_refused(api: Stand, path: str) -> None:
    headers = {**AUTHORIZED, "Content-Type": "application/json"}
    code, error = await api.error("POST", path, headers=headers, data=b" " * (MAX_BODY + 1))
    assert (code, error["code"]) == (413, "too_large")


@pytest.mark.parametrize("name", ["handoff", "pause", "resume", "stop", "reply", "merge", "discard"])
@pytest.mark.parametrize(
    ("sid", "want"), [("s-none0000", 404), ("..", 400), ("S-UPPER000", 400), ("s-%2e%2e%2fetc", 404)]
)
async def test_a_session_that_is_not_there(api: Stand, name: str, sid: str, want: int) -> None:
    body = {"reply": "hello"} if name == "reply" else {}
    code, _ = await api.error("POST", f"/api/sessions/{sid}/{name}", json=body)
    assert code == want
    if "%" not in sid:
        code, error = await api.error("POST", f"/api/session/{name}", json={**body, "session": sid})
        assert code == want
        assert sid in error["message"]


@pytest.mark.parametrize("what", ["", "/events", "/diff"])
async def test_reading_a_session_that_is_not_there(api: Stand, what: str) -> None:
    code, error = await api.error("GET", f"/api/sessions/s-none0000{what}")
    assert (code, error["code"]) == (404, "not_found")
    assert "s-none0000" in error["message"]


@pytest.mark.parametrize("name", ["handoff", "pause", "resume", "stop", "reply"])
async def test_a_command_that_names_no_session_needs_there_to_be_one(api: Stand, name: str) -> None:
    body = {"reply": "hello"} if name == "reply" else {}
    code, error = await api.error("POST", f"/api/session/{name}", json=body)
    assert (code, error["code"]) == (404, "not_found")
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]
    answer = await (await api.call("POST", f"/api/session/{name}", json=body)).get_json()
    assert answer == {"sessionId": "s-aaaaaaa1"}
    api.actors.sessions += [
        record("s-aaaaaaa2", api.repository, goal="Mend it"),
        record("s-aaaaaaa3", api.repository, State.COMPLETED),
    ]
    code, error = await api.error("POST", f"/api/session/{name}", json=body)
    assert (code, error["code"]) == (409, "conflict")
    assert "s-aaaaaaa1 (Build it)" in error["message"]
    assert "s-aaaaaaa2 (Mend it)" in error["message"]
    assert "s-aaaaaaa3" not in error["message"]


async def test_an_empty_reply_is_refused(api: Stand) -> None:
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]
    code, error = await api.error("POST", "/api/session/reply", json={"reply": "  "})
    assert (code, error["message"]) == (400, "reply is empty")


@pytest.mark.parametrize(
    ("to", "code"), [("gemini", "unknown_provider"), ("/", "bad_config"), ("claude/../x", "bad_config")]
)
async def test_a_target_that_is_none(api: Stand, to: str, code: str) -> None:
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]
    status, error = await api.error("POST", "/api/handoff", json={"to": to})
    assert status == 400
    assert error["code"] in (code, "unknown_provider")
    assert not [m for m in api.actors.asked if isinstance(m, messages.CommandSession)]


async def test_a_refusal_of_the_actors_keeps_its_code_and_hint(api: Stand) -> None:
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]
    api.actors.answer = Refused(code="conflict", message="it is over", hint="begin another")
    code, error = await api.error("POST", "/api/session/pause", json={})
    assert code == 409
    assert error == {"code": "conflict", "message": "it is over", "hint": "begin another"}


async def test_pause_false_resumes(api: Stand) -> None:
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]
    await api.call("POST", "/api/session/pause", json={"pause": False})
    assert type(api.actors.asked[-1].command).__name__ == "Resume"
    await api.call("POST", "/api/session/pause", json={})
    assert type(api.actors.asked[-1].command).__name__ == "Pause"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/events?since=x", "since"),
        ("/api/events?since=-1", "since"),
        ("/api/events?since=%D9%A3", "since"),
    ],
)
async def test_a_number_that_is_none(api: Stand, path: str, name: str) -> None:
    code, error = await api.error("GET", path)
    assert code == 400
    assert error["message"].startswith(name)


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/sessions/", 404),
        ("GET", "/etc/passwd", 404),
        ("GET", "/api/../../etc/passwd", 404),
        ("DELETE", "/api/sessions", 405),
        ("PUT", "/api/sessions/s-none0000", 405),
        ("GET", "/api/run", 405),
        ("POST", "/api/health", 405),
    ],
)
async def test_what_is_no_route_is_an_error_of_the_same_shape(
    api: Stand, method: str, path: str, want: int
) -> None:
    code, error = await api.error(method, path)
    assert code == want
    assert error["code"] in ("not_found", "method_not_allowed")


async def test_the_status_of_a_daemon_without_sessions(api: Stand) -> None:
    answer = await api.call("GET", "/api/status")
    assert (await answer.get_json())["sessionId"] == ""
    code, _ = await api.error("GET", "/api/status?session=s-none0000")
    assert code == 404


async def test_no_answer_in_time_is_said(tmp_path: Path, api: Stand) -> None:
    api.actors.silent = True
    api.context.facade._deadline = 0.01
    code, error = await api.error("GET", "/api/circuit")
    assert (code, error["code"]) == (504, "timed_out")


async def test_a_fault_of_relays_own_shows_nothing_of_its_inside(api: Stand) -> None:
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]

    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError("private words")

    api.context.work.diff = broken  # type: ignore[method-assign]
    code, error = await api.error("GET", "/api/session/diff")
    assert (code, error["code"]) == (500, "internal")
    assert "private" not in str(error)
    assert "log" in error["hint"]
