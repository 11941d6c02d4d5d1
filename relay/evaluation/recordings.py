"""Puts a recorded home folder in place: its placeholders filled in, its databases made from their SQL."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path


def put(recording: Path, home: Path) -> None:
    """Copy a recording into a home folder.

    `dot-x` becomes `.x`, `<name>.sql` the database `<name>`; `$HOME`, `$CWD`, `$CWD_SLUG` and the folder
    `__CWD_SLUG__` stand for where the session ran.

    Args:
        home: a folder in which none of its files is yet.
    """
    cwd = f"{home}/work/shop"
    slug = re.sub(r"[^A-Za-z0-9]", "-", cwd)
    marks = {"$CWD_SLUG": slug, "$CWDSLUG": slug, "__CWD_SLUG__": slug, "$CWD": cwd, "$HOME": str(home)}

    def filled(text: str) -> str:
        for mark, value in marks.items():
            text = text.replace(mark, value)
        return text

    def filled_bytes(data: bytes) -> bytes:
        # Line ends and what is no text stay as they were recorded.
        return filled(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    for source in sorted(recording.rglob("*")):
        if not source.is_file():
            continue
        parts = (re.sub(r"^dot-", ".", filled(part)) for part in source.relative_to(recording).parts)
        target = home.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = filled_bytes(source.read_bytes())
        if source.suffix == ".sql":
            with closing(sqlite3.connect(target.with_suffix(""))) as database:
                database.executescript(data.decode())
        else:
            target.write_bytes(data)
