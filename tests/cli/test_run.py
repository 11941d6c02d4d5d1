from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from relay.cli import follow
from tests.fakes.api_server import ApiServer, Asked, event, fsm, refusal, session

BEGUN = {
    "sessionId": "s-aaaaaa",
    "worktree": "/w",
    "branch": "relay/s-aaaaaa",
    "notes": ["codex is not installed"],
}
STORY = [
    event(1, "session", {"goal": "mend it", "branch": "relay/s-aaaaaa", "worktree": "/w", "chain": ["one"]}),
    event(2, "agent_event", {"kind": "text", "target": "one", "text": "I mend it."}),
    fsm(3, "RUNNING", "COMPLETED", endReason="the acceptance commands passed"),
]


@pytest.fixture
def ready(server: ApiServer) -> ApiServer:
    """A daemon with a session that runs through at once."""
    server.answers["POST /api/sessions"] = (200, BEGUN)
    server.views = [session("s-aaaaaa", "COMPLETED", endReason="the acceptance commands passed")]
    server.events = list(STORY)
    server.answers["GET /api/approvals"] = (200, [])
    return server


def body_of(server: ApiServer) -> dict[str, object]:
    return dict(server.posted()[0][1])


def test_what_is_not_said_is_left_to_relay_toml(relay, ready: ApiServer, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert relay("run", "mend it").code == 0
    assert body_of(ready) == {"task": "mend it", "cwd": str(tmp_path)}


def test_every_option_reaches_the_daemon(relay, ready: ApiServer, tmp_path: Path) -> None:
    ran = relay(
        *("run", "mend it", "-p", "one/work, two", "--profile", "careful", "-f", "0.5", "-n", "0"),
        *("--verify", "make test", "--verify", "make lint", "--allow", "ask", "--model", "big"),
        *("--in-place", "--clean", "--cwd", str(tmp_path), "-y"),
    )

    assert ran.code == 0
    assert body_of(ready) == {
        "task": "mend it",
        "cwd": str(tmp_path),
        "providers": ["one/work", "two"],
        "profile": "careful",
        "threshold": 0.5,
        "maxHandoffs": 0,
        "verify": ["make test", "make lint"],
        "allow": "ask",
        "model": "big",
        "inPlace": True,
        "clean": True,
    }


def test_the_session_is_followed_to_its_end(relay, ready: ApiServer) -> None:
    ran = relay("run", "mend it")

    lines = [line[10:] if line[:2] == "12" else line for line in ran.out.split("\n")]
    assert lines == [
        "session s-aaaaaa",
        "note: codex is not installed",
        "task: mend it",
        "            branch relay/s-aaaaaa, worktree /w",
        "            chain one",
        "one  I mend it.",
        "RUNNING -> COMPLETED  one",
        "            the acceptance commands passed",
        "",
        "ended   COMPLETED: the acceptance commands passed",
        "branch  relay/s-aaaaaa",
        "work    1 file changed",
        "next    relay diff s-aaaaaa",
        "        relay merge s-aaaaaa",
        "        relay discard s-aaaaaa",
        "",
    ]


@pytest.mark.parametrize(("ended", "want"), [("COMPLETED", 0), ("FAILED", 1), ("STOPPED", 1)])
def test_the_exit_code_says_how_it_ended(ended: str, want: int, relay, ready: ApiServer) -> None:
    ready.views = [session("s-aaaaaa", ended)]
    ready.events[-1] = fsm(3, "RUNNING", ended)

    assert relay("run", "mend it").code == want
    assert relay("attach", "s-aaaaaa").code == want


def test_json_is_the_events_one_a_line(relay, ready: ApiServer) -> None:
    ran = relay("run", "mend it", "--json")

    assert [json.loads(line) for line in ran.out.strip().split("\n")] == STORY


def test_quiet_says_the_end_alone(relay, ready: ApiServer) -> None:
    assert relay("run", "mend it", "--quiet").out.startswith("ended   COMPLETED")


def test_detached_it_says_how_to_follow(relay, ready: ApiServer) -> None:
    assert (
        relay("run", "x", "--detach").out
        == "session s-aaaaaa is under way\nfollow it: relay attach s-aaaaaa\n"
    )
    assert relay("run", "x", "--detach", "--quiet").out == "s-aaaaaa\n"
    assert json.loads(relay("run", "x", "--detach", "--json").out) == BEGUN


def test_a_refused_start_ends_with_its_exit_code(relay, ready: ApiServer) -> None:
    ready.answers["POST /api/sessions"] = refusal(
        403, "not_trusted", "relay.toml is not trusted", "relay trust"
    )

    ran = relay("run", "mend it")

    assert (ran.code, ran.err) == (4, "error: relay.toml is not trusted\n  relay trust\n")


def test_events_that_come_later_are_shown_once_and_in_order(relay, ready: ApiServer) -> None:
    ready.events = STORY[:1]

    def events(asked: Asked) -> tuple[int, object]:
        after = int(asked.query["after"])
        if after == len(ready.events) < len(STORY):
            ready.events = STORY[: after + 1]
            return 200, []
        return 200, [of for of in ready.events if of["seq"] > after]

    ready.answers["GET /api/sessions/s-aaaaaa/events"] = events

    ran = relay("run", "mend it", "--json")

    assert [json.loads(line)["seq"] for line in ran.out.strip().split("\n")] == [1, 2, 3]


def test_a_session_that_ended_without_a_word_is_noticed(relay, ready: ApiServer, monkeypatch) -> None:
    monkeypatch.setattr(follow, "LOOK_SECONDS", 0.0)
    ready.views = [session("s-aaaaaa", "FAILED", endReason="its actor keeps failing")]
    ready.events = STORY[:2]

    ran = relay("run", "mend it")

    assert ran.code == 1
    assert "ended   FAILED: its actor keeps failing" in ran.out


def test_a_daemon_that_comes_back_on_another_port_loses_nothing(
    relay, ready: ApiServer, tmp_path: Path
) -> None:
    later = ApiServer(ready.state, views=ready.views, events=ready.events)

    def leave(asked: Asked) -> tuple[int, object]:
        # What a killed daemon leaves behind: a cut connection, and soon a file of the next one.
        later.__enter__()
        return 200, b""

    ready.answers["GET /api/sessions/s-aaaaaa/events"] = (200, STORY[:1])

    def first(asked: Asked) -> tuple[int, object]:
        ready.answers["GET /api/sessions/s-aaaaaa/events"] = leave
        return 200, STORY[:1]

    ready.answers["GET /api/sessions/s-aaaaaa/events"] = first
    try:
        ran = relay("run", "mend it", "--json")
    finally:
        later.__exit__()

    assert [json.loads(line)["seq"] for line in ran.out.strip().split("\n")] == [1, 2, 3]
    assert "the daemon is away" in ran.err


def test_a_daemon_that_stays_away_is_told_with_what_to_do(relay, ready: ApiServer, monkeypatch) -> None:
    monkeypatch.setattr(follow, "AWAY_SECONDS", 0.0)
    ready.answers["GET /api/sessions/s-aaaaaa/events"] = (200, b"")

    ran = relay("run", "mend it")

    assert ran.code == 3
    assert "relay attach s-aaaaaa" in ran.err


def test_attach_shows_the_last_events_of_a_long_session(relay, ready: ApiServer) -> None:
    texts = [
        event(seq, "agent_event", {"kind": "text", "target": "one", "text": f"n{seq}"})
        for seq in range(1, 51)
    ]
    ready.events = [*texts, fsm(51, "RUNNING", "COMPLETED")]

    ran = relay("attach")

    assert "[... 21 earlier events: relay logs s-aaaaaa]" in ran.out
    assert "n21" not in ran.out
    assert "n22\n" in ran.out


def test_logs_prints_all_or_the_last(relay, ready: ApiServer) -> None:
    assert [json.loads(line) for line in relay("logs", "--json").out.strip().split("\n")] == STORY
    assert [json.loads(line) for line in relay("logs", "-n", "1", "--json").out.strip().split("\n")] == STORY[
        2:
    ]
    assert relay("logs", "-n", "0").out == ""


def test_logs_follows_to_the_end(relay, ready: ApiServer) -> None:
    ready.views = [session("s-aaaaaa", "RUNNING")]
    ready.events = STORY[:2]

    def events(asked: Asked) -> tuple[int, object]:
        if asked.query["after"] == "2":
            ready.events = list(STORY) if len(asked_after_two) else ready.events
            asked_after_two.append(asked)
        return 200, [of for of in ready.events if of["seq"] > int(asked.query["after"])]

    asked_after_two: list[Asked] = []
    ready.answers["GET /api/sessions/s-aaaaaa/events"] = events

    ran = relay("logs", "-f", "--json")

    assert [json.loads(line)["seq"] for line in ran.out.strip().split("\n")] == [1, 2, 3]


def test_a_task_can_come_from_stdin(relay, ready: ApiServer, monkeypatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("a long\ntask\n"))

    assert relay("run", "-").code == 0
    assert body_of(ready)["task"] == "a long\ntask\n"


def test_nothing_is_cut_where_no_terminal_is(relay, ready: ApiServer, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: pytest.fail("no terminal is asked"))
    ready.events[1] = event(2, "agent_event", {"kind": "text", "target": "one", "text": "word " * 100})

    assert ("word " * 100).strip() in relay("run", "mend it").out
