from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from relay.core.audit import NO_HASH, seal, stamp
from relay.errors import ConflictError, DiskFullError, IntegrityError, NewerFormatError, StoreError
from relay.store.atomic import OPS, FileOps
from relay.store.audit import AuditLog
from relay.store.audit_verify import verify
from tests.fakes.fileops import FailingOps, every_failure

KEY = bytes(range(32))
NOW = datetime(2026, 6, 3, 15, 41, 3, 123000, UTC)


@frozen
class Place:
    root: Path

    @property
    def log(self) -> Path:
        return self.root / "audit.jsonl"

    @property
    def anchor(self) -> Path:
        return self.root / "state" / "anchor.json"

    def open(self, ops: FileOps = OPS) -> AuditLog:
        return AuditLog.open(self.log, self.anchor, key=KEY, now=NOW, ops=ops)

    def fill(self, *names: str, sync: bool = True, seal_anchor: bool = True) -> None:
        with self.open() as log:
            log.append([(name, {"n": name}) for name in names], ts=NOW, sync=sync)
            if seal_anchor:
                log.seal_anchor()

    def lines(self) -> list[bytes]:
        return self.log.read_bytes().split(b"\n")

    def events(self) -> list[str]:
        return [orjson.loads(line)["event"] for line in self.lines() if line]

    def ok(self) -> bool:
        return verify(self.log, self.anchor, KEY).ok

    def clear(self) -> None:
        for path in (self.log, *self.anchor.parent.iterdir()):
            path.unlink(missing_ok=True)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "state").mkdir()
    return Place(tmp_path)


def test_a_new_log_begins_with_its_version_and_is_anchored(place: Place) -> None:
    with place.open() as log:
        assert (log.count, log.repaired, log.lost) == (1, 0, 0)
    first = orjson.loads(place.lines()[0])
    assert (first["event"], first["data"], first["prevHash"]) == ("audit_started", {"version": 1}, NO_HASH)
    assert place.ok()
    assert place.log.stat().st_mode & 0o777 == 0o600
    assert place.anchor.stat().st_mode & 0o777 == 0o600


def test_entries_are_chained_over_batches_and_starts(place: Place) -> None:
    with place.open() as log:
        log.append([("a", {"x": 1}), ("b", {})], ts=NOW)
        head = log.append([("c", {})], ts=[NOW + timedelta(seconds=1)], sync=True)
        assert (log.head, log.count) == (head, 4)
    with place.open() as log:
        assert (log.head, log.count) == (head, 4)
        log.append([("d", {})], ts=NOW)
    assert place.events() == ["audit_started", "a", "b", "c", "d"]
    values = [orjson.loads(line) for line in place.lines()[:-1]]
    assert [value["prevHash"] for value in values] == [NO_HASH, *(value["hash"] for value in values[:-1])]
    assert values[3]["ts"] == "2026-06-03T15:41:04.123Z"
    assert place.ok()


def test_each_entry_needs_its_instant(place: Place) -> None:
    with place.open() as log:
        with pytest.raises(ValueError):
            log.append([("a", {}), ("b", {})], ts=[NOW])
        assert log.count == 1
    assert place.events() == ["audit_started"]


def test_values_without_a_canonical_form_do_not_stop_the_log(place: Place) -> None:
    with place.open() as log:
        log.append([("odd", {"text": "\ud800", "n": 2**80, "f": float("nan"), "at": NOW})], ts=NOW, sync=True)
    assert place.ok()


