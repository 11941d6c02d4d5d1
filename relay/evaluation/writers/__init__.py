"""Sessions written as the CLIs store them, one module a CLI: for the golden suite and the benchmarks.

Each as the recordings of that CLI look, or as its public sources say, without what no reader uses.
`WRITERS` lists them: by store, and a second form of a store under a name of its own.
"""

from __future__ import annotations

from relay.evaluation.writers.aider import AiderWriter
from relay.evaluation.writers.base import FOLDER, Writer
from relay.evaluation.writers.claude import ClaudeWriter
from relay.evaluation.writers.cline import ClineWriter
from relay.evaluation.writers.cline_extension import ClineExtensionWriter
from relay.evaluation.writers.codex import CodexWriter
from relay.evaluation.writers.continue_ import ContinueCliWriter, ContinueWriter
from relay.evaluation.writers.copilot import CopilotWriter
from relay.evaluation.writers.copilot_chat import CopilotChatWriter
from relay.evaluation.writers.cursor import CursorWriter
from relay.evaluation.writers.cursor_agent import CursorAgentWriter
from relay.evaluation.writers.gemini import GeminiWriter
from relay.evaluation.writers.opencode import OpenCodeWriter
from relay.evaluation.writers.qwen import QwenWriter
from relay.evaluation.writers.roo import RooWriter

WRITERS: dict[str, type[Writer]] = {
    "claude": ClaudeWriter,
    "codex": CodexWriter,
    "gemini": GeminiWriter,
    "qwen": QwenWriter,
    "opencode": OpenCodeWriter,
    "copilot": CopilotWriter,
    "copilot-chat": CopilotChatWriter,
    "cursor": CursorWriter,
    "cursor-agent": CursorAgentWriter,
    "cline": ClineWriter,
    "cline-extension": ClineExtensionWriter,
    "roo": RooWriter,
    "continue": ContinueWriter,
    "continue-cn": ContinueCliWriter,
    "aider": AiderWriter,
}

__all__ = ["FOLDER", "WRITERS", "Writer"]
