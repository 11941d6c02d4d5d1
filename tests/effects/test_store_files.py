"""The read-only view of the disk that stores are read through."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.framing import LINE_LIMIT
from relay.effects import store_files
from relay.effects.store_files import DiskFiles
from relay.providers.store_protocol import StoreLine

FILES = DiskFiles()


def test_lines_come_with_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"a":1}\r\n\n{"b":"\xe2\x80\xa8"}\ntail')

    assert list(FILES.lines(str(path))) == [
        StoreLine(b'{"a":1}', 9),
        StoreLine(b"", 10),
        StoreLine(b'{"b":"\xe2\x80\xa8"}', 22),
        StoreLine(b"tail", 26, ended=False),
    ]
    assert list(FILES.lines(str(path), 10)) == list(FILES.lines(str(path)))[2:]


@given(pieces=st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b), max_size=30))
def test_any_lines_over_any_chunks(pieces: list[bytes]) -> None:
    data = b"\n".join(pieces)
    source = [data[i : i + 7] for i in range(0, len(data), 7)]

    lines = list(store_files._lines(store_files._blocks(lambda _: source.pop(0) if source else b"", 0)))

    told = b"".join(
        data[a:b] for a, b in zip([0, *(x.end for x in lines)], (x.end for x in lines), strict=False)
    )
    assert told == data
    ended = data.split(b"\n")
    ended = ended if ended[-1] else ended[:-1]
    assert [line.data for line in lines] == [
        e.removesuffix(b"\r") if i < data.count(b"\n") else e for i, e in enumerate(ended)
    ]


def test_blocks_are_the_lines_many_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(b"%d" % number * 500 for number in range(10_000)))

    *blocks, tail = FILES.blocks(str(path))

    assert 1 < len(blocks) < 1_000
    assert [line for block in blocks for line in block.data.split(b"\n")] == [
        b"%d" % number * 500 for number in range(9_999)
    ]
    assert (tail.data, tail.end, tail.ended) == (b"9999" * 500, path.stat().st_size, False)
    assert list(FILES.lines(str(path), blocks[0].end))[-1].data == tail.data


def test_a_line_beyond_the_limit_is_passed_over_and_the_next_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"x" * (LINE_LIMIT + 5) + b"\nnext\n" + b"y" * LINE_LIMIT + b"\n")

    first, second, third = FILES.lines(str(path))

    assert (first.cut, first.data, first.end) == (True, b"", LINE_LIMIT + 6)
    assert second.data == b"next"
    assert (third.cut, len(third.data)) == (False, LINE_LIMIT)


@pytest.mark.parametrize("what", ["absent", "folder", "fifo"])
def test_what_is_no_file_is_nothing(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    if what == "folder":
        path.mkdir()
    if what == "fifo":
        os.mkfifo(path)

    assert FILES.entry(str(path)) is None
    assert FILES.read(str(path)) is None
    assert list(FILES.lines(str(path))) == []
    with FILES.database(str(path)) as connection:
        assert connection is None


def test_a_link_that_leads_out_is_passed_over(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret.jsonl").write_text("{}")
    (home / "own.jsonl").write_text("{}")
    (home / "out.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (home / "in.jsonl").symlink_to(home / "own.jsonl")

    assert sorted(Path(e.path).name for e in FILES.glob(str(home), "*.jsonl")) == ["in.jsonl", "own.jsonl"]


def test_a_database_in_use_is_read_with_its_wal_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    writer.execute("INSERT INTO t VALUES ('in the wal')")
    writer.execute("BEGIN IMMEDIATE")
    before = sorted(p.name for p in tmp_path.iterdir())

    with FILES.database(str(path)) as connection:
        assert connection is not None
        assert connection.execute("SELECT x FROM t").fetchall() == [("in the wal",)]
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("INSERT INTO t VALUES ('no')")

    assert sorted(p.name for p in tmp_path.iterdir()) == before
    writer.execute("ROLLBACK")
    writer.close()


def test_a_file_that_is_no_database_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"no database at all" * 100)

    with FILES.database(str(path)) as connection:
        assert connection is None


def test_kept_copies_are_made_anew_when_the_database_changed_and_are_gone_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    path = tmp_path / "own.db"
    with sqlite3.connect(path) as own:
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("CREATE TABLE told (words TEXT)")
        own.commit()
        files = DiskFiles()
        seen = []
        with files.keeping_copies():
            for words in ("first", "second"):
                own.execute("INSERT INTO told VALUES (?)", (words,))
                own.commit()
                for _ in range(2):
                    with files.database(str(path)) as connection:
                        assert connection is not None
                        seen.append(len(connection.execute("SELECT words FROM told").fetchall()))
                    assert len(list(copies.rglob("copy.db"))) == 1
    own.close()
    assert seen == [1, 1, 2, 2]
    assert list(copies.iterdir()) == []


@pytest.fixture
def still(tmp_path: Path) -> Path:
    """A database that nobody has written to for a minute."""
    folder = tmp_path / "still"
    folder.mkdir()
    path = folder / "own #1.db"
    with sqlite3.connect(path) as own:
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("CREATE TABLE told (words TEXT)")
        own.execute("INSERT INTO told VALUES ('first')")
    own.close()
    os.utime(path, (time.time() - 60,) * 2)
    return path


def words_in(files: DiskFiles, path: Path) -> list[str]:
    with files.database(str(path)) as connection:
        assert connection is not None
        return [words for (words,) in connection.execute("SELECT words FROM told")]


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are made."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_database_that_nobody_works_on_is_not_copied_while_copies_are_kept(
    still: Path, copies: Path
) -> None:
    files = DiskFiles()

    with files.keeping_copies():
        assert words_in(files, still) == ["first"]
        assert list(copies.rglob("copy.db")) == []
    assert list(still.parent.iterdir()) == [still]


@pytest.mark.parametrize("beside", ["-wal", "-journal", ""])
def test_a_database_that_somebody_may_work_on_is_copied(beside: str, still: Path, copies: Path) -> None:
    if beside:
        still.with_name(still.name + beside).write_bytes(b"something")
    else:
        os.utime(still)
    files = DiskFiles()

    with files.keeping_copies():
        assert words_in(files, still) == ["first"]
        assert len(list(copies.rglob("copy.db"))) == 1


def test_what_was_written_while_it_was_read_is_told_and_read_from_a_copy_next(
    still: Path, copies: Path
) -> None:
    files = DiskFiles()

    with files.keeping_copies():
        with pytest.raises(OSError, match="written to while"), files.database(str(still)):
            with sqlite3.connect(still) as own:
                own.execute("INSERT INTO told VALUES ('second')")
            own.close()
        os.utime(still, (time.time() - 60,) * 2)

        assert words_in(files, still) == ["first", "second"]
        assert len(list(copies.rglob("copy.db"))) == 1


def test_a_still_database_cannot_be_written_through(still: Path, copies: Path) -> None:
    files = DiskFiles()

    with files.keeping_copies(), files.database(str(still)) as connection:
        assert connection is not None
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("INSERT INTO told VALUES ('no')")
