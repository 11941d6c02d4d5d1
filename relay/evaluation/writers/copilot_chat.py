"""As VS Code 1.109 stores a chat with GitHub Copilot (read in public sources): a log of changes.

An edit that failed is shown like one that did nothing. What the model was told of it is stored when its
request has ended, and is lost with a request that never does.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath
from typing import Any

from relay.core.events import PlanItem, TaskStatus
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer

_STATUS = {
    TaskStatus.PENDING: "not-started",
    TaskStatus.IN_PROGRESS: "in-progress",
    TaskStatus.COMPLETED: "completed",
}
_MODEL = "copilot/claude-sonnet-4.5"
_PENDING, _COMPLETE, _FAILED = 0, 1, 3


class CopilotChatWriter(Writer):
    """See the module."""

    store = "copilot-chat"

    def begin(self) -> None:
        """See `Writer`."""
        folder = PurePosixPath(self.cwd).as_uri()
        digest = hashlib.md5(folder.encode(), usedforsecurity=False).hexdigest()
        storage = f".config/Code/User/workspaceStorage/{digest}"
        self.document(f"{storage}/workspace.json", {"folder": folder})
        self.opened(f"{storage}/chatSessions/{self.session_id}.jsonl")
        self._turn = -1
        self._open = False
        self._edits: list[tuple[EditedFile, str]] = []
        session = {"version": 3, "sessionId": self.session_id, "creationDate": self.millis, "requests": []}
        chosen = {"identifier": _MODEL, "metadata": {"maxInputTokens": 127_997}}
        self.line({"kind": 0, "v": {**session, "inputState": {"selectedModel": chosen}}})

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._close_turn()
        self._turn += 1
        self._open = True
        request = {
            "requestId": self.next_id("request_"),
            "timestamp": self.millis,
            "message": {"text": text, "parts": [{"kind": "text", "text": text}]},
            "response": [],
            "modelId": _MODEL,
            "modelState": {"value": _PENDING},
        }
        self.line({"kind": 2, "k": ["requests"], "v": [request]})

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._part({"value": text, "supportThemeIcons": False})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool("copilot_readFile", f"Read []({self._uri(step.path)})")

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        self._edits.append((step, self.next_id("toolu_")))
        if step.fails:
            self._tool("copilot_replaceString", 'Used "Replace String in File"')
            return
        self._tool("copilot_replaceString", f"Edited []({self._uri(step.path)})")
        where = {"$mid": 1, "path": self.path(step.path), "scheme": "file", "external": self._uri(step.path)}
        self._part({"kind": "textEditGroup", "uri": where, "done": True, "edits": [[{"text": step.after}]]})

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        told = {
            "kind": "terminal",
            "commandLine": {"original": step.command},
            "language": "sh",
            "terminalCommandState": {"exitCode": step.code},
            "terminalCommandOutput": {"text": step.output},
        }
        self._tool("run_in_terminal", "Ran terminal command", toolSpecificData=told)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [
            {"id": str(number), "title": item.text, "description": "", "status": _STATUS[item.status]}
            for number, item in enumerate(items, 1)
        ]
        told = {"kind": "todoList", "sessionId": self.session_id, "todoList": entries}
        self._tool("manage_todo_list", "Updated todos", toolSpecificData=told)

    def summarised(self, text: str) -> None:
        """See `Writer`: the summary is told to the model alone, and all that was shown stays."""
        self._part({"kind": "progressMessage", "content": {"value": "Summarized conversation history"}})

    def refused(self, text: str) -> None:
        """See `Writer`."""
        error = {"code": "rateLimited", "message": text, "isRateLimited": True}
        self._set("result", {"errorDetails": error, "metadata": self._calls()})
        self._set("modelState", {"value": _FAILED, "completedAt": self.millis})
        self._open = False

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._tool("copilot_replaceString", f"Editing []({self._uri(path)})", isComplete=False)
        self._open = False
        for step, _ in self._edits:
            if step.fails:
                self.cannot_tell("failed_attempts", f"edit {step.path}")

    def end(self) -> None:
        """See `Writer`."""
        self._close_turn()

    def _close_turn(self) -> None:
        if self._open:
            told = {"promptTokens": 18_211, "outputTokens": 932, **self._calls()}
            self._set("result", {"metadata": told})
            self._set("modelState", {"value": _COMPLETE, "completedAt": self.millis})
            self._open = False

    def _calls(self) -> dict[str, Any]:
        """The edits of the request and what the model was told of them: of those that worked, as a tree."""
        calls, results = [], {}
        for step, name in self._edits:
            call_id = f"{name}__vscode-{self.millis}"
            given = {"filePath": self.path(step.path), "oldString": step.before, "newString": step.after}
            calls.append({"name": "replace_string_in_file", "arguments": json.dumps(given), "id": call_id})
            words = ("The following files were successfully edited:", "\n", self.path(step.path), "\n")
            error = (f"String replacement failed: {step.fails}",)
            texts = [
                {"type": 2, "text": text, "lineBreakBefore": False}
                for text in (error if step.fails else words)
            ]
            node = {"type": 1, "ctor": 2, "ctorName": "qy", "children": texts, "props": {}, "references": []}
            results[call_id] = {"$mid": 20, "content": [{"$mid": 23, "value": {"node": node}}]}
        self._edits = []
        return {"toolCallRounds": [{"response": "", "toolCalls": calls}], "toolCallResults": results}

    def _tool(self, name: str, message: str, **more: Any) -> None:
        said = {"value": message, "supportThemeIcons": False}
        part = {
            "kind": "toolInvocationSerialized",
            "toolCallId": self.next_id("toolu_"),
            "toolId": name,
            "isComplete": True,
            "isConfirmed": {"type": 1},
            "invocationMessage": said,
        }
        self._part({**part, "pastTenseMessage": said, **more})

    def _part(self, part: dict[str, Any]) -> None:
        self.line({"kind": 2, "k": ["requests", self._turn, "response"], "v": [part]})

    def _set(self, name: str, value: dict[str, Any]) -> None:
        self.line({"kind": 1, "k": ["requests", self._turn, name], "v": value})

    def _uri(self, path: str) -> str:
        return PurePosixPath(self.path(path)).as_uri()
