"""As Cursor 2.x stores a conversation of its editor (read in public sources): rows of an SQLite database.

A summary stands beside the conversation and replaces nothing.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import PurePosixPath
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer, todos

_USER, _AGENT = 1, 2


class CursorWriter(Writer):
    """See the module."""

    store = "cursor"

    def begin(self) -> None:
        """See `Writer`."""
        path = self.home / ".config/Cursor/User/globalStorage/state.vscdb"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        for table in ("ItemTable", "cursorDiskKV"):
            self._database.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
            )
        self._headers: list[dict[str, Any]] = []
        self._todos: list[dict[str, str]] = []
        self._changed: dict[str, Any] = {}
        self._status = "completed"
        self._summary: dict[str, Any] = {}

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._bubble(_USER, text=text, workspaceUris=[PurePosixPath(self.cwd).as_uri()])

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._bubble(_AGENT, text=text, tokenCount={"inputTokens": 13_950, "outputTokens": 120})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool("read_file_v2", {"targetFile": step.path}, {"contents": step.text})

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        given = {"relativeWorkspacePath": step.path}
        if step.fails:
            self._tool("edit_file_v2", given, {"error": step.fails}, "error")
            return
        self._tool("edit_file_v2", given, {"afterContentId": f"composer.content.{self.next_id()}"})
        self._changed[PurePosixPath(self.path(step.path)).as_uri()] = {"content": step.before}

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        told = {"output": step.output, "exitCode": step.code, "rejected": False}
        self._tool("run_terminal_command_v2", {"command": step.command, "cwd": self.cwd}, told)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        self._todos = [{**entry, "id": str(number)} for number, entry in enumerate(todos(items), 1)]
        told = {"success": True, "finalTodos": self._todos, "initialTodos": []}
        self._tool("todo_write", {"merge": False, "todos": self._todos}, told)

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        last = self._headers[-1]["bubbleId"]
        own = {"summary": text, "truncationLastBubbleIdInclusive": last, "includesToolResults": True}
        self._summary = {"latestConversationSummary": {"summary": own, "lastBubbleId": last}}

    def refused(self, text: str) -> None:
        """See `Writer`."""
        error = {"error": "ERROR_RATE_LIMITED", "message": text, "details": {"title": text, "detail": text}}
        self._bubble(_AGENT, text="", errorDetails=error)
        self._status = "aborted"

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._tool("edit_file_v2", {"relativeWorkspacePath": path}, {}, "loading")
        self._status = "generating"

    def end(self) -> None:
        """See `Writer`."""
        told = {
            "_v": 10,
            "composerId": self.session_id,
            "name": "A session",
            "createdAt": int(self.started.timestamp() * 1000),
            "lastUpdatedAt": self.millis,
            "status": self._status,
            "modelConfig": {"modelName": "claude-4.5-sonnet"},
            "fullConversationHeadersOnly": self._headers,
            "todos": self._todos,
            "originalFileStates": self._changed,
            "createdOnBranch": self.branch,
        }
        self._put(f"composerData:{self.session_id}", {**told, **self._summary})

    def close(self) -> None:
        """See `Writer`."""
        self._database.commit()
        self._database.close()

    def _tool(self, name: str, given: dict[str, Any], result: object, status: str = "completed") -> None:
        words = json.dumps(given, ensure_ascii=False)
        call = {"name": name, "toolCallId": self.next_id("toolu_"), "status": status}
        told = json.dumps(result, ensure_ascii=False)
        former = {**call, "rawArgs": words, "params": words, "result": told}
        self._bubble(_AGENT, text="", capabilityType=15, toolFormerData=former)

    def _bubble(self, kind: int, **more: Any) -> None:
        own = self.next_id()
        self._headers.append({"bubbleId": own, "type": kind})
        bubble = {"_v": 3, "type": kind, "bubbleId": own, "createdAt": self.stamp, "isAgentic": True, **more}
        self._put(f"bubbleId:{self.session_id}:{own}", bubble)

    def _put(self, key: str, value: dict[str, Any]) -> None:
        text = json.dumps(value, ensure_ascii=False)
        self.written += len(text)
        self._database.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, text))
