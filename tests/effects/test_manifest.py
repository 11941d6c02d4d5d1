"""Hashes of files, and what differs from them later."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from relay.effects.gitnames import BadNameError
from relay.effects.manifest import FileHash, drift, manifest
from tests.fakes.repos import write


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_files_and_links_are_hashed_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, {"a": "a\n", "dir/b": "b\n", "out/secret": "s"})
    (tmp_path / "link").symlink_to("dir/b")
    (tmp_path / "folder").symlink_to(tmp_path / "out")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    names = ("a", "dir/b", "link", "folder/secret", "pipe", "dir", "missing", '"caf\\351"')
    assert await manifest(tmp_path, names) == (
        FileHash(path="a", sha256=sha(b"a\n"), size=2),
        FileHash(path="dir/b", sha256=sha(b"b\n"), size=2),
        FileHash(path="link", sha256=sha(b"dir/b"), size=5),
        FileHash(path='"caf\\351"', sha256=sha(b"x"), size=1),
    )


async def test_drift_names_what_changed_or_is_missing(tmp_path: Path) -> None:
    write(tmp_path, {"same": "1", "changed": "2", "gone": "3"})
    pairs = [(item.path, item.sha256) for item in await manifest(tmp_path, ("same", "changed", "gone"))]
    assert await drift(tmp_path, pairs) == ()
    write(tmp_path, {"changed": "x"})
    (tmp_path / "gone").unlink()
    assert await drift(tmp_path, pairs) == ("changed", "gone")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ""])
async def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadNameError):
        await manifest(tmp_path, (path,))
