"""Recorded stores of agent CLIs, put in place below a temporary folder."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures" / "stores"


def place(name: str, tmp_path: Path, *, source: Path = FIXTURES) -> tuple[Path, Path]:
    """Copy a recording; the home folder and the working folder that it tells of.

    Placeholders in texts and folder names are filled in. A `<name>.sql` becomes the database `<name>`.

    Args:
        name: folder below tests/fixtures/stores, such as "claude/plan_todowrite".
    """
    home = tmp_path / "home"
    cwd = home / "work" / "shop"
    cwd.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    root = source / name
    for path in sorted(root.rglob("*")):
        relative = str(path.relative_to(root)).replace("__CWD_SLUG__", slug).replace("$CWDSLUG", slug)
        target = home / relative
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".db", ".sqlite", ".vscdb", ".pb"):
            shutil.copyfile(path, target)
            continue
        text = path.read_bytes()
        for mark, value in (
            ("$CWD_SLUG", slug),
            ("$CWDSLUG", slug),
            ("$CWD", str(cwd)),
            ("$HOME", str(home)),
        ):
            text = text.replace(mark.encode(), value.encode())
        if path.suffix == ".sql":
            with sqlite3.connect(target.with_suffix("")) as connection:
                connection.executescript(text.decode())
            connection.close()
        else:
            target.write_bytes(text)
    return home, cwd