@pytest.mark.parametrize("sync", [False, True])
def test_a_failure_at_any_step_of_an_append_leaves_the_log_as_it_was(place: Place, sync: bool) -> None:
    def attempt(ops: FailingOps) -> None:
        place.clear()
        place.fill("before")
        was = place.log.read_bytes()
        fail_at, ops.fail_at = ops.fail_at, None
        with place.open(ops) as log:
            ops.fail_at, ops.calls = fail_at, []
            entries = [(name, {"text": "x" * 100}) for name in "abc"]
            try:
                log.append(entries, ts=NOW, sync=sync)
            except StoreError as error:
                assert type(error) is DiskFullError
                assert str(place.log) in error.message
                assert place.log.read_bytes() == was
                assert log.count == 2
                log.append(entries, ts=NOW, sync=sync)
            log.append([("last", {})], ts=NOW, sync=True)
            ops.fail_at = None
        assert place.events() == ["audit_started", "before", "a", "b", "c", "last"]
        assert place.ok()

    def last_only(ops: FailingOps) -> None:
        # The append of "last" must not be the one that fails.
        ops.only = tuple(name for name in ops.only if name != "close")
        if ops.fail_at is not None and ops.fail_at >= steps:
            ops.fail_at = None
        attempt(ops)

    steps = 4 if sync else 3
    want = ["fstat", "lstat", "write", "fdatasync"][:steps]
    assert every_failure(last_only, code=errno.ENOSPC, half=True) == want


def test_a_short_write_is_completed(place: Place) -> None:
    ops = FailingOps(short=True)
    with place.open(ops) as log:
        log.append([("a", {}), ("b", {})], ts=NOW, sync=True)
    assert place.ok()
    assert place.events() == ["audit_started", "a", "b"]


def test_what_could_not_be_undone_at_once_is_undone_before_the_next_append(place: Place) -> None:
    ops = FailingOps()
    with place.open(ops) as log:
        ops.only, ops.half = ("write", "truncate"), True
        ops.calls, ops.fail_at = [], 0
        ops.for_good = True
        real = ops.truncate

        def no_truncate(fd: int, size: int) -> None:
            raise OSError(errno.EIO, "injected")

        ops.truncate = no_truncate  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(StoreError):
                log.append([("a", {})], ts=NOW)
        assert not place.log.read_bytes().endswith(b"\n")
        ops.truncate, ops.fail_at, ops.failed = real, None, ""  # type: ignore[method-assign]
        log.append([("b", {})], ts=NOW, sync=True)
    assert place.events() == ["audit_started", "b"]
    assert place.ok()


def test_a_failure_at_any_step_of_opening_loses_no_entry(place: Place) -> None:
    def attempt(ops: FailingOps) -> None:
        place.clear()
        place.fill("a", "b")
        place.fill("c", sync=False, seal_anchor=False)
        try:
            place.open(ops).close()
        except StoreError as error:
            assert error.hint
        with place.open() as log:
            log.append([("d", {})], ts=NOW, sync=True)
        assert place.events() == ["audit_started", "a", "b", "c", "d"]
        assert place.ok()

    failed = every_failure(attempt, code=errno.EIO, half=True)
    assert {"open", "pread", "fstat", "fchmod", "fdatasync", "rename"} <= set(failed)


def test_a_failure_at_any_step_of_beginning_can_be_repeated(place: Place) -> None:
    def attempt(ops: FailingOps) -> None:
        place.clear()
        try:
            place.open(ops).close()
        except StoreError as error:
            assert type(error) is DiskFullError
        place.fill("a")
        assert place.events() == ["audit_started", "a"]
        assert place.ok()

    assert "write" in every_failure(attempt, code=errno.ENOSPC, half=True)


@pytest.mark.parametrize(
    "torn",
    [
        pytest.param(b'{"ts":"2026-06-03T15', id="cut in mid-line"),
        pytest.param(b"\0" * 5000, id="NULs after a power cut"),
        pytest.param(b"\0" * 300 + b"\n", id="NULs and a newline"),
        pytest.param(b"\xff\xfe half\nmore", id="two torn lines"),
        pytest.param(b"x" * 200_000, id="a long one"),
    ],
)
@pytest.mark.parametrize("anchored", [True, False])
def test_a_torn_end_is_cut_off_and_noted(place: Place, torn: bytes, anchored: bool) -> None:
    place.fill("a")
    if not anchored:
        place.anchor.unlink()
    with place.log.open("ab") as file:
        file.write(torn)
    with place.open() as log:
        assert log.repaired == len(torn)
        log.append([("b", {})], ts=NOW)
    assert place.events() == ["audit_started", "a", "audit_repaired", "b"]
    data = orjson.loads(place.lines()[2])["data"]
    assert data["bytes"] == len(torn)
    assert data["cut"] == torn[:4096].decode("utf-8", "replace")
    verdict = verify(place.log, place.anchor, KEY)
    assert verdict.ok
    assert any("torn ends cut off" in note for note in verdict.notes)


