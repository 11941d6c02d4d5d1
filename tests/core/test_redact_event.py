from __future__ import annotations

import pickle
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import attrs
import pytest

from relay.core import events as ev
from relay.core.redact import DEFAULT
from tests.fakes.secrets import BY_ID, random_token

TOKEN = BY_ID["github_pat"].text
MARK = "[REDACTED:github_pat]"
ASSIGNED = "[REDACTED:env_assign]"

ERROR = ev.ErrorSignal(channel=ev.Channel.EVENT, text="boom", code="c", http_status=429)
SAMPLES: tuple[Any, ...] = (
    ev.AgentStarted(native_id="n", model="m", cwd="/w", version="1"),
    ev.AgentText(text="hello"),
    ev.AgentTextDelta(text="hel"),
    ev.AgentThinking(text="hm"),
    ev.UserText(text="do it", synthetic=True),
    ev.ToolCall(
        call_id="c",
        tool="Bash",
        tool_kind=ev.ToolKind.SHELL,
        paths=("a", "b"),
        command="ls",
        detail="d",
        parent="p",
    ),
    ev.ToolResult(call_id="c", ok=True, exit_code=0, output="out"),
    ev.PlanUpdated(items=(ev.PlanItem(text="one"), ev.PlanItem(text="two", status=ev.TaskStatus.COMPLETED))),
    ev.UsageReported(usage=ev.TokenUsage(input=1, output=2), cost_usd=0.1),
    ev.QuotaReported(
        windows=(
            ev.QuotaWindow(name="five_hour", fraction_used=0.5, resets_at=datetime(2026, 1, 1, tzinfo=UTC)),
        )
    ),
    ev.PermissionAsked(
        request_id="r",
        tool="Edit",
        tool_kind=ev.ToolKind.EDIT,
        call_id="c",
        paths=("a",),
        command="x",
        detail="d",
        question="q",
        options=("yes", "no"),
    ),
    ev.Retrying(attempt=1, error=ERROR),
    ev.TurnStarted(turn_id="t"),
    ev.TurnEnded(
        outcome=ev.TurnOutcome.FAILED,
        text="t",
        error=ERROR,
        verdict=ev.Verdict(failure=ev.FailureClass.AUTH, why="w"),
    ),
    ev.Notice(text="n", level="info"),
    ev.RawOutput(stream="out", text="raw"),
    ev.UnknownRecord(record_type="x", record={"a": {"b": ["c", {"d": "e"}]}, "n": 1}),
)


def planted(value: Any) -> list[Any]:
    """Copies of `value`, each with the token in another one of its strings."""
    if type(value) is str:
        return [f"{value} {TOKEN} ."]
    if isinstance(value, Enum):
        return []
    if isinstance(value, Mapping):
        inside = [{**value, key: new} for key, item in value.items() for new in planted(item)]
        return [*inside, {**value, TOKEN: 1}]
    if isinstance(value, (list, tuple)):
        return [
            type(value)([*value[:n], new, *value[n + 1 :]])
            for n, item in enumerate(value)
            for new in planted(item)
        ]
    if attrs.has(type(value)):
        return [
            attrs.evolve(value, **{each.alias: new})
            for each in attrs.fields(type(value))
            for new in planted(getattr(value, each.name))
        ]
    return []


def test_the_samples_are_all_the_events_there_are() -> None:
    assert {type(sample) for sample in SAMPLES} == set(typing.get_args(ev.AgentEvent))


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.kind)
def test_a_clean_event_is_the_same_object(event: Any) -> None:
    done, counts = DEFAULT.redact_event(event)
    assert done is event
    assert counts == {}


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.kind)
def test_a_secret_in_any_string_of_any_event_is_replaced(event: Any) -> None:
    cases = planted(event)
    assert cases or isinstance(event, ev.UsageReported)
    for case in cases:
        done, counts = DEFAULT.redact_event(case)
        assert type(done) is type(event)
        assert repr(done) == repr(case).replace(TOKEN, MARK)
        assert counts == {"github_pat": 1}
        again, none = DEFAULT.redact_event(done)
        assert again is done
        assert none == {}
        assert pickle.loads(pickle.dumps(done)) == done


def test_what_did_not_change_is_not_copied() -> None:
    event = ev.TurnEnded(outcome=ev.TurnOutcome.FAILED, text=TOKEN, error=ERROR)
    done, _ = DEFAULT.redact_event(event)
    assert done == attrs.evolve(event, text=MARK)
    assert done.error is ERROR


def test_a_key_block_in_one_field_does_not_reach_into_the_next() -> None:
    half = BY_ID["pem_rsa"].text[:200]
    call = ev.ToolCall(
        call_id="c", tool="Bash", tool_kind=ev.ToolKind.SHELL, command=half, detail="A1b2" * 20
    )
    done, counts = DEFAULT.redact_event(call)
    assert done == attrs.evolve(call, command="[REDACTED:pem_rsa]")
    assert counts == {"pem_rsa": 1}


def test_values_under_telling_keys() -> None:
    opaque = random_token("", 30, seed=5)
    record = {
        "password": opaque,
        "Authorization": f"Bearer {opaque}",
        "nested": [{"api_key": opaque, "name": opaque}],
        "token_count": opaque,
        "token": "see the manual",
        "input_tokens": 12345,
    }
    done, counts = DEFAULT.redact_value(record)
    assert done == {
        "password": ASSIGNED,
        "Authorization": "Bearer [REDACTED:bearer]",
        "nested": [{"api_key": ASSIGNED, "name": opaque}],
        "token_count": opaque,
        "token": "see the manual",
        "input_tokens": 12345,
    }
    assert counts == {"env_assign": 2, "bearer": 1}
    assert DEFAULT.redact_value(done) == (done, {})


def test_a_vendor_token_under_a_telling_key_keeps_its_kind() -> None:
    assert DEFAULT.redact_value({"GH_TOKEN": TOKEN}) == ({"GH_TOKEN": MARK}, {"github_pat": 1})


def test_values_keep_their_types() -> None:
    value = {"a": [TOKEN, None, True, 1.5], "b": (TOKEN, "x"), "c": TOKEN}
    done, counts = DEFAULT.redact_value(value)
    assert done == {"a": [MARK, None, True, 1.5], "b": (MARK, "x"), "c": MARK}
    assert counts == {"github_pat": 3}
    for plain in ("x", 1, None, [], {}, {"a": ["b"]}):
        assert DEFAULT.redact_value(plain)[0] is plain


def test_secret_keys_do_not_swallow_each_others_values() -> None:
    value = {TOKEN: 1, TOKEN[:-1] + "x": 2}
    assert DEFAULT.redact_value(value)[0] == {MARK: 1, f"{MARK}#2": 2}
