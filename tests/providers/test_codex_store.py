"""Threads of Codex, found and read: every recording, older shapes, and what damages them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.attempts import CUT_OFF as CUT_SHORT
from relay.core.events import TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.providers.codex_store import CodexStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import FILES, damages, found, lifted, machine, the_one, told
from tests.fakes.stores import place, recording, recordings

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
DECIDED = {**WORK, "decisions": ("refunds are keyed by order id.",)}
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
    "sigint_tool": {**CUT_OFF, "commands": (), "failed_attempts": ((f"run {SLEEP}", CUT_SHORT),)},
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
    assert recordings("codex") == {*RECORDINGS, *TWO}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"codex/{name}", tmp_path)
    common = {"first_prompt": TASK, "branch": "feature/refund", "cwd": str(cwd), "version": "0.171.0"}
    expected = {**common, "limits": (), "model": "gpt-5.5", "context_window": 258400, **RECORDINGS[name]}

    intel = the_one(STORE, machine(home))

    assert {field: shown(intel, field) for field in expected} == expected
    assert intel.native_id in intel.path
    assert intel.skipped == ()


@pytest.mark.parametrize("depth", Depth)
def test_a_fork_goes_on_with_what_its_origin_knew(depth: Depth, tmp_path: Path) -> None:
    home, _ = place("codex/resume_unknown", tmp_path)

    intels = {intel.last_prompt: intel for intel in lifted(STORE, machine(home), depth)}
    fork, origin = intels.pop("A fork"), intels.popitem()[1]

    assert (fork.first_prompt, fork.files_changed) == (TASK, ("notes.md",))
    assert fork.forked_from == origin.native_id
    assert fork.tokens == TokenUsage(input=36, cached_input=7337, output=55)
    assert origin.last_activity is not None and fork.started_at is not None
    assert fork.started_at > origin.last_activity


def test_a_fork_whose_origin_is_gone_has_its_own_words(tmp_path: Path) -> None:
    home, _ = place("codex/resume_unknown", tmp_path)
    fork = next(each for each in lifted(STORE, machine(home)) if each.forked_from)
    next(home.rglob(f"rollout-*-{fork.forked_from}.jsonl")).unlink()

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.turn_open) == ("A fork", False)


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


def call(name: str, call_id: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    given = {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": call_id}
    return ("response_item", given)


def output(call_id: str, text: Any) -> tuple[str, dict[str, Any]]:
    return ("response_item", {"type": "function_call_output", "call_id": call_id, "output": text})


def patch(call_id: str, text: str) -> tuple[str, dict[str, Any]]:
    return (
        "response_item",
        {"type": "custom_tool_call", "call_id": call_id, "name": "apply_patch", "input": text},
    )


def script(call_id: str, text: str) -> tuple[str, dict[str, Any]]:
    return ("response_item", {"type": "custom_tool_call", "name": "exec", "call_id": call_id, "input": text})


def both(home: Path) -> SessionIntel:
    """The only session, read in full; a list must tell the same."""
    full, listed = (the_one(STORE, machine(home), depth) for depth in (Depth.FULL, Depth.LIST))
    assert told(listed) == told(full)
    return full


PATCH = """*** Begin Patch
*** Add File: new.py
+*** Update File: not/this.py
*** Update File: old.py
*** Move to: moved.py
@@
-a
+b
*** Delete File: /w/app/gone.py
*** Update File: /w/elsewhere/far.py
*** End Patch
"""
PATCHED = ("new.py", "old.py", "moved.py", "gone.py")


def test_files_are_told_by_patches_where_no_event_does(tmp_path: Path) -> None:
    heredoc = (
        "cd lib && apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: in_lib.py\n+x\n*** End Patch\nEOF"
    )
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            patch("c1", PATCH),
            output(
                "c1",
                '{"output":"Success. Updated the following files:\\nA new.py","metadata":{"exit_code":0}}',
            ),
            call("shell", "c2", command=["bash", "-lc", heredoc]),
            output(
                "c2", "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n"
            ),
            call("shell", "c3", command=["apply_patch", PATCH.replace("new.py", "wrong.py")]),
            output("c3", "apply_patch verification failed: no such context"),
            patch("c4", PATCH.replace("new.py", "refused.py")),
            output("c4", "patch rejected by user"),
            patch("c5", PATCH.replace("new.py", "unanswered.py")),
        ),
    )

    intel = both(home)

    assert intel.files_changed == (*PATCHED, "lib/in_lib.py")
    assert intel.files_outside == ("/w/elsewhere/far.py",)
    whys = [tried.why for tried in intel.failed_attempts]
    assert "verification failed" in whys[0] and whys[1] == "permission was denied"
    assert len(intel.cut_off) == 1 and "unanswered.py" in intel.cut_off[0]


def test_a_patch_is_told_by_whatever_says_how_it_ended(tmp_path: Path) -> None:
    def adding(name: str, lines: int = 1) -> str:
        return f"*** Begin Patch\n*** Add File: {name}\n{'+ text' * lines}\n*** End Patch\n"

    def changed(call_id: str, *paths: str) -> tuple[str, dict[str, Any]]:
        changes = {path: {"type": "add", "content": "x"} for path in paths}
        item = {"type": "FileChange", "id": call_id, "changes": changes, "status": "completed"}
        return event("item_completed", item={**item, "stdout": "Success.", "stderr": ""})

    done = "Success. Updated the following files:\nA some"
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            patch("c1", adding("by_item.py")),
            changed("c1", "/w/app/by_item.py"),
            output("c1", done),
            patch("c2", adding("by_item_of_two.py")),
            changed("c2", "/w/app/by_item_of_two.py", "/w/app/second.py"),
            patch("c3", adding("by_event.py")),
            event("patch_apply_end", call_id="c3", success=True, stdout=done),
            patch("c4", adding("long.py", lines=100_000)),
            output("c4", done),
            patch("c5", adding("before_the_move.py")),
            ("turn_context", {"cwd": "/w/app/lib"}),
            output("c5", done),
            patch("c6", adding("behind_the_move.py")),
            output("c6", done),
        ),
    )

    assert both(home).files_changed == (
        *("by_item.py", "by_item_of_two.py", "second.py", "by_event.py", "long.py"),
        *("before_the_move.py", "lib/behind_the_move.py"),
    )


def test_commands_are_told_by_outputs_where_no_event_does(tmp_path: Path) -> None:
    local = {"type": "exec", "command": ["sh", "-c", "make lint"]}
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            call("exec_command", "c1", cmd="pytest -q"),
            output("c1", "Chunk ID: a\nWall time: 1 seconds\nProcess exited with code 1\nOutput:\n2 failed"),
            call("shell", "c2", command=["bash", "-lc", "make"]),
            output("c2", '{"output":"no rule","metadata":{"exit_code":2,"duration_seconds":0.1}}'),
            call("shell_command", "c3", command="cat src/a.py", workdir="/w/app"),
            output("c3", "Exit code: 0\nWall time: 0 seconds\nOutput:\nProcess exited with code 9"),
            call("exec_command", "c4", cmd="npm run dev"),
            output("c4", "Wall time: 10 seconds\nProcess running with session ID 7\nOutput:\n"),
            call("write_stdin", "c5", session_id=7, chars=""),
            output("c5", "Wall time: 1 seconds\nProcess exited with code 4\nOutput:\nport in use"),
            ("response_item", {"type": "local_shell_call", "call_id": "c6", "action": local}),
            output("c6", "Exit code: 0\nOutput:\n"),
            call("exec_command", "c7", cmd="rm -rf build"),
            output("c7", "exec command rejected by user"),
            call("exec_command", "c8", cmd="sleep 999"),
        ),
    )

    intel = both(home)

    assert shown(intel, "commands") == (
        ("pytest -q", 1),
        ("make", 2),
        ("cat src/a.py", 0),
        ("npm run dev", 4),
        ("make lint", 0),
    )
    assert shown(intel, "failed_attempts")[:-1] == (
        ("run pytest -q", "exit code 1: 2 failed"),
        ("run make", "exit code 2: no rule"),
        ("run npm run dev", "exit code 4: port in use"),
        ("run rm -rf build", "permission was denied"),
    )
    assert intel.files_read == ("src/a.py",)
    assert intel.cut_off == ("run sleep 999",)


CODE = """const plan = [{step: 'Read', status: 'completed'},
  {step: "Write it (all)", status: `in_progress`},];
