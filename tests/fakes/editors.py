"""A home folder with the editors' stores in it, on each platform, for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from relay.providers.store_protocol import Machine
from tests.fakes.lifting import machine
from tests.fakes.stores import place

PLATFORMS = ("linux", "darwin", "win32")
MONEY = "Use the existing Money type, please"
TASK = "Add a refund flow to the orders service"
FILE = "orders/refund.py"
DONE = ("Write migration 0042",)
REMAINING = ("Wire POST /orders/:id/refund", "Write unit tests")
TEST = "python3 -m pytest -q"


def editors(tmp_path: Path, platform: str = "linux") -> Machine:
    """The machine of a user who used all of the editors' agents in a folder demo."""
    home, _ = place("vscode/windows" if platform == "win32" else "vscode/linux", tmp_path)
    if platform == "darwin":
        (home / "Library").mkdir()
        shutil.move(home / ".config", home / "Library" / "Application Support")
    return machine(home, platform=platform)


def cwd_of(platform: str) -> str:
    """Where they worked."""
    return "c:/code/demo" if platform == "win32" else "/code/demo"
