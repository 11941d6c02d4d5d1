from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from relay.cli.base import Settings
from relay.cli.client import Client, Where, find, segment
from relay.errors import ConfigError, NoDaemonError, NotAllowedError, NotFoundError
from tests.fakes.api_server import TOKEN, ApiServer, refusal


def env_of(state: Path, **more: str) -> dict[str, str]:
    return {"RELAY_STATE_DIR": str(state), **more}


def test_the_users_own_daemon_is_found_with_its_token(server: ApiServer, state: Path) -> None:
    assert find(Settings(), env_of(state)) == Where(url=server.url, token=TOKEN, version="0.0.test")


def test_the_health_check_gets_no_token(server: ApiServer, state: Path) -> None:
    find(Settings(token="given"), env_of(state))

    assert [headers.get("Authorization") for headers in server.health_headers] == [None]


@pytest.mark.parametrize("name", ["option", "variable", "host and port"])
def test_a_named_daemon_is_the_one_that_is_meant(name: str, server: ApiServer, state: Path) -> None:
    (state / "daemon.json").unlink()
    port = int(server.url.rpartition(":")[2])
    settings = {
        "option": Settings(url=server.url + "/"),
        "variable": Settings(),
        "host and port": Settings(host="127.0.0.1", port=port),
    }[name]
    env = env_of(state, RELAY_URL=server.url) if name == "variable" else env_of(state)

    assert find(settings, env).url == server.url


@pytest.mark.parametrize(
    ("option", "variable", "want"),
    [("mine", "theirs", "mine"), ("", "theirs", "theirs"), ("", "", TOKEN)],
)
def test_the_token_comes_from_the_option_the_environment_or_the_file(
    option: str, variable: str, want: str, server: ApiServer, state: Path
) -> None:
    env = env_of(state, RELAY_TOKEN=variable) if variable else env_of(state)

    assert find(Settings(token=option), env).token == want


def test_the_files_token_is_told_to_no_other_machine(state: Path) -> None:
    state.mkdir()
    (state / "token").write_text(TOKEN)

    with pytest.raises(NotAllowedError, match="another machine"):
        find(Settings(url="http://relay.invalid:4748"), env_of(state))


def test_an_address_elsewhere_in_daemon_json_is_not_followed(state: Path) -> None:
    state.mkdir()
    (state / "daemon.json").write_text(json.dumps({"url": "http://relay.invalid:4748"}))

    with pytest.raises(NoDaemonError, match="no daemon is running"):
        find(Settings(), env_of(state))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"url": 7}', b"\xff\xfe"])
def test_a_damaged_daemon_json_means_no_daemon(content: bytes, state: Path) -> None:
    state.mkdir()
    (state / "daemon.json").write_bytes(content)

    with pytest.raises(NoDaemonError):
        find(Settings(), env_of(state))


def test_a_daemon_that_is_gone_is_no_daemon(state: Path) -> None:
    state.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    (state / "daemon.json").write_text(json.dumps({"url": url}))

    with pytest.raises(NoDaemonError, match="no daemon answers"):
        find(Settings(), env_of(state))


@pytest.mark.parametrize(
    "health", [{"status": "fine"}, {"ok": False, "version": "1"}, [], "hello", b"<html>"]
)
def test_another_program_on_the_port_is_no_daemon_and_gets_no_token(
    health: object, server: ApiServer, state: Path
) -> None:
    server.health = health

    with pytest.raises(NoDaemonError, match=r"no daemon of Relay"):
        find(Settings(), env_of(state))
    assert server.asked == []
    assert [headers.get("Authorization") for headers in server.health_headers] == [None]


@pytest.mark.parametrize("url", ["127.0.0.1:4748", "ftp://127.0.0.1", "http://[127.0.0.1"])
def test_what_is_no_address_is_an_error_in_words(url: str, state: Path) -> None:
    with pytest.raises(ConfigError, match="no address"):
        find(Settings(url=url, token="x"), env_of(state))


def test_a_proxy_of_the_environment_is_not_asked(
    server: ApiServer, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert find(Settings(), env_of(state)).url == server.url


def test_a_hostile_id_stays_one_part_of_the_path(server: ApiServer, state: Path) -> None:
    client = Client(find(Settings(), env_of(state)))
    server.answers["POST /api/approvals/..%2Fdaemon%2Fstop"] = refusal(404, "not_found", "no such approval")

    with client, pytest.raises(NotFoundError):
        client.post(f"/api/approvals/{segment('../daemon/stop')}", {"approved": True})
    assert [path for path, _ in server.posted()] == ["/api/approvals/..%2Fdaemon%2Fstop"]
