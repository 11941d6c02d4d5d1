"""As Copilot CLI 1.0.102 stores a session (seen)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from relay.core.events import PlanItem, TaskStatus
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer

_STATUS = {
    TaskStatus.PENDING: "pending",
    TaskStatus.IN_PROGRESS: "in_progress",
    TaskStatus.COMPLETED: "done",
}


class CopilotWriter(Writer):
    """See the module."""

    store = "copilot"

    def begin(self) -> None:
        """See `Writer`."""
        self._parent: str | None = None
        self._plan: tuple[PlanItem, ...] = ()
        self._folder = f".copilot/session-state/{self.session_id}"
        self.opened(f"{self._folder}/events.jsonl")
        self._event(
            "session.start",
            {
                "sessionId": self.session_id,
                "version": 1,
                "copilotVersion": "1.0.102",
                "startTime": self.stamp,
                "selectedModel": "claude-sonnet-5",
                "context": {"cwd": self.cwd, "gitRoot": self.cwd, "branch": self.branch},
            },
        )

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._event("user.message", {"content": text, "transformedContent": text})

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._spent()
        self._event("assistant.message", {"model": "claude-sonnet-5", "content": text, "toolRequests": []})
        self._event("assistant.turn_end", {"turnId": "0"})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool(
            "view", {"path": self.path(step.path)}, {"success": True, "result": {"content": step.text}}
        )

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        path = self.path(step.path)
        done: dict[str, Any] = {"success": False, "error": {"message": step.fails, "code": "failure"}}
        if not step.fails:
            done = {
                "fileEdits": [{"path": path, "kind": "edit"}],
                "success": True,
                "result": {"content": f"File {path} updated with changes."},
            }
        self._tool("edit", {"path": path, "old_str": step.before, "new_str": step.after}, done)

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        words = f"{step.output}\n<exited with exit code {step.code}>"
        done = {"success": True, "result": {"content": words}, "shellExecution": {"exitCode": step.code}}
        self._tool("bash", {"command": step.command, "description": "Run a command"}, done)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        named = {item.text for item in items}
        kept = (item for item in self._plan if item.status is TaskStatus.COMPLETED and item.text not in named)
        self._plan = (*kept, *items)
        self._tool(
            "sql", {"query": "UPDATE todos SET status='done'"}, {"success": True, "result": {"content": ""}}
        )

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        self._event("session.compaction_complete", {"success": True, "summaryContent": text})

    def end(self) -> None:
        """See `Writer`: the plan lies in a database of its own."""
        if not self._plan:
            return
        with closing(sqlite3.connect(self.home / self._folder / "session.db")) as database, database:
            database.execute("CREATE TABLE todos (id TEXT PRIMARY KEY, title TEXT NOT NULL, status TEXT)")
            rows = [(f"t{number}", item.text, _STATUS[item.status]) for number, item in enumerate(self._plan)]
            database.executemany("INSERT INTO todos VALUES (?, ?, ?)", rows)

    def refused(self, text: str) -> None:
        """See `Writer`."""
        self._event("session.error", {"errorType": "rate_limit", "message": text, "statusCode": 429})

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._call("edit", {"path": self.path(path), "old_str": "a", "new_str": "b"})

    def _tool(self, name: str, given: dict[str, Any], done: dict[str, Any]) -> None:
        call = self._call(name, given)
        self._event("tool.execution_complete", {"toolCallId": call, **done})

    def _call(self, name: str, given: dict[str, Any]) -> str:
        """A tool call that begins; its id."""
        call = self.next_id("call_")
        request = {"toolCallId": call, "name": name, "arguments": given, "type": "function"}
        self._spent()
        self._event(
            "assistant.message", {"model": "claude-sonnet-5", "content": "", "toolRequests": [request]}
        )
        self._event("tool.execution_start", {"toolCallId": call, "toolName": name, "arguments": given})
        return call

    def _spent(self) -> None:
        usage = {
            "inputTokens": 12_137,
            "outputTokens": 95,
            "cacheReadTokens": 9_000,
            "maxPromptTokens": 128_000,
        }
        self._event("session.usage_record", {"usage": usage})

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        own = self.next_id()
        self.line({"type": kind, "data": data, "id": own, "timestamp": self.stamp, "parentId": self._parent})
        self._parent = own
