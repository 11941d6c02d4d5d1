"""Texts made to be slow. A wrong pattern takes hours on these; a right one a moment, on any machine."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from relay.core.redact import DEFAULT
from relay.core.redact_stream import StreamRedactor
from tests.fakes.secrets import BEGIN_KEY, END_KEY, SECRETS

SIZE = 1 << 19
BASE64 = string.ascii_letters + string.digits

REPEATED = [
    "a:",
    "a",
    "_",
    "-",
    ".",
    "=",
    ":",
    "/",
    "\\",
    '"',
    " ",
    "\n",
    "token=",
    "secret:",
    "token:token=",
    'password="',
    "api_key=x",
    "api_key",
    "Authorization: Bearer ",
    "://",
    "://a:",
    "://a:b",
    ":\\/\\/a:",
    "sk-",
    "sk-ant-",
    "sk-ant-oat01-",
    "sk-proj-",
    "ghp_",
    "ghs_1_",
    "ghs_1_a.",
    "xox" + "b-",
    "ey",
    "ey-",
    "eyA.",
    "eyJhbGciOiJIUzI1NiIsInR5.ey",
    ".ey",
    "AKIA",
    "AA:A",
    "1:AA",
    "1//0",
    "hooks.slack.com/",
    "-----BEGIN ",
    BEGIN_KEY[:-5],
    BEGIN_KEY,
    END_KEY,
    BEGIN_KEY + "A" * 20 + " ",
    "[REDACTED:",
    "[REDACTED:npm]",
    "cursor",
    "cursor=key_",
    "Q~",
    "1Q~",
    "SK0",
    "webhooks/",
    "\\u0041",
    "token" + " " * 9,
    "token" + '"' * 5,
]


@pytest.mark.parametrize("part", REPEATED)
def test_a_repeated_beginning_of_a_secret_takes_linear_time(part: str) -> None:
    text = part * (SIZE // len(part))
    once = DEFAULT.redact(text).text
    assert len(once) <= len(text)
    assert StreamRedactor().feed(text + "\n").endswith("\n") or part.startswith("-----BEGIN")


@pytest.mark.parametrize("alphabet", [BASE64, BASE64 + "+/", BASE64 + "-_", "ey.-_", "01:A", "=\\n" + BASE64])
def test_long_random_runs_take_linear_time(alphabet: str) -> None:
    text = "".join(random.Random(1).choices(alphabet, k=SIZE))
    assert len(DEFAULT.redact(text).text) <= SIZE


@pytest.mark.parametrize("shape", SECRETS, ids=lambda shape: shape.id)
def test_many_secrets_take_linear_time(shape: Any) -> None:
    times = 400
    done = DEFAULT.redact(f"{shape.text}\n" * times)
    assert done.counts == {shape.id: times}


def repeats(tree: Any, inside: bool = False) -> Iterator[tuple[Any, bool, bool, bool]]:
    """Every repetition of a parsed pattern: its operator, whether unbounded, nested in another, and last."""
    for place, (operator, argument) in enumerate(tree):
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            _, most, body = argument
            yield operator, most is _constants.MAXREPEAT, inside, place == len(tree) - 1
            yield from repeats(body, inside or most is _constants.MAXREPEAT or most > 1)
        elif operator is _constants.SUBPATTERN:
            yield from repeats(argument[-1], inside)
        elif operator is _constants.BRANCH:
            for branch in argument[1]:
                yield from repeats(branch, inside)
        elif operator in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from repeats(argument[1], inside)


@pytest.mark.parametrize("rule", [rule for rule in DEFAULT.rules if rule.pattern], ids=lambda rule: rule.kind)
def test_every_unbounded_repetition_is_possessive_or_last(rule: Any) -> None:
    for operator, unbounded, nested, last in repeats(_parser.parse(rule.pattern)):
        if unbounded:
            assert not nested
            assert last or operator is _constants.POSSESSIVE_REPEAT


@pytest.mark.parametrize("rule", DEFAULT.rules, ids=lambda rule: rule.kind)
def test_every_anchor_is_bounded(rule: Any) -> None:
    for _, unbounded, _, _ in repeats(_parser.parse(rule.anchor)):
        assert not unbounded
    assert len(rule.pivot) == 1
    assert re.compile(rule.anchor).groups == 0
