"""Sessions of OpenCode, found and read: every recording, other schemas, older files, and damage."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.intel import Depth, SessionIntel
from relay.providers.opencode_store import OpenCodeStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import FILES, JSON, found, lifted, machine, the_one
from tests.fakes.recorded import differing, shown
from tests.fakes.stores import place, recording, recordings

STORE = OpenCodeStore()
HOW = "Create hello.txt and tell me when done"
ACP = "Create hello.txt and run the tests"
SHELL = "echo relay-shell-ok && ls"
PLAIN = "Hello. This is a plain text answer from the mock model."
SHELL_SAID = "The command printed relay-shell-ok."
WRITTEN = "Done: hello.txt has been written."
REMAINS = "First item finished; two items remain."
CREATE = "I will create the file."
TITLE = "Mock session title"


def refused(failure: str, prompt: str = ACP, **more: Any) -> dict[str, Any]:
    """Nothing was answered, and the failure was stored; or "", when OpenCode was still trying."""
    limits = (failure,) if failure else ()
    nothing = {"tokens": (0, 0, 0), "message_count": 1, "turn_open": True}
    return {"first_prompt": prompt, "limits": limits, **nothing, **more}


def answered(last: str, tokens: tuple[int, int], prompt: str = ACP, **more: Any) -> dict[str, Any]:
    spent = {"tokens": (tokens[0], 0, tokens[1])}
    return {"first_prompt": prompt, "last_message": last, "message_count": 2, **spent, **more}


FILE: dict[str, Any] = {"files_changed": ("hello.txt",), "message_count": 3, "title": TITLE}
STEPS: dict[str, Any] = {
    "tasks_done": ("Create hello.txt",),
    "tasks_remaining": ("Run the tests", "Summarise"),
}
CUT: dict[str, Any] = {"turn_open": True, "files_changed": ("hello.txt",), "title": TITLE}
DENIED: dict[str, Any] = {
    "message_count": 1,
    "turn_open": True,
    "failed_attempts": ((f"run {SHELL}", "permission was denied"),),
}
RECORDINGS: dict[str, dict[str, Any]] = {
    "acp.auth_401.allow_once": refused("auth"),
    "acp.hang.allow_once.cancel": refused(""),
    "acp.plain.allow_once": answered(
        PLAIN, (23515, 42), message_count=6, last_prompt="Third prompt after load", title=PLAIN
    ),
    "acp.todo.allow_always": answered(REMAINS, (32234, 170), **FILE, **STEPS),
    "acp.tool_shell.allow_once": answered(SHELL_SAID, (15687, 22), commands=((SHELL, 0),)),
    "acp.tool_shell.reject": answered("", (7802, 13), **DENIED),
    "acp.tool_write.allow_once": answered(WRITTEN, (15713, 46), **FILE),
    "acp.tool_write.allow_once.fs": answered(WRITTEN, (15719, 47), **FILE),
    "acp.write_then_billing.allow_once": answered(CREATE, (7811, 40), limits=("usage_limit",), **CUT),
    "acp.write_then_quota.allow_once": answered(CREATE, (7810, 40), **CUT),
    "auth_401": refused("auth", f"{HOW} (auth_401)"),
    "bad_tool": answered(
        "That tool does not exist.",
        (15751, 13),
        f"{HOW} (bad_tool)",
        failed_attempts=(
            (
                "no_such_tool",
                "Model tried to call unavailable tool 'no_such_tool'. Available tools: bash, edit, glob, "
                "grep, invalid, read, skill, task, todowrite, webfetch, write.",
            ),
        ),
    ),
    "context_400": refused("context_overflow", f"{HOW} (context_400)"),
    "forbidden_403": refused("network", f"{HOW} (forbidden_403)"),
    "model_404": refused("other", f"{HOW} (model_404)"),
    "overloaded_503": refused("overload", f"{HOW} (overloaded_503)"),
    "permission_ask": answered(
        "", (7802, 13), "Create hello.txt and run a command (permission ask)", **DENIED
    ),
    "plain": answered(PLAIN, (7794, 14), f"{HOW} (plain)", title=PLAIN, context_tokens=7808),
    "quota_billing_429": refused("usage_limit", f"{HOW} (quota_billing_429)"),
    "quota_daily_429": refused("", f"{HOW} (quota_daily_429)"),
    "rate_limit_429": refused(
        "rate_limit_transient",
        f"{HOW} (rate_limit_429)",
        resets=("2026-12-02T04:57:03.957000+00:00",),
    ),
    "rate_limit_then_ok": answered(
        "Recovered after one 429.", (7807, 6), f"{HOW} (rate_limit_then_ok)", cost_usd=0.007819
    ),
    "refusal": answered(
        "I can't help with that.", (7796, 6), f"{HOW} (refusal)", limits=("refusal",), turn_open=True
    ),
    "resume": answered(
        PLAIN,
        (23607, 56),
        f"{HOW}",
        files_changed=("hello.txt",),
        message_count=5,
        last_prompt="And now a second prompt",
    ),
    "serve.auth_401": refused("", title="Relay test"),
    "serve.quota_retry": refused("", title="Relay test"),
    "serve.reject": answered("", (8191, 13), **DENIED),
    "serve.todo": answered(REMAINS, (33776, 167), **{**FILE, "title": "Relay test"}, **STEPS),
    "serve.tool_shell": answered(SHELL_SAID, (16464, 22), commands=((SHELL, 0),)),
    "server_500": refused("overload", f"{HOW} (server_500)"),
    "stream_cut": refused("network", f"{HOW} (stream_cut)"),
    "stream_error": refused("overload", f"{HOW} (stream_error)", message_count=2),
    "thinking": answered("Short answer after some thinking.", (7797, 8), f"{HOW} (thinking)"),
    "todo": answered(REMAINS, (32190, 165), f"{HOW} (todo)", **FILE, **STEPS),
    "todo_then_quota": answered(
        "Let me plan.",
        (15817, 95),
        f"{HOW} (todo_then_quota)",
        **CUT,
        tasks_remaining=("Create hello.txt", "Run the tests", "Summarise"),
    ),
    "tool_edit": answered(
        "README.md now has the new title.",
        (23737, 60),
        f"{HOW} (tool_edit)",
        files_changed=("README.md",),
        files_read=("README.md",),
    ),
    "tool_shell": answered(SHELL_SAID, (15675, 22), f"{HOW} (tool_shell)", commands=((SHELL, 0),)),
    "tool_shell_fail": answered(
        "The command failed with exit code 3.",
        (15679, 21),
        f"{HOW} (tool_shell_fail)",
        commands=(("echo boom >&2; exit 3", 3),),
        failed_attempts=(("run echo boom >&2; exit 3", "exit code 3: boom"),),
    ),
    "tool_write": answered(WRITTEN, (15697, 43), f"{HOW} (tool_write)", **FILE),
    "tool_write.default_format": answered(WRITTEN, (15706, 46), "Create hello.txt", **FILE),
    "write_then_quota": answered(CREATE, (7805, 36), f"{HOW} (write_then_quota)", **CUT),
}
COMMON: dict[str, Any] = {
    "model": "mock-model",
    "version": "1.18.33",
    "turn_open": False,
    "last_prompt": "",
    "files_changed": (),
    "files_outside": (),
    "commands": (),
    "limits": (),
    "tasks_done": (),
    "tasks_remaining": (),
    "parent": "",
    "skipped": (),
}


def test_every_recording_is_in_the_table() -> None:
    assert recordings("opencode") == set(RECORDINGS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_lifted(name: str, tmp_path: Path) -> None:
    home, cwd = place(f"opencode/{name}", tmp_path)

    intel = the_one(STORE, machine(home))

    assert differing(intel, {**COMMON, "cwd": str(cwd), **RECORDINGS[name]}) == {}
    assert intel.native_id.startswith("ses_")


SCHEMA = """
CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT, revert TEXT,
    model TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER,
    data TEXT);
