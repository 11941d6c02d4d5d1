from __future__ import annotations

import re
from datetime import UTC
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from relay.cli.render import HandoffClock, Style, render_event
from relay.cli.render_agent import AGENT
from relay.cli.render_session import SESSION
from relay.core.wire import EVENT_TYPES
from tests.fakes.api_server import event, fsm

STYLE = Style(zone=UTC)
LOUD = evolve(STYLE, verbose=True)


def agent(kind: str, **data: Any) -> dict[str, Any]:
    return event(1, "agent_event", {"kind": kind, "target": "one", **data})


def shown(of: dict[str, Any], style: Style = STYLE) -> list[str]:
    """The lines without the time."""
    return [line.removeprefix("12:00:01  ") for line in render_event(of, style)]


PERMISSION = {"id": "a-12345678", "status": "open", "target": "one", "deniedAt": "2026-06-03T12:05:01+00:00"}


@pytest.mark.parametrize(
    ("of", "want"),
    [
        (agent("text", text="I look first.\n"), ["one  I look first."]),
        (agent("text", text=" \n"), []),
        (agent("tool_call", tool="Bash", toolKind="shell", command="make test"), ["one  $ make test"]),
        (agent("tool_call", tool="Write", toolKind="edit", paths=["a.py", "b.py"]), ["one  edit a.py, b.py"]),
        (
            agent("tool_call", tool="Task", toolKind="subagent", detail="look around"),
            ["one  Task look around"],
        ),
        (agent("tool_result", ok=True, exitCode=0, output="fine"), ["one  exit 0"]),
        (agent("tool_result", ok=True), []),
        (
            agent("tool_result", ok=False, exitCode=2, output="a\nb\n"),
            ["one  exit 2", "            a", "            b"],
        ),
        (agent("tool_result", ok=False), ["one  failed"]),
        (agent("tool_result", ok=False, denied=True), ["one  not allowed: it did not run"]),
        (
            agent(
                "plan", items=[{"text": "a", "status": "completed"}, {"text": "b", "status": "in_progress"}]
            ),
            ["one  plan: 1 of 2 done; now: b"],
        ),
        (agent("turn_ended", outcome="completed", text="done"), []),
        (
            agent("turn_ended", outcome="failed", error={"text": "no\nmore"}),
            ["one  its turn failed: no more"],
        ),
        (
            agent("retrying", attempt=2, maxAttempts=10, delay=4.2, error={"text": "overloaded"}),
            ["one  tries again by itself in 4 s (try 2 of 10): overloaded"],
        ),
        (agent("quota", windows=[{"name": "five_hour", "fractionUsed": 0.2}]), []),
        (
            agent("quota", windows=[{"name": "five_hour", "fractionUsed": 0.9}]),
            ["one  quota: five_hour 90% used"],
        ),
        (agent("quota", windows=[{"name": "week", "rejected": True}]), ["one  quota: week used up"]),
        (agent("notice", text="heed this", level="warning"), ["one  heed this"]),
        (agent("output", stream="err", text="warn: x"), ["one  err: warn: x"]),
        (agent("a kind of a later version"), []),
        (
            fsm(1, "RUNNING", "PAUSING", reason="one: usage limit"),
            ["RUNNING -> PAUSING  one", "            one: usage limit"],
        ),
        (
            fsm(1, "ENVELOPE_BUILT", "WAITING", waitReason="nobody", wakeAt="2026-06-03T14:00:00+00:00"),
            [
                "ENVELOPE_BUILT -> WAITING  one",
                "            nobody",
                "            goes on by itself at 2026-06-03 14:00:00",
            ],
        ),
        (
            fsm(1, "ENVELOPE_BUILT", "WAITING", wakeAt=None),
            [
                "ENVELOPE_BUILT -> WAITING  one",
                "            waits for you: relay resume, relay reply, relay handoff or relay stop",
            ],
        ),
        (
            fsm(1, "RUNNING", "COMPLETED", endReason="the acceptance commands passed"),
            ["RUNNING -> COMPLETED  one", "            the acceptance commands passed"],
        ),
        (fsm(1, "ENVELOPE_BUILT", "ENVELOPE_BUILT"), []),
        (
            event(
                1,
                "session",
                {
                    "goal": "g",
                    "branch": "relay/s",
                    "worktree": "/w",
                    "chain": ["one", "two"],
                    "carriedFiles": 3,
                    "notes": ["a submodule is empty"],
                },
            ),
            [
                "task: g",
                "            branch relay/s, worktree /w",
                "            chain one -> two",
                "            3 changed files of your checkout carried along (--clean leaves them out)",
                "            a submodule is empty",
            ],
        ),
        (
            event(1, "session", {"recovered": True, "state": "RUNNING"}),
            ["the daemon is back and follows on (RUNNING)"],
        ),
        (
            event(
                1,
                "failure",
                {
                    "target": "one",
                    "class": "usage_limit",
                    "resetsAt": "2026-06-03T14:00:00+00:00",
                    "decision": "HandOff",
                    "text": "limit",
                },
            ),
            ["one: usage limit, resets at 2026-06-03 14:00:00; handed off"],
        ),
        (event(1, "gate", {"forced": False}), ["safe point reached"]),
        (event(1, "gate", {"forced": True}), ["stopped in the middle of a tool call: the deadline is over"]),
        (
            event(1, "snapshot", {"commit": "c" * 40, "diffStat": "1 file changed", "leftOut": ["big.bin"]}),
            ["snapshot cccccccccc: 1 file changed", "            left out: big.bin"],
        ),
        (event(1, "contract", {"id": "c-1"}), ["contract c-1 signed"]),
        (
            event(
                1,
                "dispatched",
                {"run": 2, "target": "two", "pid": 7, "nativeResume": True, "drift": ["a.py"]},
            ),
            [
                "run 2: two started by resuming its own session (pid 7)",
                "            changed since the contract: a.py",
            ],
        ),
        (
            event(
                1,
                "verify",
                {
                    "passed": False,
                    "commands": [{"command": "make", "status": 2, "seconds": 1.25, "passed": False}],
                },
            ),
            ["verify failed", "            $ make: exit 2, 1.2 s"],
        ),
        (
            event(
                1, "approval", {**PERMISSION, "toolKind": "shell", "tool": "Bash", "command": "rm -rf build"}
            ),
            [
                "one wants to run: rm -rf build",
                "            yes: relay approvals approve a-12345678",
                "            no:  relay approvals deny a-12345678 (denied at 12:05:01)",
            ],
        ),
        (
            event(
                1, "approval", {**PERMISSION, "toolKind": "ask", "question": "Which?", "options": ["x", "y"]}
            ),
            [
                "one asks: Which?",
                "            - x",
                "            - y",
                "            answer: relay approvals approve a-12345678 --note 'your answer'"
                " (denied at 12:05:01)",
            ],
        ),
        (event(1, "approval", {"id": "a-1", "status": "denied", "by": "owner"}), ["a-1 denied by owner"]),
        (event(1, "command", {"command": "Pause", "by": "owner"}), ["pause asked for by owner"]),
        (event(1, "reply", {"text": "use tabs", "by": "owner"}), ["reply by owner: use tabs"]),
        (event(1, "merged", {"branch": "main"}), ["merged into main"]),
        (event(1, "child_gone", {"run": 1, "how": "TERM", "left": []}), []),
        (
            event(1, "child_gone", {"run": 1, "how": "KILL", "left": [7, 8]}),
            ["run 1: processes that would not end: 7, 8"],
        ),
        (
            event(1, "effect_failed", {"effect": "TakeSnapshot", "message": "no space", "hint": "make room"}),
            ["TakeSnapshot failed: no space", "            make room"],
        ),
        (event(1, "a type of a later version", {"x": 1}), []),
    ],
)
def test_the_lines_of_an_event(of: dict[str, Any], want: list[str]) -> None:
    assert shown(of) == want


