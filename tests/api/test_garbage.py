"""Whatever a client sends, the answer is an answer: never a fault of Relay's own."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.api.app import ROUTES
from relay.api.openapi import describe
from tests.fakes.api import AUTHORIZED, Stand, record, stand

PATHS = describe(ROUTES)["paths"]
OPERATIONS = [(method, path) for path, operations in PATHS.items() for method in operations]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    [
        "",
        "s-aaaaaaa1",
        "s-none0000",
        "..",
        "/",
        "\0",
        "/\0",
        "~",
        "9" * 5000,
        "-1",
        "1e9",
        "\ud7ff",
        "a" * 5000,
    ]
)
TEXTS = WORDS | st.text()


def value_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema describes, most of the time."""
    if "anyOf" in schema:
        return st.one_of(*(value_of(inner) for inner in schema["anyOf"]))
    return {
        "string": TEXTS,
        "integer": st.integers(),
        "number": st.floats(allow_nan=False),
        "boolean": st.booleans(),
        "null": st.none(),
        "array": st.lists(TEXTS, max_size=3),
    }[schema["type"]]


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """An operation, its path with whatever in its placeholders, and a body."""
    method, path = draw(st.sampled_from(OPERATIONS))
    operation = PATHS[path][method]
    path = re.sub(r"\{\w+\}", lambda _: quote(draw(TEXTS).encode(errors="replace"), safe=""), path)
    query = "&".join(
        f"{p['name']}={quote(draw(TEXTS).encode(errors='replace'))}"
        for p in operation["parameters"]
        if p["in"] == "query" and draw(st.booleans())
    )
    body: Any = None
    if method == "post":
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        fitting = st.fixed_dictionaries(
            {name: value_of(schema["properties"][name]) for name in schema["required"]},
            optional={
                name: value_of(inner)
                for name, inner in schema["properties"].items()
                if name not in schema["required"]
            },
        )
        body = draw(st.one_of(fitting, fitting, JSON, st.binary(max_size=40)))
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return method.upper(), f"{path}?{query}" if query else path, data


async def answer(api: Stand, method: str, path: str, data: bytes) -> tuple[int, Any]:
    headers = {**AUTHORIZED, "Content-Type": "application/json"}
    got = await api.call(method, path, headers=headers, data=data if method == "POST" else None)
    return got.status_code, json.loads(await got.get_data())


@pytest.mark.parametrize("sessions", [0, 1, 2])
def test_random_requests_get_an_answer_or_a_clear_refusal(sessions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        api = stand(Path(folder))
        api.actors.sessions = [record(f"s-aaaaaaa{n}", api.repository) for n in range(sessions)]

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(calls())
        def check(call: tuple[str, str, bytes]) -> None:
            status, body = trio.run(answer, api, *call)
            assert status < 500, body
            if status != 200:
                assert set(body["error"]) == {"code", "message", "hint"}
                assert isinstance(body["error"]["message"], str)
                assert body["error"]["message"]

        check()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/events?since=" + "9" * 5000, None),
        ("GET", "/api/sessions/s-aaaaaaa1/events?after=" + "9" * 5000, None),
        ("GET", "/api/sessions/s-aaaaaaa1/events?limit=" + "9" * 5000, None),
        ("GET", "/api/providers?cwd=%00", None),
        ("GET", "/api/providers?cwd=relative", None),
        ("GET", "/api/status?session=%00", None),
        ("POST", "/api/sessions", {"task": "x", "cwd": "/\0"}),
        ("POST", "/api/sessions", {"task": "x", "cwd": "/" + "a" * 5000}),
        ("POST", "/api/sessions", {"task": "x", "cwd": "/" + "a/" * 3000}),
        ("POST", "/api/sessions", {"task": "x", "cwd": "/", "providers": ["\0"]}),
        ("POST", "/api/sessions", {"task": "x", "cwd": "/", "providers": ["scripted/../x"]}),
        ("POST", "/api/sessions", {"task": "x", "cwd": "/", "threshold": 1e308}),
        ("POST", "/api/circuit", {"target": "\0"}),
        ("POST", "/api/approvals/%00", {"approved": True}),
        ("POST", "/api/handoff", {"to": "\0/\0"}),
    ],
)
async def test_requests_that_have_broken_others(
    api: Stand, method: str, path: str, body: dict[str, Any] | None
) -> None:
    api.actors.sessions = [record("s-aaaaaaa1", api.repository)]
    status, said = await answer(api, method, path, json.dumps(body).encode())
    assert status < 500, said
