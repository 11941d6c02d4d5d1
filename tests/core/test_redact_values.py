from __future__ import annotations

import pytest

from relay.core.redact_values import entropy, likely_secret, unwritten
from tests.fakes.secrets import random_token


@pytest.mark.parametrize("seed", range(40))
def test_random_text_is_a_secret(seed: int) -> None:
    assert likely_secret(random_token("", 24, seed))


@pytest.mark.parametrize(
    "value",
    [
        "Tr0ub4dor&3-horse",
        "hunter2-hunter3-x9q",
        "a8f3c2d1e4b5968770fedcba",
        "p4ssw0rd!with#signs",
        "AbC/dEf+GhI1jKl2==",
    ],
)
def test_passwords_and_keys_are_secrets(value: str) -> None:
    assert likely_secret(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "short1A",
        "get_access_token",
        "AccessTokenProviderFactory",
        "self.config.token2",
        "src/auth/token.py:45",
        "1778598000123",
        "2026-01-31-2359",
        "abcdefghijklmnop",
        "x" * 40,
        "abababababab1212",
        "os.getenv['A1b2C3']",
        "https://host/path?x=A1b2C3",
        "sha512-rMKNsr63tCuqHLAkPUAcy04",
        "63439e18-8f71-4042-a735-c1825330b655",
        "[REDACTED:github_pat]",
    ],
)
def test_words_code_and_numbers_are_none(value: str) -> None:
    assert not likely_secret(value)


@pytest.mark.parametrize(
    "value", ["${A}", "$TOKEN", "<token>", "{{ a }}", "%TOKEN%", "YOUR_KEY", "xxxx", "abc..."]
)
def test_a_template_is_unwritten(value: str) -> None:
    assert not unwritten(value)


@pytest.mark.parametrize(("value", "want"), [("aaaa", 0.0), ("abab", 1.0), ("abcd", 2.0)])
def test_entropy_in_bits_per_character(value: str, want: float) -> None:
    assert entropy(value) == want
