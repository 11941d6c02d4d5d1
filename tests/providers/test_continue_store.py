"""Sessions of Continue, found and read on every platform, and what damages them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.providers.continue_store import ContinueStore
from relay.providers.store_protocol import Machine, RunningProcess
from tests.fakes.editors import FILE, PLATFORMS, TASK, TEST, cwd_of, editors
from tests.fakes.lifting import FILES, JSON, machine, the_one, told
from tests.fakes.stores import FIXTURES

STORE = ContinueStore()
NAME = "911d9c01-e5de-5e4a-8568-63884298239b"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_session_is_found_and_read(tmp_path: Path, platform: str) -> None:
    where = editors(tmp_path, platform)
    path = next(Path(where.home).rglob(f"{NAME}.json"))
    os.utime(path, (1767323100, 1767323100))
    intel = the_one(STORE, where)
    assert (intel.native_id, intel.cwd, intel.title) == (NAME, cwd_of(platform), "Refund flow")
    assert intel.model == "claude-sonnet-4.5"
    assert (intel.first_prompt, intel.last_prompt) == (TASK, "")
    assert (intel.files_changed, intel.files_read) == ((FILE,), ("README.md",))
    assert [(run.command, run.exit_code) for run in intel.commands] == [(TEST, None)]
    assert intel.tokens == TokenUsage(input=13950, output=120)
    assert (intel.context_tokens, intel.cost_usd) == (13950 + 120, 0.055)
    assert [(turn.role, turn.text) for turn in intel.turns] == [
        ("user", TASK),
        ("agent", "I will write the file."),
        ("agent", "The migration is written; the endpoint is next."),
    ]
    assert not intel.turn_open
    assert str(intel.started_at) == "2026-01-02 03:04:05.678000+00:00"
    assert str(intel.last_activity) == "2026-01-02 03:05:00+00:00"
    assert told(the_one(STORE, where, Depth.LIST)) == told(intel)


def test_a_session_that_the_index_lacks_is_found_too(tmp_path: Path) -> None:
    where = editors(tmp_path)
    next(Path(where.home).rglob("sessions.json")).write_text("[{torn")
    assert the_one(STORE, where).cwd == "/code/demo"


def test_its_folder_is_where_the_variable_says() -> None:
    where = Machine(env={"CONTINUE_GLOBAL_DIR": "/moved/"}, home="/home/ada")
    assert STORE.homes(where) == ("/moved", "/home/ada/.continue")


def session(tmp_path: Path, *history: Any, **more: Any) -> SessionIntel:
    folder = tmp_path / ".continue/sessions"
    folder.mkdir(parents=True, exist_ok=True)
    told_of = {"sessionId": "s1", "workspaceDirectory": "file:///code/shop", "history": history, **more}
    (folder / "s1.json").write_text(json.dumps(told_of))
    return the_one(STORE, machine(tmp_path))


def user(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}}


def call(
    tool: str, given: dict[str, Any], status: str = "done", output: str = "", **more: str
) -> dict[str, Any]:
    state = {
        "toolCallId": "t1",
        "toolCall": {"function": {"name": tool, "arguments": json.dumps(given)}},
        "status": status,
        "output": [{"content": output, **more}],
    }
    return {"message": {"role": "assistant", "content": ""}, "toolCallStates": [state]}


def test_a_command_that_failed_waits_or_was_refused(tmp_path: Path) -> None:
    make = {"command": "make"}
    failed = call("run_terminal_command", make, output="no rule", status="done")
    failed["toolCallStates"][0]["output"][0]["status"] = "Command failed with exit code 2"
    intel = session(tmp_path, user("Go"), failed)
    assert [(run.command, run.exit_code, run.ok) for run in intel.commands] == [("make", 2, False)]
    waiting = session(tmp_path, user("Go"), call("run_terminal_command", make, "generated"))
    assert (waiting.commands, waiting.turn_open) == ((), True)
    refused = session(tmp_path, user("Go"), call("run_terminal_command", make, "canceled"))
    assert [(each.what, each.why) for each in refused.failed_attempts] == [
        ("run make", "permission was denied")
    ]


def test_checklists_and_summaries_are_read(tmp_path: Path) -> None:
    plan = call("Checklist", {"checklist": "- [x] One\n- [ ] Two"})
    summed = {**user("Go on"), "conversationSummary": "So far: I decided to pin the compiler."}
    intel = session(tmp_path, user("Go"), plan, summed)
    assert (intel.tasks_done, intel.tasks_remaining) == (("One",), ("Two",))
    assert (intel.compactions, intel.last_prompt) == (1, "Go on")


def test_cached_tokens_are_told_apart_and_counted_once(tmp_path: Path) -> None:
    usage = {"promptTokens": 100, "completionTokens": 7, "promptTokensDetails": {"cachedTokens": 60}}
    answer = {"message": {"role": "assistant", "content": "Done.", "usage": usage}}
    intel = session(tmp_path, user("Go"), answer, usage=usage)
    assert intel.tokens == TokenUsage(input=40, cached_input=60, output=7)


def test_an_editor_is_no_agent_and_resumes_nothing_from_outside() -> None:
    assert not STORE.runs(RunningProcess(pid=1, name="code", argv=("code",)))
    assert STORE.resume_argv(NAME) == ()
    assert list(STORE.live(FILES, "/nowhere")) == []


WHOLE = (FIXTURES / "vscode/linux/.continue/sessions" / f"{NAME}.json").read_bytes()
SECOND = WHOLE.index(b'"I will write the file."')


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), junk=st.binary(max_size=6), cut=st.booleans())
def test_a_damaged_session_gives_the_messages_that_are_whole(
    tmp_path: Path, at: int, junk: bytes, cut: bool
) -> None:
    folder = tmp_path / ".continue/sessions"
    folder.mkdir(parents=True, exist_ok=True)
    damaged = WHOLE[:at] + junk + (b"" if cut else WHOLE[at + len(junk) :])
    (folder / f"{NAME}.json").write_bytes(damaged or b" ")
    intel = the_one(STORE, machine(tmp_path))
    if at > SECOND:
        assert intel.first_prompt == TASK
    if at < SECOND - 200 and not cut:
        assert "The migration is written" in intel.last_message
        assert FILE in str((intel.files_changed, intel.files_outside))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    items=st.lists(
        st.dictionaries(st.sampled_from(("message", "toolCallStates", "contextItems", "promptLogs")), JSON),
        max_size=3,
    ),
    wrong=JSON,
)
def test_values_of_wrong_types_never_raise(tmp_path: Path, items: list[Any], wrong: Any) -> None:
    intel = session(tmp_path, user(TASK), *items, usage=wrong, title=wrong, workspaceDirectory=wrong)
    assert intel.first_prompt == TASK