CREATE TABLE todo (session_id TEXT, content TEXT, status TEXT, position INTEGER);
"""
BEGAN = 1_777_629_600_000
"""2026-05-01T10:00:00Z."""
Part = dict[str, Any]


def text(words: str, **more: Any) -> Part:
    return {"type": "text", "text": words, **more}


def tool(name: str, given: dict[str, Any], status: str = "completed", **state: Any) -> Part:
    return {
        "type": "tool",
        "tool": name,
        "callID": f"c{name}",
        "state": {"status": status, "input": given, **state},
    }


class Database:
    """An OpenCode database that is being written."""

    def __init__(self, tmp_path: Path, schema: str = SCHEMA, name: str = "opencode.db") -> None:
        self.home = tmp_path / "home"
        self.path = self.home / ".local" / "share" / "opencode" / name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.executescript(schema)
        self.number = 0

    def session(self, name: str = "ses_a", **columns: Any) -> None:
        columns = {"directory": "/w/app", "time_created": BEGAN, "time_updated": BEGAN, **columns, "id": name}
        places = ", ".join("?" * len(columns))
        query = f"INSERT INTO session ({', '.join(columns)}) VALUES ({places})"
        self.connection.execute(query, tuple(columns.values()))

    def message(self, role: str, *parts: Part, session: str = "ses_a", **data: Any) -> str:
        self.number += 1
        name, at = f"msg_{self.number:04d}", BEGAN + 1000 * self.number
        told = {"role": role, "time": {"created": at, "completed": at}, **data}
        self.connection.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?)", (name, session, at, at, json.dumps(told))
        )
        for index, part in enumerate(parts):
            row = (f"prt_{self.number:04d}_{index}", name, session, at, at, json.dumps(part))
            self.connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        return name

    def intel(self, depth: Depth = Depth.FULL) -> SessionIntel:
        return the_one(STORE, machine(self.home), depth)

    def intels(self, depth: Depth = Depth.FULL) -> dict[str, SessionIntel]:
        return {each.native_id: each for each in lifted(STORE, machine(self.home), depth)}


@pytest.fixture
def database(tmp_path: Path) -> Any:
    opened = Database(tmp_path)
    yield opened
    opened.connection.close()


def test_a_database_with_a_live_log_is_read_and_left_alone(database: Database) -> None:
    database.connection.execute("PRAGMA journal_mode = WAL")
    database.session()
    database.message("user", text("Go"))
    folder = database.path.parent
    before = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}

    intel = database.intel()

    after = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
    assert (intel.first_prompt, intel.turn_open) == ("Go", True)
    assert before == after


def test_what_a_subagent_does_counts_for_the_session_that_sent_it(database: Database) -> None:
    database.session()
    database.message("user", text("Go"))
    database.message("assistant", tool("task", {"prompt": "look"}), finish="tool-calls")
    database.session("ses_child", parent_id="ses_a")
    database.message("user", text("You are a helper"), session="ses_child")
    spent = {"input": 10, "output": 2, "reasoning": 3, "cache": {"read": 5, "write": 1}}
    database.message(
        "assistant",
        tool("write", {"filePath": "/w/app/s.py"}),
        text("found"),
        session="ses_child",
        tokens=spent,
    )

    for depth in Depth:
        intels = database.intels(depth)
        parent, child = intels["ses_a"], intels["ses_child"]
        assert child.parent == "ses_a"
        assert (parent.subagents, parent.files_changed, parent.message_count) == (1, ("s.py",), 1)
        assert shown(parent, "tokens") == (11, 5, 5)


def test_what_the_user_reverted_is_neither_said_nor_done(database: Database) -> None:
    database.session(revert=json.dumps({"messageID": "msg_0002"}))
    database.message("user", text("first"))
    database.message("user", text("second, by mistake"))
    written = tool("write", {"filePath": "/w/app/no.py"})
    database.message("assistant", written, tokens={"input": 7, "output": 1}, finish="stop")

    intel = database.intel()

    assert (shown(intel, "said"), intel.files_changed) == (("user: first",), ())
    assert shown(intel, "tokens") == (7, 0, 1)


def test_what_opencode_puts_beside_a_prompt_is_not_typed(database: Database) -> None:
    database.session()
    database.message("user", text('"Fix \\"a\\" please"'), text("<file>x</file>", synthetic=True))

    assert database.intel().first_prompt == 'Fix "a" please'


@pytest.mark.parametrize(
    ("stored", "typed"), [('"Go"', "Go"), ('"say "hi""', 'say "hi"'), ('"', '"'), ('say "hi"', 'say "hi"')]
)
def test_a_quoted_prompt(stored: str, typed: str, database: Database) -> None:
    database.session()
    database.message("user", text(stored))

    assert database.intel().first_prompt == typed


def test_a_summary_of_a_compaction_is_used(database: Database) -> None:
    database.session()
    database.message("user", text("Go"))
    database.message("user", {"type": "compaction", "auto": True})
    database.message("assistant", text("So far: a.py"), summary=True, finish="stop")

    intel = database.intel()

    assert (intel.compactions, shown(intel, "said")) == (1, ("user: Go", "agent: So far: a.py"))


def test_files_that_a_command_changed_are_told_by_the_step(database: Database) -> None:
    database.session()
    database.message("user", text("Go"))
    patch = {"type": "patch", "hash": "x", "files": ["/w/app/by_sed.py"]}
    ran = tool("bash", {"command": "sed -i x"}, metadata={"exit": 0}, output="x" * 50_000)
    database.message("assistant", ran, patch, finish="tool-calls")

    for depth in Depth:
        assert database.intel(depth).files_changed == ("by_sed.py",)


def test_a_tool_that_runs_is_cut_off(database: Database) -> None:
    database.session()
    database.message("user", text("Go"))
    database.message("assistant", tool("bash", {"command": "make"}, "running"))

    intel = database.intel()

    assert (intel.cut_off, intel.turn_open) == (("run make",), True)


def test_files_of_a_patch(database: Database) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b/c.py\n+x\n*** End Patch"
    database.session()
    database.message("user", text("Go"))
    database.message("assistant", tool("apply_patch", {"patchText": patch}), finish="stop")

    for depth in Depth:
        assert database.intel(depth).files_changed == ("a.py", "b/c.py")


def test_a_later_part_changes_the_stamp(database: Database) -> None:
    database.session()
    name = database.message("user", text("Go"))
    database.session("ses_other")
    stamps = {each.native_id: each.stamp for each in found(STORE, machine(database.home))}
    row = ("prt_9", name, "ses_a", BEGAN, BEGAN + 9, json.dumps(text("more")))
    database.connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    later = {each.native_id: each.stamp for each in found(STORE, machine(database.home))}

    assert stamps["ses_a"] != later["ses_a"]
    assert stamps["ses_other"] == later["ses_other"]


OTHER = """
CREATE TABLE session (id TEXT, directory TEXT, time_updated INTEGER, time_created INTEGER);
CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);
CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);
"""


def test_columns_that_another_release_does_not_have(tmp_path: Path) -> None:
    database = Database(tmp_path, OTHER)
    database.session()
    said = json.dumps({"role": "user"})
    database.connection.execute("INSERT INTO message VALUES ('msg_1', 'ses_a', ?)", (said,))
    database.connection.execute("INSERT INTO part VALUES ('p', 'msg_1', ?)", (json.dumps(text("Go")),))
    database.connection.close()

    intel = database.intel()

    assert (intel.first_prompt, intel.cwd) == ("Go", "/w/app")


@pytest.mark.parametrize("schema", ["CREATE TABLE x (y)", "CREATE TABLE session (id TEXT)"])
def test_a_database_without_messages(schema: str, tmp_path: Path) -> None:
    database = Database(tmp_path, schema)
    database.connection.close()

    assert lifted(STORE, machine(database.home)) == []


def test_a_database_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)

    assert lifted(STORE, machine(tmp_path / "home")) == []


def older(tmp_path: Path, **files: Any) -> Path:
    """The tree of an older release; `__` in a name stands for a slash."""
    root = tmp_path / "home" / ".local" / "share" / "opencode" / "storage"
    for name, value in files.items():
        path = root / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    return tmp_path / "home"


def tree(tmp_path: Path, **more: Any) -> Path:
    session = {
        "id": "ses_a",
        "directory": "/w/old",
        "version": "0.15.0",
        "title": "Old",
        "time": {"created": BEGAN},
    }
    answer = {
        "role": "assistant",
        "modelID": "m",
        "time": {"created": BEGAN + 1, "completed": BEGAN + 2},
        "tokens": {"input": 3, "output": 1, "cache": {"read": 2}},
    }
    files: dict[str, Any] = {
        "session__global__ses_a": session,
        "message__ses_a__msg_1": {"role": "user", "time": {"created": BEGAN}},
        "part__msg_1__prt_1": text("Go"),
        "message__ses_a__msg_2": answer,
        "part__msg_2__prt_1": tool("write", {"filePath": "/w/old/a.py"}),
        "message__ses_a__msg_3": {**answer, "tokens": {"input": 1, "output": 1}},
        "part__msg_3__prt_1": text("Done."),
        "todo__ses_a": [
            {"content": "Test it", "status": "pending"},
            {"content": "Write", "status": "completed"},
        ],
    }
    return older(tmp_path, **{**files, **more})


def test_the_files_of_an_older_release(tmp_path: Path) -> None:
    home = tree(tmp_path)
    expected = {
        "first_prompt": "Go",
        "last_message": "Done.",
        "cwd": "/w/old",
        "title": "Old",
        "version": "0.15.0",
        "model": "m",
        "files_changed": ("a.py",),
        "tasks_remaining": ("Test it",),
        "tasks_done": ("Write",),
        "tokens": (4, 2, 2),
        "turn_open": False,
        "skipped": (),
    }

    for depth in Depth:
        assert differing(the_one(STORE, machine(home), depth), expected) == {}


def test_damaged_files_of_an_older_release_are_read_over(tmp_path: Path) -> None:
    home = tree(tmp_path, message__ses_a__msg_2="{torn", part__msg_9__prt_1="[]")

    intel = the_one(STORE, machine(home))

    assert (intel.first_prompt, intel.last_message, intel.skipped) == ("Go", "Done.", (("malformed", 1),))


def test_a_session_that_was_moved_into_the_database_is_found_once(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.session()
    database.message("user", text("from the database"))
    database.connection.close()

    assert [each.first_prompt for each in lifted(STORE, machine(tree(tmp_path)))] == ["from the database"]


def test_only_what_was_touched_since_is_found(tmp_path: Path) -> None:
    home = tree(tmp_path)
    database = Database(tmp_path)
    database.session("ses_b")
    database.session("ses_c", time_updated=BEGAN + 5000)
    database.connection.close()
    for path in home.rglob("*.json"):
        os.utime(path, (BEGAN / 1000, BEGAN / 1000))
    [folder] = STORE.homes(machine(home))

    assert [each.native_id for each in STORE.find(FILES, folder, BEGAN / 1000 + 1)] == ["ses_c"]


def test_homes(tmp_path: Path) -> None:
    where = machine(tmp_path, env={"XDG_DATA_HOME": "/data"}, accounts={"opencode": ("/b/oc/",)})

    assert STORE.homes(where) == ("/data/opencode", "/b/oc")
    assert STORE.homes(machine(tmp_path)) == (f"{tmp_path}/.local/share/opencode",)


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        (("/n/node_modules/.bin/opencode", "run", "--format", "json", "Create hello.txt"), True),
        (("opencode",), True),
        (("opencode", "serve"), True),
        (("opencode", "auth", "login"), False),
        (("vim", "opencode.json"), False),
        ((), False),
    ],
)
def test_its_processes(argv: tuple[str, ...], runs: bool) -> None:
    assert STORE.runs(RunningProcess(pid=1, name="opencode", argv=argv)) is runs


def test_how_a_person_resumes_it() -> None:
    assert STORE.resume_argv("ses_a") == ("opencode", "--session", "ses_a")


@pytest.mark.parametrize("name", ["todo", "tool_edit", "resume"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damaged_row_ends_the_reading_or_loses_another(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    home, cwd = tmp_path / "home", "/w/shop"
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    script = next(recording(f"opencode/{name}").rglob("*.sql")).read_text().replace("$CWD", cwd)
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
        rows = connection.execute("SELECT id, message_id, data FROM part ORDER BY id").fetchall()
        damaged = data.draw(st.sets(st.sampled_from([row[0] for row in rows]), max_size=6))
        for row in rows:
            if row[0] in damaged:
                at = data.draw(st.integers(0, len(row[2]) - 1))
                junk = data.draw(st.sampled_from(["", "\0\0\0", "?", '"}']))
                connection.execute("UPDATE part SET data = ? WHERE id = ?", (row[2][:at] + junk, row[0]))
    connection.close()

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        for part, _, text_of in rows:
            told_of = json.loads(text_of)
            if part in damaged or told_of["type"] != "tool" or told_of["tool"] not in ("write", "edit"):
                continue
            if told_of["state"]["status"] == "completed":
                changed = told_of["state"]["input"]["filePath"].removeprefix(f"{cwd}/")
                assert changed in intel.files_changed


KEYS = (
    "type",
    "role",
    "time",
    "tokens",
    "error",
    "finish",
    "summary",
    "state",
    "tool",
    "files",
    "text",
    "cost",
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON), max_size=4))
def test_values_of_any_other_type_are_read_over(odd: list[dict[str, Any]], tmp_path: Path) -> None:
    for path in tmp_path.rglob("opencode.db*"):
        path.unlink()
    database = Database(tmp_path)
    database.session()
    for each in odd:
        database.message("assistant", *odd, **{key: value for key, value in each.items() if key != "role"})
    database.message("user", text("still here"))
    database.connection.close()

    for depth in Depth:
        intel = database.intel(depth)
        assert "still here" in (intel.first_prompt, intel.last_prompt)