@pytest.mark.parametrize(
    ("of", "want"),
    [
        (agent("usage", usage={"input": 10, "output": 5}), ["one  used 15 tokens"]),
        (agent("turn_started"), ["one  begins a turn"]),
        (agent("later", x=1), ["one  later {'kind': 'later', 'target': 'one', 'x': 1}"]),
        (event(1, "child_gone", {"run": 1, "how": "TERM"}), ["run 1 is gone, by SIGTERM"]),
        (
            agent("plan", items=[{"text": "a", "status": "completed"}, {"text": "b"}]),
            ["one  plan: 1 of 2 done", "            [x] a", "            [ ] b"],
        ),
    ],
)
def test_verbose_shows_the_rest(of: dict[str, Any], want: list[str]) -> None:
    assert len(shown(of)) < len(want)
    assert shown(of, LOUD) == want


def test_every_kind_of_event_has_its_words() -> None:
    assert set(AGENT) == set(EVENT_TYPES) - {"text_delta", "unknown"}


def test_what_an_agent_says_cannot_drive_the_terminal() -> None:
    hostile = "a\x1b[2J\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\r\nf\x08\x00"

    assert shown(agent("text", text=hostile)) == ["one  abcde", "               f"]


def test_a_long_text_is_wrapped_under_itself_and_cut() -> None:
    style = evolve(STYLE, width=40)

    assert render_event(agent("text", text="word " * 12), style) == [
        "12:00:01  one  word word word word word",
        "               word word word word word",
        "               word word",
    ]
    many = render_event(agent("text", text="x\n" * 100), style)
    assert len(many) == 41
    assert "60 more lines" in many[-1]
    assert len(render_event(agent("text", text="x\n" * 100), evolve(style, verbose=True))) == 100


