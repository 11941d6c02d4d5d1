"""Conversations of Cursor's editor, found and read on every platform, and what damages them."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import TaskStatus, TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.effects.store_files import DiskFiles
from relay.providers.cursor_store import CursorStore
from relay.providers.store_protocol import Machine, RunningProcess
from tests.fakes.editors import DONE, FILE, MONEY, PLATFORMS, REMAINING, TASK, TEST, cwd_of, editors
from tests.fakes.lifting import FILES, JSON, found, lifted, machine, told

MAIN = "79a0cfe0-bd35-58bb-8589-5753b738f8c8"
CHILD = "89c168ff-f59e-58da-91c6-ab4c0a78e330"
EMPTY = "80cbac5c-0d90-58fc-8f44-893b558c959e"
INLINE = "1ced4f87-0beb-5579-98a1-4bb2024722d6"
SCHEMA = "CREATE TABLE IF NOT EXISTS cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"


def by_id(where: Machine, depth: Depth = Depth.FULL) -> dict[str, SessionIntel]:
    return {intel.native_id: intel for intel in lifted(CursorStore(), where, depth)}


def database_of(where: Machine) -> Path:
    return next(Path(where.home).rglob("globalStorage/state.vscdb"))


def put(path: Path, **rows: Any) -> None:
    """Rows by key; two underscores stand for a colon."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as own:
        own.execute(SCHEMA)
        for key, value in rows.items():
            data = value if isinstance(value, str | bytes | None) else json.dumps(value)
            own.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key.replace("__", ":"), data))
    own.close()


def one(tmp_path: Path, **rows: Any) -> SessionIntel:
    put(tmp_path / ".config/Cursor/User/globalStorage/state.vscdb", **rows)
    [intel] = lifted(CursorStore(), machine(tmp_path))
    return intel


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_conversation_is_read_in_the_order_of_its_headers(tmp_path: Path, platform: str) -> None:
    intel = by_id(editors(tmp_path, platform))[MAIN]
    assert (intel.cwd, intel.branch, intel.model) == (cwd_of(platform), "main", "claude-4.5-sonnet")
    assert (intel.title, intel.first_prompt, intel.last_prompt) == ("Refund flow", TASK, MONEY)
    assert [item.status for item in intel.plan] == [
        TaskStatus.COMPLETED,
        TaskStatus.IN_PROGRESS,
        TaskStatus.PENDING,
    ]
    assert (intel.tasks_done, intel.tasks_remaining) == (DONE, REMAINING)
    assert (intel.files_changed, intel.files_outside) == ((FILE,), ())
    assert [(run.command, run.exit_code) for run in intel.commands] == [(TEST, 1)]
    assert [(tried.what, tried.why) for tried in intel.failed_attempts] == [
        (f"run {TEST}", "exit code 1: 1 failed in 0.1s")
    ]
    assert intel.tokens == TokenUsage(input=12011 + 13950, output=411 + 120)
    assert (intel.context_tokens, intel.context_window, intel.cost_usd) == (13950, 200_000, 0.05)
    assert [(turn.role, turn.text) for turn in intel.turns] == [
        ("user", TASK),
        ("agent", "I will plan the refund flow."),
        ("user", MONEY),
        ("agent", "The migration is written; the endpoint is next."),
    ]
    assert (intel.turn_open, intel.subagents, intel.parent) == (False, 1, "")
    assert str(intel.started_at) == "2026-01-02 03:04:05.678000+00:00"
    assert str(intel.last_activity) == "2026-01-02 03:04:13.678000+00:00"


def test_a_subagents_conversation_names_its_parent(tmp_path: Path) -> None:
    intel = by_id(editors(tmp_path))[CHILD]
    assert (intel.parent, intel.first_prompt) == (MAIN, "Find the Money type")


def test_a_conversation_of_an_old_release_holds_its_bubbles_inline(tmp_path: Path) -> None:
    intel = by_id(editors(tmp_path))[INLINE]
    assert (intel.first_prompt, intel.last_message) == ("What does this repo do?", "It is a demo.")
    assert not intel.turn_open


def test_one_that_was_never_used_tells_nothing_and_a_deleted_one_is_not_there(tmp_path: Path) -> None:
    sessions = by_id(editors(tmp_path))
    assert set(sessions) == {MAIN, CHILD, EMPTY, INLINE}
    assert (sessions[EMPTY].first_prompt, sessions[EMPTY].message_count) == ("", 0)


def test_a_list_tells_the_same_as_a_full_reading(tmp_path: Path) -> None:
    where = editors(tmp_path)
    assert [told(i) for i in by_id(where, Depth.LIST).values()] == [told(i) for i in by_id(where).values()]


