"""As Continue 1.x stores a session (read in public sources): one document, of its extension or of its `cn`.

The extension has no tool for a plan; `cn` has one, with boxes for done and not done. A command that failed
and wrote nothing to its error output is told as one that did not. A refusal is not stored.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any, ClassVar

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer, checklist


class ContinueWriter(Writer):
    """The extension's."""

    store = "continue"
    tools: ClassVar[dict[str, str]] = {
        "read": "read_file",
        "edit": "single_find_and_replace",
        "run": "run_terminal_command",
    }
    path_keys: ClassVar[tuple[str, str]] = ("filepath", "filepath")
    """What the tools that read and edit call a file."""

    def begin(self) -> None:
        """See `Writer`."""
        self._history: list[dict[str, Any]] = []

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._item("user", text)

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._item("assistant", text)

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool(self.tools["read"], {self.path_keys[0]: self.named(step.path)}, "done", step.text)

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        status = "errored" if step.fails else "done"
        self._tool(self.tools["edit"], self._edit(step), status, step.fails or "Successfully edited")

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        if step.code and step.output:
            told = f"Error (exit code {step.code}): {step.output}"
            self._tool(self.tools["run"], {"command": step.command}, "errored", told)
            return
        if step.code:
            self.cannot_tell("failed_attempts", f"run {step.command}")
        self._tool(self.tools["run"], {"command": step.command}, "done", step.output)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        self.cannot_plan(items)

    def summarised(self, text: str) -> None:
        """See `Writer`: it stands beside the message up to which it tells."""
        self._history[-1]["conversationSummary"] = text

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._tool(self.tools["edit"], self._edit(EditedFile(path)), "calling", "")

    def end(self) -> None:
        """See `Writer`."""
        folder = PurePosixPath(self.cwd).as_uri()
        told = {"sessionId": self.session_id, "title": "A session", "workspaceDirectory": folder}
        self.document(f".continue/sessions/{self.session_id}.json", {**told, "history": self._history})
        entry = {**told, "dateCreated": str(int(self.started.timestamp() * 1000))}
        self.document(".continue/sessions/sessions.json", [entry])

    def named(self, path: str) -> str:
        """A file as its tools name it."""
        return path

    def _edit(self, step: EditedFile) -> dict[str, str]:
        where = self.named(step.path)
        return {self.path_keys[1]: where, "old_string": step.before, "new_string": step.after}

    def _tool(self, name: str, given: dict[str, str], status: str, output: str) -> None:
        call = self.next_id("call_")
        function = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
        asked = {"id": call, "type": "function", "function": function}
        state: dict[str, Any] = {"toolCallId": call, "toolCall": asked, "status": status, "parsedArgs": given}
        if status != "calling":
            state["output"] = [{"name": "Tool output", "description": "", "content": output}]
        self._item("assistant", "", toolCalls=[asked])["toolCallStates"] = [state]
        if status != "calling":
            self._item("tool", output, toolCallId=call)

    def _item(self, role: str, content: str, **more: Any) -> dict[str, Any]:
        item: dict[str, Any] = {"message": {"role": role, "content": content, **more}, "contextItems": []}
        self._history.append(item)
        return item


class ContinueCliWriter(ContinueWriter):
    """The one of `cn`. A compaction replaces all that was said, the prompt too."""

    tools: ClassVar[dict[str, str]] = {"read": "Read", "edit": "Edit", "run": "Bash"}
    path_keys: ClassVar[tuple[str, str]] = ("filepath", "file_path")

    def named(self, path: str) -> str:
        """See `ContinueWriter`."""
        return self.path(path)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        told = checklist(items)
        self._tool("Checklist", {"checklist": told}, "done", f"Task list status:\n{told}")

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        self._history = []
        self._item("assistant", text)["conversationSummary"] = text
