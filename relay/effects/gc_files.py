"""What ended sessions left in files: runs' output, input pipes, files of writes that were cut off.

Reads only, but for `remove_run`. Called by `relay.effects.do_gc`, in a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attrs import evolve

from relay.core.gc import Kind, Piece
from relay.core.record import SessionRecord
from relay.effects.spool import RunFolder
from relay.store.places import RepoPlaces

BEING_WRITTEN = timedelta(hours=24)
"""A file younger than this may be one that is just being written."""
_PRINTED = ("out", "err", "argv.json")
_LAST = "offset"
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
_GIT_PATTERNS = ("pack/tmp_*", "pack/.tmp-*", "tmp_obj_*", "[0-9a-f][0-9a-f]/tmp_obj_*")


def outputs(places: RepoPlaces, record: SessionRecord, now: datetime) -> Iterator[Piece]:
    """The run folders of a session that is over."""
    for run in record.runs:
        folder = RunFolder(places.run(record.sid, run.number))
        if not folder.path.is_dir() or folder.path.is_symlink():
            continue
        yield Piece(
            kind=Kind.OUTPUT,
            path=str(folder.path),
            session=record.sid,
            repository=str(places.root),
            bytes=sum(size(path) for path in folder.path.iterdir()),
            since=record.updated_at,
            keep=_not_redacted(folder, now - record.updated_at),
        )


def _not_redacted(folder: RunFolder, age: timedelta) -> str:
    """What is not rewritten in redacted form yet is still being wound up; but not for ever."""
    printed = any(os.path.lexists(folder.file(name)) for name in _PRINTED)
    wound_up = folder.offsets().redacted or not printed
    return "" if wound_up or age > BEING_WRITTEN else "its output is not redacted yet"


def remove_run(path: Path) -> None:
    """Remove a run's folder. Cut off at any step, it can be done again.

    Raises:
        OSError: something in it can't be removed.
    """
    # That it is redacted must be known as long as there is anything of it.
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name == _LAST):
        entry.unlink(missing_ok=True)
    path.rmdir()


def fifos(folder: Path, live: set[str], ended: dict[str, datetime]) -> Iterator[Piece]:
    """The children's input pipes."""
    for path, found in _listed((folder,), "*"):
        sid = path.name.partition(".")[0]
        if not stat.S_ISFIFO(found.st_mode):
            continue
        keep = "" if sid in ended else "its session is not known"
        yield Piece(
            kind=Kind.FIFO,
            path=str(path),
            session=sid,
            since=ended.get(sid, _changed(found)),
            keep="its session is under way" if sid in live else keep,
        )


def temporaries(folders: Iterable[Path], now: datetime) -> Iterator[Piece]:
    """`.NAME.<12 hex>.tmp`, which `relay.store.atomic` makes and a crash leaves."""
    for path, found in _listed(folders, ".*.tmp"):
        if stat.S_ISREG(found.st_mode) and _TEMPORARY.fullmatch(path.name):
            yield _left(Kind.TEMPORARY, path, found, now)


def unbegun(places: RepoPlaces, sids: Iterable[str], now: datetime) -> Iterator[Piece]:
    """Sessions whose beginning was cut off."""
    for sid in sids:
        with suppress(FileNotFoundError):
            folder = places.session(sid)
            piece = _left(Kind.UNBEGUN, folder, folder.lstat(), now, repository=str(places.root))
            yield evolve(piece, session=sid, bytes=0)


def git_files(root: Path, common_dir: Path, now: datetime) -> Iterator[Piece]:
    """What a git that was killed leaves: temporary packs and objects (git 2.39 names them so), and Relay's
    own private indexes. `git gc` removes the former too, at the same age by default.
    """
    found = [pair for pattern in _GIT_PATTERNS for pair in _listed((common_dir / "objects",), pattern)]
    git_dirs = [common_dir, *sorted(common_dir.glob("worktrees/*"))]
    found += _listed(git_dirs, "relay-index-*")
    for path, facts in found:
        if stat.S_ISREG(facts.st_mode):
            yield _left(Kind.GIT_FILE, path, facts, now, repository=str(root))


def _left(kind: Kind, path: Path, found: os.stat_result, now: datetime, repository: str = "") -> Piece:
    young = now - _changed(found) < BEING_WRITTEN
    return Piece(
        kind=kind,
        path=str(path),
        repository=repository,
        bytes=found.st_size,
        since=_changed(found),
        keep="it may be just being written" if young else "",
    )


def _listed(folders: Iterable[Path], pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
    for folder in sorted(folders):
        names: list[Path] = []
        with suppress(OSError):
            names = sorted(folder.glob(pattern))
        for path in names:
            with suppress(OSError):
                yield path, path.lstat()


def _changed(found: os.stat_result) -> datetime:
    return datetime.fromtimestamp(found.st_mtime, UTC)


def size(path: Path) -> int:
    """Bytes of a file, 0 when it is gone."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def folder_size(top: Path) -> int:
    """Bytes of all files below a folder; links are not followed."""
    return sum(size(Path(folder) / name) for folder, _, names in os.walk(top) for name in names)
