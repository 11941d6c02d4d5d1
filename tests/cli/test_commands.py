"""What the commands ask of the daemon, and what they print of its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.cli.sessions import session_facts, tree_lines
from relay.cli.tables import pairs, table
from tests.fakes.api_server import ApiServer, refusal, session

DONE = session("s-done11", "COMPLETED", endReason="all is well", branch="relay/s-done11")


@pytest.mark.parametrize(
    ("arguments", "want_path", "want_body", "want_words"),
    [
        (["handoff"], "handoff", {"to": ""}, "s-aaaaaa hands over at the next safe point\n"),
        (["handoff", "s-aa", "--to", "two/work"], "handoff", {"to": "two/work"}, "s-aaaaaa hands over"),
        (["pause"], "pause", {}, "s-aaaaaa pauses"),
        (["resume", "aaa"], "resume", {}, "s-aaaaaa goes on"),
        (["stop"], "stop", {}, "s-aaaaaa is being stopped"),
        (["reply", "use tabs"], "reply", {"reply": "use tabs"}, "s-aaaaaa is told"),
        (["reply", "s-aaaaaa", "use", "tabs"], "reply", {"reply": "use tabs"}, "s-aaaaaa is told"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_acting_on_a_session(
    arguments: list[str], want_path: str, want_body: Any, want_words: str, relay, server: ApiServer
) -> None:
    server.views = [session(), DONE]
    server.answers[f"POST /api/sessions/s-aaaaaa/{want_path}"] = (200, {"sessionId": "s-aaaaaa"})

    ran = relay(*arguments)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(want_words)
    assert server.posted() == [(f"/api/sessions/s-aaaaaa/{want_path}", want_body)]


def test_a_reply_that_has_to_wait_is_said_to(relay, server: ApiServer) -> None:
    server.views = [session()]
    server.answers["POST /api/sessions/s-aaaaaa/reply"] = (200, {"queued": True})

    assert relay("reply", "use tabs").out == "s-aaaaaa is told when it goes on\n"


def test_a_reply_without_quotes_says_so(relay, server: ApiServer) -> None:
    server.views = [session()]

    ran = relay("reply", "use", "tabs")

    assert ran.code == 5
    assert "put the text in quotes" in ran.err


def test_several_sessions_under_way_have_to_be_told_apart(relay, server: ApiServer) -> None:
    server.views = [session("s-bbbbbb"), session("s-aaaaaa")]

    ran = relay("stop")

    assert ran.code == 1
    assert "2 sessions are under way:\n  s-bbbbbb  mend the tests\n  s-aaaaaa" in ran.err
    assert server.posted() == []


def test_status_lists_what_is_under_way(relay, server: ApiServer) -> None:
    server.views = [session(live={"openPermissions": 2}), DONE]

    assert relay("status").out == (
        "session     state    agent        handoffs  repository  task\n"
        "s-aaaaaa    RUNNING  one/default  0         app         mend the tests\n"
        "2 requests for permission: relay approvals\n"
    ).replace("session     ", "session   ").replace("s-aaaaaa    ", "s-aaaaaa  ")
    assert [view["sessionId"] for view in json.loads(relay("status", "--json").out)] == ["s-aaaaaa"]


def test_status_of_nothing(relay, server: ApiServer) -> None:
    server.views = [DONE]

    assert relay("status").out == 'no session is under way; begin one: relay run "the task"\n'


def test_status_of_one_session(relay, server: ApiServer) -> None:
    server.views = [
        session(
            "s-aaaaaa",
            "WAITING",
            waitReason="nobody to go on with",
            wakeAt="2026-06-03T14:00:00+00:00",
            hfsScore=0.875,
            verify=["make test"],
            verified=False,
            runs=[
                {
                    "number": 1,
                    "target": "one",
                    "tokens": 5,
                    "endedAt": "2026-06-03T12:00:00+00:00",
                    "whyEnded": "KILL",
                }
            ],
        )
    ]

    shown = dict(line.split(maxsplit=1) for line in relay("status", "s-aaa").out.strip().split("\n"))

    assert shown["state"] == "WAITING"
    assert shown["waits"] == "nobody to go on with"
    assert shown["fidelity"] == "88 %"
    assert shown["verified"] == "failed"
    assert shown["runs"].startswith("1: one, 5 tokens, ended 2026-06-03")
    assert shown["runs"].endswith("by SIGKILL")


@pytest.mark.parametrize(
    ("status", "verb", "how"), [(0, "ended", "by itself"), (None, "was gone", "without a status")]
)
def test_a_run_that_went_down_with_its_machine_is_not_told_as_one_that_ended(
    status: int | None, verb: str, how: str
) -> None:
    run = {"number": 1, "target": "one", "endedAt": "2026-06-03T12:00:00+00:00", "whyEnded": "ended"}

    said = str(dict(session_facts(session("s-aaaaaa", runs=[{**run, "status": status}])))["runs"])

    assert said.startswith(f"1: one, 0 tokens, {verb} 2026-06-03")
    assert said.endswith(how)


def test_the_tree(relay, server: ApiServer) -> None:
    tree = {
        "name": "root",
        "children": [{"name": "hub"}, {"name": "sessions", "state": "1", "children": [{"name": "s-1"}]}],
    }
    server.answers["GET /api/status"] = (200, {"tree": tree})

    assert relay("status", "--tree").out == "root\n  hub\n  sessions  1\n    s-1\n"
    assert tree_lines({}) == ["?"]


def test_sessions_shows_twenty_unless_all_are_wanted(relay, server: ApiServer) -> None:
    server.views = [session(f"s-{number:06}", "COMPLETED") for number in range(25)]

    assert "[... 5 older ones: relay sessions --all]" in relay("sessions").out
    assert relay("sessions", "--all").out.count("s-0000") == 25
    assert len(json.loads(relay("sessions", "--json").out)) == 25


def test_diff_prints_the_patch_as_it_is(relay, server: ApiServer) -> None:
    server.views = [DONE]
    patch = "diff --git a/x b/x\n+a\x1b[31mb\u202e\n"
    server.answers["GET /api/sessions/s-done11/diff"] = (
        200,
        {"stat": "1 file changed", "patch": patch, "cut": True},
    )

    ran = relay("diff")

    assert ran.out == patch
    assert "not the whole patch" in ran.err
    assert relay("diff", "--stat").out == "1 file changed\n"


def test_merge_and_discard(relay, server: ApiServer) -> None:
    server.views = [DONE]
    server.answers["POST /api/sessions/s-done11/merge"] = (200, {"branch": "main", "commit": "c", "files": 3})
    server.answers["POST /api/sessions/s-done11/discard"] = (
        200,
        {"keptAs": "refs/x", "hint": "git branch b refs/x"},
    )

    assert relay("merge").out.startswith("merged relay/s-done11 into main (3 files)\n")
    assert relay("discard", "s-done11", "--force").out == (
        "discarded s-done11; its work is kept as refs/x\ngit branch b refs/x\n"
    )
    assert server.posted()[1] == ("/api/sessions/s-done11/discard", {"force": True})


def test_a_refused_merge(relay, server: ApiServer) -> None:
    server.views = [DONE]
    server.answers["POST /api/sessions/s-done11/merge"] = refusal(
        409, "conflict", "a.py is not committed", "commit"
    )

    assert relay("merge").code == 1


def test_the_contract_is_printed_clean(relay, server: ApiServer) -> None:
    server.views = [DONE]
    server.answers["GET /api/contract"] = (200, {"markdown": "# Goal\x1b[2J\n", "path": "/x/envelope.md"})

    assert relay("contract", "s-done").out == "# Goal\n\n/x/envelope.md (signature verified)\n"
    assert server.asked[-1].query == {"session": "s-done11"}


def test_approvals(relay, server: ApiServer) -> None:
    asked = {
        "id": "a-1",
        "session": "s-aaaaaa",
        "target": "one",
        "toolKind": "shell",
        "command": "make\n deploy",
    }
    server.answers["GET /api/approvals"] = (
        200,
        [asked, {"id": "a-2", "toolKind": "ask", "question": "Which?"}],
    )
    server.answers["POST /api/approvals/a-1"] = (200, {"id": "a-1", "approved": True})

    lines = relay("approvals").out.split("\n")
    assert lines[1].endswith("run: make deploy")
    assert lines[2].endswith("Which?")
    assert relay("approvals", "approve", "a-1", "--note", "go").out == "a-1 approved\n"
    assert relay("approvals", "deny", "a-1").out == "a-1 denied\n"
    assert server.posted() == [
        ("/api/approvals/a-1", {"approved": True, "note": "go"}),
        ("/api/approvals/a-1", {"approved": False, "note": ""}),
    ]


def test_providers_and_circuit(relay, server: ApiServer) -> None:
    view = {
        "name": "one",
        "installed": True,
        "enabled": True,
        "state": "open",
        "fractionUsed": 0.5,
        "reason": "limit",
    }
    server.answers["GET /api/providers"] = (200, [view, {"name": "two", "installed": False}])
    server.answers["GET /api/circuit"] = (200, [])
    server.answers["POST /api/circuit"] = (200, {"target": "one", "state": "isolated"})

    assert relay("providers").out.split("\n")[1].split() == ["one", "yes", "open", "50", "%", "limit"]
    assert relay("circuit").out == "no login has been used yet\n"
    assert relay("circuit", "isolate", "one").out == "one is isolated\n"
    relay("circuit", "restore", "one")
    assert [body for _, body in server.posted()] == [
        {"target": "one", "isolated": True},
        {"target": "one", "isolated": False},
    ]


def test_redactions(relay, server: ApiServer) -> None:
    server.answers["GET /api/redactions"] = (200, {"total": 3, "kinds": {"aws": 1, "github": 2}})

    assert relay("redactions").out == "kind    secrets\ngithub  2\naws     1\n"


def test_ui_prints_the_link(relay, server: ApiServer) -> None:
    server.answers["POST /api/ticket"] = (200, {"url": "http://127.0.0.1:1/enter?ticket=x"})

    assert relay("ui").out == "http://127.0.0.1:1/enter?ticket=x\n"


def test_a_table_fits_the_terminal_and_shows_no_controls() -> None:
    rows = [("a\x1b[31m", "RUNNING", "long " * 20), ("b\nc", "x", "")]

    plain = table(("one", "two", "three"), rows, width=0, colour=False)
    narrow = table(("one", "two", "three"), rows, width=40, colour=False)

    assert plain.split("\n") == [
        "one  two      three",
        f"a    RUNNING  {('long ' * 20).strip()}",
        "b c  x",
    ]
    assert max(len(line) for line in narrow.split("\n")) <= 40
    assert "\x1b[32mRUNNING" in table(("s",), [("RUNNING",)], width=20, colour=True)


def test_pairs_leave_out_what_is_empty() -> None:
    assert pairs([("a", 0), ("bcd", ""), ("e", None), ("f", "x\ny")]) == "a  0\nf  x\n   y"