def test_a_hole_in_the_part_that_was_not_synced_is_cut_off_with_what_follows(place: Place) -> None:
    place.fill("a")
    place.fill("b", "c", "d", "e", seal_anchor=False)
    data = bytearray(place.log.read_bytes())
    hole = data.index(b'"event":"c"')
    data[hole : hole + 40] = b"\0" * 40
    place.log.write_bytes(data)
    place.open().close()
    assert place.events() == ["audit_started", "a", "b", "audit_repaired"]
    assert place.ok()


@pytest.mark.parametrize("left", [0, 1, 30, 5000])
def test_a_crash_while_the_first_line_is_written_does_not_stop_the_next_start(
    place: Place, left: int
) -> None:
    line = seal(NO_HASH, "audit_started", {"version": 1}, stamp(NOW))[1]
    place.log.write_bytes(line[: min(left, len(line) - 1)])
    with place.open() as log:
        log.append([("a", {})], ts=NOW, sync=True)
    assert place.events() == ["audit_started", *(["audit_repaired"] if left else []), "a"]
    assert place.ok()


def test_entries_behind_the_anchor_are_taken_up_and_anchored(place: Place) -> None:
    place.fill("a")
    place.fill("b", "c", seal_anchor=False)
    before = place.anchor.read_bytes()
    with place.open() as log:
        assert log.count == 4
    assert place.anchor.read_bytes() != before
    place.log.write_bytes(b"\n".join(place.lines()[:-2]) + b"\n")
    with pytest.raises(IntegrityError, match=r"end .* was cut off: it held 4 entries"):
        place.open()


def test_only_what_is_on_the_disk_is_anchored(place: Place) -> None:
    with place.open() as log:
        log.append([("a", {})], ts=NOW, sync=False)
        log.seal_anchor()
        assert orjson.loads(place.anchor.read_bytes())["count"] == 1
        log.sync()
        log.seal_anchor()
        anchor = orjson.loads(place.anchor.read_bytes())
    assert (anchor["count"], anchor["head"]) == (2, log.head)
    assert anchor["size"] == place.log.stat().st_size


def test_an_anchor_that_cannot_be_written_stays_as_it_was(place: Place) -> None:
    ops = FailingOps()
    with place.open(ops) as log:
        log.append([("a", {})], ts=NOW, sync=True)
        before = place.anchor.read_bytes()
        ops.only, ops.calls, ops.fail_at, ops.code = ("write",), [], 0, errno.ENOSPC
        with pytest.raises(DiskFullError):
            log.seal_anchor()
        assert place.anchor.read_bytes() == before
        assert place.ok()
        log.seal_anchor()
        assert place.anchor.read_bytes() != before
    assert place.ok()


def edited(lines: Sequence[bytes]) -> list[bytes]:
    return [*lines[:1], lines[1].replace(b'"n":"a"', b'"n":"A"'), *lines[2:]]


def resealed(lines: Sequence[bytes]) -> list[bytes]:
    made, head = [], NO_HASH
    for name in ("audit_started", "a", "X", "c"):
        head, line = seal(head, name, {}, stamp(NOW))
        made.append(line[:-1])
    return [*made, b""]