class Counting(DiskFiles):
    """Counts the databases that are opened."""

    opened = 0

    def database(self, path: str) -> Any:
        self.opened += 1
        return super().database(path)


def test_a_large_database_that_has_not_changed_is_not_copied_again(tmp_path: Path) -> None:
    where = editors(tmp_path)
    files, store = Counting(), CursorStore()
    listings = []
    for _ in range(2):
        listings.append([each for home in store.homes(where) for each in store.find(files, home, 0.0)])
        before = files.opened
    assert listings[0] == listings[1]
    assert files.opened == before == 2
    assert [each for home in store.homes(where) for each in store.find(files, home, 4e9)] == []
    assert files.opened == before


def test_only_the_conversation_that_changed_has_another_stamp(tmp_path: Path) -> None:
    where = editors(tmp_path)
    before = {each.native_id: each.stamp for each in found(CursorStore(), where)}
    put(
        database_of(where),
        **{
            f"composerData__{INLINE}": {
                "composerId": INLINE,
                "lastUpdatedAt": 1797323045678,
                "conversation": [{"type": 1, "bubbleId": "b", "text": "And now?"}],
            }
        },
    )
    after = {each.native_id: each.stamp for each in found(CursorStore(), where)}
    assert {name for name, stamp in after.items() if before[name] != stamp} == {INLINE}
    assert by_id(where)[INLINE].first_prompt == "And now?"


def test_what_is_still_in_the_wal_is_read(tmp_path: Path) -> None:
    where = editors(tmp_path)
    own = sqlite3.connect(database_of(where), isolation_level=None)
    own.execute("PRAGMA journal_mode = WAL")
    bubble = {"type": 1, "text": "Said just now", "createdAt": "2026-01-02T04:00:00Z"}
    own.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (f"bubbleId:{EMPTY}:b", json.dumps(bubble)))
    assert by_id(where)[EMPTY].first_prompt == "Said just now"
    own.close()


def test_the_folder_is_found_by_the_workspace_that_the_header_names(tmp_path: Path) -> None:
    user = tmp_path / ".config/Cursor/User"
    (user / "workspaceStorage/w1").mkdir(parents=True)
    (user / "workspaceStorage/w1/workspace.json").write_text('{"folder": "file:///code/shop"}')
    path = user / "globalStorage/state.vscdb"
    put(path, composerData__c1={"composerId": "c1", "createdAt": 1767323045678})
    with sqlite3.connect(path) as own:
        own.execute("CREATE TABLE composerHeaders (composerId TEXT, workspaceId TEXT)")
        own.execute("INSERT INTO composerHeaders VALUES ('c1', 'w1'), ('c2', '../../../etc'), ('c3', NULL)")
    own.close()
    [intel] = lifted(CursorStore(), machine(tmp_path))
    assert intel.cwd == "/code/shop"


def call(**former: Any) -> dict[str, Any]:
    return {"type": 2, "bubbleId": "b", "toolFormerData": {"toolCallId": "t", **former}}


def asked(*bubbles: dict[str, Any], **more: Any) -> dict[str, Any]:
    first = {"type": 1, "bubbleId": "a", "text": "Do it"}
    return {"composerId": "c1", "createdAt": 1767323045678, "conversation": [first, *bubbles], **more}


def test_a_command_that_was_refused_or_is_still_running(tmp_path: Path) -> None:
    refused = call(
        name="run_terminal_cmd",
        status="completed",
        params='{"command": "rm -rf build"}',
        result='{"rejected": true}',
    )
    intel = one(tmp_path, composerData__c1=asked(refused))
    assert [(each.what, each.why) for each in intel.failed_attempts] == [
        ("run rm -rf build", "permission was denied")
    ]
    for decided in ({"userDecision": "rejected"}, {"additionalData": {"userDecision": "rejected"}}):
        for status in ("completed", "pending"):
            edit = call(name="edit_file", status=status, rawArgs='{"target_file": "src/a.py"}', **decided)
            intel = one(tmp_path, composerData__c1=asked(edit, status="completed"))
            assert intel.files_changed == ()
            assert [(tried.what, tried.why) for tried in intel.failed_attempts] == [
                ("edit src/a.py", "permission was denied")
            ]
    running = call(name="run_terminal_cmd", status="loading", rawArgs='{"command": "make slow"}')
    intel = one(tmp_path, composerData__c1=asked(running, status="aborted"))
    assert (intel.cut_off, intel.turn_open) == (("run make slow",), True)


