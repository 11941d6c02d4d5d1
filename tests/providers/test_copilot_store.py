"""Sessions of GitHub Copilot CLI, found and read: every recording, rarer events, and what damages them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.intel import Depth
from relay.providers.copilot_store import CopilotStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import JSON, damages, found, machine, the_one
from tests.fakes.recorded import certain, differing, shown
from tests.fakes.stores import place, recording, recordings

STORE = CopilotStore()
HOW = "Create hello.txt and tell me when done"
ACP = "Create hello.txt and run the tests"
SHELL = "echo relay-shell-ok && ls"
PLAIN = "Hello. This is a plain text answer from the mock model."
SHELL_SAID = "The command printed relay-shell-ok."
WRITTEN = "Done: hello.txt has been written."
REMAINS = "First item finished; two items remain."
CREATE = "I will create the file."


def refused(failure: str, prompt: str = HOW, **more: Any) -> dict[str, Any]:
    nothing = {"tokens": (0, 0, 0), "message_count": 1, "turn_open": True, "context_window": 0}
    return {"first_prompt": prompt, "limits": (failure,), **nothing, **more}


def answered(last: str, tokens: tuple[int, int], prompt: str = HOW, **more: Any) -> dict[str, Any]:
    spent = {"tokens": (tokens[0], 0, tokens[1])}
    return {"first_prompt": prompt, "last_message": last, "message_count": 2, **spent, **more}


FILE: dict[str, Any] = {"files_changed": ("hello.txt",), "message_count": 3}
STEPS: dict[str, Any] = {
    "tasks_done": ("Create hello.txt",),
    "tasks_remaining": ("Run the tests", "Summarise"),
}
CUT: dict[str, Any] = {"turn_open": True, "files_changed": ("hello.txt",)}
RECORDINGS: dict[str, dict[str, Any]] = {
    "acp.auth_401.allow_once": refused("auth", ACP),
    "acp.copilot_todo.allow_always": answered(REMAINS, (42320, 166), ACP, **FILE, **STEPS),
    "acp.hang.allow_once.cancel": {**refused("", ACP), "limits": ()},
    "acp.plain.allow_once": answered(
        PLAIN, (31195, 42), ACP, message_count=6, last_prompt="Third prompt after load"
    ),
    "acp.todo.allow_always": answered("Let me plan. (mock: no suitable tool was offered)", (10343, 12), ACP),
    "acp.tool_shell.allow_once": answered(SHELL_SAID, (20793, 30), ACP, commands=((SHELL, 0),)),
    "acp.tool_shell.reject": answered(
        "",
        (10343, 21),
        ACP,
        message_count=1,
        turn_open=True,
        failed_attempts=((f"run {SHELL}", "permission was denied"),),
    ),
    "acp.tool_write.allow_once": answered(WRITTEN, (20818, 46), ACP, **FILE),
    "acp.tool_write.allow_once.fs": answered(WRITTEN, (20824, 47), ACP, **FILE),
    "acp.write_then_billing.allow_once": answered(CREATE, (10352, 40), ACP, limits=("usage_limit",), **CUT),
    "acp.write_then_quota.allow_once": answered(
        CREATE,
        (10351, 39),
        ACP,
        limits=("rate_limit_transient",),
        resets=("2026-12-02T05:40:10.426000+00:00",),
        **CUT,
    ),
    "auth_401": refused("auth"),
    "bad_tool": answered(
        "That tool does not exist.",
        (24412, 13),
        failed_attempts=(("no_such_tool", "Tool 'no_such_tool' does not exist."),),
    ),
    "context_400": refused("context_overflow"),
    "forbidden_403": refused("auth"),
    "model_404": refused("other"),
    "overloaded_503": refused("overload"),
    "permission_denied": answered(
        WRITTEN,
        (24440, 44),
        message_count=3,
        failed_attempts=(("edit hello.txt", "permission was denied"),),
    ),
    "plain": answered(PLAIN, (12138, 14), context_tokens=12152),
    "quota_billing_429": refused("usage_limit"),
    "quota_daily_429": refused("rate_limit_transient", resets=("2026-12-02T05:38:09.569000+00:00",)),
    "rate_limit_429": refused("rate_limit_transient", resets=("2026-12-02T05:31:12.131000+00:00",)),
    "rate_limit_then_ok": answered("Recovered after one 429.", (12148, 6)),
    "refusal": answered("I can't help with that.", (12139, 6)),
    "resume": answered(
        PLAIN,
        (36728, 55),
        files_changed=("hello.txt",),
        message_count=5,
        last_prompt="And now a second prompt",
    ),
    "server_500": refused("overload"),
    "stream_cut": refused("network"),
    "stream_error": refused("overload"),
    "thinking": answered("Short answer after some thinking.", (12140, 8)),
    "todo": answered(REMAINS, (49446, 160), **FILE, **STEPS),
    "tool_edit": answered(
        "README.md now has the new title.",
        (36715, 56),
        files_changed=("README.md",),
        files_read=("README.md",),
    ),
    "tool_shell": answered(SHELL_SAID, (24385, 30), commands=((SHELL, 0),)),
    "tool_shell_fail": answered(
        "The command failed with exit code 3.",
        (24385, 29),
        commands=(("echo boom >&2; exit 3", 3),),
        failed_attempts=(
            ("run echo boom >&2; exit 3", "exit code 3: <shellId: 0 completed with exit code 3>"),
        ),
    ),
    "tool_write": answered(WRITTEN, (24401, 42), **FILE),
    "tool_write.text_format": answered(WRITTEN, (24425, 45), **FILE),
    "write_then_billing": answered(CREATE, (12148, 36), limits=("usage_limit",), **CUT),
    "write_then_quota": answered(CREATE, (12146, 36), limits=("rate_limit_transient",), **CUT),
}
COMMON: dict[str, Any] = {
    "model": "mock-model",
    "branch": "main",
    "version": "1.0.102",
    "context_window": 128_000,
    "turn_open": False,
    "last_prompt": "",
    "files_changed": (),
    "files_outside": (),
    "commands": (),
    "limits": (),
    "tasks_done": (),
    "tasks_remaining": (),
    "skipped": (),
}


def test_every_recording_is_in_the_table() -> None:
    assert recordings("copilot") == set(RECORDINGS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"copilot/{name}", tmp_path)
    expected = {**COMMON, "cwd": str(cwd), **RECORDINGS[name]}

    intel = the_one(STORE, machine(home))

    assert differing(intel, {"title": expected["first_prompt"], **expected}) == {}
    assert f"/{intel.native_id}/" in intel.path


ID = "0a1b2c3d-0000-4000-8000-000000000001"


def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
    at = f"2026-05-01T10:00:{number:02d}.000Z"
    return {"type": kind, "data": data, "id": f"e{number}", "timestamp": at, "parentId": None}


def put(tmp_path: Path, *rows: dict[str, Any], **beside: str) -> Path:
    folder = tmp_path / "home" / ".copilot" / "session-state" / ID
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (folder / "events.jsonl").write_text(text)
    for name, words in beside.items():
        (folder / name.replace("_", ".")).write_text(words)
    return tmp_path / "home"


START = event(1, "session.start", context={"cwd": "/w/app", "branch": "main"})
GO = event(2, "user.message", content="Go")


def test_files_that_a_command_changed_are_told_by_its_result(tmp_path: Path) -> None:
    edits = [{"path": "/w/app/a.py", "kind": "edit"}, {"path": "/w/other/b.py", "kind": "create"}]
    home = put(
        tmp_path,
        START,
        GO,
        event(3, "tool.execution_start", toolCallId="c", toolName="bash", arguments={"command": "sed -i x"}),
        event(4, "tool.execution_complete", toolCallId="c", success=True, fileEdits=edits),
    )

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert (intel.files_changed, intel.files_outside) == (("a.py",), ("/w/other/b.py",))


@pytest.mark.parametrize("name", ['odd "name".py', "plain.py", "back\\slash.py"])
def test_an_edit_whose_result_names_no_files(name: str, tmp_path: Path) -> None:
    given = {"path": f"/w/app/{name}", "old_str": "a", "new_str": "b"}
    home = put(
        tmp_path,
        START,
        GO,
        event(3, "tool.execution_start", toolCallId="c", toolName="edit", arguments=given),
        event(4, "tool.execution_complete", toolCallId="c", success=True, result={"content": "Done"}),
    )

    for depth in Depth:
        assert the_one(STORE, machine(home), depth).files_changed == (name,)


def test_the_last_account_makes_up_for_usage_that_is_lost(tmp_path: Path) -> None:
    usage = {"inputTokens": 100, "cacheReadTokens": 60, "outputTokens": 5}
    twice = {"inputTokens": 210, "cacheReadTokens": 130, "outputTokens": 9}
    changes = {"filesModified": ["/w/app/lost.py"]}
    home = put(
        tmp_path,
        START,
        GO,
        event(3, "session.usage_record", usage=usage),
        event(4, "session.shutdown", modelMetrics={"m": {"usage": twice}}, codeChanges=changes),
    )

    intel = the_one(STORE, machine(home))

    assert (shown(intel, "tokens"), intel.files_changed) == ((80, 130, 9), ("lost.py",))


def test_what_a_subagent_does_counts_and_what_it_says_does_not(tmp_path: Path) -> None:
    task = {"toolCallId": "t", "toolName": "task", "arguments": {"prompt": "look"}}
    write = {"toolCallId": "w", "toolName": "create", "arguments": {"path": "/w/app/s.py"}}
    home = put(
        tmp_path,
        START,
        GO,
        event(3, "tool.execution_start", **task),
        event(4, "user.message", content="You are a helper", parentToolCallId="t"),
        event(5, "tool.execution_start", parentToolCallId="t", **write),
        event(6, "tool.execution_complete", parentToolCallId="t", toolCallId="w", success=True),
        event(7, "assistant.message", content="found it", parentToolCallId="t"),
        event(8, "tool.execution_complete", toolCallId="t", success=True),
    )

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert (intel.subagents, intel.files_changed, intel.message_count) == (1, ("s.py",), 1)


def test_the_workspace_names_what_the_events_have_lost(tmp_path: Path) -> None:
    yaml = 'id: x\ncwd: /w/app\nbranch: feature\nname: "Refunds: the flow"\nuser_named: true\n'
    intel = the_one(STORE, machine(put(tmp_path, GO, workspace_yaml=yaml)))

    assert (intel.cwd, intel.branch, intel.title) == ("/w/app", "feature", "Refunds: the flow")


@pytest.mark.parametrize("schema", ["CREATE TABLE other (x)", "CREATE TABLE todos (id TEXT, title TEXT)"])
def test_a_plan_of_another_schema_is_no_plan(schema: str, tmp_path: Path) -> None:
    home = put(tmp_path, START, GO)
    with sqlite3.connect(next(home.rglob("events.jsonl")).with_name("session.db")) as database:
        database.executescript(schema)
    database.close()

    intel = the_one(STORE, machine(home))

    assert (intel.plan, intel.first_prompt) == ((), "Go")


def test_a_plan_that_is_no_database_is_no_plan(tmp_path: Path) -> None:
    assert the_one(STORE, machine(put(tmp_path, START, GO, session_db="torn"))).plan == ()


def test_a_change_of_the_plan_alone_changes_the_stamp(tmp_path: Path) -> None:
    home = put(tmp_path, START, GO)
    [before] = found(STORE, machine(home))
    put(tmp_path, START, GO, session_db="x")
    [after] = found(STORE, machine(home))

    assert before.stamp != after.stamp


def test_a_summary_of_a_compaction(tmp_path: Path) -> None:
    home = put(tmp_path, START, GO, event(3, "session.compaction_complete", summaryContent="So far: a.py"))

    intel = the_one(STORE, machine(home))

    assert (intel.compactions, shown(intel, "said")) == (1, ("user: Go", "agent: So far: a.py"))


def test_homes(tmp_path: Path) -> None:
    where = machine(tmp_path, env={"COPILOT_HOME": "/a/c/"}, accounts={"copilot": ("/b/work",)})

    assert STORE.homes(where) == ("/a/c", f"{tmp_path}/.copilot", "/b/work")


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        (("node", "/n/node_modules/.bin/copilot", "-p", "Create hello.txt"), True),
        (("/n/@github/copilot-linux-x64/copilot", "-p", "Create hello.txt"), True),
        (("node", "/n/@github/copilot/npm-loader.js"), True),
        (("copilot", "login"), False),
        (("node", "/srv/index.js"), False),
        ((), False),
    ],
)
def test_its_processes(argv: tuple[str, ...], runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name="node", argv=argv)) is runs


def test_how_a_person_resumes_it() -> None:
    assert STORE.resume_argv(ID) == ("copilot", "--resume", ID)


SOURCES = {
    name: next(recording(f"copilot/{name}").rglob("events.jsonl")).read_bytes().replace(b"$CWD", b"/w/app")
    for name in ("todo", "tool_edit", "resume", "write_then_quota", "acp.tool_shell.reject")
}


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_ends_the_reading_or_loses_a_whole_record(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    text, whole = data.draw(damages(SOURCES[name]))
    lines = [json.loads(line) for line in SOURCES[name].rstrip(b"\n").split(b"\n")]
    home = put(tmp_path)
    next(home.rglob("events.jsonl")).write_bytes(text or b"\n")

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        changed = {path.removeprefix("/w/app/") for path in (*intel.files_changed, *intel.files_outside)}
        spent = 0
        for number in certain(SOURCES[name], text, whole):
            kind, values = lines[number]["type"], lines[number]["data"]
            if kind == "user.message" and depth is Depth.FULL:
                assert f"user: {values['content']}" in shown(intel, "said")
            if kind == "session.usage_record":
                spent += values["usage"]["inputTokens"]
            if kind == "session.error":
                assert intel.limits
            assert {each["path"].removeprefix("/w/app/") for each in values.get("fileEdits", ())} <= changed
        assert intel.tokens.input >= spent


KINDS = st.sampled_from(
    (
        "session.start",
        "user.message",
        "assistant.message",
        "session.usage_record",
        "tool.execution_start",
        "tool.execution_complete",
        "session.error",
        "session.shutdown",
    )
)
KEYS = (
    "content",
    "context",
    "usage",
    "toolCallId",
    "arguments",
    "fileEdits",
    "result",
    "error",
    "errorType",
    "modelMetrics",
    "codeChanges",
    "toolRequests",
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(KEYS), JSON))))
def test_values_of_any_other_type_are_read_over(
    rows: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    home = put(tmp_path, *({"type": kind, "data": data} for kind, data in rows), GO)

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert "Go" in (intel.first_prompt, intel.last_prompt)