@pytest.mark.parametrize(
    ("change", "anchored", "want"),
    [
        pytest.param(lambda lines: [*lines[:-2], b""], True, "was cut off", id="last line dropped"),
        pytest.param(lambda lines: [*lines[:2], b""], True, "was cut off", id="two lines dropped"),
        pytest.param(edited, False, "line 2 was edited", id="edited, no anchor"),
        pytest.param(resealed, True, "was cut off|another one", id="written anew"),
        pytest.param(lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], False, "line 2",
                     id="swapped, no anchor"),
        pytest.param(lambda lines: [b"garbage"] * 9, True, "was cut off|another one", id="garbage"),
        pytest.param(lambda lines: [b"garbage"] * 900, False, "line 1 is not JSON", id="garbage, no anchor"),
    ],
)  # fmt: skip
def test_a_log_that_was_tampered_with_is_refused_and_left_alone(
    place: Place, change: object, anchored: bool, want: str
) -> None:
    place.fill("a", "b", "c")
    if not anchored:
        place.anchor.unlink()
    place.log.write_bytes(b"\n".join(change(place.lines())))  # type: ignore[operator]
    before = place.log.read_bytes()
    with pytest.raises(IntegrityError, match=want) as caught:
        place.open()
    assert "relay audit verify" in caught.value.hint
    assert place.log.read_bytes() == before
    assert not place.ok()


def test_an_edit_behind_the_anchor_is_refused_and_not_taken_for_a_crash(place: Place) -> None:
    place.fill("a")
    place.fill("b", "c", seal_anchor=False)
    place.log.write_bytes(place.log.read_bytes().replace(b'"n":"b"', b'"n":"B"'))
    with pytest.raises(IntegrityError, match="line 3 was edited"):
        place.open()


@pytest.mark.parametrize("emptied", [False, True])
def test_a_log_that_is_gone_is_begun_anew_and_the_loss_noted(place: Place, emptied: bool) -> None:
    place.fill("a", "b")
    if emptied:
        place.log.write_bytes(b"")
    else:
        place.log.unlink()
    assert not place.ok()
    with place.open() as log:
        assert (log.count, log.lost) == (1, 3)
    assert orjson.loads(place.lines()[0])["data"]["previous"]["count"] == 3
    verdict = verify(place.log, place.anchor, KEY)
    assert verdict.ok
    assert any("an earlier log of 3 entries was gone" in note for note in verdict.notes)
    with place.open() as log:
        assert log.lost == 0


def test_a_crash_between_beginning_anew_and_anchoring_is_taken_up(place: Place) -> None:
    place.fill("a", "b")
    anchor = place.anchor.read_bytes()
    place.log.unlink()
    place.open().close()
    place.anchor.write_bytes(anchor)
    assert not place.ok()
    with place.open() as log:
        assert (log.count, log.lost) == (1, 3)
    assert place.ok()


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda v: {**v, "count": 1}, "was not signed", id="count"),
        pytest.param(lambda v: {**v, "head": NO_HASH}, "was not signed", id="head"),
        pytest.param(lambda v: {**v, "hmac": "é"}, "was not signed", id="a signature that is none"),
        pytest.param(lambda v: {**v, "size": 2**60}, "was not signed", id="a size beyond all doubles"),
        pytest.param(lambda v: {k: v[k] for k in v if k != "head"}, "a field is missing", id="no head"),
    ],
)
def test_a_false_anchor_is_refused(place: Place, change: object, want: str) -> None:
    place.fill("a")
    values = orjson.loads(place.anchor.read_bytes())
    place.anchor.write_bytes(orjson.dumps(change(values)))  # type: ignore[operator]
    with pytest.raises(IntegrityError, match=want) as caught:
        place.open()
    assert str(place.anchor) in caught.value.hint
    assert not place.ok()


def test_the_anchor_of_another_log_is_refused(place: Place) -> None:
    place.fill("a")
    other = place.root / "other.jsonl"
    shutil.copy(place.log, other)
    with pytest.raises(IntegrityError, match="belongs to another log"):
        AuditLog.open(other, place.anchor, key=KEY, now=NOW)


def test_another_key_does_not_open_the_anchor(place: Place) -> None:
    place.fill("a")
    with pytest.raises(IntegrityError, match="the key was"):
        AuditLog.open(place.log, place.anchor, key=b"k" * 32, now=NOW)


