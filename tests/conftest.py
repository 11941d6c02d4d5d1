"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Stage
from tests.fakes.llm.server import FakeLlm

for _number in (signal.SIGINT, signal.SIGQUIT):
    # A shell's `&` in a script has them ignored, and every process that a test starts would inherit that.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

_NATIVE = {
    "claude": "@anthropic-ai/claude-code/bin/claude.exe",
    "codex": "@openai/codex-*/vendor/*/bin/codex",
}
"""The programs themselves, below node_modules: npm's launchers are one process more."""


def find_cli(name: str) -> Path:
    """The pinned CLI, or no test without it."""
    given = os.environ.get("RELAY_TEST_CLIS")
    folder = Path(given) if given else Path(__file__).parent.parent / ".tools" / "clis"
    found = next(iter((folder / "node_modules").glob(_NATIVE[name])), None)
    if found is None:
        reason = f"{name} is not installed in {folder}: `make clis` does that"
        if os.environ.get("RELAY_REQUIRE_CLIS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found.resolve()


@pytest.fixture
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as fake:
        yield fake


@pytest.fixture
def stage(request: pytest.FixtureRequest, llm: FakeLlm) -> Iterator[Stage]:
    if request.node.get_closest_marker("real_cli"):
        # Here, not in the test: a nursery would swallow the reason.
        for name in _NATIVE:
            find_cli(name)
    # Codex refuses a home below the temporary folder.
    root = Path(tempfile.mkdtemp(prefix="relay-e2e-", dir="/var/tmp")).resolve()
    try:
        yield Stage(root=root, llm=llm, find_cli=find_cli)
    finally:
        shutil.rmtree(root)
