"""The end of a long log: what is wrong with it is found, and what lies before it is not read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.store.audit import AuditLog
from relay.store.audit_tail import verify_end

KEY = bytes(range(32))
NOW = datetime(2026, 6, 3, 15, 41, 3, 123000, UTC)
WINDOW = 2000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A hundred entries of some 250 bytes, anchored, and two behind the anchor."""
    with AuditLog.open(tmp_path / "log", tmp_path / "anchor", key=KEY, now=NOW) as opened:
        opened.append([("x", {"n": n, "text": "y" * 60}) for n in range(100)], ts=NOW, sync=True)
        opened.seal_anchor()
        opened.append([("x", {"n": n}) for n in (100, 101)], ts=NOW, sync=True)
    return tmp_path / "log"


def end(log: Path, key: bytes | None = KEY) -> tuple[bool, str, int]:
    verdict = verify_end(log, log.with_name("anchor"), key, window=WINDOW)
    return verdict.ok, verdict.reason, verdict.entries


def rewrite(log: Path, change: bytes, by: bytes) -> None:
    assert change in log.read_bytes()
    log.write_bytes(log.read_bytes().replace(change, by))


def test_a_log_in_order_is_read_from_its_end_alone(log: Path) -> None:
    ok, reason, entries = end(log)

    assert (ok, reason) == (True, "")
    assert 5 < entries < 20
    assert end(log, None)[0]


def test_what_was_changed_long_before_is_not_looked_at(log: Path) -> None:
    rewrite(log, b'"n":3,', b'"n":4,')

    assert end(log)[0]


def test_an_end_without_its_newline_is_being_written(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-30])

    assert end(log)[:2] == (True, "")


def test_an_edited_line_is_found(log: Path) -> None:
    rewrite(log, b'"n":99,', b'"n":98,')

    ok, reason, _ = end(log)
    assert (ok, "was edited" in reason) == (False, True)


def test_a_line_that_is_gone_is_found(log: Path) -> None:
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([*lines[:-5], *lines[-4:]]))

    assert not end(log)[0]


def test_an_end_that_was_cut_off_is_found(log: Path) -> None:
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([*lines[:-10], b""]))

    assert end(log)[:2] == (False, "the entry that was anchored is not there")


def test_an_anchor_of_another_key_is_found(log: Path) -> None:
    assert not end(log, bytes(32))[0]


@pytest.mark.parametrize("data", [b"x" * 5000, b"x\n" * 5000, b"\0" * 5000], ids=["line", "lines", "nuls"])
def test_what_is_no_log(log: Path, data: bytes) -> None:
    log.write_bytes(data)

    assert not end(log)[0]


def test_a_short_log_and_none_are_checked_as_a_whole(log: Path, tmp_path: Path) -> None:
    assert verify_end(log, log.with_name("anchor"), KEY).entries == 103
    assert verify_end(tmp_path / "none", tmp_path / "no-anchor", KEY).ok