await tools.update_plan({explanation: "x", plan});
const p = String.raw`*** Begin Patch
*** Add File: made.py
+x
*** End Patch
`;
text(await tools.apply_patch(p));
text(await tools.exec_command({cmd: "ruff check"}));"""


def test_code_mode_without_items(tmp_path: Path) -> None:
    answer = [
        {"type": "input_text", "text": "Script completed\nOutput:\n"},
        {"type": "input_text", "text": '{"exit_code":1,"output":"F401"}'},
    ]
    home = put(
        tmp_path, rollout(META, event("user_message", message="go"), script("c1", CODE), output("c1", answer))
    )

    intel = both(home)

    assert (intel.tasks_done, intel.tasks_remaining) == (("Read",), ("Write it (all)",))
    assert intel.files_changed == ("made.py",)
    assert shown(intel, "commands") == (("ruff check", 1),)
    assert intel.cut_off == ()


def test_code_mode_that_was_cut_off_between_its_calls(tmp_path: Path) -> None:
    change = {"/w/app/made.py": {"type": "add", "content": "x"}}
    item = {"type": "FileChange", "id": "exec-1", "changes": change, "status": "completed"}
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            script("c1", CODE),
            event("item_completed", item=item),
            event("turn_aborted", reason="interrupted"),
        ),
    )

    intel = both(home)

    assert (intel.files_changed, intel.cut_off) == (("made.py",), ("run ruff check",))


@pytest.mark.parametrize("item", [True, False])
def test_a_command_that_was_aborted_is_none_that_ran(tmp_path: Path, item: bool) -> None:
    ended = {"type": "CommandExecution", "id": "c1", "command": ["bash", "-lc", "npm install"]}
    told = event("item_completed", item={**ended, "status": "failed", "exit_code": -1})
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            call("exec_command", "c1", cmd="npm install"),
            output("c1", "Wall time: 1.7 seconds\naborted by user"),
            event("turn_aborted", reason="interrupted"),
            *([told] if item else []),
        ),
    )

    intel = both(home)

    assert shown(intel, "commands") == ()
    assert intel.cut_off == ("run npm install",)
    assert shown(intel, "failed_attempts") == (("run npm install", CUT_SHORT),)


def test_a_call_that_is_told_in_three_ways_counts_once(tmp_path: Path) -> None:
    item = {"type": "CommandExecution", "id": "c1", "command": ["bash", "-lc", "make"], "exit_code": 0}
    begin = event("patch_apply_begin", call_id="c2", changes={"/w/app/a.py": {"add": {"content": ""}}})
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            call("exec_command", "c1", cmd="make"),
            event("item_completed", item=item),
            event("exec_command_end", call_id="c1", command=["bash", "-lc", "make"], exit_code=0),
            output("c1", "Process exited with code 0\nOutput:\n"),
            begin,
            event("patch_apply_end", call_id="c2", success=False, stderr="conflict"),
        ),
    )

    intel = both(home)

    assert [(ran.command, ran.times) for ran in intel.commands] == [("make", 1)]
    assert (intel.files_changed, intel.skipped) == ((), ())
    assert shown(intel, "failed_attempts") == (("edit a.py", "conflict"),)


def test_a_message_that_is_told_in_two_ways_counts_once(tmp_path: Path) -> None:
    said = {"type": "UserMessage", "content": [{"type": "text", "text": "continue"}]}
    plan = {"type": "Plan", "id": "p1", "text": "1. Look"}
    home = put(
        tmp_path,
        rollout(
            META,
            event("item_completed", item={**said, "id": "u1"}),
            event("user_message", message="continue"),
            event("item_completed", item=plan),
            event("agent_message", message="Done."),
            event("item_completed", item={**said, "id": "u2"}),
            event("user_message", message="continue"),
        ),
    )

    intel = both(home)

    assert [turn.text for turn in intel.turns] == ["continue", "1. Look", "Done.", "continue"]
    assert intel.message_count == 4


@pytest.mark.parametrize(
    ("stored", "prompt"),
    [
        ("<b>bold</b> is broken", "<b>bold</b> is broken"),
        (
            "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nFix a.py\n",
            "Fix a.py",
        ),
        ("<environment_context><cwd>/w</cwd></environment_context>", ""),
        ("# AGENTS.md instructions for /w\n\nBe kind", ""),
    ],
)
def test_a_prompt_as_it_was_typed(stored: str, prompt: str, tmp_path: Path) -> None:
    home = put(tmp_path, rollout(META, event("user_message", message=stored)))

    assert both(home).first_prompt == prompt


def test_the_first_releases_had_no_envelope(tmp_path: Path) -> None:
    first = {
        "id": THREAD,
        "timestamp": "2025-06-01T10:00:00.000Z",
        "instructions": "x",
        "git": {"branch": "dev"},
    }
    rows = [
        first,
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
        {**call("shell", "c1", command=["bash", "-lc", "ls"])[1]},
        {**output("c1", '{"output":"a","metadata":{"exit_code":0}}')[1]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Fixed."}]},
    ]
    home = put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))

    intel = both(home)

    assert (intel.first_prompt, intel.last_message, intel.branch) == ("Fix it", "Fixed.", "dev")
    assert shown(intel, "commands") == (("ls", 0),)
    assert intel.skipped == ()


def test_a_compaction_is_counted_once_and_its_summary_used(tmp_path: Path) -> None:
    compaction = {"type": "ContextCompaction", "id": "k1"}
    home = put(
        tmp_path,
        rollout(
            META,
            event("user_message", message="go"),
            event("item_completed", item=compaction),
            ("compacted", {"message": "Decision: keep the cache.", "replacement_history": []}),
            ("compacted", {"message": "Decision: drop the cache."}),
            event("context_compacted"),
        ),
    )

    intel = both(home)

    assert (intel.compactions, intel.decisions) == (2, ("keep the cache.", "drop the cache."))


def count(whole: int, cached: int, out: int, **limits: Any) -> tuple[str, dict[str, Any]]:
    total = {"input_tokens": whole, "cached_input_tokens": cached, "output_tokens": out}
    info = {"total_token_usage": total, "last_token_usage": total, "model_context_window": 1000}
    return event("token_count", info=info, rate_limits=limits or None)


def test_tokens_are_counted_once_also_when_the_counter_begins_anew(tmp_path: Path) -> None:
    record = ("token_usage_record", {"usage": {"input_tokens": 999}})
    home = put(
        tmp_path,
        rollout(
            META, count(10, 4, 1), record, count(30, 14, 3), count(30, 14, 3), count(5, 0, 2), count(9, 0, 3)
        ),
    )

    intel = both(home)

    assert intel.tokens == TokenUsage(input=16 + 9, cached_input=14, output=3 + 3)
    assert (intel.context_tokens, intel.context_window) == (12, 1000)


def test_a_window_is_known_by_its_length_not_by_its_slot(tmp_path: Path) -> None:
    weekly = {"used_percent": 100.0, "window_minutes": 10079, "resets_at": 1796400000}
    relative = {"used_percent": 100.0, "window_minutes": 300, "resets_in_seconds": 60}
    home = put(tmp_path, rollout(META, count(1, 0, 1, primary=weekly), count(2, 0, 2, secondary=relative)))

    limits = both(home).limits

    assert [limit.why for limit in limits] == [
        "the seven_day window is used up",
        "the five_hour window is used up",
    ]
    assert [limit.resets_at.isoformat() for limit in limits if limit.resets_at] == [
        "2026-12-04T16:00:00+00:00",
        "2026-05-01T10:01:02+00:00",
    ]


def test_a_thread_in_two_rollouts_is_one_session(tmp_path: Path) -> None:
    put(tmp_path, rollout(META, event("user_message", message="first")))
    home = put(
        tmp_path, rollout(META, event("user_message", message="second")), "2026/05/02", "2026-05-02T10-00-00"
    )

    intel = both(home)

    assert (intel.first_prompt, intel.last_prompt) == ("first", "second")


def test_an_archived_rollout_is_read_once(tmp_path: Path) -> None:
    home = put(tmp_path, rollout(META, event("user_message", message="first")))
    rollouts = home / ".codex" / "archived_sessions"
    rollouts.mkdir()
    file = next(home.rglob("rollout-*"))
    (rollouts / file.name).write_bytes(file.read_bytes())

    assert both(home).message_count == 1
    file.unlink()
    assert both(home).first_prompt == "first"


def test_a_subagents_thread_names_its_parent(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "the-parent", "depth": 1}}}
    home = put(
        tmp_path,
        rollout(("session_meta", {"id": THREAD, "source": source}), event("user_message", message="x")),
    )

    assert both(home).parent == "the-parent"


@pytest.mark.parametrize(
    ("meta", "parent"),
    [
        ({"source": "cli", "session_id": THREAD}, ""),
        ({"source": {"custom": "my-editor"}}, ""),
        ({"source": {"subagent": "review"}}, "untold"),
        ({"source": {"subagent": "review"}, "session_id": "the-session"}, "the-session"),
        ({"source": {"internal": "memory_consolidation"}}, "untold"),
        ({"source": "exec", "thread_source": "subagent", "parent_thread_id": "p"}, "p"),
    ],
)
def test_threads_of_codex_itself_are_told_apart(meta: dict[str, Any], parent: str, tmp_path: Path) -> None:
    home = put(tmp_path, rollout(("session_meta", {"id": THREAD, **meta})))

    assert both(home).parent == parent


def copied(meta: dict[str, Any]) -> str:
    """A rollout that begins with a copy of the thread it came from, as releases before 0.171.0 wrote it."""
    rows = [
        ("session_meta", {"id": THREAD, "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/w/app", **meta}),
        ("session_meta", {"id": "the-origin", "cwd": "/w/other", "git": {"branch": "other"}}),
        event("user_message", message="the origin's task"),
        count(1000, 0, 100),
    ]
    lines = (
        rollout(*rows)
        .replace("10:00:01", "10:00:00")
        .replace("10:00:02", "10:00:00")
        .replace("10:00:03", "10:00:00")
    )
    own = rollout(event("user_message", message="its own task"), count(1010, 0, 103)).replace(
        "10:00:0", "10:05:0"
    )
    return lines + own


def test_a_fork_with_a_copy_of_its_origin_counts_its_own_tokens(tmp_path: Path) -> None:
    intel = both(put(tmp_path, copied({"forked_from_id": "the-origin"})))

    assert (intel.first_prompt, intel.last_prompt) == ("the origin's task", "its own task")
    assert intel.tokens == TokenUsage(input=10, output=3)
    assert (intel.cwd, intel.branch, intel.forked_from) == ("/w/app", "", "the-origin")


def test_a_subagent_with_a_copy_of_its_parent_has_its_own_task(tmp_path: Path) -> None:
    intel = both(put(tmp_path, copied({"parent_thread_id": "the-origin"})))

    assert (intel.first_prompt, intel.parent) == ("its own task", "the-origin")


def test_subagents_are_counted(tmp_path: Path) -> None:
    started = ("event_msg", {"type": "sub_agent_activity", "kind": "started", "agent_thread_id": "t1"})
    home = put(
        tmp_path,
        rollout(
            META, call("spawn_agent", "c1", message="look"), started, call("spawn_agent", "c2", message="see")
        ),
    )

    assert both(home).subagents == 2


def test_skills_servers_and_images(tmp_path: Path) -> None:
    content = [{"type": "skill", "name": "deploy", "path": "/s"}, {"type": "text", "text": "ship it"}]
    told_by_event = event(
        "mcp_tool_call_end",
        call_id="c1",
        invocation={"server": "jira", "tool": "get", "arguments": {"id": 1}},
        result={"Err": "no such ticket"},
    )
    home = put(
        tmp_path,
        rollout(
            META,
            event("item_completed", item={"type": "UserMessage", "id": "u1", "content": content}),
            event("item_completed", item={"type": "ImageView", "id": "i1", "path": "file:///w/app/shot.png"}),
            call("mcp__github__list", "c0"),
            told_by_event,
        ),
    )

    intel = both(home)

    assert (intel.skills, intel.mcp_servers) == (("deploy",), ("github", "jira"))
    assert intel.files_read == ("shot.png",)
    assert shown(intel, "failed_attempts")[0][1] == "no such ticket"


def test_the_users_name_for_a_thread_is_its_title(tmp_path: Path) -> None:
    home = put(tmp_path, rollout(META, event("user_message", message="go")))
    [before] = found(STORE, machine(home))
    names = [
        {"id": THREAD, "thread_name": "old"},
        {"id": "x", "thread_name": "y"},
        {"id": THREAD, "thread_name": "new"},
    ]
    index = "".join(json.dumps(name) + "\n" for name in names) + '{"id": "' + THREAD
    (home / ".codex" / "session_index.jsonl").write_text(index)

    [after] = found(STORE, machine(home))

    assert both(home).title == "new"
    assert after.stamp != before.stamp


def test_what_is_new_is_read_alone_and_an_unknown_record_is_counted(tmp_path: Path) -> None:
    home = put(tmp_path, rollout(META, event("user_message", message="go")))
    path = next(home.rglob("rollout-*"))
    [each] = found(STORE, machine(home))
    transcript = STORE.open(FILES, each, Depth.LIST)
    transcript.read()
    with path.open("a") as file:
        file.write(rollout(("hologram", {"a": 1}), event("agent_message", message="Done.")))

    lift = transcript.read()

    assert lift.intel().last_message == "Done."
    assert (lift.bytes_read, lift.intel().skipped) == (path.stat().st_size, (("unknown", 1),))


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
        (("codex", "-c", "model=gpt-5.5", "resume", "--last"), True),
        (("codex", "login page is broken"), True),
        (("codex", "mcp-server"), True),
        (("/n/@openai/codex/vendor/x86_64-unknown-linux-musl/codex/codex-x86_64-unknown-linux-musl",), True),
        (("C:\\nodejs\\node.exe", "C:\\npm\\@openai\\codex\\bin\\codex.js"), True),
        (("codex", "login", "status"), False),
        (("codex", "-c", "x=1", "--model", "m", "login"), False),
        (("codex", "mcp", "list"), False),
        (("codex", "sandbox", "ls"), False),
        (("codex-code-mode-host",), False),
        (("node", "/app/server.js"), False),
        (("codex", "--version"), False),
        (("vim", "codex"), False),
        ((), False),
    ],
)
def test_its_processes(argv: tuple[str, ...], runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name="codex", argv=argv)) is runs


SOURCES = {
    name: next(recording(f"codex/{name}").rglob("rollout-*.jsonl")).read_bytes()
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
