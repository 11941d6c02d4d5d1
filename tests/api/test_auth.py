"""Who may come in, on every route of the table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from relay.api.app import ROUTES
from relay.api.auth import COOKIE, TICKET_SECONDS, Gatekeeper
from tests.fakes.api import AUTHORIZED, HOST, PORT, TOKEN, Stand, stand

EVERY = [(route.method, re.sub(r"\{\w+\}", "s-none0000", route.path)) for route in ROUTES]
EVERY += [("GET", "/api/openapi.json")]
PROTECTED = [(method, path) for method, path in EVERY if path != "/api/health"]
ALL = pytest.mark.parametrize(("method", "path"), EVERY, ids=lambda value: str(value))
TOKENED = pytest.mark.parametrize(("method", "path"), PROTECTED, ids=lambda value: str(value))

FOREIGN_HOSTS = [
    "evil.com",
    f"evil.com:{PORT}",
    f"localhost.evil.com:{PORT}",
    f"127.0.0.1.nip.io:{PORT}",
    f"127.0.0.1:{PORT}.evil.com",
    f"127.0.0.1@evil.com:{PORT}",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    f"127.0.0.1:0{PORT}",
    f"0.0.0.0:{PORT}",
    f"2130706433:{PORT}",
    f"[::ffff:127.0.0.1]:{PORT}",
    f"127.0.0.1:{PORT}, evil.com",
    "",
]
FOREIGN_ORIGINS = [
    "https://evil.com",
    "http://evil.com",
    "null",
    f"https://{HOST}",
    "http://127.0.0.1",
    "http://127.0.0.1:3000",
    f"http://localhost.evil.com:{PORT}",
    f"http://{HOST}.evil.com",
    "file://",
    "",
]
FORMS = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]


async def status(api: Stand, method: str, path: str, headers: dict[str, str], **more: Any) -> int:
    code, error = await api.error(method, path, headers=headers, **more)
    assert error["message"]
    return code


@TOKENED
async def test_without_the_token_nobody_comes_in(api: Stand, method: str, path: str) -> None:
    wrong = [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer \u00fc"},
        {"Cookie": f"{COOKIE}=wrong"},
        {"Cookie": f"other={TOKEN}"},
        {"X-Token": TOKEN},
    ]
    for headers in wrong:
        assert await status(api, method, path, {"Host": HOST, **headers}, json={}) == 401, headers
    assert await status(api, method, f"{path}?token={TOKEN}", {"Host": HOST}, json={}) == 401
    assert api.actors.asked == []
    assert api.stops == []


@ALL
async def test_a_foreign_host_is_refused_even_with_the_token(api: Stand, method: str, path: str) -> None:
    for host in FOREIGN_HOSTS:
        assert await status(api, method, path, {**AUTHORIZED, "Host": host}, json={}) == 403, host
    assert api.actors.asked == []


@ALL
async def test_a_foreign_page_is_refused_even_with_the_token(api: Stand, method: str, path: str) -> None:
    for origin in FOREIGN_ORIGINS:
        assert await status(api, method, path, {**AUTHORIZED, "Origin": origin}, json={}) == 403, origin
    for site in ("cross-site", "same-site", "unheard-of"):
        assert await status(api, method, path, {**AUTHORIZED, "Sec-Fetch-Site": site}, json={}) == 403, site
    assert api.actors.asked == []


@pytest.mark.parametrize("path", [path for method, path in EVERY if method == "POST"])
async def test_what_a_form_can_send_is_refused(api: Stand, path: str) -> None:
    for kind in FORMS:
        headers = {**AUTHORIZED, **({"Content-Type": kind} if kind else {})}
        code, error = await api.error("POST", path, headers=headers, data=b'{"task": "x", "cwd": "/"}')
        assert code in (403, 415), kind
        assert "application/json" in error["message"]
    assert api.actors.asked == []
    assert api.stops == []


@ALL
async def test_no_answer_lets_another_origin_read_it(api: Stand, method: str, path: str) -> None:
    for asked in (method, "OPTIONS"):
        headers = {**AUTHORIZED, "Origin": "https://evil.com", "Access-Control-Request-Method": method}
        answer = await api.call(asked, path, headers=headers)
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control")]


@TOKENED
async def test_the_names_of_this_daemon_are_let_in(api: Stand, method: str, path: str) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        sent = {
            **AUTHORIZED,
            "Host": f"{name}:{PORT}",
            "Origin": f"http://{name}:{PORT}",
            "Sec-Fetch-Site": "same-origin",
        }
        answer = await api.call(method, path, headers=sent, json={})
        assert answer.status_code not in (401, 403)


async def test_health_needs_no_token(api: Stand) -> None:
    answer = await api.call("GET", "/api/health", headers={"Host": HOST})
    assert answer.status_code == 200
    assert (await answer.get_json())["port"] == PORT


async def test_a_head_request_is_checked_like_any_other(api: Stand) -> None:
    answer = await api.call("HEAD", "/api/sessions", headers={"Host": HOST})
    assert answer.status_code == 401


async def test_the_one_time_link_becomes_a_cookie_once(api: Stand) -> None:
    made = await (await api.call("POST", "/api/ticket", json={})).get_json()
    link = made["url"].removeprefix(f"http://{HOST}")
    assert link.startswith("/enter?ticket=")
    assert TOKEN not in made["url"]
    entered = await api.call("GET", link, headers={"Host": HOST, "Sec-Fetch-Site": "none"})
    assert entered.status_code == 303
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    value = cookie.split(";")[0]
    shown = await api.call("GET", "/api/sessions", headers={"Host": HOST, "Cookie": value})
    assert shown.status_code == 200
    code, error = await api.error("GET", link, headers={"Host": HOST})
    assert (code, error["code"]) == (401, "unauthorized")
    assert "relay ui" in error["hint"]


@pytest.mark.parametrize("ticket", ["", "wrong", TOKEN])
async def test_a_made_up_ticket_is_refused(api: Stand, ticket: str) -> None:
    await api.call("POST", "/api/ticket", json={})
    code, _ = await api.error("GET", f"/enter?ticket={ticket}", headers={"Host": HOST})
    assert code == 401


async def test_another_page_cannot_use_the_link(api: Stand) -> None:
    made = await (await api.call("POST", "/api/ticket", json={})).get_json()
    link = made["url"].removeprefix(f"http://{HOST}")
    for extra in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.com"}, {"Host": "evil.com"}):
        code, _ = await api.error("GET", link, headers={"Host": HOST, **extra})
        assert code == 403
    assert (await api.call("GET", link, headers={"Host": HOST})).status_code == 303


def test_a_link_is_good_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("relay.api.auth.time.monotonic", lambda: now)
    keeper = Gatekeeper(token=TOKEN, port=PORT)
    early, late = keeper.make_ticket(), keeper.make_ticket()
    now += TICKET_SECONDS - 1
    assert keeper.redeem(early)
    now += 1
    assert not keeper.redeem(late)


async def test_the_cookie_alone_does_not_let_another_site_act(tmp_path: Path) -> None:
    api = stand(tmp_path)
    sent = {"Host": HOST, "Cookie": f"{COOKIE}={TOKEN}", "Origin": "http://localhost:3000"}
    code, _ = await api.error("POST", "/api/daemon/stop", headers=sent, json={})
    assert code == 403
    assert api.stops == []
