"""`/ws` behind a real server: who may come in, and that nothing is lost or sent twice."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio_websocket import HandshakeError, open_websocket_url

from relay.api import stream
from relay.api.auth import COOKIE
from relay.core.effects import JournalEntry
from relay.store.audit import AuditLog
from relay.store.places import RepoPlaces
from relay.store.repositories import remember_repository
from tests.fakes.api import NOON, TOKEN, Stand, served
from tests.fakes.raw import refusal, upgrade

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def entries(seqs: Sequence[int], session: str = "s-aaaaaaa1", repository: str = "", **data: Any) -> Any:
    return [
        JournalEntry(
            repository=repository,
            session=session,
            type="agent_event",
            at=NOON,
            data={"n": seq, **data},
            seq=seq,
        )
        for seq in seqs
    ]


@asynccontextmanager
async def connected(port: int, query: str = "") -> Any:
    headers = [("Authorization", f"Bearer {TOKEN}")]
    async with open_websocket_url(f"ws://127.0.0.1:{port}/ws{query}", extra_headers=headers) as ws:
        yield ws


async def received(ws: Any, count: int) -> list[dict[str, Any]]:
    """The next events, at least so many."""
    got: list[dict[str, Any]] = []
    with trio.fail_after(20):
        while len(got) < count:
            frame = json.loads(await ws.get_message())
            assert isinstance(frame, list)
            got += frame
    return got


async def listening(api: Stand, count: int = 1) -> None:
    """Until so many clients listen."""
    with trio.fail_after(10):
        while api.context.stream.listeners != count:  # noqa: ASYNC110  (no event tells it)
            await trio.sleep(0.005)


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


@pytest.mark.parametrize(
    ("name", "headers", "want"),
    [
        ("no token", {}, 401),
        ("wrong token", {"Authorization": "Bearer wrong"}, 401),
        ("wrong cookie", {"Cookie": f"{COOKIE}=wrong"}, 401),
        ("foreign host", {**BEARER, "Host": "evil.com"}, 403),
        ("host of another's zone", {**BEARER, "Host": "localhost.evil.com:{port}"}, 403),
        ("host by a public name", {**BEARER, "Host": "127.0.0.1.nip.io:{port}"}, 403),
        ("wrong port", {**BEARER, "Host": "127.0.0.1:1"}, 403),
        ("foreign origin", {**BEARER, "Origin": "https://evil.com"}, 403),
        ("origin of a file", {**BEARER, "Origin": "null"}, 403),
        ("another port's origin", {"Cookie": f"{COOKIE}={TOKEN}", "Origin": "http://localhost:3000"}, 403),
        ("another site", {**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
        ("no host", {**BEARER, "Host": ""}, 403),
    ],
)
async def test_who_may_not_come_in_is_refused_before_the_upgrade(
    tmp_path: Path, name: str, headers: dict[str, str], want: int
) -> None:
    async with served(tmp_path) as (api, port):
        sent = {"Host": f"127.0.0.1:{port}"} | {k: v.format(port=port) for k, v in headers.items()}
        status, body = await refusal(port, upgrade("/ws", sent))
        assert status == want
        assert set(body["error"]) == {"code", "message", "hint"}
        assert api.context.stream.listeners == 0
        status, _ = await refusal(port, upgrade(f"/ws?token={TOKEN}", sent))
        assert status == want


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_request_without_a_host_is_refused(tmp_path: Path, version: str) -> None:
    async with served(tmp_path) as (_, port):
        for path in ("/api/health", "/api/sessions"):
            request = f"GET {path} HTTP/{version}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
            status, _ = await refusal(port, request)
            assert status in (400, 403)


async def test_two_hosts_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, port):
        for first, second in (("evil.com", f"127.0.0.1:{port}"), (f"127.0.0.1:{port}", "evil.com")):
            request = f"GET /api/health HTTP/1.1\r\nHost: {first}\r\nHost: {second}\r\n\r\n".encode()
            status, _ = await refusal(port, request)
            assert status in (400, 403)


async def test_an_absolute_target_of_another_host_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, port):
        request = b"GET http://evil.com/api/health HTTP/1.1\r\nHost: evil.com\r\n\r\n"
        status, _ = await refusal(port, request)
        assert status in (400, 403, 404)


@pytest.mark.parametrize(("query", "code"), [("?after=x", 400), ("?after=-1", 400), ("?session=..", 400)])
async def test_a_query_that_makes_no_sense_is_refused(tmp_path: Path, query: str, code: int) -> None:
    async with served(tmp_path) as (_, port):
        status, body = await refusal(port, upgrade(f"/ws{query}", {"Host": f"127.0.0.1:{port}", **BEARER}))
        assert status == code
        assert body["error"]["message"]


async def test_the_cookie_of_a_browser_lets_it_in(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, port):
        headers = [("Cookie", f"{COOKIE}={TOKEN}"), ("Origin", f"http://127.0.0.1:{port}")]
        async with open_websocket_url(f"ws://127.0.0.1:{port}/ws", extra_headers=headers) as ws:
            await listening(api)
            api.context.stream.publish(entries([1]))
            assert numbers(await received(ws, 1)) == [1]
        with pytest.raises(HandshakeError):
            async with open_websocket_url(f"ws://127.0.0.1:{port}/ws"):
                pass


async def test_events_come_as_arrays_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, port), connected(port) as ws:
        await listening(api)
        for first in range(1, 5001, 50):
            api.context.stream.publish(entries(range(first, first + 50)))
        events = await received(ws, 5000)
        assert numbers(events) == list(range(1, 5001))
        assert events[0] == {
            "seq": 1,
            "ts": "2030-06-01T12:00:00.000Z",
            "session": "s-aaaaaaa1",
            "type": "agent_event",
            "data": {"n": 1},
        }


async def test_a_client_sees_one_session_when_it_asks_for_one(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, port):
        api.context.stream.publish([*entries([1], "s-aaaaaaa1"), *entries([2], "s-aaaaaaa2")])
        async with connected(port, "?after=0&session=s-aaaaaaa2") as ws:
            await listening(api)
            api.context.stream.publish([*entries([3], "s-aaaaaaa1"), *entries([4], "s-aaaaaaa2")])
            assert numbers(await received(ws, 2)) == [2, 4]


async def test_without_after_only_what_comes_is_sent(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, port):
        api.context.stream.publish(entries([1, 2]))
        async with connected(port) as ws:
            await listening(api)
            api.context.stream.publish(entries([3]))
            assert numbers(await received(ws, 1)) == [3]


def logged(api: Stand, name: str, seqs: Sequence[int], **data: Any) -> None:
    """Events as an earlier life of the daemon left them in a repository's log."""
    root = api.root / name
    (root / ".git").mkdir(parents=True, exist_ok=True)
    places = RepoPlaces(root=root).ensure()
    remember_repository(api.context.places, str(root))
    log = AuditLog.open(places.audit, api.context.places.anchor(root), key=api.context.signing_key, now=NOON)
    for seq in seqs:
        log.append(
            [("agent_event", {"n": seq, **data, "seq": seq, "session": "s-aaaaaaa1"})], ts=NOON, sync=False
        )
    log.close()