def test_todos_that_merge_keep_the_others(tmp_path: Path) -> None:
    first = {"merge": False, "todos": [{"id": "1", "content": "One"}, {"id": "2", "content": "Two"}]}
    then = {"merge": True, "todos": [{"id": "1", "status": "completed"}]}
    bubbles = [call(name="todo_write", status="completed", params=json.dumps(each)) for each in (first, then)]
    intel = one(tmp_path, composerData__c1=asked(*bubbles))
    assert (intel.tasks_done, intel.tasks_remaining) == (("One",), ("Two",))


SUMMARY = "Decision: keep the ledger as it is. Next: add the endpoint"


@pytest.mark.parametrize(
    ("latest", "order"),
    [
        pytest.param(
            {
                "summary": {"summary": SUMMARY, "truncationLastBubbleIdInclusive": "b1"},
                "lastBubbleId": "b3",
            },
            ["1", "summary", "2", "3"],
            id="what it takes the place of",
        ),
        pytest.param(
            {"summary": {"summary": SUMMARY, "truncationLastBubbleIdInclusive": "s2"}},
            ["1", "2", "summary", "3"],
            id="by the server's name",
        ),
        pytest.param(
            {"summary": SUMMARY, "lastBubbleId": "b3"}, ["1", "2", "summary", "3"], id="of all, as a text"
        ),
        pytest.param(
            {"summary": {"summary": SUMMARY}, "lastBubbleId": "gone"},
            ["summary", "1", "2", "3"],
            id="of none",
        ),
        pytest.param({"summary": {"summary": " "}, "lastBubbleId": "b1"}, ["1", "2", "3"], id="empty"),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
def test_a_summary_is_told_where_it_takes_the_place_of_what_was_said(
    tmp_path: Path, latest: dict[str, Any], order: list[str], inline: bool
) -> None:
    bubbles = [
        {"bubbleId": f"b{n}", "serverBubbleId": f"s{n}", "type": 1 + (n > 1), "text": str(n)}
        for n in (1, 2, 3)
    ]
    told_of = {"conversation": bubbles} if inline else {"fullConversationHeadersOnly": bubbles}
    rows = {} if inline else {f"bubbleId__c1__{each['bubbleId']}": each for each in bubbles}
    composer = {"composerId": "c1", "createdAt": 1767323045678, "latestConversationSummary": latest}
    intel = one(tmp_path, composerData__c1={**composer, **told_of}, **rows)
    summarised = "summary" in order

    assert [turn.text.replace(SUMMARY, "summary") for turn in intel.turns] == order
    assert (intel.compactions, intel.last_message) == (int(summarised), "3")
    assert intel.decisions == (("keep the ledger as it is.",) if summarised else ())
    [listed] = lifted(CursorStore(), machine(tmp_path), Depth.LIST)
    assert told(listed) == told(intel)


@pytest.mark.parametrize(
    ("own", "latest", "order"),
    [
        pytest.param(json.dumps({"summary": SUMMARY}), "", ["1", "summary", "2", "3"], id="JSON in a text"),
        pytest.param(SUMMARY, "", ["1", "summary", "2", "3"], id="a text"),
        pytest.param({"summary": SUMMARY}, "", ["1", "summary", "2", "3"], id="an object"),
        pytest.param(json.dumps({"summary": SUMMARY}), SUMMARY, ["1", "2", "summary", "3"], id="told twice"),
        pytest.param('{"summary": "Decision: keep', "", ["1", "2", "3"], id="torn"),
        pytest.param({"summary": 7}, "", ["1", "2", "3"], id="of another shape"),
    ],
)
def test_a_summary_that_a_message_holds_is_told_before_the_message(
    tmp_path: Path, own: object, latest: str, order: list[str]
) -> None:
    bubbles: list[dict[str, Any]] = [
        {"bubbleId": f"b{n}", "type": 1 + (n > 1), "text": str(n)} for n in (1, 2, 3)
    ]
    bubbles[1]["conversationSummary"] = own
    composer: dict[str, Any] = {"composerId": "c1", "createdAt": 1767323045678, "conversation": bubbles}
    if latest:
        composer["latestConversationSummary"] = {"summary": latest, "lastBubbleId": "b3"}
    intel = one(tmp_path, composerData__c1=composer)
    summarised = "summary" in order

    assert [turn.text.replace(SUMMARY, "summary") for turn in intel.turns] == order
    assert (intel.compactions, intel.last_message) == (int(summarised), "3")
    assert intel.decisions == (("keep the ledger as it is.",) if summarised else ())
    [listed] = lifted(CursorStore(), machine(tmp_path), Depth.LIST)
    assert told(listed) == told(intel)


def test_an_error_is_a_limit_that_was_met(tmp_path: Path) -> None:
    error = {"type": 2, "bubbleId": "b", "errorDetails": {"message": "You've hit your usage limit"}}
    intel = one(tmp_path, composerData__c1=asked(error))
    assert [limit.failure.value for limit in intel.limits] == ["usage_limit"]
    assert intel.turn_open


def test_messages_that_lie_in_the_agents_own_blobs_are_read(tmp_path: Path) -> None:
    query = "<user_info>\nOS: linux\n</user_info>\n<user_query>\nAdd a flag\n</user_query>"
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": [{"type": "text", "text": query}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Added."}]},
    ]
    names = [bytes([number]) * 32 for number in range(len(messages))]
    rows = {f"agentKv__blob__{name.hex()}": each for name, each in zip(names, messages, strict=True)}
    state = "~" + base64.b64encode(b"".join(b"\x0a\x20" + name for name in names)).decode()
    composer = {"composerId": "c1", "createdAt": 1767323045678, "conversationState": state}
    intel = one(tmp_path, composerData__c1=composer, **rows)
    assert (intel.first_prompt, intel.last_message, intel.turn_open) == ("Add a flag", "Added.", False)


