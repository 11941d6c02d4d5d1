from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.errors import IntegrityError, NotAllowedError, RelayError, StoreError
from relay.store.atomic import FileOps
from relay.store.keys import load_or_make_signing_key, load_or_make_token, token_hash
from tests.fakes.fileops import FailingOps, every_failure

LOADERS = [
    pytest.param(load_or_make_signing_key, id="signing key"),
    pytest.param(load_or_make_token, id="token"),
]
Loader = Callable[..., str | bytes]


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_it_is_made_once_and_for_the_user_alone(tmp_path: Path, load: Loader, umask: int) -> None:
    path = tmp_path / "secret"
    old = os.umask(umask)
    try:
        first = load(path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load(path) == first
    assert [other.name for other in tmp_path.iterdir()] == ["secret"]
    assert load(tmp_path / "other") != first


def test_their_sizes() -> None:
    assert len(token_hash("x")) == 64
    assert token_hash("x") != token_hash("y")


def test_a_key_has_32_bytes_and_a_token_256_bits_for_a_url(tmp_path: Path) -> None:
    assert len(load_or_make_signing_key(tmp_path / "key")) == 32
    token = load_or_make_token(tmp_path / "token")
    assert len(token) == 43
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620])
def test_one_that_others_can_read_or_write_is_refused(tmp_path: Path, load: Loader, mode: int) -> None:
    path = tmp_path / "secret"
    load(path)
    before = path.read_bytes()
    path.chmod(mode)
    with pytest.raises(NotAllowedError, match=f"mode {mode:04o}") as caught:
        load(path)
    assert f"chmod 600 {path}" in caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33, b"\0" * 43, b"x" * 44, b"x" * 42 + b"\n\n"])
def test_one_that_is_none_is_refused_and_left_alone(tmp_path: Path, load: Loader, content: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IntegrityError, match=str(path)) as caught:
        load(path)
    assert "remove it" in caught.value.hint
    assert path.read_bytes() == content


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "fifo", "folder", "large"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, load: Loader, kind: str) -> None:
    path, other = tmp_path / "secret", tmp_path / "other"
    if "symlink" in kind:
        path.symlink_to(other)
        if kind == "symlink":
            load(other)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * 5000)
        path.chmod(0o600)
    with pytest.raises(RelayError, match=str(path)):
        load(path)
    assert other.exists() == (kind == "symlink")


def test_two_that_start_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made: list[bytes] = []

    class Racing(FileOps):
        def link(self, old: Path, new: Path) -> None:
            made.append(load_or_make_signing_key(path))
            super().link(old, new)

    assert load_or_make_signing_key(path, ops=Racing()) == made[0]


@pytest.mark.parametrize("load", LOADERS)
def test_a_failure_at_any_step_leaves_none_or_a_whole_one(tmp_path: Path, load: Loader) -> None:
    path = tmp_path / "secret"

    def attempt(ops: FailingOps) -> None:
        path.unlink(missing_ok=True)
        try:
            load(path, ops=ops)
        except StoreError as error:
            assert str(path) in error.message
        assert load(path)

    assert "write" in every_failure(attempt, code=errno.ENOSPC, half=True)
