from __future__ import annotations

from typing import Any

import pytest

from relay.core.events import ToolKind
from relay.providers.codex_items import call_of, camel, changed_paths, result_of, spoken, unwrap


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("/bin/bash -lc 'ls -1'", "ls -1"),
        ("/usr/bin/zsh -c ls", "ls"),
        (r'''/bin/bash -lc "printf 'hello %s\\n' relay; ls"''', r"printf 'hello %s\n' relay; ls"),
        ("ls -1", "ls -1"),
        ("/bin/bash -lc ls extra", "/bin/bash -lc ls extra"),
        ("python -c 'print()'", "python -c 'print()'"),
        ("bash -lc 'unclosed", "bash -lc 'unclosed"),
        ("", ""),
    ],
)
def test_the_script_is_shown_without_its_shell(command: str, script: str) -> None:
    assert unwrap(command) == script


def test_both_ends_of_a_move_are_written() -> None:
    change = {"path": "a.py", "kind": {"type": "update", "move_path": "b.py"}}
    assert changed_paths({"changes": [change, change]}) == ("a.py", "b.py")


@pytest.mark.parametrize(
    ("item", "tool", "kind", "detail"),
    [
        ({"type": "webSearch", "query": "trio"}, "web_search", ToolKind.WEB, "trio"),
        ({"type": "webSearch", "query": "", "action": {"url": "u"}}, "web_search", ToolKind.WEB, "u"),
        ({"type": "imageView", "path": "a.png"}, "view_image", ToolKind.READ, "a.png"),
        (
            {"type": "collabAgentToolCall", "tool": "spawnAgent", "prompt": "Look"},
            "spawnAgent",
            ToolKind.SUBAGENT,
            "Look",
        ),
        ({"type": "dynamicToolCall", "tool": "x", "arguments": None}, "x", ToolKind.OTHER, ""),
        ({"type": "mcpToolCall", "server": "s", "tool": "t", "arguments": [1]}, "s.t", ToolKind.MCP, "[1]"),
    ],
)
def test_tool_calls(item: dict[str, Any], tool: str, kind: ToolKind, detail: str) -> None:
    call = call_of({"id": "c", **item})
    assert (call.call_id, call.tool, call.tool_kind, call.detail) == ("c", tool, kind, detail)


@pytest.mark.parametrize(
    ("item", "ok", "denied", "output"),
    [
        ({"status": "completed", "exitCode": 0, "aggregatedOutput": "x"}, True, False, "x"),
        ({"status": "completed", "exitCode": 1}, False, False, ""),
        ({"status": "failed", "exitCode": None}, False, False, ""),
        ({"status": "declined"}, False, True, ""),
        ({"status": "inProgress"}, False, False, ""),
        ({}, True, False, ""),
        ({"status": "completed", "success": False}, False, False, ""),
        ({"status": "failed", "error": {"message": "no server"}}, False, False, "no server"),
        ({"status": "completed", "result": {"content": [{"text": "a"}, {"text": "b"}]}}, True, False, "a\nb"),
    ],
)
def test_results(item: dict[str, Any], ok: bool, denied: bool, output: str) -> None:
    result = result_of(item)
    assert (result.ok, result.denied, result.output) == (ok, denied, output)


def test_a_long_output_keeps_its_head_and_tail() -> None:
    output = result_of({"aggregatedOutput": "head " + "x" * 9000 + " tail"}).output
    assert len(output) <= 4096
    assert output.startswith("head ")
    assert output.endswith(" tail")


@pytest.mark.parametrize(
    ("item", "kinds"),
    [
        ({"type": "agentMessage", "text": "hi"}, ["text"]),
        ({"type": "agentMessage", "text": " "}, []),
        ({"type": "reasoning", "summary": ["a", "b"], "content": []}, ["thinking"]),
        ({"type": "reasoning", "summary": [], "content": []}, []),
        ({"type": "hookPrompt", "fragments": [{"text": "x"}]}, ["user_text"]),
        ({"type": "contextCompaction"}, ["notice"]),
    ],
)
def test_what_is_said(item: dict[str, Any], kinds: list[str]) -> None:
    assert [event.kind for event in spoken(item) or ()] == kinds


def test_an_item_of_an_unknown_type_is_known_to_be_so() -> None:
    assert spoken({"type": "hologram"}) is None


def test_exec_items_take_the_shape_of_the_servers() -> None:
    item = camel({"type": "command_execution", "aggregated_output": "x", "exit_code": 0, "id": "item_1"})
    assert item == {"type": "commandExecution", "aggregatedOutput": "x", "exitCode": 0, "id": "item_1"}
