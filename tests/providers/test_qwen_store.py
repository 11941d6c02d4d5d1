"""Sessions of Qwen Code, found and read: every recording, rarer records, and what damages them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.intel import Depth
from relay.providers.qwen_store import QwenStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import FILES, JSON, damages, found, machine, the_one
from tests.fakes.recorded import certain, differing, shown
from tests.fakes.stores import place, recording, recordings

STORE = QwenStore()
HOW = "Create hello.txt and tell me when done"
ACP = "Create hello.txt and run the tests"
SHELL = "echo relay-shell-ok && ls"
PLAIN = "Hello. This is a plain text answer from the mock model."
SHELL_SAID = "The command printed relay-shell-ok."
WRITTEN = "Done: hello.txt has been written."
REMAINS = "First item finished; two items remain."


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
CUT: dict[str, Any] = {
    "turn_open": True,
    "files_changed": ("hello.txt",),
    "limits": ("rate_limit_transient",),
}
CREATE = "I will create the file."
RECORDINGS: dict[str, dict[str, Any]] = {
    "acp.auth_401.allow_once": refused("auth", ACP),
    "acp.hang.allow_once.cancel": {**refused("", ACP), "limits": (), "model": ""},
    "acp.plain.allow_once": answered(
        PLAIN, (67278, 42), ACP, message_count=6, last_prompt="Third prompt after load"
    ),
    "acp.todo.allow_always": answered(REMAINS, (90870, 154), ACP, **FILE, **STEPS),
    "acp.todo.allow_once.yolo": answered(REMAINS, (90896, 155), ACP, **FILE, **STEPS),
    "acp.tool_shell.allow_once": answered(SHELL_SAID, (44915, 34), ACP, commands=((SHELL, 0),)),
    "acp.tool_shell.reject": answered(SHELL_SAID, (44899, 34), ACP, commands=((SHELL, 0),)),
    "acp.tool_shell.reject.default": answered(SHELL_SAID, (44931, 34), ACP, commands=((SHELL, 0),)),
    "acp.tool_write.allow_once": answered(WRITTEN, (44915, 47), ACP, **FILE),
    "acp.tool_write.allow_once.default": answered(WRITTEN, (44951, 49), ACP, **FILE),
    "acp.tool_write.allow_once.fs": answered(WRITTEN, (44929, 48), ACP, **FILE),
    "acp.write_then_quota.allow_once": answered(CREATE, (22404, 40), ACP, **CUT),
    "auth_401": refused("auth"),
    "bad_tool": answered(
        "That tool does not exist.",
        (39981, 13),
        failed_attempts=(
            (
                "no_such_tool",
                'Tool "no_such_tool" not found in registry. Tools must use the exact names that are '
                'registered. Did you mean one of: "get_goal", "update_goal", "tool_call"?',
            ),
        ),
    ),
    "context_400": refused("context_overflow"),
    "forbidden_403": refused("network"),
    "input_stream_json": answered(
        WRITTEN,
        (85184, 90),
        "Create hello.txt",
        files_changed=("hello.txt",),
        message_count=6,
        last_prompt="And a second message [[mock:plain]]",
    ),
    "model_404": refused("other"),
    "overloaded_503": refused("overload"),
    "permission_default_mode": answered(
        "I will create the file. (mock: no suitable tool was offered)", (15790, 15)
    ),
    "plain": answered(PLAIN, (19929, 14), context_tokens=19943),
    "quota_billing_429": refused("usage_limit"),
    "quota_billing_429_dashscope": refused("usage_limit"),
    "quota_billing_429_maxretries1": refused("usage_limit"),
    "quota_daily_429": refused("rate_limit_transient", resets=("2026-12-02T05:34:07.910000+00:00",)),
    "quota_daily_429_dashscope": refused("usage_limit"),
    "rate_limit_429": refused("rate_limit_transient"),
    "rate_limit_429_dashscope": refused("rate_limit_transient"),
    "rate_limit_429_maxretries1": refused("rate_limit_transient"),
    "rate_limit_then_ok": answered("Recovered after one 429.", (19955, 6)),
    "refusal": answered("I can't help with that.", (19933, 6)),
    "resume": answered(
        PLAIN,
        (62963, 56),
        files_changed=("hello.txt",),
        message_count=5,
        last_prompt="And now a second prompt",
    ),
    "server_500": refused("overload"),
    "stream_cut": refused("network"),
    "stream_error": refused("overload"),
    "thinking": answered("Short answer after some thinking.", (19935, 8)),
    "todo": answered(REMAINS, (84868, 150), **FILE, **STEPS),
    "todo_then_quota": answered(
        "Let me plan.",
        (42092, 88),
        **CUT,
        tasks_done=(),
        tasks_remaining=("Create hello.txt", "Run the tests", "Summarise"),
    ),
    "tool_edit": answered(
        "README.md now has the new title.",
        (60138, 60),
        files_changed=("README.md",),
        files_read=("README.md",),
    ),
    "tool_shell": answered(SHELL_SAID, (40008, 34), commands=((SHELL, 0),)),
    "tool_shell_fail": answered(
        "The command failed with exit code 3.",
        (40021, 33),
        commands=(("echo boom >&2; exit 3", 3),),
        failed_attempts=(("run echo boom >&2; exit 3", "exit code 3: boom"),),
    ),
    "tool_write": answered(WRITTEN, (40001, 43), **FILE),
    "tool_write.json_format": answered(WRITTEN, (40055, 46), **FILE),
    "tool_write.partial": answered(WRITTEN, (40037, 45), **FILE),
    "write_then_quota": answered(CREATE, (19951, 37), **CUT),
}
COMMON: dict[str, Any] = {
    "model": "qwen3-coder-plus",
    "branch": "main",
    "version": "0.24.4",
    "context_window": 1_000_000,
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
    assert recordings("qwen") == set(RECORDINGS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"qwen/{name}", tmp_path)

    intel = the_one(STORE, machine(home))

    assert differing(intel, {**COMMON, "cwd": str(cwd), **RECORDINGS[name]}) == {}
    assert intel.path.endswith(f"{intel.native_id}.jsonl")


ID = "0a1b2c3d-0000-4000-8000-000000000001"


def record(number: int, kind: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"message": {"role": kind, "parts": list(parts)}} if parts else {}
    at = f"2026-05-01T10:{number // 60:02d}:{number % 60:02d}.000Z"
    head = {"uuid": f"r{number}", "sessionId": ID, "timestamp": at, "type": kind, "cwd": "/w/app"}
    return {**head, **message, **more}


def put(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "home" / ".qwen" / "projects" / "-w-app" / "chats" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return tmp_path / "home"


def test_the_summary_of_a_compression_is_used(tmp_path: Path) -> None:
    summary = {"role": "user", "parts": [{"text": "<state_snapshot>a.py is done</state_snapshot>"}]}
    payload = {"info": {"originalTokenCount": 9}, "compressedHistory": [summary]}
    home = put(
        tmp_path,
        record(1, "user", {"text": "Never use tabs. Go"}),
        record(2, "system", subtype="chat_compression", systemPayload=payload),
        record(3, "user", {"text": "Go on"}),
    )

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.rules) == ("Never use tabs. Go", ("Never use tabs.",))
    assert intel.compactions == 1
    assert "agent: <state_snapshot>a.py is done</state_snapshot>" in shown(intel, "said")


def test_thoughts_are_not_said_and_cached_input_is_apart(tmp_path: Path) -> None:
    spent = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 70,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 108,
    }
    parts = ({"text": "hmm", "thought": True}, {"text": "Done."})
    home = put(
        tmp_path, record(1, "user", {"text": "Go"}), record(2, "assistant", *parts, usageMetadata=spent)
    )

    intel = the_one(STORE, machine(home))

    assert (shown(intel, "said"), shown(intel, "tokens")) == (("user: Go", "agent: Done."), (30, 70, 8))


TEXTS = {
    "plain": "Done.",
    "like the end of a record": 'as in "}]},"usageMetadata":{"promptTokenCount":1}',
    "like another part": '{"text":"no"},{"functionCall":{"id":"x"',
    "like another key": 'a","thought":true',
    "like its end": 'print("{',
    "a backslash at its end": "C:\\",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("folder", ["/w/app", "C:\\Users\\me\\app", '/w/"app"'])
def test_whole_answers_say_the_same_in_a_list(folder: str, name: str, tmp_path: Path) -> None:
    text = TEXTS[name]
    head = {"parentUuid": None, "sessionId": ID, "timestamp": "2026-05-01T10:00:00.000Z"}
    place = {"provenance": "", "cwd": folder, "version": "1", "gitBranch": "main"}
    call = {
        "functionCall": {"id": "c", "name": "edit", "args": {"file_path": "src/a.py", "new_string": text}}
    }
    usage = {"totalTokenCount": 12, "promptTokenCount": 10, "candidatesTokenCount": 2}

    def answer(number: int, *parts: dict[str, Any]) -> dict[str, Any]:
        said = {"model": "m", "message": {"role": "model", "parts": list(parts)}}
        spent = {"usageMetadata": usage, "contextWindowSize": 1_000}
        return {"uuid": f"a{number}", **head, "type": "assistant", **place, **said, **spent}

    response = {"functionResponse": {"id": "c", "name": "edit", "response": {"output": text}}}
    done = {
        "message": {"role": "user", "parts": [response]},
        "toolCallResult": {"callId": "c", "status": "success", "resultDisplay": text},
    }
    home = put(
        tmp_path,
        {
            "uuid": "u",
            **head,
            "type": "user",
            **place,
            "message": {"role": "user", "parts": [{"text": "Go"}]},
        },
        answer(1, {"text": "First"}),
        answer(2, {"text": text}, call),
        {"uuid": "t", **head, "type": "tool_result", **place, **done},
        answer(3, {"text": text}),
    )

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert (intel.last_message, intel.message_count, intel.files_changed) == (text, 4, ("src/a.py",))
        assert shown(intel, "tokens") == (30, 0, 6)


def test_messages_that_nobody_typed_are_no_prompts(tmp_path: Path) -> None:
    home = put(
        tmp_path,
        record(1, "user", {"text": "Go"}, provenance="real_user"),
        record(2, "user", {"text": "A task has ended"}, provenance="system"),
    )

    assert shown(the_one(STORE, machine(home)), "said") == ("user: Go",)


def test_files_that_only_the_snapshot_tells_of(tmp_path: Path) -> None:
    snapshot = {
        "snapshot": {"fileStates": {"/w/app/made_by_sed.py": {}, "/w/app/b.py": {}}, "promptCount": 1}
    }
    home = put(
        tmp_path,
        record(1, "user", {"text": "Go"}),
        record(2, "system", subtype="attribution_snapshot", systemPayload=snapshot),
        record(3, "system", subtype="attribution_snapshot", systemPayload=snapshot),
    )

    for depth in Depth:
        assert the_one(STORE, machine(home), depth).files_changed == ("made_by_sed.py", "b.py")


def test_a_subagent_is_counted_once(tmp_path: Path) -> None:
    asked = {"functionCall": {"id": "t", "name": "task", "args": {"description": "look"}}}
    answer = {"functionResponse": {"id": "t", "name": "task", "response": {"output": "found"}}}
    result = {"toolCallResult": {"callId": "t", "status": "success"}}
    home = put(
        tmp_path,
        record(1, "user", {"text": "Go"}),
        record(2, "assistant", asked),
        record(3, "tool_result", answer, **result),
    )

    for depth in Depth:
        assert the_one(STORE, machine(home), depth).subagents == 1


def test_a_call_that_has_no_result_is_cut_off(tmp_path: Path) -> None:
    asked = {"functionCall": {"id": "t", "name": "run_shell_command", "args": {"command": "make"}}}
    home = put(tmp_path, record(1, "user", {"text": "Go"}), record(2, "assistant", asked))

    intel = the_one(STORE, machine(home))

    assert (intel.cut_off, intel.turn_open) == (("run make",), True)


def test_a_title_that_the_user_gave(tmp_path: Path) -> None:
    named = record(2, "system", subtype="custom_title", systemPayload={"customTitle": "Refunds"})

    assert the_one(STORE, machine(put(tmp_path, record(1, "user", {"text": "Go"}), named))).title == "Refunds"


def test_a_growing_file_is_read_on(tmp_path: Path) -> None:
    home = put(tmp_path, record(1, "user", {"text": "Go"}))
    [session] = found(STORE, machine(home))
    transcript = STORE.open(FILES, session, Depth.FULL)
    assert transcript.read().intel().message_count == 1
    path = Path(session.paths[0])
    row = json.dumps(record(2, "assistant", {"text": "Done."})).encode()
    path.write_bytes(path.read_bytes() + row[:40])
    half = transcript.read().intel()
    path.write_bytes(path.read_bytes() + row[40:] + b"\n")
    whole = transcript.read().intel()

    assert (half.message_count, half.skipped) == (1, (("torn", 1),))
    assert (whole.message_count, whole.turn_open, whole.skipped) == (2, False, ())


def test_homes(tmp_path: Path) -> None:
    where = machine(tmp_path, env={"QWEN_HOME": "/a/qwen/"}, accounts={"qwen": ("/b/work",)})

    assert STORE.homes(where) == ("/a/qwen", f"{tmp_path}/.qwen", "/b/work")


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        (("node", "/n/node_modules/.bin/qwen", "Create hello.txt"), True),
        (("/n/bin/node", "--expose-gc", "/n/@qwen-code/qwen-code/cli.js", "Create hello.txt"), True),
        (("qwen", "--acp"), True),
        (("qwen", "mcp", "list"), False),
        (("node", "/srv/app.js", "qwen"), False),
        ((), False),
    ],
)
def test_its_processes(argv: tuple[str, ...], runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name="node", argv=argv)) is runs


def test_how_a_person_resumes_it() -> None:
    assert STORE.resume_argv(ID) == ("qwen", "--resume", ID)


SOURCES = {
    name: next(recording(f"qwen/{name}").rglob("chats/*.jsonl")).read_bytes().replace(b"$CWD", b"/w/app")
    for name in ("todo", "tool_edit", "resume", "rate_limit_429", "input_stream_json")
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
    next(home.rglob("chats/*.jsonl")).write_bytes(text or b"\n")

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        spent = 0
        for number in certain(SOURCES[name], text, whole):
            row = lines[number]
            spent += row.get("usageMetadata", {}).get("promptTokenCount", 0)
            if row["type"] == "user" and depth is Depth.FULL:
                assert f"user: {row['message']['parts'][0]['text']}" in shown(intel, "said")
            if row.get("subtype") == "attribution_snapshot":
                states = row["systemPayload"]["snapshot"]["fileStates"]
                assert {path.removeprefix("/w/app/") for path in states} <= {
                    *(path.removeprefix("/w/app/") for path in intel.files_changed),
                    *(path.removeprefix("/w/app/") for path in intel.files_outside),
                }
            if row.get("systemPayload", {}).get("uiEvent", {}).get("event.name") == "qwen-code.api_error":
                assert intel.limits
        assert intel.tokens.input >= spent


KINDS = st.sampled_from(("user", "assistant", "tool_result", "system"))
KEYS = (
    "uuid",
    "timestamp",
    "message",
    "usageMetadata",
    "toolCallResult",
    "systemPayload",
    "subtype",
    "model",
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(KEYS), JSON))))
def test_values_of_any_other_type_are_read_over(
    rows: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    odd = [{"type": kind, **row} for kind, row in rows]
    home = put(tmp_path, *odd, record(9, "user", {"text": "still here"}))

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert "still here" in (intel.first_prompt, intel.last_prompt)