def test_a_conversation_whose_own_row_is_damaged_still_has_its_bubbles(tmp_path: Path) -> None:
    intel = one(
        tmp_path,
        composerData__c1='{"composerId": "c1", "createdAt": 17',
        bubbleId__c1__b={"type": 2, "text": "Done.", "createdAt": "2026-01-02T03:04:06Z"},
        bubbleId__c1__a={"type": 1, "text": "Do it", "createdAt": "2026-01-02T03:04:05Z"},
        bubbleId__c2__a={"type": 1, "text": "Not this", "createdAt": "2026-01-02T03:04:05Z"},
    )
    assert (intel.first_prompt, intel.last_message) == ("Do it", "Done.")
    assert intel.skipped == (("malformed", 1),)


@pytest.mark.parametrize("how", ["no table", "no database", "empty"])
def test_a_database_of_another_make_is_no_error(tmp_path: Path, how: str) -> None:
    path = tmp_path / ".config/Cursor/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    if how == "no table":
        sqlite3.connect(path).execute("CREATE TABLE other (x)").connection.close()
    else:
        path.write_bytes(b"" if how == "empty" else os.urandom(5000))
    assert lifted(CursorStore(), machine(tmp_path)) == []


KEYS = (
    *("type", "text", "createdAt", "toolFormerData", "tokenCount", "workspaceUris", "errorDetails", "todos"),
    *(
        "usageData",
        "modelConfig",
        "newlyCreatedFiles",
        "originalFileStates",
        "subagentInfo",
        "name",
        "status",
    ),
    *("conversationState", "subComposerIds", "latestConversationSummary", "conversationSummary"),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    wrong=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
    noise=st.one_of(st.binary(max_size=30), st.none()),
    cut=st.integers(0, 200),
)
def test_rows_of_wrong_shapes_never_raise_and_hide_no_other(
    tmp_path: Path, wrong: dict[str, Any], noise: bytes | None, cut: int
) -> None:
    path = tmp_path / ".config/Cursor/User/globalStorage/state.vscdb"
    path.unlink(missing_ok=True)
    headers = [{"bubbleId": name, "type": 1} for name in ("bad", "noise", "cut", "good", "gone")]
    good = {"type": 1, "bubbleId": "good", "text": TASK}
    former = {**wrong, "params": json.dumps(wrong)}
    put(
        path,
        composerData__c1={**wrong, "composerId": "c1", "fullConversationHeadersOnly": headers},
        composerData__c2=json.dumps({"composerId": "c2", **wrong})[:cut],
        composerData__c3=noise,
        bubbleId__c1__bad={**wrong, "toolFormerData": {**former, "name": "todo_write"}},
        bubbleId__c1__noise=noise,
        bubbleId__c1__cut=json.dumps(good)[:cut],
        bubbleId__c1__good=good,
    )
    sessions = by_id(machine(tmp_path))
    assert TASK in str(sessions["c1"].turns)


def test_an_editor_is_no_agent_and_resumes_nothing_from_outside() -> None:
    store = CursorStore()
    assert not store.runs(RunningProcess(pid=1, name="cursor", argv=("/opt/Cursor/cursor",)))
    assert store.resume_argv("x") == ()
    assert list(store.live(FILES, "/nowhere")) == []
