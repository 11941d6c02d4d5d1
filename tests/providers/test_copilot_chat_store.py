"""Chat sessions of GitHub Copilot in VS Code, found and read on every platform, and what damages them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.attempts import CUT_OFF
from relay.core.events import TaskStatus, TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.providers.copilot_chat_store import CopilotChatStore
from relay.providers.store_protocol import Machine, RunningProcess
from tests.fakes.editors import DONE, FILE, MONEY, PLATFORMS, REMAINING, TASK, TEST, cwd_of, editors
from tests.fakes.lifting import FILES, damages, found, lifted, told
from tests.fakes.stores import FIXTURES

STORE = CopilotChatStore()
LOG = "682812b0-0ccb-573d-9abe-b8d8dde01e53"
DOCUMENT = "ca6e63e8-cdcf-57f4-8363-41c2dc9f0d86"
EMPTY = "e78d7dc5-7e31-50c0-9abf-c27a6c521ae1"
NO_FOLDER = "d3559259-7c05-5b5f-b29f-0544b2641d20"
OLD = "ce3e6979-690c-5834-b9a4-613280241bd9"
STORAGE = "linux/.config/Code/User/workspaceStorage/f60d4f93afbbde18f09fce75825764c4/chatSessions"


def by_id(where: Machine, depth: Depth = Depth.FULL) -> dict[str, SessionIntel]:
    return {intel.native_id: intel for intel in lifted(STORE, where, depth)}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", [LOG, DOCUMENT])
def test_a_session_is_read_from_a_log_as_from_a_document(tmp_path: Path, platform: str, name: str) -> None:
    intel = by_id(editors(tmp_path, platform))[name]
    assert intel.cwd == cwd_of(platform)
    assert intel.model == "claude-sonnet-4.5"
    assert intel.title == "Refund flow"
    assert (intel.first_prompt, intel.last_prompt) == (TASK, MONEY)
    assert [item.status for item in intel.plan] == [
        TaskStatus.COMPLETED,
        TaskStatus.IN_PROGRESS,
        TaskStatus.PENDING,
    ]
    assert (intel.tasks_done, intel.tasks_remaining) == (DONE, REMAINING)
    assert intel.files_changed == (FILE,)
    assert intel.files_outside == ()
    assert [(run.command, run.exit_code, run.times) for run in intel.commands] == [(TEST, 1, 1)]
    assert [(tried.what, tried.why) for tried in intel.failed_attempts] == [
        (f"run {TEST}", "exit code 1: 1 failed in 0.1s")
    ]
    assert intel.tokens == TokenUsage(input=18211, output=932)
    assert (intel.context_tokens, intel.context_window) == (18211 + 932, 127997)
    assert [(turn.role, turn.text) for turn in intel.turns] == [
        ("user", TASK),
        ("agent", "I'll plan the refund flow first."),
        ("agent", "The migration is written; the endpoint is next."),
        ("user", MONEY),
        ("agent", "Will do."),
    ]
    assert intel.turn_open
    assert str(intel.started_at) == "2026-01-02 03:04:05.678000+00:00"
    assert str(intel.last_activity) == "2026-01-02 03:05:05.678000+00:00"
    assert intel.skipped == ()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_window_without_a_folder_has_sessions_too(tmp_path: Path, platform: str) -> None:
    intel = by_id(editors(tmp_path, platform))[NO_FOLDER]
    assert (intel.cwd, intel.first_prompt, intel.turn_open) == ("", "Explain git rebase", False)
    assert intel.last_message == "Rebase replays commits."


@pytest.mark.parametrize("platform", PLATFORMS)
def test_sessions_of_old_releases_lie_in_the_workspaces_database(tmp_path: Path, platform: str) -> None:
    intel = by_id(editors(tmp_path, platform))[OLD]
    assert intel.cwd == cwd_of(platform) + "-old"
    assert intel.path.endswith("state.vscdb")
    assert (intel.first_prompt, intel.tasks_remaining, intel.turn_open) == (TASK, REMAINING, False)
    assert intel.files_outside == (cwd_of(platform) + "/" + FILE,)


def test_sessions_of_other_editors_of_the_family_are_found(tmp_path: Path) -> None:
    sessions = by_id(editors(tmp_path))
    assert len(sessions) == 10
    insiders = sessions["be7d55b0-c2ef-516d-8a89-47ab958044ad"]
    assert (insiders.first_prompt, insiders.cwd) == (TASK, "/code/demo")
    assert insiders.home.endswith("/Code - Insiders/User")


def test_a_chat_in_which_nothing_was_said_tells_nothing(tmp_path: Path) -> None:
    intel = by_id(editors(tmp_path))[EMPTY]
    assert (intel.first_prompt, intel.message_count, intel.turn_open) == ("", 0, False)


def test_a_list_tells_the_same_as_a_full_reading(tmp_path: Path) -> None:
    where = editors(tmp_path)
    assert list(map(told, lifted(STORE, where, Depth.LIST))) == list(map(told, lifted(STORE, where)))


def test_only_what_changed_lately_is_listed(tmp_path: Path) -> None:
    where = editors(tmp_path)
    for each in Path(where.home).rglob("*"):
        os.utime(each, (1_700_000_000, 1_700_000_000))
    recent = next(Path(where.home).rglob(f"{LOG}.jsonl"))
    os.utime(recent, (1_800_000_000, 1_800_000_000))
    homes = STORE.homes(where)
    listed = [each for home in homes for each in STORE.find(FILES, home, 1_790_000_000.0)]
    assert [each.native_id for each in listed] == [LOG]


def test_a_log_that_was_written_anew_as_one_line_is_read_anew(tmp_path: Path) -> None:
    where = editors(tmp_path)
    each = next(each for each in found(STORE, where) if each.native_id == LOG)
    transcript = STORE.open(FILES, each, Depth.FULL)
    before = transcript.read().intel()
    document = next(Path(where.home).rglob(f"{DOCUMENT}.json"))
    state = {**json.loads(document.read_text()), "sessionId": LOG}
    Path(each.paths[0]).write_text(json.dumps({"kind": 0, "v": state}) + "\n")
    after = transcript.read().intel()
    assert told(after) == told(before)
    again = next(each for each in found(STORE, where) if each.native_id == LOG)
    assert again.stamp != each.stamp


def test_what_is_typed_but_not_sent_is_not_said(tmp_path: Path) -> None:
    told_of_all = str(by_id(editors(tmp_path)))
    assert "draft that was typed" not in told_of_all
    assert "typo" not in told_of_all


def session(tmp_path: Path, *requests: dict[str, Any]) -> SessionIntel:
    folder = tmp_path / ".config/Code/User/workspaceStorage/a1/chatSessions"
    folder.mkdir(parents=True)
    (folder.parent / "workspace.json").write_text('{"folder": "file:///code/demo"}')
    (folder / "s1.json").write_text(json.dumps({"version": 3, "sessionId": "s1", "requests": requests}))
    [intel] = lifted(STORE, Machine(env={}, home=str(tmp_path)))
    return intel


def asked(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "requestId": "r1",
        "timestamp": 1767323045678,
        "message": {"text": "Do it"},
        "response": parts,
        **more,
    }


@pytest.mark.parametrize(
    ("details", "failure"),
    [
        (
            {"message": "Sorry, you have exceeded your Copilot token rate limit.", "isRateLimited": True},
            "rate_limit",
        ),
        ({"message": "You have no quota left", "isQuotaExceeded": True}, "usage_limit"),
        ({"message": "The response was filtered", "responseIsFiltered": True}, "refusal"),
        ({"message": "ENOTFOUND"}, ""),
    ],
)
def test_an_error_is_a_limit_that_was_met(tmp_path: Path, details: dict[str, Any], failure: str) -> None:
    intel = session(tmp_path, asked(result={"errorDetails": details}))
    assert len(intel.limits) == 1
    assert intel.limits[0].failure.value.startswith(failure)
    assert intel.turn_open


def test_a_request_that_was_stopped_leaves_its_command_cut_off(tmp_path: Path) -> None:
    running = {
        "kind": "toolInvocationSerialized",
        "toolCallId": "t1",
        "toolId": "run_in_terminal",
        "isComplete": False,
        "toolSpecificData": {"kind": "terminal", "commandLine": {"original": "make slow"}},
    }
    intel = session(tmp_path, asked(running, isCanceled=True))
    assert (intel.cut_off, intel.turn_open) == (("run make slow",), True)


def ran(command: str, **more: Any) -> dict[str, Any]:
    """A command of a tool call that is stored as complete, as all are."""
    terminal = {"kind": "terminal", "commandLine": {"original": command}}
    return {
        "kind": "toolInvocationSerialized",
        "toolCallId": f"t-{command}",
        "toolId": "run_in_terminal",
        "isComplete": True,
        "isConfirmed": {"type": 4},
        "toolSpecificData": {**terminal, **more},
    }


def created(name: str) -> dict[str, Any]:
    uri = f"file:///code/demo/{name}"
    return {
        "kind": "toolInvocationSerialized",
        "toolCallId": f"t-{name}",
        "toolId": "copilot_createFile",
        "isComplete": True,
        "isConfirmed": {"type": 1},
        "pastTenseMessage": {"value": f"Created [](<{uri}>)", "uris": {uri: {}}},
    }


PENDING = {"modelState": {"value": 0}}
GONE_ON = (
    created("a.py"),
    ran("make a"),
    {"value": "Now the tests."},
    ran("make test", terminalCommandState={"exitCode": 0}),
    ran("make slow"),
    created("b.py"),
    {"kind": "progressTaskSerialized"},
)


@pytest.mark.parametrize("state", [{}, PENDING, {"modelState": {"value": 4}}])
def test_a_request_that_never_ended_is_open_and_its_last_calls_are_cut_off(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    intel = session(tmp_path, asked(*GONE_ON, **state))

    assert (intel.turn_open, intel.cut_off) == (True, ("run make slow", "edit b.py"))
    assert intel.files_changed == ("a.py",)
    assert {run.command: run.ok for run in intel.commands} == {"make a": True, "make test": True}
    [listed] = lifted(STORE, Machine(env={}, home=str(tmp_path)), Depth.LIST)
    assert told(listed) == told(intel)


@pytest.mark.parametrize("end", [{"result": {"metadata": {}, "timings": {}}}, {"modelState": {"value": 1}}])
def test_the_calls_of_a_request_that_ended_have_ended(tmp_path: Path, end: dict[str, Any]) -> None:
    intel = session(tmp_path, asked(*GONE_ON, **end))

    assert (intel.turn_open, intel.cut_off, intel.files_changed) == (False, (), ("a.py", "b.py"))


def test_what_never_ended_before_another_request_was_tried_in_vain(tmp_path: Path) -> None:
    then = {**asked({"value": "Done."}, **{"modelState": {"value": 1}}), "requestId": "r2"}
    intel = session(tmp_path, asked(*GONE_ON, **PENDING), then)

    assert (intel.turn_open, intel.cut_off) == (False, ())
    assert [each.why for each in intel.failed_attempts] == [CUT_OFF] * 2
    assert [each.what for each in intel.failed_attempts] == ["run make slow", "edit b.py"]


@pytest.mark.parametrize("kind", [0, 5])
def test_a_tool_that_the_user_refused_is_a_failed_attempt(tmp_path: Path, kind: int) -> None:
    denied = {
        "kind": "toolInvocationSerialized",
        "toolCallId": "t1",
        "toolId": "run_in_terminal",
        "isComplete": True,
        "isConfirmed": {"type": kind},
        "toolSpecificData": {"kind": "terminal", "commandLine": {"original": "rm -rf build"}},
    }
    intel = session(tmp_path, asked(denied))
    assert [(each.what, each.why) for each in intel.failed_attempts] == [
        ("run rm -rf build", "permission was denied")
    ]


def test_files_servers_and_subagents_are_told(tmp_path: Path) -> None:
    uri = "file:///code/demo/docs/a%20b.md"
    read = {
        "kind": "toolInvocationSerialized",
        "toolCallId": "t1",
        "toolId": "copilot_readFile",
        "isComplete": True,
        "pastTenseMessage": {"value": f"Read [](<{uri}>)", "uris": {f"{uri}#1-9": {}}},
    }
    mcp = {
        "kind": "toolInvocationSerialized",
        "toolCallId": "t2",
        "toolId": "mcp_github_list",
        "isComplete": True,
        "source": {"type": "mcp", "label": "github"},
    }
    helper = {
        "kind": "toolInvocationSerialized",
        "toolCallId": "t3",
        "toolId": "runSubagent",
        "isComplete": True,
        "toolSpecificData": {"kind": "subagent"},
    }
    intel = session(tmp_path, asked(read, mcp, helper))
    assert (intel.files_read, intel.mcp_servers, intel.subagents) == (("docs/a b.md",), ("github",), 1)


def test_an_editor_is_no_agent_and_resumes_nothing_from_outside() -> None:
    assert not STORE.runs(RunningProcess(pid=1, name="code", argv=("/usr/share/code/code",)))
    assert STORE.resume_argv("x") == ()
    assert list(STORE.live(FILES, "/nowhere")) == []


LINES = (FIXTURES / "vscode" / STORAGE / f"{LOG}.jsonl").read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_log_gives_what_its_whole_lines_tell(tmp_path: Path, data: st.DataObject) -> None:
    text, whole = data.draw(damages(LINES))
    folder = tmp_path / ".config/Code/User/workspaceStorage/a1/chatSessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s1.jsonl").write_bytes(text or b"\n")
    [intel] = lifted(STORE, Machine(env={}, home=str(tmp_path)))
    if 2 in whole and 10 in whole:
        assert TASK in str(intel)
    if 11 in whole:
        assert MONEY in str(intel)
    if 5 in whole:
        assert TEST in str(intel.commands)
        assert FILE in str(intel)
    if 4 in whole and 5 in whole:
        assert intel.tasks_remaining == REMAINING


WHOLE = (FIXTURES / "vscode" / STORAGE / f"{DOCUMENT}.json").read_bytes()
SECOND = WHOLE.index(b'"request_2e9bfefe')


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), junk=st.binary(max_size=6), cut=st.booleans())
def test_a_damaged_document_gives_the_requests_that_are_whole(
    tmp_path: Path, at: int, junk: bytes, cut: bool
) -> None:
    folder = tmp_path / ".config/Code/User/workspaceStorage/a1/chatSessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s1.json").write_bytes(WHOLE[:at] + junk + (b"" if cut else WHOLE[at + len(junk) :]) or b" ")
    [intel] = lifted(STORE, Machine(env={}, home=str(tmp_path)))
    if at > SECOND:
        assert intel.first_prompt == TASK
        assert intel.tasks_remaining == REMAINING
        assert FILE in str((intel.files_changed, intel.files_outside))
