from __future__ import annotations

import json
import os
import stat
import tracemalloc
from pathlib import Path

import pytest

from relay.effects.seal import redact_files
from relay.effects.spool import Offsets, RunFolder
from tests.fakes.runs import a_run


def hide(text: str) -> str:
    return text.replace("geheim", "[REDACTED]")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"a geheim b\nplain\n", b"a [REDACTED] b\nplain\n"),
        (b"geheim\r\n\n\ngeheim", b"[REDACTED]\n\n\n[REDACTED]"),
        (b"\xff geheim \xe2\x80\xa8\n", b"\xff [REDACTED] \xe2\x80\xa8\n"),
        (b"0123456789012345678901 geheim\n", b"01234567890123456789\n"),
    ],
)
async def test_files_are_rewritten_line_by_line(tmp_path: Path, before: bytes, after: bytes) -> None:
    folder = RunFolder(tmp_path)
    for name in ("out", "err"):
        folder.file(name).write_bytes(before)
    folder.note_offsets(Offsets(out=7, err=8))
    await redact_files(folder, hide, limit=20)
    for name in ("out", "err"):
        assert folder.file(name).read_bytes() == after
        assert stat.S_IMODE(folder.file(name).stat().st_mode) == 0o600
    assert folder.offsets() == Offsets(out=7, err=8, sealed=True, redacted=True)


async def test_the_count_of_lines_stays_whatever_the_redaction_makes_of_them(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.file("out").write_bytes(b"1\n2\n")
    await redact_files(folder, lambda text: text + "\nmore")
    assert folder.file("out").read_bytes() == b"1 more\n2 more\n"


async def test_nothing_secret_is_left_of_an_ended_run(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start("sh", "-c", "echo geheim; echo geheim >&2")
        assert (await run.follow()).status == 0
        await redact_files(run.folder, hide)
        for path in run.folder.path.iterdir():
            assert b"geheim" not in path.read_bytes()
        run.chunks.clear()
        assert (await run.follow()).status == 0
        assert run.chunks == []
        assert run.folder.record() is not None


async def test_a_redaction_that_failed_leaves_the_file_and_can_be_done_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.file("out").write_bytes(b"geheim 1\ngeheim 2\n")

    def fail(text: str) -> str:
        if "2" in text:
            raise RuntimeError("in the middle")
        return hide(text)

    with pytest.raises(RuntimeError, match="in the middle"):
        await redact_files(folder, fail)
    assert folder.file("out").read_bytes() == b"geheim 1\ngeheim 2\n"
    assert sorted(os.listdir(tmp_path)) == ["offset", "out"]  # noqa: PTH208
    assert folder.offsets() == Offsets(sealed=True)
    await redact_files(folder, hide)
    assert folder.file("out").read_bytes() == b"[REDACTED] 1\n[REDACTED] 2\n"


async def test_redacting_twice_is_redacting_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.file("out").write_bytes(b"x\n")
    await redact_files(folder, lambda text: text + "!")
    await redact_files(folder, lambda text: text + "!")
    assert folder.file("out").read_bytes() == b"x!\n"


async def test_memory_stays_bounded(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.file("out").write_bytes((b"x" * 999 + b"\n") * 32_000)
    tracemalloc.start()
    await redact_files(folder, hide)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


async def test_arguments_that_are_not_as_expected_stay(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.file("argv.json").write_text(json.dumps({"argv": 5}))
    await redact_files(folder, hide)
    assert json.loads(folder.file("argv.json").read_text()) == {"argv": 5}
