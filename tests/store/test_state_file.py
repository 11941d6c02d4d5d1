from __future__ import annotations

import errno
from pathlib import Path

import pytest

from relay.errors import DiskFullError, NewerFormatError, NotFoundError, StoreError
from relay.store.state_file import load, previous, save
from tests.fakes.fileops import FailingOps, every_failure

DAMAGE = [
    pytest.param(None, "is missing", id="missing"),
    pytest.param(b"", "is empty", id="empty"),
    pytest.param(b"\0" * 900, "NUL bytes", id="NULs after a power cut"),
    pytest.param(b'{"version":1,"st', "is damaged", id="cut"),
    pytest.param(b'{"state":"RUNNING"}', "is damaged", id="no version"),
]


def damage(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fsm.json"
    save(path, {"state": "RUNNING"}, 1)
    save(path, {"state": "PAUSING"}, 1)
    return path


def test_the_state_comes_back_and_the_one_before_is_kept(path: Path) -> None:
    loaded = load(path, 1)
    assert (loaded.values, loaded.fallback) == ({"version": 1, "state": "PAUSING"}, "")
    assert load(previous(path), 1).values["state"] == "RUNNING"
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert sorted(file.name for file in path.parent.iterdir()) == ["fsm.json", "fsm.json.prev"]


@pytest.mark.parametrize(("content", "want"), DAMAGE)
def test_a_damaged_state_is_answered_from_the_one_before(
    path: Path, content: bytes | None, want: str
) -> None:
    damage(path, content)
    loaded = load(path, 1)
    assert loaded.values["state"] == "RUNNING"
    assert want in loaded.fallback
    assert "the state before it was taken" in loaded.fallback


@pytest.mark.parametrize(("content", "want"), DAMAGE)
def test_a_damaged_state_does_not_become_the_one_before(path: Path, content: bytes | None, want: str) -> None:
    damage(path, content)
    save(path, {"state": "SNAPSHOTTED"}, 1)
    assert load(path, 1).values["state"] == "SNAPSHOTTED"
    assert load(previous(path), 1).values["state"] == "RUNNING"


def test_when_both_are_damaged_both_are_named(path: Path) -> None:
    path.write_bytes(b"\0\0")
    previous(path).write_bytes(b"{")
    with pytest.raises(StoreError) as caught:
        load(path, 1)
    assert str(path) in caught.value.message
    assert str(previous(path)) in caught.value.message
    previous(path).unlink()
    with pytest.raises(StoreError, match=r"there is no fsm\.json\.prev"):
        load(path, 1)


def test_no_state_at_all_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no session state"):
        load(tmp_path / "fsm.json", 1)


def test_a_newer_state_is_refused_and_left_alone(path: Path) -> None:
    save(path, {"state": "NEW"}, 2)
    before = path.read_bytes()
    with pytest.raises(NewerFormatError):
        load(path, 1)
    with pytest.raises(NewerFormatError):
        save(path, {"state": "OLD"}, 1)
    assert path.read_bytes() == before


def test_a_link_in_its_place_is_refused_and_not_taken_for_damage(path: Path) -> None:
    other = path.with_name("other")
    path.rename(other)
    path.symlink_to(other)
    with pytest.raises(StoreError, match="does not follow"):
        load(path, 1)


def test_the_state_before_is_kept_where_there_are_no_hard_links(path: Path) -> None:
    save(path, {"state": "SNAPSHOTTED"}, 1, ops=FailingOps(0, errno.EPERM, only=("link",)))
    assert load(path, 1).values["state"] == "SNAPSHOTTED"
    assert load(previous(path), 1).values["state"] == "PAUSING"


def test_a_failure_at_any_step_leaves_the_old_state_or_the_new(path: Path) -> None:
    def attempt(ops: FailingOps) -> None:
        for file in path.parent.iterdir():
            file.unlink()
        save(path, {"state": "RUNNING"}, 1)
        save(path, {"state": "PAUSING"}, 1)
        try:
            save(path, {"state": "SNAPSHOTTED"}, 1, ops=ops)
        except DiskFullError as error:
            assert str(path) in error.message
            want = "SNAPSHOTTED" if "rename" in ops.calls and ops.failed != "rename" else "PAUSING"
        else:
            want = "SNAPSHOTTED"
        loaded = load(path, 1)
        assert (loaded.values["state"], loaded.fallback) == (want, "")
        assert {file.name for file in path.parent.iterdir()} <= {"fsm.json", "fsm.json.prev"}

    assert {"write", "fsync", "link", "unlink", "rename"} <= set(
        every_failure(attempt, code=errno.ENOSPC, half=True)
    )


STATES = ("RUNNING", "PAUSING", "SNAPSHOTTED")


class Killed(BaseException):
    """Nothing more is done, no clean-up either."""


class KilledOps(FailingOps):
    """Real calls, before one of which the process is killed."""

    def __init__(self, lives_for: int) -> None:
        super().__init__()
        self.lives_for = lives_for

    def _step(self, name: str) -> None:
        super()._step(name)
        if len(self.calls) > self.lives_for:
            raise Killed


def test_no_kill_leaves_a_state_without_one_before_it(path: Path) -> None:
    for lives_for in range(100):
        try:
            save(path, {"state": "SNAPSHOTTED"}, 1, ops=KilledOps(lives_for))
        except Killed:
            assert load(previous(path), 1).values["state"] in STATES
            assert load(path, 1).fallback == ""
        else:
            break
    assert lives_for > 10
    assert load(path, 1).values["state"] == "SNAPSHOTTED"
