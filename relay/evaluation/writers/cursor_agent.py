"""As cursor-agent stores a chat (read in public sources): blobs of an SQLite database.

How it stores a summary or a refusal is not known: neither is written.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import PurePosixPath
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer, todos


class CursorAgentWriter(Writer):
    """See the module."""

    store = "cursor-agent"

    def begin(self) -> None:
        """See `Writer`."""
        folder = hashlib.md5(self.cwd.encode(), usedforsecurity=False).hexdigest()
        path = self.home / f".cursor/chats/{folder}/{self.session_id}/store.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        self._database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        self._root = b""
        self._message("system", "You are an agent.")
        self._message("user", f"<user_info>\nWorkspace Path: {self.cwd}\n</user_info>")

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._message("user", [{"type": "text", "text": f"<user_query>\n{text}\n</user_query>"}])

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._message("assistant", [{"type": "text", "text": text}])

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool("Read", {"path": self.path(step.path)}, step.text)

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        answer = (
            f"Error: {step.fails}" if step.fails else f"The file {self.path(step.path)} has been updated."
        )
        self._tool("StrReplace", self._edit(step), answer)

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        self._tool("Shell", {"command": step.command}, f"Exit code: {step.code}\n\n{step.output}")

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [{**entry, "id": str(number)} for number, entry in enumerate(todos(items), 1)]
        self._tool("TodoWrite", {"merge": False, "todos": entries}, "Successfully updated TODOs.")

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._call(self.next_id("toolu_"), "StrReplace", self._edit(EditedFile(path)))

    def end(self) -> None:
        """See `Writer`."""
        folder = PurePosixPath(self.cwd).as_uri().encode()
        root = self._blob(self._root + b"\x4a" + bytes([len(folder)]) + folder)
        told = {
            "agentId": self.session_id,
            "latestRootBlobId": root.hex(),
            "name": "A chat",
            "createdAt": int(self.started.timestamp() * 1000),
            "lastUsedModel": "claude-4.5-sonnet",
        }
        self._database.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(told).encode().hex(),))

    def close(self) -> None:
        """See `Writer`."""
        self._database.commit()
        self._database.close()

    def _edit(self, step: EditedFile) -> dict[str, str]:
        return {"path": self.path(step.path), "old_string": step.before, "new_string": step.after}

    def _tool(self, name: str, given: dict[str, Any], answer: str) -> None:
        call = self.next_id("toolu_")
        self._call(call, name, given)
        result = {"type": "tool-result", "toolCallId": call, "toolName": name, "result": answer}
        self._message("tool", [result])

    def _call(self, call: str, name: str, given: dict[str, Any]) -> None:
        self._message(
            "assistant", [{"type": "tool-call", "toolCallId": call, "toolName": name, "args": given}]
        )

    def _message(self, role: str, content: str | list[dict[str, Any]]) -> None:
        message = {"role": role, "id": self.next_id(), "content": content}
        data = json.dumps(message, ensure_ascii=False).encode()
        self._root += b"\x0a\x20" + self._blob(data)

    def _blob(self, data: bytes) -> bytes:
        name = hashlib.sha256(data).digest()
        self.written += len(data)
        self._database.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (name.hex(), data))
        return name
