from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

import pytest

from relay.providers.codex import Codex
from relay.providers.codex_app_server import AppServerDialogue
from relay.providers.codex_exec import ExecDialogue
from relay.providers.protocol import Account, LaunchSpec
from tests.fakes.codex import request

THREAD = "01a235d0-d54c-7420-acb4-87c2bc604162"
JSON = ("--json", "--skip-git-repo-check")
NEVER = ("-c", 'approval_policy="never"')


def sandbox(mode: str) -> tuple[str, str]:
    return ("-c", f'sandbox_mode="{mode}"')


def launch(**changes: Any) -> LaunchSpec:
    return Codex().launch(request(**changes))


@pytest.mark.parametrize(
    ("changes", "argv"),
    [
        ({}, ("codex", "app-server")),
        ({"command": "/opt/codex", "args": ("-c", "x=1")}, ("/opt/codex", "app-server", "-c", "x=1")),
        ({"base_url": "http://h/v1"}, ("codex", "app-server", "-c", 'openai_base_url="http://h/v1"')),
        (
            {"args": ("exec",), "prompt": "--help"},
            ("codex", "exec", *JSON, *sandbox("workspace-write"), *NEVER, "--", "--help"),
        ),
        (
            {"args": ("exec", "--ephemeral"), "native_id": THREAD, "allow": "all", "model": "m"},
            (
                *("codex", "exec", "resume", *JSON, *sandbox("danger-full-access"), *NEVER, "--model", "m"),
                *("--ephemeral", "--", THREAD, "Add a refund flow"),
            ),
        ),
    ],
)
def test_arguments(changes: dict[str, Any], argv: tuple[str, ...]) -> None:
    assert launch(**changes).argv == argv


@pytest.mark.parametrize(
    ("allow", "mode"),
    [("ask", "read-only"), ("edits", "workspace-write"), ("all", "danger-full-access"), ("odd", "read-only")],
)
def test_one_way_mode_never_lets_more_than_was_allowed(allow: str, mode: str) -> None:
    assert f'sandbox_mode="{mode}"' in launch(args=("exec",), allow=allow).argv


def test_the_transport_follows_the_arguments() -> None:
    codex = Codex()
    assert launch().two_way
    assert isinstance(codex.dialogue(request()), AppServerDialogue)
    assert not launch(args=("exec",)).two_way
    assert isinstance(codex.dialogue(request(args=("exec",))), ExecDialogue)


def test_the_account_decides_the_home() -> None:
    account = Account(label="work", config_dir="/accounts/work", env={"A": "account", "B": "2"})
    spec = launch(account=account, env={"A": "config"})
    assert spec.env == {"A": "account", "B": "2", "CODEX_HOME": "/accounts/work"}
    assert launch().env == {}


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("CODEX_THREAD_ID", True),
        ("CODEX_SANDBOX_NETWORK_DISABLED", True),
        ("CODEX_MANAGED_BY_NPM", True),
        ("CODEX_HOME", False),
        ("CODEX_API_KEY", False),
        ("OPENAI_API_KEY", False),
    ],
)
def test_leftovers_of_an_outer_codex_are_removed(name: str, removed: bool) -> None:
    assert any(fnmatch(name, pattern) for pattern in launch().unset) is removed


def test_a_session_is_its_rollout_and_never_a_key() -> None:
    files = Codex().resume_files(THREAD, "/w")
    assert files is not None
    rollout = f"sessions/2026/12/02/rollout-2026-12-02T08-15-34-{THREAD}.jsonl"
    assert any(fnmatch(rollout, glob) for glob in files.globs)
    assert not any(fnmatch("auth.json", glob) for glob in files.globs)
    assert "auth.json" in files.never


@pytest.mark.parametrize("native_id", ["", "../x", "*", "a/b", "a" * 65])
def test_an_id_that_is_none_cannot_be_resumed(native_id: str) -> None:
    assert Codex().resume_files(native_id, "/w") is None


def test_it_is_ended_politely_first() -> None:
    assert [(step.signal, step.group) for step in Codex().stop_steps] == [("TERM", False), ("TERM", True)]
