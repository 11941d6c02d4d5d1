"""What is read of the scripts of Codex's code mode, and what is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.providers.js_literals import tool_calls

Calls = list[tuple[str, object]]
CASES: dict[str, tuple[str, Calls]] = {
    "json": (
        'const r = await tools.update_plan({"plan": [{"step": "a"}]});',
        [("update_plan", {"plan": [{"step": "a"}]})],
    ),
    "bare keys and single quotes": (
        "tools.f({plan: [{step: 'it\\'s', status: 'pending'},],})",
        [("f", {"plan": [{"step": "it's", "status": "pending"}]})],
    ),
    "brackets in a text": ('tools.f({"a": "x}) y"})', [("f", {"a": "x}) y"})]),
    "a variable": ("const plan = [{step: 'a'}];\nawait tools.f({plan})", [("f", {"plan": [{"step": "a"}]})]),
    "a variable of another name": ("let p = 'x'; tools.f({q: p})", [("f", {"q": "x"})]),
    "a template": (
        "tools.apply_patch(`*** Begin Patch\n+a \\`b\\`\n`)",
        [("apply_patch", "*** Begin Patch\n+a `b`\n")],
    ),
    "a raw template": ("tools.p(String.raw`a\\n`)", [("p", "a\\n")]),
    "texts put together": ("tools.p('a' + \"b\\n\" + `c`)", [("p", "ab\nc")]),
    "lines put together": ("tools.p(['a', 'b'].join('\\n'))", [("p", "a\nb")]),
    "comments": ("tools.f(/* now */ {a: 1, // one\n b: true})", [("f", {"a": 1, "b": True})]),
    "numbers": ("tools.f([1, -2.5, 0x10, 1e3, null, undefined])", [("f", [1, -2.5, 16, 1000.0, None, None])]),
    "escapes": (r"tools.f('\u{1F600}\ud83d\ude00\x41\t')", [("f", "\U0001f600\U0001f600A\t")]),
    "a lone surrogate": (r"tools.f('\ud83d')", [("f", "\ufffd")]),
    "by brackets": ("tools['f']({a: 1})", [("f", {"a": 1})]),
    "two calls": ("await Promise.all([tools.a({x: 1}), tools.b({})])", [("a", {"x": 1}), ("b", {})]),
    "what is computed": ("tools.f({a: g(1)}); tools.h(x.y)", [("f", None), ("h", None)]),
    "a name that is not there": ("tools.f({plan})", [("f", None)]),
    "a name that is itself": ("const a = a; tools.f(a)", [("f", None)]),
    "in a text": ("write('tools.f({})'); // tools.g({})\n/* tools.h() */", []),
    "cut off": ("tools.f({a: [1, ", [("f", None)]),
    "too deep": ("tools.f(" + "[" * 5000 + ")", [("f", None)]),
    "no call": ("const tools = 1", []),
}


@pytest.mark.parametrize(("script", "calls"), CASES.values(), ids=CASES.keys())
def test_the_calls_of_a_script(script: str, calls: list[tuple[str, object]]) -> None:
    assert list(tool_calls(script)) == calls


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_as_it_is(value: object) -> None:
    assert list(tool_calls(f"text(await tools.f({json.dumps(value)}));")) == [("f", value)]


@given(st.text(alphabet="tools.f({[]})'\"`,:+-/*\\ \n1a$", max_size=80))
def test_no_script_raises(script: str) -> None:
    list(tool_calls(script))
