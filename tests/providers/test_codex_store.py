"""Threads of Codex, found and read: every recording, older shapes, and what damages them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.providers.codex_store import CodexStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import FILES, damages, found, lifted, machine, the_one, told
from tests.fakes.stores import FIXTURES, place

STORE = CodexStore()
TASK = "Add a refund flow to the orders service"
STEPS = ("Write its tests", "Update the docs")
HELLO = "printf 'hello %s\\n' relay; ls"
SLEEP = "echo started; sleep 300 & sleep 301"
DONE: dict[str, Any] = {"turn_open": False}
OPEN: dict[str, Any] = {"turn_open": True}
NOTES: dict[str, Any] = {"turn_open": False, "files_changed": ("notes.md",)}
PLAN: dict[str, Any] = {
    "turn_open": False,
    "files_changed": ("refund.py",),
    "tasks_done": ("Add the refund endpoint",),
    "tasks_remaining": STEPS,
}
WORK = {**PLAN, "commands": (("ls -1", 0),)}
DECIDED = {**WORK, "decisions": ("refunds are keyed by order id. Next: write tests/test_refund.py.",)}
CUT_OFF = {"turn_open": True, "first_prompt": "do the long thing", "cut_off": (f"run {SLEEP}",)}


def refused(failure: str, resets: str | None = None) -> dict[str, Any]:
    return {"turn_open": True, "limits": ((failure, resets),)}


RECORDINGS: dict[str, dict[str, Any]] = {
    "agents_md_brief": DONE,
    "appserver_approve_patch": NOTES,
    "appserver_approve_shell": {**DONE, "commands": ((HELLO, 0),)},
    "appserver_decline_patch": {**DONE, "failed_attempts": (("edit notes.md", "permission was denied"),)},
    "appserver_interrupt": OPEN,
    "appserver_steer": OPEN,
    "appserver_usage_limit": refused("usage_limit", "2026-12-02T08:28:04+00:00"),
    "appserver_work": WORK,
    "ask": DONE,
    "bad_model": refused("other"),
    "codemode_mcp": {
        **DONE,
        "first_prompt": "call the echo tool",
        "mcp_servers": ("mock",),
        "model": "gpt-6-sol",
    },
    "codemode_shell": {**DONE, "commands": ((HELLO, 0),), "model": "gpt-6-sol"},
    "codemode_work": {**WORK, "model": "gpt-6-sol"},
    "content_filter": refused("refusal"),
    "context_full": refused("context_overflow"),
    "cut": refused("network"),
    "forbidden": refused("other"),
    "human_output": WORK,
    "max_tokens": refused("other"),
    "mcp_config": {**DONE, "first_prompt": "call the echo tool", "mcp_servers": ("mock",)},
    "model_instructions_file": {**DONE, "first_prompt": "hello"},
    "near_limit": {**DONE, "limits": ()},
    "no_credit": refused("usage_limit"),
    "no_key": refused("auth"),
    "overloaded": refused("overload"),
    "overloaded_once": DONE,
    "overloaded_stream": refused("overload"),
    "plan": PLAN,
    "prompt_on_stdin": {**DONE, "first_prompt": "the prompt comes on stdin"},
    "quota_stream": refused("usage_limit"),
    "rate_limit": refused("rate_limit_transient"),
    "rate_limit_once": DONE,
    "refusal": DONE,
    "refusal_text": DONE,
    "resume": {**NOTES, "message_count": 4},
    "resume_first": NOTES,
    "resume_last": {**NOTES, "message_count": 6},
    "sandbox_default": {**DONE, "commands": ((HELLO, 0),)},
    "sandbox_read_only": DONE,
    "sandbox_workspace_write": WORK,
    "server_error": refused("overload"),
    "shell": {**DONE, "commands": ((HELLO, 0),)},
    "shell_fail": {
        **DONE,
        "commands": (("echo broken >&2; exit 3", 3),),
        "failed_attempts": (("run echo broken >&2; exit 3", "exit code 3: broken"),),
    },
    "sigint_text": {**OPEN, "first_prompt": "do the long thing"},
    "sigint_tool": {**OPEN, "first_prompt": "do the long thing"},
    "sigkill_group_tool": CUT_OFF,
    "sigkill_tool": CUT_OFF,
    "sigterm_text": {**OPEN, "first_prompt": "do the long thing"},
    "sigterm_tool": CUT_OFF,
    "stdin_open": {**DONE, "first_prompt": "hello"},
    "text": {**DONE, "tokens": TokenUsage(input=44, cached_input=6883, output=55), "context_tokens": 6982},
    "thinking": DONE,
    "tui_work": WORK,
    "tui_work_live": WORK,
    "unauthorized": refused("auth"),
    "usage_limit": refused("usage_limit", "2026-12-02T08:24:54+00:00"),
    "usage_limit_weekly": refused("usage_limit", "2026-12-06T05:24:55+00:00"),
    "work": {**DECIDED, "tokens": TokenUsage(input=308, cached_input=43424, output=442)},
    "write": NOTES,
}
TWO = {"resume_unknown"}
"""A thread and its fork."""


def shown(intel: SessionIntel, name: str) -> Any:
    match name:
        case "limits":
            return tuple(
                (str(limit.failure), limit.resets_at.isoformat() if limit.resets_at else None)
                for limit in intel.limits
            )[-1:]
        case "commands":
            return tuple((ran.command, ran.exit_code) for ran in intel.commands)
        case "failed_attempts":
            return tuple((tried.what, tried.why) for tried in intel.failed_attempts)
    return getattr(intel, name)


def test_every_recording_is_in_the_table() -> None:
    assert {path.name for path in (FIXTURES / "codex").iterdir()} == {*RECORDINGS, *TWO}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"codex/{name}", tmp_path)
    common = {"first_prompt": TASK, "branch": "feature/refund", "cwd": str(cwd), "version": "0.171.0"}
    expected = {**common, "limits": (), "model": "gpt-5.5", "context_window": 258400, **RECORDINGS[name]}

    intel = the_one(STORE, machine(home))

    assert {field: shown(intel, field) for field in expected} == expected
    assert intel.native_id in intel.path
    assert intel.skipped == ()


@pytest.mark.parametrize("name", sorted({*RECORDINGS, *TWO}))
def test_a_list_tells_the_same(name: str, tmp_path: Path) -> None:
    home, _ = place(f"codex/{name}", tmp_path)

    full, listed = (lifted(STORE, machine(home), depth) for depth in (Depth.FULL, Depth.LIST))

    assert [told(intel) for intel in listed] == [told(intel) for intel in full]


def test_a_fork_names_what_it_began_from(tmp_path: Path) -> None:
    home, _ = place("codex/resume_unknown", tmp_path)

    intels = {intel.first_prompt: intel for intel in lifted(STORE, machine(home))}

    assert set(intels) == {"A fork", TASK}
    assert intels["A fork"].forked_from == intels[TASK].native_id


THREAD = "01a23536-7e37-77e2-8acf-5cd762b7ca41"


def rollout(*payloads: tuple[str, dict[str, Any]]) -> str:
    rows = [
        {"timestamp": f"2026-05-01T10:00:{number:02d}.000Z", "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(payloads)
    ]
    return "\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n"


def event(kind: str, **values: Any) -> tuple[str, dict[str, Any]]:
    return ("event_msg", {"type": kind, **values})


def put(tmp_path: Path, text: str, day: str = "2026/05/01", stamp: str = "2026-05-01T10-00-00") -> Path:
    path = tmp_path / "home" / ".codex" / "sessions" / day / f"rollout-{stamp}-{THREAD}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return tmp_path / "home"


META = ("session_meta", {"id": THREAD, "cwd": "/w/app", "cli_version": "0.40.0", "git": {"branch": "main"}})


def test_the_shapes_of_older_releases(tmp_path: Path) -> None:
    environment = "<environment_context><cwd>/w/app</cwd></environment_context>"
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": environment}]}
    change = {"/w/app/a.py": {"update": {"unified_diff": "@@", "move_path": "/w/app/b.py"}}}
    home = put(
        tmp_path,
        rollout(
            META,
            ("response_item", message),
            event("user_message", message="Fix it. Never touch vendor/."),
            event("agent_message", message="Decision: use b.py."),
            event(
                "exec_command_end",
                call_id="c1",
                command=["bash", "-lc", "make"],
                exit_code=2,
                stderr="no rule",
            ),
            event("patch_apply_begin", call_id="c2", changes=change),
            event("patch_apply_end", call_id="c2", success=True, stdout="ok"),
            event(
                "token_count",
                info={
                    "total_token_usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}
                },
            ),
            event("task_complete", last_agent_message="done"),
        ),
    )

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.rules) == ("Fix it. Never touch vendor/.", ("Never touch vendor/.",))
    assert intel.decisions == ("use b.py.",)
    assert intel.files_changed == ("a.py", "b.py")
    assert shown(intel, "commands") == (("make", 2),)
    assert intel.tokens == TokenUsage(input=6, cached_input=4, output=3)
    assert not intel.turn_open


def test_a_thread_in_two_rollouts_is_one_session(tmp_path: Path) -> None:
    put(tmp_path, rollout(META, event("user_message", message="first")))
    home = put(
        tmp_path, rollout(META, event("user_message", message="second")), "2026/05/02", "2026-05-02T10-00-00"
    )

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.last_prompt) == ("first", "second")


def test_a_subagents_thread_names_its_parent(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "the-parent", "depth": 1}}}
    home = put(
        tmp_path,
        rollout(("session_meta", {"id": THREAD, "source": source}), event("user_message", message="x")),
    )

    assert the_one(STORE, machine(home)).parent == "the-parent"


def test_homes(tmp_path: Path) -> None:
    where = machine(tmp_path, env={"CODEX_HOME": "/a/codex"}, accounts={"codex": ("/b/work",)})

    assert STORE.homes(where) == ("/a/codex", f"{tmp_path}/.codex", "/b/work")


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        (("codex",), True),
        (("/usr/bin/codex", "exec", "--json", "do it"), True),
        (("codex", "app-server"), True),
        (("node", "/usr/lib/node_modules/@openai/codex/bin/codex.js", "resume"), True),
        (("codex", "login", "status"), False),
        (("codex", "--version"), False),
        (("vim", "codex"), False),
        ((), False),
    ],
)
def test_its_processes(argv: tuple[str, ...], runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name="codex", argv=argv)) is runs


SOURCES = {
    name: next((FIXTURES / "codex" / name).rglob("rollout-*.jsonl")).read_bytes()
    for name in ("work", "codemode_work", "resume_last", "usage_limit", "shell_fail")
}


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_ends_the_reading_or_loses_a_whole_record(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    text, whole = data.draw(damages(SOURCES[name]))
    lines = SOURCES[name].rstrip(b"\n").split(b"\n")
    home = put(tmp_path, "")
    next(home.rglob("rollout-*.jsonl")).write_bytes(text or b"\n")

    for depth in Depth:
        [each] = found(STORE, machine(home))
        intel = STORE.open(FILES, each, depth).read().intel()
        for number in whole:
            payload = json.loads(lines[number])["payload"]
            item = payload.get("item", {})
            if item.get("type") == "UserMessage" and depth is Depth.FULL:
                said = item["content"][0]["text"]
                assert said in (intel.first_prompt, intel.last_prompt, *(turn.text for turn in intel.turns))
            if item.get("type") == "FileChange" and item["status"] == "completed":
                assert len(intel.files_changed) + len(intel.files_outside) >= 1
