from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from relay.errors import DiskFullError, NewerFormatError, StoreError
from relay.store.atomic import create, read, read_versioned, replace, write_versioned
from tests.fakes.fileops import FailingOps, every_failure

OLD = b"the old content\n"
NEW = b"the new content, which is longer\n"
ERRORS = [
    pytest.param(errno.ENOSPC, DiskFullError, id="ENOSPC"),
    pytest.param(errno.EDQUOT, DiskFullError, id="EDQUOT"),
    pytest.param(errno.EIO, StoreError, id="EIO"),
    pytest.param(errno.EACCES, StoreError, id="EACCES"),
    pytest.param(errno.EROFS, StoreError, id="EROFS"),
]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("code", "want"), ERRORS)
def test_a_failure_at_any_step_leaves_the_old_file(tmp_path: Path, code: int, want: type[StoreError]) -> None:
    path = tmp_path / "fsm.json"

    def attempt(ops: FailingOps) -> None:
        path.write_bytes(OLD)
        try:
            replace(path, NEW, ops=ops)
        except StoreError as error:
            assert type(error) is want
            assert str(path) in error.message
            assert error.hint
            # Once it has the name, only the flush of the folder can fail.
            assert path.read_bytes() == (NEW if "rename" in ops.calls and ops.failed != "rename" else OLD)
        else:
            assert path.read_bytes() == NEW
        assert names(tmp_path) == ["fsm.json"]

    failed = every_failure(attempt, code=code, half=True)
    assert failed == ["open", "fchmod", "write", "fsync", "close", "rename", "open", "fsync", "close"]


def test_a_disk_that_stays_full_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "fsm.json"
    path.write_bytes(OLD)
    ops = FailingOps(1, errno.ENOSPC, short=True, for_good=True, only=("write",))
    with pytest.raises(DiskFullError, match="free some space"):
        replace(path, NEW, ops=ops)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["fsm.json"]


def test_writes_that_take_a_byte_at_a_time_make_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "fsm.json"
    replace(path, NEW, ops=FailingOps(short=True))
    assert path.read_bytes() == NEW


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        replace(tmp_path / "private", NEW)
        os.umask(0o777)
        replace(tmp_path / "shared", NEW, 0o644)
    finally:
        os.umask(old)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o644


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "fsm.json"
    target.write_bytes(OLD)
    path.symlink_to(target)
    replace(path, NEW)
    assert target.read_bytes() == OLD
    assert not path.is_symlink()
    assert path.read_bytes() == NEW


@pytest.mark.parametrize(
    ("make", "want"),
    [
        pytest.param(lambda path: path.mkdir(), "move it away", id="a folder in place of the file"),
        pytest.param(lambda path: path.parent.rmdir(), "create it", id="no folder"),
    ],
)
def test_what_stands_in_the_way_is_said(tmp_path: Path, make: object, want: str) -> None:
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "fsm.json"
    make(path)  # type: ignore[operator]
    with pytest.raises(StoreError, match=want):
        replace(path, NEW)


def test_only_one_of_two_creators_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert create(path, OLD)
    assert not create(path, NEW)
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["token"]


def test_a_file_is_created_where_there_are_no_hard_links(tmp_path: Path) -> None:
    path = tmp_path / "token"
    ops = FailingOps(0, errno.EPERM, for_good=True, only=("link",))
    assert create(path, NEW, ops=ops)
    assert not create(path, OLD, ops=ops)
    assert path.read_bytes() == NEW
    assert names(tmp_path) == ["token"]


def test_a_failure_at_any_step_of_creating_leaves_no_half_file(tmp_path: Path) -> None:
    path = tmp_path / "token"

    def attempt(ops: FailingOps) -> None:
        path.unlink(missing_ok=True)
        try:
            create(path, NEW, ops=ops)
        except StoreError as error:
            assert str(path) in error.message
        left = names(tmp_path)
        assert not path.exists() or path.read_bytes() == NEW
        assert [name for name in left if name != "token"] == [] or ops.failed == "unlink"
        for name in left:
            (tmp_path / name).unlink()

    assert "link" in every_failure(attempt, code=errno.ENOSPC, half=True)


def test_a_missing_file_reads_as_none(tmp_path: Path) -> None:
    assert read(tmp_path / "none") is None
    assert read_versioned(tmp_path / "none", 1) is None


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "large"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "symlink":
        (tmp_path / "secret").write_bytes(OLD)
        path.symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * 101)
    with pytest.raises(StoreError, match=str(path)):
        read(path, limit=100)


def test_values_come_back_with_their_version(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    values = {"goal": "ä\u2028", "odd": "\udc80", "big": 2**70, "version": 7}
    write_versioned(path, values, 2)
    assert read_versioned(path, 2) == {**values, "version": 2}
    write_versioned(path, {"again": True}, 2)
    assert read_versioned(path, 3) == {"again": True, "version": 2}


def test_a_file_of_a_newer_version_is_neither_read_nor_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    write_versioned(path, {"x": 1}, 3)
    before = path.read_bytes()
    with pytest.raises(NewerFormatError, match=r"version 3.*up to 2"):
        read_versioned(path, 2)
    with pytest.raises(NewerFormatError):
        write_versioned(path, {"x": 2}, 2)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"\0" * 4096, "nothing but NUL bytes", id="NULs"),
        pytest.param(b'{"version": 1, "x', "is damaged", id="cut"),
        pytest.param(b"\xff\xfe", "is damaged", id="binary"),
        pytest.param(b"[]", "is not a JSON object", id="a list"),
        pytest.param(b"[" * 100_000, "is damaged", id="deeply nested"),
        pytest.param(b"{}", "version is None", id="no version"),
        pytest.param(b'{"version": true}', "version is True", id="a version that is no number"),
        pytest.param(b'{"version": 0}', "version is 0", id="version 0"),
    ],
)
def test_a_damaged_file_is_named_and_may_be_written_anew(tmp_path: Path, data: bytes, want: str) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=want) as caught:
        read_versioned(path, 1)
    assert str(path) in caught.value.message
    assert caught.value.hint
    write_versioned(path, {"x": 1}, 1)
    assert read_versioned(path, 1) == {"version": 1, "x": 1}
