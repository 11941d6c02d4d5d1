"""Chats of Cursor's command line, found and read, and its processes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.intel import Depth, SessionIntel
from relay.providers.cursor_agent_store import CursorAgentStore
from relay.providers.cursor_chat import wire_fields
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import FILES, found, lifted, machine, told

CHAT = "f1ff7b74-0a28-4dd4-a452-e01ae080eb20"
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": "<user_info>\nOS: linux\n</user_info>"},
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\nFix the build\n</user_query>"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "Hmm", "providerOptions": {"cursor": {"modelName": "gpt-5"}}},
            {"type": "text", "text": "I decided to pin the compiler."},
            {
                "type": "tool-call",
                "toolCallId": "t1",
                "toolName": "TodoWrite",
                "args": {
                    "todos": [
                        {"id": "1", "content": "Pin the compiler", "status": "completed"},
                        {"id": "2", "content": "Run the tests", "status": "pending"},
                    ]
                },
            },
            {"type": "tool-call", "toolCallId": "t2", "toolName": "Shell", "args": {"command": "make"}},
            {
                "type": "tool-call",
                "toolCallId": "t3",
                "toolName": "StrReplace",
                "args": {"path": "/code/shop/a.c"},
            },
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "t2",
                "toolName": "Shell",
                "result": "Exit code: 2\n\nno rule",
            }
        ],
    },
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "t3", "result": "Updated"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Pinned."}]},
]


def write(tmp_path: Path, messages: list[Any], *, folder: str = "0" * 32, workspace: str = "") -> Path:
    chat = tmp_path / ".cursor/chats" / folder / CHAT
    chat.mkdir(parents=True, exist_ok=True)
    path = chat / "store.db"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as own:
        own.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        own.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        root = b""
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            name = hashlib.sha256(data).digest()
            own.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (name.hex(), data))
            root += b"\x0a\x20" + name
        if workspace:
            root += b"\x4a" + bytes([len(workspace)]) + workspace.encode()
        own.execute("INSERT INTO blobs VALUES ('root', ?)", (root,))
        told_of = {
            "agentId": CHAT,
            "latestRootBlobId": "root",
            "name": "Build",
            "createdAt": 1767323045678,
            "lastUsedModel": "gpt-5-high",
        }
        own.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(told_of).encode().hex(),))
    own.close()
    return path


def read(tmp_path: Path, depth: Depth = Depth.FULL, **more: Any) -> SessionIntel:
    [intel] = lifted(CursorAgentStore(), machine(tmp_path, **more), depth)
    return intel


def test_a_chat_is_read_in_the_order_of_its_root(tmp_path: Path) -> None:
    write(tmp_path, MESSAGES, workspace="file:///code/shop")
    intel = read(tmp_path)
    assert (intel.native_id, intel.cwd, intel.title) == (CHAT, "/code/shop", "Build")
    assert (intel.model, intel.first_prompt) == ("gpt-5-high", "Fix the build")
    assert (intel.tasks_done, intel.tasks_remaining) == (("Pin the compiler",), ("Run the tests",))
    assert [(run.command, run.exit_code) for run in intel.commands] == [("make", 2)]
    assert [each.what for each in intel.failed_attempts] == ["run make"]
    assert intel.files_changed == ("a.c",)
    assert "pin the compiler" in str(intel.decisions)
    assert (intel.last_message, intel.turn_open) == ("Pinned.", False)
    assert told(read(tmp_path, Depth.LIST)) == told(intel)


def test_a_chat_that_stopped_at_a_tool_is_open(tmp_path: Path) -> None:
    write(tmp_path, MESSAGES[:4])
    assert read(tmp_path).turn_open


def test_the_folder_is_told_beside_it_or_by_the_hash_of_a_folder_that_relay_knows(tmp_path: Path) -> None:
    name = hashlib.md5(b"/code/shop", usedforsecurity=False).hexdigest()
    path = write(tmp_path, MESSAGES, folder=name)
    assert read(tmp_path).cwd == ""
    assert read(tmp_path, folders=("/code/other", "/code/shop")).cwd == "/code/shop"
    path.with_name("meta.json").write_text('{"cwd": "/code/moved", "title": "T"}')
    assert read(tmp_path).cwd == "/code/moved"


def test_a_new_message_is_another_stamp(tmp_path: Path) -> None:
    write(tmp_path, MESSAGES[:4])
    before = found(CursorAgentStore(), machine(tmp_path))
    write(tmp_path, MESSAGES)
    assert [each.stamp for each in found(CursorAgentStore(), machine(tmp_path))] != [before[0].stamp]


@pytest.mark.parametrize(
    ("argv", "name", "runs"),
    [
        (("/home/ada/.local/bin/cursor-agent",), "cursor-agent", True),
        (("cursor-agent", "-p", "fix it"), "node", True),
        (("node", "--use-system-ca", "/x/cursor-agent/versions/2026/index.js", "fix"), "node", True),
        (("node", "/x/cursor-agent/versions/2026/index.js", "worker-server"), "node", False),
        (("cursor-agent", "login"), "cursor-agent", False),
        (("/usr/share/cursor/cursor", "--type=renderer"), "cursor", False),
        (("node", "server.js"), "node", False),
        ((), "", False),
    ],
)
def test_its_processes_are_told_from_others(argv: tuple[str, ...], name: str, runs: bool) -> None:
    assert CursorAgentStore().runs(RunningProcess(pid=1, name=name, argv=argv)) is runs


def test_it_is_resumed_by_its_id() -> None:
    assert CursorAgentStore().resume_argv(CHAT) == ("cursor-agent", "--resume", CHAT)
    assert list(CursorAgentStore().live(FILES, "/nowhere")) == []


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_end_its_fields(data: bytes) -> None:
    for number, value in wire_fields(data):
        assert number >= 0
        assert value in data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(number=st.integers(0, len(MESSAGES) - 1), at=st.integers(0, 300), junk=st.binary(max_size=5))
def test_a_damaged_message_hides_no_other(tmp_path: Path, number: int, at: int, junk: bytes) -> None:
    data = json.dumps(MESSAGES[number]).encode()
    write(tmp_path, [*MESSAGES[:number], data[:at] + junk, *MESSAGES[number + 1 :]])
    intel = read(tmp_path)
    if number != 2:
        assert intel.first_prompt.endswith("Fix the build")
    if number != 3:
        assert intel.tasks_remaining == ("Run the tests",)
    if number not in (3, 4):
        assert [run.exit_code for run in intel.commands] == [2]
