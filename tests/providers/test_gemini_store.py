"""Sessions of Gemini CLI, found and read: every recording, older shapes, and what damages them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.intel import Depth, SessionIntel
from relay.providers.gemini_store import GeminiStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import FILES, JSON, damages, found, lifted, machine, the_one
from tests.fakes.recorded import certain, differing, shown
from tests.fakes.stores import place, recording, recordings

STORE = GeminiStore()
HOW = "Create hello.txt and tell me when done"
ACP = "Create hello.txt and run the tests"
FLASH, PRO = "gemini-3.8-flash", "gemini-2.5-pro"
SHELL = "echo relay-shell-ok && ls"
PLAIN = "Hello. This is a plain text answer from the mock model."
WRITTEN = "Done: hello.txt has been written."
NO_TOOL = "Let me plan. (mock: no suitable tool was offered)"


def cut_off(prompt: str) -> dict[str, Any]:
    """The request failed: the prompt was rolled back, and no more is stored."""
    return {"first_prompt": prompt, "turn_open": True, "message_count": 1, "model": ""}


def answered(prompt: str, last: str, tokens: tuple[int, int], **more: Any) -> dict[str, Any]:
    spent = {"tokens": (tokens[0], 0, tokens[1])}
    return {"first_prompt": prompt, "last_message": last, "message_count": 2, **spent, **more}


FILE: dict[str, Any] = {"files_changed": ("hello.txt",), "message_count": 3}
STEPS: dict[str, Any] = {
    "tasks_done": ("Create hello.txt",),
    "tasks_remaining": ("Run the tests", "Summarise"),
    "model": PRO,
}
STOPPED: dict[str, Any] = {"turn_open": True, "files_changed": ("hello.txt",)}
CREATE = "I will create the file."
RECORDINGS: dict[str, dict[str, Any]] = {
    "acp.auth_401.allow_once": cut_off(ACP),
    "acp.hang.allow_once.cancel": cut_off(ACP),
    "acp.load_after_a_minute": answered(
        "Create hello.txt",
        WRITTEN,
        (12180 + 12336 + 12432 + 12584, 39 + 8 + 39 + 8),
        files_changed=("hello.txt",),
        message_count=6,
        last_prompt="Second prompt after load [[mock:plain]]",
        context_tokens=12592,
    ),
    "acp.plain.allow_once": answered(
        ACP, PLAIN, (24402, 28), last_prompt="And a second prompt", message_count=4
    ),
    "acp.todo.allow_always": answered(ACP, NO_TOOL, (12182, 12)),
    "acp.todo.allow_always.yolo": answered(
        ACP, "First item finished; two items remain.", (51245, 146), **FILE, **STEPS
    ),
    "acp.tool_shell.allow_once": answered(
        ACP, "The command printed relay-shell-ok.", (24504, 34), commands=((SHELL, 0),)
    ),
    "acp.tool_shell.reject": answered(
        ACP,
        "The command printed relay-shell-ok.",
        (12182 + 12300, 25 + 9),
        failed_attempts=(("run_shell_command", "permission was denied"),),
    ),
    "acp.tool_write.allow_once": answered(ACP, WRITTEN, (24531, 47), **FILE),
    "acp.tool_write.allow_once.fs": answered(ACP, WRITTEN, (24534, 48), message_count=3),
    "acp.write_then_quota.allow_once": answered(ACP, CREATE, (12195, 41), **STOPPED),
    "auth_401": cut_off(f"{HOW} (auth_401)"),
    "auth_401.json_format": cut_off(f"{HOW} (auth_401)"),
    "bad_key_400": cut_off(f"{HOW} (bad_key_400)"),
    "bad_tool": answered(
        f"{HOW} (bad_tool)",
        "That tool does not exist.",
        (12137 + 12245, 7 + 6),
        failed_attempts=(
            (
                "no_such_tool",
                'Tool "no_such_tool" not found. Did you mean one of: "update_topic", "list_directory", '
                '"read_file"?',
            ),
        ),
    ),
    "context_400": cut_off(f"{HOW} (context_400)"),
    "forbidden_403": cut_off(f"{HOW} (forbidden_403)"),
    "model_404": cut_off(f"{HOW} (model_404)"),
    "overloaded_503": cut_off(HOW),
    "permission_default_mode": answered(
        HOW, "I will create the file. (mock: no suitable tool was offered)", (10247, 15)
    ),
    "plain": answered(f"{HOW} (plain)", PLAIN, (12132, 14), context_tokens=12146),
    "plain.json_format": answered(f"{HOW} (plain)", PLAIN, (12147, 14)),
    "quota_billing_429": cut_off(HOW),
    "quota_daily_429": cut_off(f"{HOW} (quota_daily_429)"),
    "quota_daily_429.json_format": cut_off(f"{HOW} (quota_daily_429)"),
    "rate_limit_429": cut_off(HOW),
    "rate_limit_then_ok": answered(f"{HOW} (rate_limit_then_ok)", "Recovered after one 429.", (12152, 6)),
    "refusal": answered(f"{HOW} (refusal)", "I can't help with that.", (12135, 6)),
    "resume": answered(
        HOW,
        PLAIN,
        (12132 + 12279 + 12367, 35 + 8 + 14),
        last_prompt="And now a second prompt",
        files_changed=("hello.txt",),
        message_count=5,
    ),
    "server_500": cut_off(HOW),
    "stream_cut": cut_off(f"{HOW} (stream_cut)"),
    "stream_error": cut_off(f"{HOW} (stream_error)"),
    "thinking": answered(f"{HOW} (thinking)", "Short answer after some thinking.", (12137, 8 + 11)),
    "todo": answered(f"{HOW} (todo)", NO_TOOL, (12131, 12)),
    "todo_m25pro": answered(
        HOW,
        "First item finished; two items remain.",
        (12336 + 12503 + 12643 + 12805, 52 + 30 + 50 + 10),
        **FILE,
        **STEPS,
    ),
    "todo_then_quota": answered(f"{HOW} (todo_then_quota)", NO_TOOL, (12147, 12)),
    "tool_edit": answered(
        f"{HOW} (tool_edit)",
        "README.md now has the new title.",
        (36776, 71),
        files_changed=("README.md",),
        files_read=("README.md",),
    ),
    "tool_shell": answered(
        f"{HOW} (tool_shell)", "The command printed relay-shell-ok.", (24410, 34), commands=((SHELL, 0),)
    ),
    "tool_shell_fail": answered(
        f"{HOW} (tool_shell_fail)",
        "The command failed with exit code 3.",
        (12147 + 12275, 24 + 9),
        commands=(("echo boom >&2; exit 3", 3),),
        failed_attempts=(("run echo boom >&2; exit 3", "exit code 3: boom"),),
    ),
    "tool_write": answered(f"{HOW} (tool_write)", WRITTEN, (24429, 44), **FILE),
    "tool_write.json_format": answered(f"{HOW} (tool_write)", WRITTEN, (24465, 47), **FILE),
    "tool_write.text_format": answered(HOW, WRITTEN, (24459, 47), **FILE),
    "write_then_billing": answered(HOW, CREATE, (12343, 38), model=PRO, **STOPPED),
    "write_then_quota": answered(f"{HOW} (write_then_quota)", CREATE, (12149, 37), **STOPPED),
}
COMMON: dict[str, Any] = {
    "model": FLASH,
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


def one_with_a_prompt(home: Path) -> SessionIntel:
    """Starting to listen for an editor leaves a session behind in which nothing was said."""
    [intel] = [each for each in lifted(STORE, machine(home)) if each.first_prompt]
    return intel


def test_every_recording_is_in_the_table() -> None:
    assert recordings("gemini") == set(RECORDINGS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"gemini/{name}", tmp_path)

    intel = one_with_a_prompt(home)

    assert differing(intel, {**COMMON, "cwd": str(cwd), **RECORDINGS[name]}) == {}
    assert intel.native_id[:8] in intel.path
    assert len(intel.native_id) == 36


def test_the_times_are_those_of_the_first_and_the_last_message(tmp_path: Path) -> None:
    home, _ = place("gemini/tool_shell_fail", tmp_path)

    intel = the_one(STORE, machine(home))

    assert intel.started_at is not None and intel.last_activity is not None
    assert intel.started_at.isoformat() == "2026-12-02T04:47:34.439000+00:00"
    assert intel.last_activity.isoformat() == "2026-12-02T04:47:35.187000+00:00"


ID = "0a1b2c3d-0000-4000-8000-000000000001"
HEAD = {"sessionId": ID, "projectHash": "x", "startTime": "2026-05-01T10:00:00.000Z", "kind": "main"}


def message(name: str, kind: str, text: str = "", **more: Any) -> dict[str, Any]:
    content = [{"text": text}] if kind == "user" else text
    return {"id": name, "timestamp": "2026-05-01T10:00:01.000Z", "type": kind, "content": content, **more}


def call(name: str, tool: str, args: dict[str, Any], status: str = "success") -> dict[str, Any]:
    return {"id": name, "name": tool, "args": args, "status": status, "result": []}


def put(
    tmp_path: Path,
    *rows: dict[str, Any],
    project: str = "shop",
    file: str = "session-2026-05-01T10-00-0a1b2c3d.jsonl",
    root: str = "/w/shop",
) -> Path:
    home = tmp_path / "home"
    path = home / ".gemini" / "tmp" / project / "chats" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_text(json.dumps(rows[0], indent=2) if file.endswith(".json") else text)
    if root:
        (path.parent.parent / ".project_root").write_text(root)
    return home


def test_a_message_that_is_written_again_is_one_message(tmp_path: Path) -> None:
    spent = {"input": 100, "cached": 60, "output": 5, "thoughts": 2, "total": 107}
    home = put(
        tmp_path,
        HEAD,
        message("u", "user", "Do it"),
        message("g", "gemini", "I st", tokens={**spent, "output": 1}),
        message("g", "gemini", "I start", tokens=spent),
    )

    intel = the_one(STORE, machine(home))

    assert shown(intel, "said") == ("user: Do it", "agent: I start")
    assert shown(intel, "tokens") == (40, 60, 7)


@pytest.mark.parametrize(
    "text", ["Done.", 'as in ","tokens":{"input":1}', '{"$set":{}}', ',"toolCalls":[{"id":"x"', "C:\\"]
)
def test_whole_messages_say_the_same_in_a_list(text: str, tmp_path: Path) -> None:
    spent = {"input": 100, "output": 5, "cached": 60, "thoughts": 2, "tool": 0, "total": 107}
    thoughts = [{"subject": text, "description": text, "timestamp": "2026-05-01T10:00:01.000Z"}]
    said = message("g", "gemini", text, thoughts=thoughts, tokens=spent, model="m")
    answer = {"id": "c", "name": "replace", "response": {"output": text}}
    done = {
        **call("c", "replace", {"file_path": "/w/shop/a.py", "new_string": text}),
        "result": [{"functionResponse": answer}],
        "status": "success",
        "timestamp": "2026-05-01T10:00:02.000Z",
        "resultDisplay": {"fileDiff": text},
    }
    edit = {
        key: done[key] for key in ("id", "name", "args", "result", "status", "timestamp", "resultDisplay")
    }
    again = {**said, "timestamp": "2026-05-01T10:00:09.000Z", "toolCalls": [edit]}
    home = put(tmp_path, HEAD, message("u", "user", "Do it"), said, again)

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert (intel.last_message, intel.message_count, intel.files_changed) == (text, 2, ("a.py",))
        assert shown(intel, "tokens") == (40, 60, 7)
        assert intel.last_activity is not None
        assert intel.last_activity.second == 2


def test_what_was_done_stays_done_when_the_model_is_shown_other_messages(tmp_path: Path) -> None:
    done = call("c", "write_file", {"file_path": "/w/shop/a.py", "content": "x"})
    home = put(
        tmp_path,
        HEAD,
        message("u", "user", "Never touch vendor/. Do it"),
        message("g", "gemini", "", tokens={"input": 9, "output": 1}, toolCalls=[done]),
        {"$set": {"messages": [message("s", "user", "<state_snapshot>a.py is written</state_snapshot>")]}},
        message("u2", "user", "Go on"),
    )

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.last_prompt) == ("Never touch vendor/. Do it", "Go on")
    assert (intel.files_changed, shown(intel, "tokens")) == (("a.py",), (9, 0, 1))
    assert intel.compactions == 1


def test_messages_that_the_user_took_back_are_not_said(tmp_path: Path) -> None:
    home = put(
        tmp_path,
        HEAD,
        message("u", "user", "first"),
        message("g", "gemini", "reply"),
        message("u2", "user", "second, by mistake"),
        {"$rewindTo": "u2"},
        message("u3", "user", "third"),
    )

    assert shown(the_one(STORE, machine(home)), "said") == ("user: first", "agent: reply", "user: third")


def test_one_session_in_two_files(tmp_path: Path) -> None:
    put(tmp_path, HEAD, message("u", "user", "first"))
    home = put(
        tmp_path, HEAD, message("u2", "user", "second"), file="session-2026-05-02T10-00-0a1b2c3d.jsonl"
    )

    intel = the_one(STORE, machine(home))

    assert (intel.native_id, intel.first_prompt, intel.last_prompt) == (ID, "first", "second")


def test_the_chat_of_a_subagent_belongs_to_its_session(tmp_path: Path) -> None:
    written = call("c", "replace", {"file_path": "/w/shop/b.py"})
    put(
        tmp_path,
        {"sessionId": "other", "kind": "subagent"},
        message("x", "user", "You are a helper"),
        message("y", "gemini", "found", tokens={"input": 4, "output": 1}, toolCalls=[written]),
        file=f"{ID}/other.jsonl",
        root="",
    )
    home = put(tmp_path, HEAD, message("u", "user", "Do it"))

    intel = the_one(STORE, machine(home))

    assert shown(intel, "said") == ("user: Do it",)
    assert (intel.files_changed, shown(intel, "tokens")) == (("b.py",), (4, 0, 1))


def test_an_error_that_was_shown_is_a_limit(tmp_path: Path) -> None:
    home = put(
        tmp_path,
        HEAD,
        message("u", "user", "Do it"),
        message("e", "error", "You have exhausted your daily quota on this model."),
    )

    intel = the_one(STORE, machine(home))

    assert (shown(intel, "limits"), intel.turn_open) == (("usage_limit",), True)


def test_a_whole_file_of_an_older_release(tmp_path: Path) -> None:
    folder = "/w/older"
    project = hashlib.sha256(folder.encode()).hexdigest()
    chat = {**HEAD, "messages": [message("u", "user", "Old one"), message("g", "gemini", "Yes.")]}
    home = put(tmp_path, chat, project=project, file="session-2025-10-01T10-00-0a1b2c3d.json", root="")
    (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": {folder: "older"}}))

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.last_message, intel.cwd) == ("Old one", "Yes.", folder)
    assert intel.native_id == ID


@pytest.mark.parametrize(
    ("project", "extra"),
    [
        ("shop", {"projects.json": {"projects": {"/w/app": "shop"}}}),
        (hashlib.sha256(b"/w/app").hexdigest(), {"trustedFolders.json": {"/w/app": "TRUST_FOLDER"}}),
    ],
)
def test_the_folder_is_known_by_the_names_of_projects(
    project: str, extra: dict[str, Any], tmp_path: Path
) -> None:
    home = put(tmp_path, HEAD, message("u", "user", "Do it"), project=project, root="")
    for name, value in extra.items():
        (home / ".gemini" / name).write_text(json.dumps(value))

    assert the_one(STORE, machine(home)).cwd == "/w/app"


def test_the_folder_is_known_by_what_the_model_was_told(tmp_path: Path) -> None:
    told = "<session_context>\n- **Workspace Directories:**\n  - /w/told\n</session_context>"
    home = put(tmp_path, HEAD, message("c", "user", told), message("u", "user", "Do it"), root="")

    intel = the_one(STORE, machine(home))

    assert (intel.cwd, intel.first_prompt, intel.message_count) == ("/w/told", "Do it", 1)


def test_a_growing_file_is_read_on(tmp_path: Path) -> None:
    home = put(tmp_path, HEAD, message("u", "user", "Do it"))
    [session] = found(STORE, machine(home))
    transcript = STORE.open(FILES, session, Depth.FULL)
    assert transcript.read().intel().message_count == 1
    path = Path(session.paths[0])
    row = json.dumps(message("g", "gemini", "Done.")).encode()
    path.write_bytes(path.read_bytes() + row[:40])
    half = transcript.read().intel()
    path.write_bytes(path.read_bytes() + row[40:] + b"\n")
    whole = transcript.read().intel()

    assert (half.message_count, half.skipped) == (1, (("torn", 1),))
    assert (whole.message_count, whole.last_message, whole.skipped) == (2, "Done.", ())


def test_a_long_session_is_not_held_and_counts_each_message_once(tmp_path: Path) -> None:
    rows = [HEAD, message("u", "user", "Do it")]
    for number in range(700):
        done = call(f"c{number}", "write_file", {"file_path": f"/w/shop/{number}.py", "content": "x"})
        each = message(f"g{number}", "gemini", f"step {number}", tokens={"input": 10, "output": 1})
        rows += [each, {**each, "toolCalls": [done]}]
    again = {"$set": {"messages": [row for row in rows[1:] if "toolCalls" in row]}}
    home = put(tmp_path, *rows, again)

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)

        assert intel.message_count == 701
        assert len(intel.files_changed) == 700
        assert shown(intel, "tokens") == (7000, 0, 700)


def test_homes(tmp_path: Path) -> None:
    where = machine(tmp_path, env={"GEMINI_CLI_HOME": "/a/"}, accounts={"gemini": ("/b/.gemini/",)})

    assert STORE.homes(where) == ("/a/.gemini", f"{tmp_path}/.gemini", "/b/.gemini")


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        (("node", "/n/node_modules/.bin/gemini", "-p", "Create hello.txt"), True),
        (
            (
                "node",
                "--max-old-space-size=8192",
                "/usr/lib/node_modules/@google/gemini-cli/bundle/gemini.js",
            ),
            True,
        ),
        (("gemini", "--acp"), True),
        (("node", "/usr/bin/gemini", "mcp", "list"), False),
        (("node", "/srv/app.js", "gemini"), False),
        (("vim", "/home/me/gemini"), False),
        ((), False),
    ],
)
def test_its_processes(argv: tuple[str, ...], runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name="node", argv=argv)) is runs


def test_how_a_person_resumes_it() -> None:
    assert STORE.resume_argv(ID) == ("gemini", "--resume", ID)


SOURCES = {
    name: max(recording(f"gemini/{name}").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    .read_bytes()
    .replace(b"$CWD", b"/w/shop")
    for name in ("todo_m25pro", "tool_edit", "resume", "acp.load_after_a_minute", "write_then_quota")
}


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_ends_the_reading_or_loses_a_whole_record(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    text, whole = data.draw(damages(SOURCES[name]))
    lines = SOURCES[name].rstrip(b"\n").split(b"\n")
    home = put(tmp_path, HEAD)
    next(home.rglob("session-*.jsonl")).write_bytes(text or b"\n")

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        for number in certain(SOURCES[name], text, whole):
            record = json.loads(lines[number])
            if record.get("type") == "user" and "text" in record["content"][0] and depth is Depth.FULL:
                said = record["content"][0]["text"]
                assert f"user: {said}" in shown(intel, "said")
            for each in record.get("toolCalls", ()):
                if each["name"] in ("write_file", "replace") and each["status"] == "success":
                    assert each["args"]["file_path"].removeprefix("/w/shop/") in intel.files_changed


KEYS = ("id", "type", "content", "timestamp", "tokens", "model", "toolCalls", "$set", "$rewindTo", "messages")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON | st.sampled_from(("u", "gemini", "user")))))
def test_values_of_any_other_type_are_read_over(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    home = put(tmp_path, HEAD, *rows, message("last", "user", "still here"))

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert "still here" in (intel.first_prompt, intel.last_prompt)
