"""Sessions of Claude Code, found and read: every recording, what damages them, and who is running."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import FailureClass, TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.effects.store_files import DiskFiles
from relay.providers.claude_store import ClaudeStore
from relay.providers.store_protocol import Live, RunningProcess
from tests.fakes.lifting import FILES, damages, found, lifted, machine, the_one
from tests.fakes.stores import place, recording, recordings

STORE = ClaudeStore()
TASK = "Add a refund flow to the orders service"
PLAN = {
    "files_changed": ("refund.py",),
    "tasks_done": ("Add the refund endpoint",),
    "tasks_remaining": ("Write its tests", "Update the docs"),
    "turn_open": False,
}
DONE: dict[str, Any] = {"turn_open": False}
STEPS = ("Add the refund endpoint", "Write its tests", "Update the docs")
NOTES: dict[str, Any] = {"files_changed": ("notes.md",), "turn_open": False}
OPEN: dict[str, Any] = {"turn_open": True}


def refused(failure: str, resets: str | None = None) -> dict[str, Any]:
    return {"limits": ((failure, resets),), "turn_open": True, "tokens": TokenUsage()}


def ran(command: str, code: int | None, **more: Any) -> dict[str, Any]:
    return {"commands": ((command, code),), "turn_open": False, **more}


HELLO = "printf 'hello %s\\n' relay; ls"
SLEEP = "echo started; sleep 300 & sleep 301"
CUT_OFF = {"cut_off": (f"run {SLEEP}",), "turn_open": True, "first_prompt": "do the long thing"}
KILLED = ran(SLEEP, 137, turn_open=True, first_prompt="do the long thing")

RECORDINGS: dict[str, dict[str, Any]] = {
    "allowed_tools": ran(HELLO, 0),
    "append_system_prompt": DONE,
    "append_system_prompt_file": DONE,
    "bad_model": refused("other"),
    "context_full": refused("context_overflow"),
    "cut": DONE,
    "eof_midturn_slow": {**DONE, "first_prompt": "do it"},
    "eof_midturn_write": {**NOTES, "first_prompt": "do it"},
    "forbidden": refused("auth"),
    "limit_midway": {
        "files_changed": ("half.md",),
        "limits": (("usage_limit", "2026-12-02T08:03:59+00:00"),),
        "turn_open": True,
        "tokens": TokenUsage(input=2512, cached_input=337, output=53),
    },
    "live_store": KILLED,
    "max_budget": {**OPEN, "tasks_remaining": STEPS},
    "max_tokens": {"turn_open": True, "limits": (("other", None),)},
    "max_turns": ran(
        "ls -1",
        0,
        turn_open=True,
        tasks_remaining=STEPS,
    ),
    "mcp_config": {**DONE, "mcp_servers": ("mock",)},
    "near_limit": {**DONE, "limits": ()},
    "no_auth": refused("auth"),
    "no_credit": refused("usage_limit"),
    "old_2_1_197_overloaded": {**refused("overload"), "version": "2.1.197"},
    "old_2_1_197_refusal": {**refused("refusal"), "version": "2.1.197"},
    "old_2_1_197_usage_limit": {**refused("usage_limit", "2026-12-02T08:34:00+00:00"), "version": "2.1.197"},
    "old_2_1_197_work": {
        **PLAN,
        "version": "2.1.197",
        "model": "claude-opus-4-8",
        "commands": (("ls -1", 0),),
        "tokens": TokenUsage(input=1951, cached_input=10837, output=453),
    },
    "out_json": DONE,
    "out_text": DONE,
    "out_text_limit": refused("usage_limit", "2026-12-02T08:07:37+00:00"),
    "overloaded": refused("overload"),
    "overloaded_once": DONE,
    "overloaded_stream": {"turn_open": True, "limits": ()},
    "perm_ask_question": DONE,
    "perm_default_denied": {**DONE, "failed_attempts": (("edit notes.md", "permission was denied"),)},
    "perm_stdio_allow": NOTES,
    "perm_stdio_deny": {**DONE, "failed_attempts": (("edit notes.md", "permission was denied"),)},
    "perm_stdio_noinit": NOTES,
    "plan": PLAN,
    "plan_tasks": PLAN,
    "plan_todowrite": {
        **PLAN,
        "tokens": TokenUsage(input=3189, cached_input=9548, output=310),
        "cost_usd": 0.0170814,
    },
    "prompt_on_stdin": {**DONE, "first_prompt": "the prompt comes on stdin"},
    "rate_limit": refused("rate_limit_transient"),
    "rate_limit_once": DONE,
    "refusal": refused("refusal"),
    "refusal_text": {"turn_open": True, "limits": (("refusal", None),)},
    "resume": {**DONE, "first_prompt": "My favourite number is 7", "message_count": 4},
    "resume_new_brief": {**DONE, "message_count": 4},
    "resume_new_brief_snapshot_off": {**DONE, "message_count": 6},
    "root_accept_edits": NOTES,
    "root_accept_edits_shell": ran(HELLO, 0),
    "server_error": refused("overload"),
    "session_id": {**DONE, "first_prompt": "My favourite number is 7"},
    "session_id_in_use": {**DONE, "first_prompt": "My favourite number is 7"},
    "shell": ran(HELLO, 0),
    "shell_fail": ran(
        "echo broken >&2; exit 3",
        3,
        failed_attempts=(("run echo broken >&2; exit 3", "exit code 3: broken"),),
    ),
    "sighup_tool": KILLED,
    "sigint_text": {**OPEN, "first_prompt": "do the long thing"},
    "sigint_tool": {**OPEN, "first_prompt": "do the long thing"},
    "sigkill_group_tool": CUT_OFF,
    "sigkill_tool": CUT_OFF,
    "sigterm_text": {**OPEN, "first_prompt": "do the long thing"},
    "sigterm_tool": KILLED,
    "stdin_bad_type": {**DONE, "first_prompt": "after the bad line"},
    "stdin_get_usage": {**DONE, "first_prompt": "hi"},
    "stdin_interrupt": {**OPEN, "first_prompt": "write a long text"},
    "stdin_interrupt_tool": {**OPEN, "first_prompt": "run the sleep"},
    "stdin_multiturn": {
        **DONE,
        "first_prompt": "first question",
        "last_prompt": "second question, as content blocks",
    },
    "stdin_open_no_data": {**DONE, "first_prompt": "hello"},
    "stdin_replay": {**DONE, "first_prompt": "hello"},
    "stdin_sigint_text": {**OPEN, "first_prompt": "do the long thing"},
    "system_prompt_file": DONE,
    "text": {**DONE, "tokens": TokenUsage(input=2511, cached_input=337, output=19), "context_tokens": 2867},
    "text_oauth": {**DONE, "limits": ()},
    "thinking": DONE,
    "tui_work": {**PLAN, "commands": (("ls -1", 0),)},
    "tui_work_live": {**PLAN, "commands": (("ls -1", 0),)},
    "unauthorized": refused("auth"),
    "usage_limit": refused("usage_limit", "2026-12-02T08:03:56+00:00"),
    "usage_limit_apikey": refused("rate_limit_transient"),
    "usage_limit_weekly": refused("usage_limit", "2026-12-06T05:03:57+00:00"),
    "work": {
        **PLAN,
        "commands": (("ls -1", 0),),
        "tokens": TokenUsage(input=2775, cached_input=15979, output=433),
    },
    "write": NOTES,
}
"""What each recording tells; two hold two sessions and have tests of their own."""
TWO = {"continue", "resume_unknown"}


def shown(intel: SessionIntel, name: str) -> Any:
    match name:
        case "limits":
            return tuple(
                (str(limit.failure), limit.resets_at.isoformat() if limit.resets_at else None)
                for limit in intel.limits
            )
        case "commands":
            return tuple((ran.command, ran.exit_code) for ran in intel.commands)
        case "failed_attempts":
            return tuple((tried.what, tried.why) for tried in intel.failed_attempts)
    return getattr(intel, name)


def test_every_recording_is_in_the_table() -> None:
    assert recordings("claude") == {*RECORDINGS, *TWO}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"claude/{name}", tmp_path)
    common = {"first_prompt": TASK, "limits": (), "branch": "feature/refund", "cwd": str(cwd)}
    expected = {**common, **RECORDINGS[name]}

    intel = the_one(STORE, machine(home))

    assert {field: shown(intel, field) for field in expected} == expected
    assert intel.home == str(home / ".claude")
    assert Path(intel.path).stem == intel.native_id
    assert intel.skipped == ()
    assert intel.started_at is not None
    assert intel.started_at <= (intel.last_activity or intel.started_at)


def test_two_sessions_of_one_folder_are_two(tmp_path: Path) -> None:
    home, _ = place("claude/continue", tmp_path)

    intels = lifted(STORE, machine(home))

    assert len({intel.native_id for intel in intels}) == 2
    assert sorted(intel.message_count for intel in intels) == [4, 8]


def rows(*records: dict[str, Any]) -> str:
    base = {"sessionId": "s", "cwd": "/w/app", "gitBranch": "main", "isSidechain": False}
    made = []
    for number, record in enumerate(records):
        stamp = f"2026-05-01T10:00:{number:02d}.000Z"
        whole = {**base, "uuid": f"u{number}", "timestamp": stamp, **record}
        made.append(json.dumps(whole, separators=(",", ":")))
    return "\n".join(made) + "\n"


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    number = more.pop("id", "msg_1")
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 100,
        "output_tokens": more.pop("output", 7),
    }
    message = {
        "id": number,
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": list(blocks),
        "stop_reason": more.pop("stop", "tool_use"),
        "usage": usage,
    }
    return {"message": message, "type": "assistant", **more}


def edit(call: str, path: str) -> dict[str, Any]:
    given = {"file_path": path, "old_string": "a", "new_string": "b"}
    return {"type": "tool_use", "id": call, "name": "Edit", "input": given}


def result(call: str, text: str = "ok", **more: Any) -> dict[str, Any]:
    return user([{"tool_use_id": call, "type": "tool_result", "content": text, **more}])


def session(tmp_path: Path, text: str, name: str = "11111111-0000-4000-8000-000000000000") -> Path:
    home = tmp_path / "home"
    path = home / ".claude" / "projects" / "-w-app" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return home


@pytest.mark.parametrize("depth", Depth)
def test_usage_is_counted_once_a_message_and_at_its_last(tmp_path: Path, depth: Depth) -> None:
    home = session(
        tmp_path,
        rows(
            user("go"),
            assistant({"type": "text", "text": "a"}, output=1),
            assistant(edit("c1", "/w/app/a.py"), output=9),
            result("c1"),
            assistant({"type": "text", "text": "b"}, id="msg_2", stop="end_turn"),
        ),
    )

    intel = the_one(STORE, machine(home), depth)

    assert intel.tokens == TokenUsage(input=30, cached_input=200, output=16)
    assert intel.context_tokens == 122
    assert (intel.message_count, intel.files_changed, intel.turn_open) == (3, ("a.py",), False)


@pytest.mark.parametrize("depth", Depth)
def test_an_edit_that_failed_changed_nothing(tmp_path: Path, depth: Depth) -> None:
    home = session(
        tmp_path,
        rows(
            user("go"),
            assistant(edit("c1", "/w/app/a.py"), edit("c2", '/w/app/ü "b".py')),
            result("c1", "String not found", is_error=True),
            result("c2"),
            assistant(edit("c3", "/elsewhere/c.py")),
            result("c3"),
        ),
    )

    intel = the_one(STORE, machine(home), depth)

    assert intel.files_changed == ('ü "b".py',)
    assert intel.files_outside == ("/elsewhere/c.py",)


@pytest.mark.parametrize("depth", Depth)
def test_a_subagents_words_are_not_the_sessions(tmp_path: Path, depth: Depth) -> None:
    home = session(
        tmp_path,
        rows(
            user("go"),
            assistant({"type": "tool_use", "id": "t", "name": "Task", "input": {"prompt": "look"}}),
            user("look", isSidechain=True),
            assistant(
                {"type": "text", "text": "found"}, edit("c", "/w/app/sub.py"), id="msg_s", isSidechain=True
            ),
            {**result("c"), "isSidechain": True},
            result("t"),
            assistant({"type": "text", "text": "main words"}, id="msg_2", stop="end_turn"),
        ),
    )

    intel = the_one(STORE, machine(home), depth)

    assert (intel.first_prompt, intel.last_prompt, intel.last_message) == ("go", "", "main words")
    assert (intel.subagents, intel.message_count, intel.turn_open) == (1, 2, False)
    assert intel.files_changed == ("sub.py",)
    assert intel.tokens.output == 21


@pytest.mark.parametrize("depth", Depth)
def test_a_subagents_own_file_belongs_to_its_session(tmp_path: Path, depth: Depth) -> None:
    name = "11111111-0000-4000-8000-000000000000"
    main = rows(user("go"), assistant({"type": "text", "text": "x"}, stop="end_turn"))
    home = session(tmp_path, main, name)
    own = home / ".claude/projects/-w-app" / name / "subagents" / "agent-1.jsonl"
    own.parent.mkdir(parents=True)
    side = {"isSidechain": True}
    own.write_text(
        rows(
            user("look", **side),
            assistant(edit("c", "/w/app/sub.py"), id="msg_9", **side),
            {**result("c"), **side},
        ).replace('"uuid":"u', '"uuid":"v')
    )
    older = home / ".claude/projects/-w-app/agent-2.jsonl"
    other = rows(user("other", isSidechain=True))
    older.write_text(other.replace('"sessionId":"s"', f'"sessionId":"{name}"'))

    intel = the_one(STORE, machine(home), depth)

    assert (intel.first_prompt, intel.files_changed) == ("go", ("sub.py",))


def test_what_was_summarised_a_fork_and_a_title(tmp_path: Path) -> None:
    home = session(
        tmp_path,
        rows(
            {"type": "summary", "summary": "Refunds", "leafUuid": "x"},
            user("go\nNever touch vendor/.", forkedFrom={"sessionId": "older", "messageUuid": "m"}),
            {"type": "system", "subtype": "compact_boundary"},
            user("This session is being continued.\nDecision: use the ledger.", isCompactSummary=True),
            user("<system-reminder>no</system-reminder>and on <b>we</b> go"),
            user("<command-name>/clear</command-name>", isMeta=True),
            assistant({"type": "text", "text": "ok"}, stop="end_turn"),
        ),
    )

    intel = the_one(STORE, machine(home))

    assert (intel.title, intel.forked_from, intel.compactions) == ("Refunds", "older", 1)
    assert (intel.first_prompt, intel.last_prompt) == ("go\nNever touch vendor/.", "and on <b>we</b> go")
    assert intel.rules == ("Never touch vendor/.",)
    assert any("ledger" in decision for decision in intel.decisions)


def test_tasks_that_only_their_files_tell(tmp_path: Path) -> None:
    name = "11111111-0000-4000-8000-000000000000"
    home = session(tmp_path, rows(user("go")), name)
    tasks = home / ".claude" / "tasks" / name
    tasks.mkdir(parents=True)
    for number, status in ((2, "pending"), (10, "in_progress"), (1, "completed")):
        task = {"id": str(number), "subject": f"task {number}", "status": status}
        (tasks / f"{number}.json").write_text(json.dumps(task))
    (tasks / "3.json").write_text("{torn")

    intel = the_one(STORE, machine(home))

    assert (intel.tasks_done, intel.tasks_remaining) == (("task 1",), ("task 10", "task 2"))


def test_secrets_do_not_come_out(tmp_path: Path) -> None:
    key = "-".join(("sk", "ant", "api03", "a1B2c3D4e5F6g7H8" * 5 + "AA"))
    home = session(tmp_path, rows(user(f"use {key}"), assistant({"type": "text", "text": f"using {key}"})))

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert key not in repr(intel)
        assert "[REDACTED:" in intel.first_prompt


def test_homes(tmp_path: Path) -> None:
    where = machine(
        tmp_path,
        env={"CLAUDE_CONFIG_DIR": "/a/claude/"},
        accounts={"claude": ("/b/work", "/a/claude")},
    )

    assert STORE.homes(where) == ("/a/claude", f"{tmp_path}/.claude", f"{tmp_path}/.config/claude", "/b/work")


def test_the_registry_of_running_ones(tmp_path: Path) -> None:
    home, cwd = place("claude/tui_work_live", tmp_path)

    assert list(STORE.live(FILES, str(home / ".claude"))) == [
        Live(
            pid=7216,
            native_id="db8d6ab4-a87a-4adc-8d66-afd85d355b47",
            cwd=str(cwd),
            started=404462,
            busy=False,
        )
    ]


@pytest.mark.parametrize(
    ("argv", "name", "runs"),
    [
        (("claude",), "claude", True),
        (("/usr/local/bin/claude", "-p", "x"), "claude", True),
        (("node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"), "node", True),
        (("claude", "mcp", "serve"), "claude", False),
        (("claude", "auth", "status"), "claude", False),
        (("node", "/x/server.js"), "node", False),
        (("vim", "claude"), "vim", False),
        ((), "", False),
    ],
)
def test_its_processes(argv: tuple[str, ...], name: str, runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name=name, argv=argv)) is runs


SOURCES = {
    name: next(recording(f"claude/{name}").rglob("projects/*/*.jsonl")).read_bytes()
    for name in ("work", "tui_work", "plan_tasks", "limit_midway", "old_2_1_197_work", "stdin_multiturn")
}


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_ends_the_reading_or_loses_a_whole_record(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    text, whole = data.draw(damages(SOURCES[name]))
    lines = SOURCES[name].rstrip(b"\n").split(b"\n")
    home = session(tmp_path, "")
    path = next(home.rglob("*.jsonl"))
    path.write_bytes(text or b"\n")
    records = [json.loads(lines[number]) for number in whole]

    for depth in Depth:
        [each] = found(STORE, machine(home))
        intel = STORE.open(DiskFiles(), each, depth).read().intel()
        for record in records:
            said = record.get("message", {}).get("content")
            if record["type"] == "user" and isinstance(said, str):
                prompts = (intel.first_prompt, intel.last_prompt, *(turn.text for turn in intel.turns))
                assert said in prompts or depth is Depth.LIST
        if any(record["type"] in ("user", "assistant") for record in records):
            assert intel.branch == "feature/refund"


def test_a_limit_is_dated(tmp_path: Path) -> None:
    home, _ = place("claude/usage_limit", tmp_path)

    [limit] = the_one(STORE, machine(home)).limits

    assert limit.failure is FailureClass.USAGE_LIMIT
    assert limit.resets_at == datetime(2026, 12, 2, 8, 3, 56, tzinfo=UTC)