async def test_a_client_that_comes_back_gets_the_rest_from_logs_and_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "RING", 50)
    async with served(tmp_path) as (api, port):
        logged(api, "one", range(1, 2000, 2))
        logged(api, "two", range(2, 2001, 2))
        api.context.stream._ring = type(api.context.stream._ring)(maxlen=50)
        api.context.stream.floor = 1900
        api.context.stream.publish(entries(range(1901, 2001)))
        for after in (0, 1, 999, 1000, 1899, 1950, 1999):
            async with connected(port, f"?after={after}") as ws:
                await listening(api)
                assert numbers(await received(ws, 2000 - after)) == list(range(after + 1, 2001))
            await listening(api, 0)


async def test_the_same_event_looks_the_same_from_log_and_ring(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, port):
        logged(api, "one", [1], text="a word")
        api.context.stream.floor = 1
        api.context.stream.publish(entries([2], text="a word"))
        async with connected(port, "?after=0") as ws:
            old, new = await received(ws, 2)
        assert {**old, "seq": 2, "data": {**old["data"], "n": 2}} == new


async def test_what_is_published_while_a_client_catches_up_comes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "RING", 100)
    async with served(tmp_path) as (api, port):
        logged(api, "one", range(1, 3001))
        api.context.stream._ring = type(api.context.stream._ring)(maxlen=100)
        api.context.stream.floor = 3000

        async def publish() -> None:
            for first in range(3001, 6001, 20):
                api.context.stream.publish(entries(range(first, first + 20)))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery, connected(port, "?after=10") as ws:
            nursery.start_soon(publish)
            got = numbers(await received(ws, 5990))
        assert got == list(range(11, 6001))


async def test_a_slow_client_is_cut_off_and_can_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BACKLOG", 100)
    async with served(tmp_path) as (api, port):
        slow = trio.socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        await slow.connect(("127.0.0.1", port))
        async with trio.SocketStream(slow) as raw, connected(port) as quick:
            await raw.send_all(upgrade("/ws", {"Host": f"127.0.0.1:{port}", **BEARER}))
            await listening(api, 2)
            seq = 0
            got: list[int] = []
            with trio.fail_after(60):
                while not any(listener.overrun for listener in api.context.stream._listeners):
                    api.context.stream.publish(entries(range(seq + 1, seq + 21), text="x" * 20_000))
                    seq += 20
                    got += numbers(await received(quick, 20))
                assert got == list(range(1, seq + 1))
                read = b""
                while b'"resync"' not in read:
                    piece = await raw.receive_some(1 << 20)
                    assert piece
                    read = read[-200:] + piece
        last = int(read.partition(b'"resync","seq":')[2].partition(b"}")[0])
        assert 0 < last < seq
        async with connected(port, f"?after={last}") as again:
            assert numbers(await received(again, seq - last)) == list(range(last + 1, seq + 1))


async def test_a_client_that_goes_away_is_forgotten(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, port):
        async with connected(port) as ws:
            await listening(api)
            await ws.send_message("whatever a client says is dropped")
            api.context.stream.publish(entries([1]))
            assert numbers(await received(ws, 1)) == [1]
        await listening(api, 0)
        raw = await trio.open_tcp_stream("127.0.0.1", port)
        await raw.send_all(upgrade("/ws", {"Host": f"127.0.0.1:{port}", **BEARER}))
        await listening(api, 1)
        await raw.aclose()
        await listening(api, 0)