def test_colour_is_put_around_words_and_only_where_it_is_wanted() -> None:
    of = fsm(1, "RUNNING", "FAILED", endReason="because")

    plain, coloured = render_event(of, STYLE), render_event(of, evolve(STYLE, colour=True))

    assert "\x1b[31mRUNNING -> FAILED  one\x1b[0m" in coloured[0]
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain


def test_the_milliseconds_of_a_handoff() -> None:
    clock = HandoffClock()
    events = [
        event(1, "contract", {"id": "before"}),
        fsm(2, "RUNNING", "PAUSING"),
        event(3, "gate", {}),
        fsm(5, "RESUMING", "RUNNING"),
        event(6, "contract", {"id": "after"}),
    ]

    assert [clock.milliseconds(of) for of in events] == [None, 0, 1000, 3000, None]
    assert render_event(events[2], STYLE, since_ms=1000) == ["12:00:03  safe point reached  (+1000 ms)"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = """
kind target text toolKind tool command paths detail ok exitCode output denied items usage windows
outcome error attempt maxAttempts delay level stream from to reason waitReason wakeAt endReason goal
chain carriedFiles notes class resetsAt decision commit diffStat leftOut id run pid drift left how
passed commands status question options deniedAt by note recovered
"""


@given(
    kind=st.sampled_from([*SESSION, "agent_event", "other"]),
    speaks=st.sampled_from([*AGENT, "other"]),
    data=st.dictionaries(st.sampled_from(_NAMES.split()), _JSON) | _JSON,
    ts=st.sampled_from(["2026-06-03T12:00:01+00:00", "2026-06-03", "x"]) | _JSON,
    width=st.integers(0, 60),
    verbose=st.booleans(),
)
def test_no_event_of_whatever_shape_is_an_error_or_reaches_the_terminal_raw(
    kind: str, speaks: str, data: Any, ts: Any, width: int, verbose: bool
) -> None:
    if isinstance(data, dict) and kind == "agent_event":
        data = {**data, "kind": speaks}

    lines = render_event(
        {"type": kind, "data": data, "ts": ts}, Style(width=width, verbose=verbose, zone=UTC)
    )

    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", "".join(lines))
