"""Tasks of Roo Code, found and read on every platform."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay.core.events import FailureClass, TaskStatus, TokenUsage
from relay.core.intel import Depth
from relay.providers.roo_store import RooStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.editors import DONE, FILE, PLATFORMS, REMAINING, TASK, TEST, cwd_of, editors
from tests.fakes.lifting import FILES, the_one, told

STORE = RooStore()
NAME = "2c021ad7-ce12-55a7-b745-94d3032fa642"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_task_is_found_and_read(tmp_path: Path, platform: str) -> None:
    where = editors(tmp_path, platform)
    intel = the_one(STORE, where)
    assert (intel.native_id, intel.cwd, intel.model) == (NAME, cwd_of(platform), "claude-sonnet-4.5")
    assert intel.first_prompt == TASK
    assert [item.status for item in intel.plan] == [
        TaskStatus.COMPLETED,
        TaskStatus.IN_PROGRESS,
        TaskStatus.PENDING,
    ]
    assert (intel.tasks_done, intel.tasks_remaining) == (DONE, REMAINING)
    assert (intel.files_changed, intel.files_read) == ((FILE,), ("README.md",))
    assert [run.command for run in intel.commands] == [TEST]
    assert intel.tokens == TokenUsage(input=26861, cached_input=12000, output=531)
    assert [limit.failure for limit in intel.limits] == [FailureClass.RATE_LIMIT]
    assert (intel.turn_open, intel.last_message) == (True, "I will write the migration first.")
    assert told(the_one(STORE, where, Depth.LIST)) == told(intel)


def test_a_task_that_another_began_names_it(tmp_path: Path) -> None:
    where = editors(tmp_path)
    item = next(Path(where.home).rglob("history_item.json"))
    kin = {"parentTaskId": "p1", "childIds": ["c1", "c2"]}
    item.write_text(json.dumps({**json.loads(item.read_text()), **kin}))
    intel = the_one(STORE, where)
    assert (intel.parent, intel.subagents) == ("p1", 2)


def test_a_task_without_messages_still_has_what_its_item_tells(tmp_path: Path) -> None:
    where = editors(tmp_path)
    for each in Path(where.home).rglob("rooveterinaryinc.roo-cline/tasks/*/*.json"):
        if each.name != "history_item.json":
            each.unlink()
    intel = the_one(STORE, where)
    assert (intel.first_prompt, intel.cwd) == (TASK, "/code/demo")


def test_an_editor_is_no_agent_and_resumes_nothing_from_outside() -> None:
    assert not STORE.runs(RunningProcess(pid=1, name="code", argv=("code",)))
    assert STORE.resume_argv(NAME) == ()
    assert list(STORE.live(FILES, "/nowhere")) == []
