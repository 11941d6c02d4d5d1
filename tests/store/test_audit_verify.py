from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.audit import NO_HASH, seal, stamp
from relay.errors import StoreError
from relay.store.audit import AuditLog
from relay.store.audit_verify import AuditVerdict, verify

KEY = bytes(range(32))
NOW = datetime(2026, 6, 3, 15, 41, 3, 123000, UTC)
Lines = list[bytes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def valid(folder: Path) -> bytes:
    """A log of five entries: audit_started, a, b, c, d; its anchor lies beside it."""
    with AuditLog.open(folder / "audit.jsonl", folder / "anchor.json", key=KEY, now=NOW) as log:
        log.append([(name, {"n": name, "s": "\x1f", "f": 1e-9}) for name in "abcd"], ts=NOW, sync=True)
        log.seal_anchor()
    return (folder / "audit.jsonl").read_bytes()


def judge(folder: Path, data: bytes) -> AuditVerdict:
    (folder / "audit.jsonl").write_bytes(data)
    return verify(folder / "audit.jsonl", folder / "anchor.json", KEY)


def entry_behind(line: bytes) -> bytes:
    return seal(orjson.loads(line)["hash"], "forged", {}, stamp(NOW))[1][:-1]


def doubled(lines: Lines) -> Lines:
    return [*lines[:2], lines[2].replace(b'{"f":', b'{"f":1,"f":'), *lines[3:]]


@pytest.mark.parametrize(
    ("change", "want_line", "want_reason"),
    [
        pytest.param(lambda L: [*L[:2], L[2].replace(b'"n":"b"', b'"n":"B"'), *L[3:]], 3, "was edited",
                     id="edited"),
        pytest.param(lambda L: [L[0], L[2], L[1], *L[3:]], 2, "moved here", id="swapped"),
        pytest.param(lambda L: [*L[:2], entry_behind(L[1]), *L[2:]], 3, "was inserted", id="inserted"),
        pytest.param(lambda L: [*L[:2], L[1], *L[2:]], 3, "repeats the line before", id="repeated"),
        pytest.param(lambda L: [*L[:2], L[0], *L[2:]], 3, "inserted here or moved", id="copied"),
        pytest.param(lambda L: [*L[:2], *L[3:]], 3, "lines between them are gone", id="deleted"),
        pytest.param(lambda L: L[1:], 1, "lines before it are gone", id="first line deleted"),
        pytest.param(lambda L: [*L[:4], b""], 5, "4 entries are left of 5", id="last line dropped"),
        pytest.param(lambda L: [*L[:2], b""], 3, "2 entries are left of 5", id="three lines dropped"),
        pytest.param(lambda L: [], 1, "it is empty", id="emptied"),
        pytest.param(lambda L: [*L[:4], L[4][:50]], 5, "4 entries are left of 5", id="cut in the last line"),
        pytest.param(lambda L: [*L[:4], entry_behind(L[3]), b""], 5, "written anew", id="last one exchanged"),
        pytest.param(lambda L: [b"\xff\x00\xfe" * 99], 1, "is incomplete", id="binary garbage"),
        pytest.param(lambda L: [b"\xff\x00\xfe", b"\x80\n"], 1, "is not JSON", id="binary lines"),
        pytest.param(lambda L: [*L[:2], b"\0" * 99, *L[2:]], 3, "is not JSON", id="NULs in the middle"),
        pytest.param(lambda L: [*L[:2], b"", *L[2:]], 3, "is not JSON", id="an empty line"),
        pytest.param(doubled, 3, "was edited", id="a key twice"),
        pytest.param(lambda L: [line + b"\r" for line in L[:-1]] + [b""], 1, "not in the form", id="CRLF"),
    ],
)  # fmt: skip
def test_the_first_bad_line_is_named(
    folder: Path, valid: bytes, change: Callable[[Lines], Lines], want_line: int, want_reason: str
) -> None:
    verdict = judge(folder, b"\n".join(change(valid.split(b"\n"))))
    assert (verdict.ok, verdict.first_bad_line) == (False, want_line)
    assert want_reason in verdict.reason
    assert verdict.hint
    assert verdict.entries == want_line - 1 or "written anew" in want_reason


def test_a_log_in_order_is_said_to_be_so(folder: Path, valid: bytes) -> None:
    verdict = judge(folder, valid)
    assert verdict == AuditVerdict(ok=True, entries=5, head=orjson.loads(valid.split(b"\n")[-2])["hash"])


def test_a_torn_end_behind_the_anchor_is_in_order_but_noted(folder: Path, valid: bytes) -> None:
    verdict = judge(folder, valid + b'{"ts":"20')
    assert (verdict.ok, verdict.entries, verdict.first_bad_line) == (True, 5, None)
    assert len(verdict.notes) == 1
    assert "line 6 is torn, 9 bytes" in verdict.notes[0]
    assert "cuts it off at its next start" in verdict.notes[0]


def test_a_torn_line_with_more_behind_it_is_not_in_order_and_says_what_comes(
    folder: Path, valid: bytes
) -> None:
    verdict = judge(folder, valid + b"\0\0\n" + entry_behind(valid.split(b"\n")[-2]) + b"\n")
    assert (verdict.ok, verdict.first_bad_line) == (False, 6)
    assert "cuts it off at its next start" in verdict.hint


@settings(max_examples=400)
@given(st.data())
def test_any_bit_that_is_flipped_is_found(folder: Path, valid: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, len(valid) * 8 - 1))
    changed = bytearray(valid)
    changed[bit // 8] ^= 1 << bit % 8
    verdict = judge(folder, bytes(changed))
    assert not verdict.ok
    assert verdict.first_bad_line == valid[: bit // 8].count(b"\n") + 1


@given(st.data())
def test_any_truncation_is_found(folder: Path, valid: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(valid) - 1))
    verdict = judge(folder, valid[:size])
    assert not verdict.ok
    assert verdict.first_bad_line == valid[:size].count(b"\n") + 1


@given(st.data())
def test_any_stretch_that_is_taken_out_or_put_in_is_found(
    folder: Path, valid: bytes, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(valid) - 1))
    end = data.draw(st.integers(start, len(valid)))
    extra = data.draw(st.binary(max_size=30))
    changed = valid[:start] + extra + valid[end:]
    if changed.startswith(valid):
        return
    assert not judge(folder, changed).ok


