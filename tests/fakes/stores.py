"""Recorded stores of agent CLIs, put in place below a temporary folder."""

from __future__ import annotations

from pathlib import Path

from relay.evaluation.cases import GOLDEN
from relay.evaluation.recordings import put

FIXTURES = Path(__file__).parent.parent / "fixtures" / "stores"


def recording(name: str) -> Path:
    """The folder of a recording: of the tests, else of the golden suite that comes with Relay.

    Args:
        name: such as "claude/plan_todowrite".
    """
    own = FIXTURES / name
    return own if own.is_dir() else GOLDEN / "recordings" / name


def recordings(store: str) -> set[str]:
    """The names of a store's recordings."""
    folders = (FIXTURES / store, GOLDEN / "recordings" / store)
    return {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()}


def place(name: str, tmp_path: Path, *, source: Path | None = None) -> tuple[Path, Path]:
    """Copy a recording; the home folder and the working folder that it tells of."""
    home = tmp_path / "home"
    cwd = home / "work" / "shop"
    cwd.mkdir(parents=True, exist_ok=True)
    put(source / name if source else recording(name), home)
    return home, cwd