def test_a_newer_log_is_refused_and_left_alone(place: Place) -> None:
    place.log.write_bytes(seal(NO_HASH, "audit_started", {"version": 2}, stamp(NOW))[1])
    before = place.log.read_bytes()
    with pytest.raises(NewerFormatError):
        place.open()
    with pytest.raises(NewerFormatError):
        place.ok()
    assert place.log.read_bytes() == before


def test_a_second_writer_is_kept_out(place: Place) -> None:
    with place.open(), pytest.raises(ConflictError, match="another process writes"):
        place.open()
    place.open().close()


def test_a_log_that_something_else_appended_to_is_not_appended_to(place: Place) -> None:
    with place.open() as log:
        with place.log.open("ab") as file:
            file.write(b"x")
        with pytest.raises(IntegrityError, match="changed by something else"):
            log.append([("a", {})], ts=NOW)


@pytest.mark.parametrize("how", ["removed", "replaced", "its folder removed"])
def test_a_log_that_vanishes_while_open_is_noticed(place: Place, how: str) -> None:
    folder = place.root / ".relay"
    folder.mkdir()
    here = Place(folder)
    (folder / "state").mkdir()
    with here.open() as log:
        if how == "removed":
            here.log.unlink()
        elif how == "replaced":
            here.log.rename(folder / "old")
            here.log.write_bytes(b"")
        else:
            shutil.rmtree(folder)
        with pytest.raises(IntegrityError, match="removed or replaced"):
            log.append([("a", {})], ts=NOW)


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo", "folder"])
def test_what_is_not_the_logs_own_file_is_refused(place: Place, kind: str) -> None:
    other = place.root / "precious"
    other.write_bytes(b"precious\n")
    if kind == "symlink":
        place.log.symlink_to(other)
    elif kind == "hard link":
        os.link(other, place.log)
    elif kind == "fifo":
        os.mkfifo(place.log)
    else:
        place.log.mkdir()
    with pytest.raises(StoreError, match=str(place.log)) as caught:
        place.open()
    assert caught.value.hint
    assert other.read_bytes() == b"precious\n"


def test_a_closed_log_takes_nothing(place: Place) -> None:
    log = place.open()
    log.close()
    log.close()
    with pytest.raises(StoreError, match="is closed"):
        log.append([("a", {})], ts=NOW)


def test_opening_reads_only_what_follows_the_anchor(place: Place) -> None:
    with place.open() as log:
        log.append([("a", {"text": "x" * 1000})] * 3000, ts=NOW, sync=True)
        log.seal_anchor()
        log.append([("b", {})], ts=NOW, sync=True)

    class Counting(FileOps):
        read = 0

        def pread(self, fd: int, size: int, offset: int) -> bytes:
            data = super().pread(fd, size, offset)
            self.read += len(data)
            return data

    ops = Counting()
    with place.open(ops) as log:
        assert log.count == 3002
    assert ops.read < 200_000 < place.log.stat().st_size


def test_an_entry_larger_than_one_read_is_met_at_the_anchor(place: Place) -> None:
    with place.open() as log:
        head = log.append([("a", {"text": "x" * 3_000_000})], ts=NOW, sync=True)
        log.seal_anchor()
    with place.open() as log:
        assert log.head == head
    assert place.ok()


@given(st.data())
def test_a_crash_at_any_byte_behind_the_anchor_costs_only_the_line_it_tore(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("crash")
    (root / "state").mkdir()
    place = Place(root)
    place.fill("a")
    anchored = place.log.stat().st_size
    place.fill("b", "c", "d", sync=False, seal_anchor=False)
    whole = place.log.read_bytes()
    size = data.draw(st.integers(anchored, len(whole)))
    zeros = data.draw(st.integers(0, len(whole) - size))
    place.log.write_bytes(whole[:size] + b"\0" * zeros)
    kept = whole[:size].count(b"\n")
    torn = not whole[:size].endswith(b"\n") or zeros > 0
    place.open().close()
    repaired = ["audit_repaired"] if torn else []
    assert place.events() == ["audit_started", "a", "b", "c", "d"][:kept] + repaired
    assert place.ok()