def test_a_missing_log_is_found_by_its_anchor(folder: Path, valid: bytes) -> None:
    (folder / "audit.jsonl").unlink(missing_ok=True)
    verdict = verify(folder / "audit.jsonl", folder / "anchor.json", KEY)
    assert (verdict.ok, verdict.entries) == (False, 0)
    assert "is missing: it held 5 entries" in verdict.reason


def test_where_no_log_was_ever_there_is_nothing_wrong(tmp_path: Path) -> None:
    verdict = verify(tmp_path / "audit.jsonl", tmp_path / "anchor.json", KEY)
    assert (verdict.ok, verdict.entries, verdict.head) == (True, 0, NO_HASH)
    assert verdict.notes == ("there is no audit log yet",)


def test_an_empty_log_without_an_anchor_is_not_in_order(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_bytes(b"")
    verdict = verify(tmp_path / "audit.jsonl", tmp_path / "anchor.json", KEY)
    assert not verdict.ok
    assert "is empty" in verdict.reason


def test_without_an_anchor_or_a_key_it_says_what_was_not_checked(folder: Path, valid: bytes) -> None:
    judge(folder, valid)
    no_anchor = verify(folder / "audit.jsonl", folder / "none.json", KEY)
    no_key = verify(folder / "audit.jsonl", folder / "anchor.json", None)
    assert no_anchor.ok
    assert "no anchor" in no_anchor.notes[0]
    assert no_key.ok
    assert "no signing key" in no_key.notes[0]


@pytest.mark.parametrize("content", [b"", b"\0" * 400, b'{"version":1}', b"{"])
def test_a_damaged_anchor_is_a_fault_though_the_log_is_in_order(
    tmp_path: Path, valid: bytes, content: bytes
) -> None:
    (tmp_path / "audit.jsonl").write_bytes(valid)
    (tmp_path / "anchor.json").write_bytes(content)
    verdict = verify(tmp_path / "audit.jsonl", tmp_path / "anchor.json", KEY)
    assert (verdict.ok, verdict.entries, verdict.first_bad_line) == (False, 5, None)
    assert str(tmp_path / "anchor.json") in verdict.reason


def test_a_log_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"x")
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(StoreError, match="does not follow"):
        verify(tmp_path / "audit.jsonl", tmp_path / "anchor.json", KEY)
