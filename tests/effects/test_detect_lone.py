"""A transcript outside every store is recognised by its content, whatever it is called now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relay.core.intel import Depth
from relay.effects.detect_lone import read_lone, recognise
from relay.effects.store_files import DiskFiles
from tests.fakes.stores import place

FILES = DiskFiles()
RECORDED = {
    "claude/plan_tasks": ("projects/*/*.jsonl", "Add a refund flow to the orders service"),
    "codex/plan": ("rollout-*.jsonl", "Add a refund flow to the orders service"),
    "gemini/tool_edit": ("session-*.jsonl", "Create hello.txt and tell me when done (tool_edit)"),
    "qwen/todo": ("chats/*.jsonl", "Create hello.txt and tell me when done"),
    "copilot/todo": ("events.jsonl", "Create hello.txt and tell me when done"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_copied_transcript_is_told_by_who_can_read_it(name: str, tmp_path: Path) -> None:
    pattern, prompt = RECORDED[name]
    home, cwd = place(name, tmp_path)
    [original] = home.rglob(pattern)
    copy = tmp_path / "sent to me.jsonl"
    shutil.copyfile(original, copy)

    intel = recognise(FILES, str(copy))

    assert intel is not None
    assert (intel.store, intel.first_prompt) == (name.partition("/")[0], prompt)
    assert (intel.path, intel.home, intel.cwd) == (str(copy), "", str(cwd))
    full = read_lone(FILES, intel.store, str(copy), Depth.FULL)
    assert full is not None
    assert full.native_id == intel.native_id
    assert full.intel().files_changed


@pytest.mark.parametrize(
    "content",
    [b"", b"# Notes\n", b"\0" * 99, b'{"id": "0a1b2c3d-0000-4000-8000-000000000001"}\n', b"[1, 2]\n"],
)
def test_anything_else_is_no_transcript(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)

    assert recognise(FILES, str(path)) is None
