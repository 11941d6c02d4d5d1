"""As Claude Code 2.1.332 stores a session (seen)."""

from __future__ import annotations

import re
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer, todos


class ClaudeWriter(Writer):
    """See the module."""

    store = "claude"

    def begin(self) -> None:
        """See `Writer`."""
        folder = re.sub(r"[^A-Za-z0-9]", "-", self.cwd)
        self._parent: str | None = None
        self.opened(f".claude/projects/{folder}/{self.session_id}.jsonl")

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._row("user", {"role": "user", "content": text}, promptSource="typed")

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._message({"type": "text", "text": text}, "end_turn")

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        result = {"type": "text", "file": {"filePath": self.path(step.path), "content": step.text}}
        self._tool("Read", {"file_path": self.path(step.path)}, step.text, result)

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        given = {"file_path": self.path(step.path), "old_string": step.before, "new_string": step.after}
        told = f"The file {self.path(step.path)} has been updated successfully."
        result = {
            "filePath": self.path(step.path),
            "oldString": step.before,
            "newString": step.after,
            "structuredPatch": [{"lines": [f"-{step.before}", f"+{step.after}"]}],
        }
        self._tool("Edit", given, step.fails or told, step.fails or result, step.fails)

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        given = {"command": step.command, "description": "Run a command"}
        if step.code:
            words = f"Exit code {step.code}\n{step.output}"
            self._tool("Bash", given, words, f"Error: {words}", words)
        else:
            result = {"stdout": step.output, "stderr": "", "interrupted": False}
            self._tool("Bash", given, step.output, result)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [{**entry, "activeForm": entry["content"]} for entry in todos(items)]
        self._tool(
            "TodoWrite", {"todos": entries}, "Todos have been modified successfully.", {"newTodos": entries}
        )

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        self._row("system", None, subtype="compact_boundary", content="Conversation compacted")
        words = f"This session is being continued from a previous conversation.\n{text}"
        self._row("user", {"role": "user", "content": words}, isCompactSummary=True)

    def refused(self, text: str) -> None:
        """See `Writer`."""
        message = {
            "id": self.next_id(),
            "model": "<synthetic>",
            "role": "assistant",
            "type": "message",
            "stop_reason": "stop_sequence",
            "content": [{"type": "text", "text": text}],
        }
        told = {"isApiErrorMessage": True, "error": "rate_limit", "apiErrorStatus": 429}
        self._row("assistant", message, apiError="usage_limit_reached", **told)

    def cut(self, path: str) -> None:
        """See `Writer`."""
        given = {"file_path": self.path(path), "old_string": "a", "new_string": "b"}
        block = {"type": "tool_use", "id": self.next_id("toolu_"), "name": "Edit", "input": given}
        self._message(block, "tool_use")

    def _tool(self, name: str, given: dict[str, Any], words: str, result: object, fails: str = "") -> None:
        call = self.next_id("toolu_")
        self._message({"type": "tool_use", "id": call, "name": name, "input": given}, "tool_use")
        block: dict[str, Any] = {"tool_use_id": call, "type": "tool_result", "content": words}
        if fails:
            block["is_error"] = True
        self._row("user", {"role": "user", "content": [block]}, toolUseResult=result)

    def _message(self, block: dict[str, Any], stop: str) -> None:
        message = {
            "id": self.next_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": [block],
            "stop_reason": stop,
            "usage": {
                "input_tokens": 12,
                "cache_creation_input_tokens": 900,
                "cache_read_input_tokens": 40_000,
                "output_tokens": 210,
            },
        }
        self._row("assistant", message, requestId=self.next_id("req_"))

    def _row(self, kind: str, message: dict[str, Any] | None, **more: Any) -> None:
        own = self.next_id()
        record: dict[str, Any] = {"parentUuid": self._parent, "isSidechain": False, "type": kind}
        if message is not None:
            record["message"] = message
        self._parent = own
        self.line(
            {
                **record,
                "uuid": own,
                "timestamp": self.stamp,
                **more,
                "userType": "external",
                "cwd": self.cwd,
                "sessionId": self.session_id,
                "version": "2.1.332",
                "gitBranch": self.branch,
            }
        )
