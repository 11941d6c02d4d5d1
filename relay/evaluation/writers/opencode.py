"""As OpenCode 1.18 stores a session (seen): rows of an SQLite database."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer, todos

_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, parent_id text, directory text NOT NULL,
    title text NOT NULL, version text NOT NULL, model text, time_created integer, time_updated integer);
CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE IF NOT EXISTS todo (session_id text NOT NULL, content text NOT NULL, status text NOT NULL,
    priority text NOT NULL, position integer NOT NULL, PRIMARY KEY (session_id, position));
CREATE INDEX IF NOT EXISTS message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX IF NOT EXISTS part_message_id_id_idx ON part (message_id, id);
"""


class OpenCodeWriter(Writer):
    """See the module."""

    store = "opencode"

    def begin(self) -> None:
        """See `Writer`."""
        path = self.home / ".local/share/opencode/opencode.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.executescript(_SCHEMA)
        self.session_id = f"ses_{self.session_id.replace('-', '')[:24]}"
        model = json.dumps({"id": "sonnet-5", "providerID": "anthropic"})
        row = (self.session_id, None, self.cwd, "A session", "1.18.33", model, self.millis, self.millis)
        self._database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._part(self._message({"role": "user"}), {"type": "text", "text": text})

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._part(self._answer("stop"), {"type": "text", "text": text})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool("read", {"filePath": self.path(step.path)}, {"status": "completed", "output": step.text})

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        given = {"filePath": self.path(step.path), "oldString": step.before, "newString": step.after}
        done = (
            {"status": "error", "error": step.fails}
            if step.fails
            else {"status": "completed", "output": "ok"}
        )
        self._tool("edit", given, done)

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        done = {"status": "completed", "output": step.output, "metadata": {"exit": step.code}}
        self._tool("bash", {"command": step.command}, done)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [{**entry, "priority": "medium"} for entry in todos(items)]
        self._tool("todowrite", {"todos": entries}, {"status": "completed", "output": "[]"})
        self._database.execute("DELETE FROM todo WHERE session_id = ?", (self.session_id,))
        self._database.executemany(
            "INSERT INTO todo VALUES (?, ?, ?, ?, ?)",
            [
                (self.session_id, entry["content"], entry["status"], "medium", number)
                for number, entry in enumerate(entries)
            ],
        )

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        message = self._answer("stop", summary=True)
        self._part(message, {"type": "compaction", "auto": True})
        self._part(message, {"type": "text", "text": text})

    def refused(self, text: str) -> None:
        """See `Writer`."""
        data = {"message": text, "statusCode": 429, "isRetryable": True}
        self._answer("error", error={"name": "APIError", "data": data})

    def cut(self, path: str) -> None:
        """See `Writer`."""
        given = {"filePath": self.path(path), "oldString": "a", "newString": "b"}
        self._tool("edit", given, {"status": "running"})

    def end(self) -> None:
        """See `Writer`."""
        wanted = "UPDATE session SET time_updated = ? WHERE id = ?"
        self._database.execute(wanted, (self.millis, self.session_id))

    def close(self) -> None:
        """See `Writer`."""
        self._database.commit()
        self._database.close()

    def _tool(self, name: str, given: dict[str, Any], done: dict[str, Any]) -> None:
        part = {
            "type": "tool",
            "tool": name,
            "callID": self.next_id("call_"),
            "state": {**done, "input": given},
        }
        self._part(self._answer("tool-calls"), part)

    def _answer(self, finish: str, **more: Any) -> str:
        return self._message(
            {
                "role": "assistant",
                "path": {"cwd": self.cwd, "root": self.cwd},
                "cost": 0.008,
                "tokens": {
                    "total": 8_029,
                    "input": 8_002,
                    "output": 27,
                    "reasoning": 0,
                    "cache": {"read": 0, "write": 0},
                },
                "modelID": "sonnet-5",
                "providerID": "anthropic",
                "finish": finish,
                **more,
            }
        )

    def _message(self, data: dict[str, Any]) -> str:
        own = f"msg_{self.count:08x}{self.next_id()[:16]}"
        data["time"] = {"created": self.millis, "completed": self.millis}
        text = json.dumps(data, separators=(",", ":"))
        self.written += len(text)
        row = (own, self.session_id, self.millis, self.millis, text)
        self._database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        return own

    def _part(self, message: str, data: dict[str, Any]) -> None:
        own = f"prt_{self.count:08x}{self.next_id()[:16]}"
        text = json.dumps(data, separators=(",", ":"))
        self.written += len(text)
        row = (own, message, self.session_id, self.millis, self.millis, text)
        self._database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
