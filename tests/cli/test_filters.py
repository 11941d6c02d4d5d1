from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.fakes.secrets import random_token


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "relay", *arguments], input=data, capture_output=True, check=False
    )


def test_redact_replaces_secrets_and_nothing_else() -> None:
    token = random_token("ghp_", 36)
    data = f"a {token} b\r\nno end".encode()

    ran = piped(data, "redact")

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert token.encode() not in ran.stdout
    assert ran.stdout.startswith(b"a [REDACTED:")
    assert ran.stdout.endswith(b"] b\r\nno end")


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", bytes(range(256)) * 300, "é".encode() * 50_000, b"\x00\xff\xfe" * 10, "\u2028x".encode()],
    ids=["nothing", "a line", "all bytes", "long", "no text", "line separator"],
)
def test_redact_passes_clean_bytes_through_unchanged(data: bytes) -> None:
    ran = piped(data, "redact")

    assert ran.stdout == data


def test_redact_counts() -> None:
    token = random_token("ghp_", 36)

    ran = piped(f"{token}\n{token}\n".encode(), "redact", "--json")

    counted = json.loads(ran.stdout)
    assert counted["total"] == 2
    assert sum(counted["kinds"].values()) == 2


def test_redact_gives_a_line_as_soon_as_it_is_whole() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "relay", "redact"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as filtering:
        assert filtering.stdin is not None
        assert filtering.stdout is not None
        os.write(filtering.stdin.fileno(), b"first\nsecond")
        assert filtering.stdout.readline() == b"first\n"
        filtering.stdin.close()
        assert filtering.stdout.read() == b"second"


NOW = ("--now", "2026-01-13T20:00:00Z", "--tz", "UTC")
LIMIT = "You've hit your limit \u00b7 resets 10pm (Europe/Berlin)".encode()


@pytest.mark.parametrize(
    ("text", "arguments", "want"),
    [
        (
            LIMIT,
            ("--channel", "stdout_json"),
            {"class": "usage_limit", "resetsAt": "2026-01-13T21:00:00+00:00"},
        ),
        (LIMIT, ("--channel", "stdout_json"), {"decision": "HandOff"}),
        (
            LIMIT,
            ("--channel", "stdout_json", "--no-fallback"),
            {"decision": "Wait", "at": "2026-01-13T21:00:30+00:00"},
        ),
        (LIMIT, ("--channel", "spoken"), {"class": "none", "resetsAt": None, "decision": "GoOn"}),
        (b"", ("--channel", "stderr"), {"class": "none"}),
        (b"\xff\xfe", ("--channel", "stderr"), {"class": "none"}),
    ],
)
def test_classify(text: bytes, arguments: tuple[str, ...], want: dict[str, object]) -> None:
    ran = piped(text, "classify", "--provider", "claude", *arguments, *NOW, "--json")

    found = json.loads(ran.stdout)
    instants = {name: normal(found[name]) if name in ("resetsAt", "at") else found[name] for name in want}
    assert instants == want


def normal(instant: str | None) -> str | None:
    from datetime import UTC, datetime

    return datetime.fromisoformat(instant).astimezone(UTC).isoformat() if instant else None


def test_classify_says_it_in_words() -> None:
    ran = piped(LIMIT, "classify", "--provider", "claude", "--channel", "stdout_json", *NOW)

    lines = ran.stdout.decode().split("\n")
    assert lines[0] == "class        usage_limit"
    assert "handed off" in ran.stdout.decode()


def test_classify_takes_a_clock_without_a_zone_in_the_zone_that_is_given() -> None:
    text = "5-hour limit reached \u2219 resets 2am".encode()
    arguments = ("--now", "2025-09-04T17:42:27Z", "--tz", "Europe/Paris", "--json")

    ran = piped(text, "classify", "--provider", "claude", "--channel", "stderr", *arguments)

    assert normal(json.loads(ran.stdout)["resetsAt"]) == "2025-09-05T00:00:00+00:00"


@pytest.mark.parametrize(
    ("arguments", "want_words"),
    [
        (("--tz", "Mars/Base"), b"Mars/Base"),
        (("--now", "noon"), b"noon"),
        (("--channel", "tea"), b"stdout_json"),
    ],
)
def test_classify_refuses_what_it_does_not_know(arguments: tuple[str, ...], want_words: bytes) -> None:
    ran = piped(b"x", "classify", "--provider", "x", "--channel", "stderr", *arguments)

    assert ran.returncode == 2
    assert want_words in ran.stderr
