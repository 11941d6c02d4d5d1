"""Sessions of Cline's command line and tasks of its extension, found and read, and what damages them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import FailureClass, TaskStatus, TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.providers.cline_store import ClineStore
from relay.providers.store_protocol import Live, Machine, RunningProcess
from tests.fakes.editors import DONE, FILE, PLATFORMS, REMAINING, TASK, TEST, cwd_of, editors
from tests.fakes.lifting import FILES, JSON, found, lifted, machine, the_one, told
from tests.fakes.stores import FIXTURES, place, recordings

STORE = ClineStore()
LIMITED, FINISHED, ORPHAN = "1767323045678", "1767323145678", "1767323945678"
TELL = "Create hello.txt and tell me when done"
RUN = "Create hello.txt and run the tests"
SHELL = "echo relay-shell-ok && ls"
HELLO = "Hello. This is a plain text answer from the mock model."
PRINTED = "The command printed relay-shell-ok."


def spent(input: int, output: int) -> dict[str, Any]:  # noqa: A002
    return {"tokens": TokenUsage(input=input, output=output)}


def refused(failure: str, **more: Any) -> dict[str, Any]:
    return {"limits": (failure,), "turn_open": True, **more}


WROTE: dict[str, Any] = {"files_changed": ("hello.txt",), "last_message": "Done: hello.txt has been written."}
RAN: dict[str, Any] = {"commands": ((SHELL, None, True),), "last_message": PRINTED}
DENIED: dict[str, Any] = {
    "failed_attempts": ((f"run {SHELL}", "permission was denied"),),
    "last_message": PRINTED,
}
HALF: dict[str, Any] = {"files_changed": ("hello.txt",), "last_message": "I will create the file."}
BILLED = refused("usage_limit", **HALF)
RECORDINGS: dict[str, dict[str, Any]] = {
    "acp.auth_401.allow_once": refused("auth"),
    "acp.hang.allow_once.cancel": {"turn_open": True},
    "acp.plain.allow_once": {
        **spent(9398, 42),
        "last_prompt": "Third prompt after load",
        "last_message": HELLO,
        "message_count": 6,
        "context_tokens": 3170 + 14,
    },
    "acp.todo.allow_always": spent(3096, 12),
    "acp.tool_shell.allow_once": {**RAN, **spent(6294, 24)},
    "acp.tool_shell.reject": {**DENIED, **spent(6294, 24)},
    "acp.tool_write.allow_once": {**WROTE, **spent(6315, 41)},
    "acp.tool_write.allow_once.fs": spent(3098, 15),
    "acp.write_then_billing.allow_once": {**BILLED, **spent(3099, 33)},
    "auth_401": refused("auth"),
    "context_400": refused("context_overflow"),
    "model_404": refused("other"),
    "overloaded_503": refused("overload"),
    "parallel": {
        **spent(11534, 41),
        "files_changed": ("hello.txt",),
        "commands": ((SHELL, None, True),),
        "last_message": "Both done.",
        "message_count": 3,
    },
    "permission_not_auto": {**DENIED, **spent(11446, 24)},
    "plain": {**spent(5665, 14), "last_message": HELLO, "message_count": 2},
    "quota_billing_429": refused("usage_limit"),
    "rate_limit_then_ok": {**spent(5668, 6), "last_message": "Recovered after one 429."},
    "refusal": {**spent(5665, 6), "last_message": "I can't help with that."},
    "stream_cut": refused("network", last_message="This answer will be cut"),
    "tool_edit": {
        **spent(17249, 36),
        "files_changed": ("README.md",),
        "last_message": "README.md now has the new title.",
    },
    "tool_shell": {**RAN, **spent(11431, 24)},
    "tool_write": {**WROTE, **spent(11449, 31)},
    "write_then_billing": {**BILLED, **spent(5668, 23)},
}


def seen(intel: SessionIntel, name: str) -> Any:
    value = getattr(intel, name)
    match name:
        case "limits":
            return tuple(limit.failure.value for limit in value)
        case "commands":
            return tuple((run.command, run.exit_code, run.ok) for run in value)
        case "failed_attempts":
            return tuple((tried.what, tried.why) for tried in value)
        case _:
            return value


@pytest.mark.parametrize("scenario", sorted(RECORDINGS))
def test_every_recorded_session_is_found_and_read(tmp_path: Path, scenario: str) -> None:
    home, cwd = place(f"cline/{scenario}", tmp_path)
    intel = the_one(STORE, machine(home))
    acp = scenario.startswith("acp.")
    expected = {
        "first_prompt": RUN if acp else TELL,
        "model": "gpt-4o" if acp else "mock-model",
        "version": "3.0.65",
        "branch": "main",
        "cwd": str(cwd),
        "title": RUN if acp else TELL,
        "turn_open": False,
        "limits": (),
        "failed_attempts": (),
        "files_changed": (),
        "commands": (),
        "skipped": (),
        **RECORDINGS[scenario],
    }
    assert {name: seen(intel, name) for name in expected} == expected
    assert intel.started_at is not None
    assert intel.last_activity is not None
    assert intel.started_at <= intel.last_activity
    assert told(the_one(STORE, machine(home), Depth.LIST)) == told(intel)


def test_there_is_an_expectation_for_every_recording() -> None:
    assert set(RECORDINGS) == recordings("cline")


def test_a_session_that_is_not_over_names_its_process(tmp_path: Path) -> None:
    home, cwd = place("cline/acp.plain.allow_once", tmp_path)
    place("cline/plain", tmp_path)
    live = list(STORE.live(FILES, f"{home}/.cline/data"))
    assert live == [Live(pid=26068, native_id="1796190207061_Dt4UV_cli", cwd=str(cwd), busy=False)]


def tasks(where: Machine, depth: Depth = Depth.FULL) -> dict[str, SessionIntel]:
    return {intel.native_id: intel for intel in lifted(STORE, where, depth)}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", [LIMITED, FINISHED, ORPHAN])
def test_a_task_of_the_extension_is_read_also_when_the_index_lacks_it(
    tmp_path: Path, platform: str, name: str
) -> None:
    intel = tasks(editors(tmp_path, platform))[name]
    assert (intel.cwd, intel.model) == (cwd_of(platform), "claude-sonnet-4.5")
    assert intel.first_prompt == TASK
    assert [item.status for item in intel.plan] == [
        TaskStatus.COMPLETED,
        TaskStatus.PENDING,
        TaskStatus.PENDING,
    ]
    assert (intel.tasks_done, intel.tasks_remaining) == (DONE, REMAINING)
    assert (intel.files_changed, intel.files_outside) == ((FILE,), ())
    assert seen(intel, "commands") == ((TEST, None, True),)
    assert intel.tokens == TokenUsage(input=12011 + 900 + 13950, cached_input=12000, output=531)
    assert intel.context_tokens == 13950 + 120 + 9000
    assert intel.cost_usd == pytest.approx(0.055)
    assert str(intel.started_at) == "2026-01-02 03:04:06.678000+00:00"
    assert str(intel.last_activity) == "2026-01-02 03:04:17.678000+00:00"
    if name == FINISHED:
        assert (intel.turn_open, intel.last_message) == (False, "The refund flow is wired.")
        assert intel.limits == ()
    else:
        assert intel.turn_open
        assert [limit.failure for limit in intel.limits] == [FailureClass.RATE_LIMIT]
    if name != ORPHAN:
        assert (intel.version, intel.files_read) == ("3.49.0", ("README.md",))


def test_a_list_of_tasks_tells_the_same_as_a_full_reading(tmp_path: Path) -> None:
    where = editors(tmp_path)
    assert list(map(told, tasks(where, Depth.LIST).values())) == list(map(told, tasks(where).values()))


def test_only_what_changed_lately_is_listed(tmp_path: Path) -> None:
    where = editors(tmp_path)
    for each in Path(where.home).rglob("*"):
        os.utime(each, (1_700_000_000, 1_700_000_000))
    recent = next(Path(where.home).rglob(f"*/{ORPHAN}/ui_messages.json"))
    os.utime(recent, (1_800_000_000, 1_800_000_000))
    listed = [each for home in STORE.homes(where) for each in STORE.find(FILES, home, 1_790_000_000.0)]
    assert [each.native_id for each in listed] == [ORPHAN]


def shown(tmp_path: Path, *messages: dict[str, Any], **files: Any) -> SessionIntel:
    """A task whose window showed these."""
    folder = tmp_path / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1"
    folder.mkdir(parents=True, exist_ok=True)
    first = {"ts": 1767323046678, "type": "say", "say": "text", "text": TASK}
    (folder / "ui_messages.json").write_text(json.dumps([first, *messages]))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return the_one(STORE, machine(tmp_path))


def say(kind: str, value: Any = "", **more: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"ts": 1767323047678, "type": "say", "say": kind, "text": text, **more}


def ask(kind: str, value: Any = "", **more: Any) -> dict[str, Any]:
    return {**say(kind, value), "type": "ask", "ask": kind, **more}


def test_a_command_that_nobody_approved_yet_has_not_been_run(tmp_path: Path) -> None:
    intel = shown(tmp_path, ask("command", "make slow"), ask("resume_task"))
    assert (intel.commands, intel.cut_off, intel.turn_open) == ((), ("run make slow",), True)


def test_an_exit_code_in_the_output_is_told(tmp_path: Path) -> None:
    output = say("command_output", "make: *** [all] Error\nCommand failed with exit code 2")
    intel = shown(tmp_path, say("command", "make"), output, say("api_req_started", {}))
    assert seen(intel, "commands") == (("make", 2, False),)
    assert [tried.what for tried in intel.failed_attempts] == ["run make"]


def denied(path: str) -> list[dict[str, Any]]:
    """What the model was told of an edit that the user said no to."""
    call = {"type": "tool_use", "id": "t1", "name": "write_to_file", "input": {"path": path, "content": "x"}}
    words = f"[write_to_file for '{path}'] Result:\nThe user denied this operation. The file was not created."
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": words}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def test_an_edit_that_the_user_denied_changed_no_file_in_a_list_either(tmp_path: Path) -> None:
    asked = ask("tool", {"tool": "newFileCreated", "path": "a.py", "content": "x"})
    intel = shown(
        tmp_path, asked, say("api_req_started", {}), api_conversation_history=denied("a.py"), task_metadata={}
    )
    assert intel.files_changed == ()
    assert [tried.what for tried in intel.failed_attempts] == ["edit a.py"]
    assert told(the_one(STORE, machine(tmp_path), Depth.LIST)) == told(intel)


def test_a_denied_edit_is_told_by_the_messages_to_the_model_alone(tmp_path: Path) -> None:
    shown(tmp_path, api_conversation_history=denied("a.py"))
    next(tmp_path.rglob("ui_messages.json")).unlink()
    intel = the_one(STORE, machine(tmp_path))
    assert intel.files_changed == ()
    assert [(tried.what, tried.why) for tried in intel.failed_attempts] == [
        ("edit a.py", "permission was denied")
    ]


def request(number: int) -> dict[str, Any]:
    return say("api_req_started", {"request": f"{number}"})


def written(path: str, **more: Any) -> dict[str, Any]:
    return {**ask("tool", {"tool": "newFileCreated", "path": path, "content": "x"}), **more}


def test_without_messages_to_the_model_an_edit_is_denied_that_lacks_the_mark_of_others(
    tmp_path: Path,
) -> None:
    feedback = say("user_feedback", "Not there.")
    messages = (written("a.py", isAnswered=True), request(1), written("b.py"), feedback, request(2))
    intel = shown(tmp_path, *messages)
    assert intel.files_changed == ("a.py",)
    assert [(tried.what, tried.why) for tried in intel.failed_attempts] == [
        ("edit b.py", "permission was denied")
    ]
    assert told(the_one(STORE, machine(tmp_path), Depth.LIST)) == told(intel)

    waiting = shown(tmp_path, written("a.py", isAnswered=True), request(1), written("b.py"))
    assert waiting.cut_off == ("edit b.py",)

    without_marks = shown(tmp_path, written("a.py"), feedback, request(1))
    assert (without_marks.files_changed, without_marks.failed_attempts) == (("a.py",), ())

    known_better = shown(tmp_path, *messages, api_conversation_history=denied("a.py"))
    assert known_better.files_changed == ("b.py",)


def test_without_messages_to_the_model_a_command_is_denied_that_never_ended(tmp_path: Path) -> None:
    first = {**ask("command", "make"), "commandCompleted": True}
    shouted = (ask("command", "make serve"), ask("command_output", "listening"))
    own, refused = say("command", "make quiet"), ask("command", "make all")
    intel = shown(tmp_path, first, request(1), *shouted, request(2), own, request(3), refused, request(4))
    assert [run.command for run in intel.commands] == ["make", "make serve", "make quiet"]
    assert [(tried.what, tried.why) for tried in intel.failed_attempts] == [
        ("run make all", "permission was denied")
    ]


def test_what_the_user_says_on_the_way_is_kept_with_its_rules(tmp_path: Path) -> None:
    intel = shown(
        tmp_path,
        ask("followup", {"question": "Which one?", "options": ["a", "b"]}),
        say("user_feedback", "The second. Never touch the schema."),
    )
    assert intel.last_prompt == "The second. Never touch the schema."
    assert intel.rules == ("Never touch the schema.",)
    assert intel.last_message == "Which one?"


def test_a_request_that_broke_off_is_a_limit_that_was_met(tmp_path: Path) -> None:
    broken = {"tokensIn": 5, "cancelReason": "streaming_failed", "streamingFailedMessage": "Overloaded"}
    intel = shown(tmp_path, say("api_req_started", broken))
    assert (seen(intel, "limits"), intel.turn_open) == (("overload",), True)


def test_servers_summaries_and_partial_messages(tmp_path: Path) -> None:
    intel = shown(
        tmp_path,
        say("use_mcp_server", {"serverName": "github", "toolName": "list"}),
        say("tool", {"tool": "summarizeTask", "content": "So far: decided to use Money."}),
        say("text", "half a sen", partial=True),
    )
    assert (intel.mcp_servers, intel.compactions) == (("github",), 1)
    assert "half a sen" not in str(intel)


def test_without_its_windows_messages_a_task_is_read_from_those_to_the_model(tmp_path: Path) -> None:
    where = editors(tmp_path)
    for each in Path(where.home).rglob("ui_messages.json"):
        each.unlink()
    intel = tasks(where)[ORPHAN]
    assert (intel.first_prompt, intel.cwd) == (TASK, "/code/demo")
    assert (intel.tasks_remaining, intel.files_changed) == (REMAINING, (FILE,))
    assert intel.tokens == TokenUsage(input=12011, cached_input=3000, output=411)


def test_a_plan_that_only_its_own_file_tells_is_read(tmp_path: Path) -> None:
    where = editors(tmp_path)
    for each in Path(where.home).rglob("ui_messages.json"):
        each.write_text(json.dumps([say("text", TASK)]))
    assert tasks(where)[LIMITED].tasks_remaining == REMAINING
    assert tasks(where)[ORPHAN].tasks_remaining == ()


@pytest.mark.parametrize(
    ("argv", "name", "runs"),
    [
        (("/npm/node_modules/.bin/cline", "--json", "Create hello.txt"), "cline", True),
        (("node", "/usr/lib/node_modules/.bin/cline"), "node", True),
        (("cline",), "cline", True),
        (("/npm/cline", "--cline-hub-daemon"), "cline", False),
        (("cline", "auth"), "cline", False),
        (("code", "--type=extensionHost"), "code", False),
        ((), "", False),
    ],
)
def test_its_processes_are_told_from_others(argv: tuple[str, ...], name: str, runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name=name, argv=argv)) is runs


def test_only_sessions_of_the_command_line_are_resumed_by_it() -> None:
    assert STORE.resume_argv("1796189910450_vj894") == ("cline", "--id", "1796189910450_vj894")
    assert STORE.resume_argv(ORPHAN) == ()


@pytest.mark.parametrize(
    ("platform", "home"),
    [
        ("linux", "/home/ada/.config/Code/User/globalStorage/saoudrizwan.claude-dev"),
        ("darwin", "/home/ada/Library/Application Support/Cursor/User/globalStorage/saoudrizwan.claude-dev"),
        ("win32", "/home/ada/AppData/Roaming/Code/User/globalStorage/saoudrizwan.claude-dev"),
    ],
)
def test_its_homes_are_those_of_both(platform: str, home: str) -> None:
    where = Machine(env={"CLINE_DIR": "/moved/"}, home="/home/ada", platform=platform)
    homes = STORE.homes(where)
    assert homes[:2] == ("/moved/data", "/home/ada/.cline/data")
    assert home in homes


SESSION = next((FIXTURES / "cline/parallel").rglob("*.messages.json")).read_bytes()
SHOWN = next((FIXTURES / "vscode/linux").rglob(f"saoudrizwan.claude-dev/tasks/{LIMITED}/ui_messages.json"))
WINDOW = SHOWN.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, len(SESSION) - 1), junk=st.binary(max_size=6), cut=st.booleans())
def test_a_damaged_session_gives_the_messages_that_are_whole(
    tmp_path: Path, at: int, junk: bytes, cut: bool
) -> None:
    home, _ = place("cline/parallel", tmp_path)
    path = next(home.rglob("*.messages.json"))
    path.write_bytes(SESSION[:at] + junk + (b"" if cut else SESSION[at + len(junk) :]))
    intel = the_one(STORE, machine(home))
    assert intel.first_prompt == TELL
    if at > SESSION.index(b'"metrics"') + 300:
        assert "Two things at once." in str(intel.turns)
    if at < SESSION.index(b'"Two things') - 400 and not cut:
        assert intel.last_message == "Both done."
        assert intel.files_changed == ("hello.txt",)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, len(WINDOW) - 1), junk=st.binary(max_size=6), cut=st.booleans())
def test_a_damaged_window_gives_the_messages_that_are_whole(
    tmp_path: Path, at: int, junk: bytes, cut: bool
) -> None:
    folder = tmp_path / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1"
    folder.mkdir(parents=True, exist_ok=True)
    damaged = WINDOW[:at] + junk + (b"" if cut else WINDOW[at + len(junk) :])
    (folder / "ui_messages.json").write_bytes(damaged or b" ")
    intel = the_one(STORE, machine(tmp_path))
    if at > WINDOW.index(b'"ask": "tool"'):
        assert (intel.first_prompt, intel.tasks_remaining) == (TASK, REMAINING)
    if at < WINDOW.index(b'"checkpoint_created"') and not cut:
        assert intel.tasks_remaining == REMAINING
        assert TEST in str(intel.commands)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(("ts", "type", "say", "ask", "text", "modelInfo", "partial")), JSON),
        max_size=4,
    ),
    JSON,
)
def test_values_of_wrong_types_never_raise(tmp_path: Path, messages: list[Any], wrong: Any) -> None:
    intel = shown(tmp_path, *messages, task_metadata=wrong, history_item=wrong)
    assert intel.first_prompt == TASK
    assert [each.native_id for each in found(STORE, machine(tmp_path))] == ["1"]
