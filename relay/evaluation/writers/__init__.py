"""Sessions written as the CLIs store them, one module a CLI: for the golden suite and the benchmarks.

Each as the recordings of that CLI look, without what no reader uses. `WRITERS` lists them by store.
"""

from __future__ import annotations

from relay.evaluation.writers.base import Writer
from relay.evaluation.writers.claude import ClaudeWriter
from relay.evaluation.writers.codex import CodexWriter
from relay.evaluation.writers.copilot import CopilotWriter
from relay.evaluation.writers.gemini import GeminiWriter
from relay.evaluation.writers.opencode import OpenCodeWriter
from relay.evaluation.writers.qwen import QwenWriter

WRITERS: dict[str, type[Writer]] = {
    "claude": ClaudeWriter,
    "codex": CodexWriter,
    "gemini": GeminiWriter,
    "qwen": QwenWriter,
    "opencode": OpenCodeWriter,
    "copilot": CopilotWriter,
}

__all__ = ["WRITERS", "Writer"]
