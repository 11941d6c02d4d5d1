from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import StoreError
from relay.store.atomic import FileOps
from relay.store.audit import AuditLog
from relay.store.audit_read import backwards, entries, tail

NOW = datetime(2026, 6, 3, 15, 41, 3, 123000, UTC)


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    log = AuditLog.open(tmp_path / "audit.jsonl", tmp_path / "anchor.json", key=b"k" * 32, now=NOW)
    log.append(
        [
            (f"e{seq}", {"seq": seq, "session": f"s-{'ab'[seq % 2] * 6}", "text": "x" * 50_000})
            for seq in range(10, 40)
        ],
        ts=NOW,
    )
    log.append(
        [("talk", {"seq": 40, "session": "", "text": '"session":"s-aaaaaa"', "n": {"session": "s-aaaaaa"}})],
        ts=NOW,
    )
    log.close()
    return log


def events(found: object) -> list[str]:
    return [entry.event for entry in found]  # type: ignore[attr-defined]


def test_entries_come_in_order_with_their_place(log: AuditLog) -> None:
    found = list(entries(log.path))
    assert events(found) == ["audit_started", *(f"e{seq}" for seq in range(10, 40)), "talk"]
    assert (found[1].seq, found[1].session, found[1].ts) == (10, "s-aaaaaa", "2026-06-03T15:41:03.123Z")
    assert found[-1].hash == log.head
    assert found[-1].end == log.path.stat().st_size
    assert events(entries(log.path, start=found[29].end)) == ["e39", "talk"]


def test_one_sessions_entries_are_its_own_only(log: AuditLog) -> None:
    assert events(entries(log.path, session="s-aaaaaa")) == [f"e{seq}" for seq in range(10, 40, 2)]
    assert events(entries(log.path, session="s-none")) == []


@pytest.mark.parametrize("after", [1, 9, 10, 25, 39, 40, 99])
def test_only_what_follows_a_number_is_given(log: AuditLog, after: int) -> None:
    want = [entry.event for entry in entries(log.path) if entry.seq > after]
    assert events(entries(log.path, after=after)) == want


def test_the_tail_is_in_order(log: AuditLog) -> None:
    assert events(tail(log.path, 3)) == ["e38", "e39", "talk"]
    assert events(tail(log.path, 2, session="s-bbbbbb")) == ["e37", "e39"]
    assert len(tail(log.path, 1000)) == 32
    assert tail(log.path, 0) == ()


def test_the_tail_of_a_long_log_costs_little(log: AuditLog) -> None:
    class Counting(FileOps):
        read = 0

        def pread(self, fd: int, size: int, offset: int) -> bytes:
            self.read += size
            return super().pread(fd, size, offset)

    ops = Counting()
    assert len(tail(log.path, 1, ops=ops)) == 1
    assert ops.read < 300_000 < log.path.stat().st_size


@given(st.lists(st.integers(0, 600_000), min_size=1, max_size=5), st.binary(max_size=20))
def test_backwards_is_forwards_reversed(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], torn: bytes
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with AuditLog.open(folder / "audit.jsonl", folder / "anchor.json", key=b"k" * 32, now=NOW) as log:
        log.append([("e", {"text": "x" * size}) for size in sizes], ts=NOW)
    with log.path.open("ab") as file:
        file.write(torn)
    forwards = list(entries(log.path))
    assert len(forwards) == len(sizes) + 1
    assert list(backwards(log.path))[::-1] == forwards


def test_what_is_no_entry_is_passed_over(log: AuditLog) -> None:
    with log.path.open("ab") as file:
        file.write(b'\0\0\nnot json\n[]\n{"data":{}}\n{"ts":1,"event":"x","data":[],"hash":""}\n{"ts":"20')
    assert events(tail(log.path, 1)) == ["talk"]
    assert len(list(entries(log.path))) == 32


def test_reading_follows_a_log_that_grows(log: AuditLog) -> None:
    reader = entries(log.path)
    assert len(list(islice(reader, 31))) == 31
    with AuditLog.open(log.path, log.anchor_path, key=b"k" * 32, now=NOW) as writer:
        writer.append([("late", {})], ts=NOW)
    assert events(reader) == ["talk", "late"]


def test_where_there_is_no_log_there_are_no_entries(tmp_path: Path) -> None:
    assert list(entries(tmp_path / "none")) == []
    assert tail(tmp_path / "none", 5) == ()


@pytest.mark.parametrize("kind", ["symlink", "fifo"])
def test_what_is_no_log_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(StoreError):
        list(entries(path))
