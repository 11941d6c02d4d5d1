"""As Cline's command line 3.0.65 stores a session (seen): two documents. It has no tool for a plan."""

from __future__ import annotations

import json
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer

_MODEL = "claude-sonnet-4-5"


class ClineWriter(Writer):
    """See the module. A compaction leaves the messages as they are."""

    store = "cline"

    def begin(self) -> None:
        """See `Writer`."""
        self.session_id = f"{self.millis}_{self.session_id[:5]}"
        self._messages: list[dict[str, Any]] = []
        self._prompt = ""
        self._status = "completed"

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._prompt = self._prompt or text
        self._message("user", [{"type": "text", "text": f'<user_input mode="act">{text}</user_input>'}])

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._answer({"type": "text", "text": text})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        path = self.path(step.path)
        answer = [{"query": path, "result": step.text, "success": True}]
        self._tool("read_files", {"files": [{"path": path}]}, answer)

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        path = self.path(step.path)
        answer: dict[str, Any] = {"query": f"edit:{path}", "success": not step.fails}
        answer["error" if step.fails else "result"] = step.fails or f"Edited {path}"
        given = {"path": path, "old_text": step.before, "new_text": step.after}
        self._tool("editor", given, json.dumps(answer, ensure_ascii=False))

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        answer: dict[str, Any] = {"query": step.command, "result": step.output, "success": not step.code}
        if step.code:
            answer = {**answer, "result": "", "error": f"{step.output}\nCommand exited with code {step.code}"}
        self._tool("run_commands", {"commands": [step.command]}, [answer])

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        self.cannot_plan(items)

    def refused(self, text: str) -> None:
        """See `Writer`."""
        self._status = "failed"
        shown = {"displayOnly": True, "displayRole": "error"}
        self._message("assistant", [{"type": "text", "text": text}], metadata=shown)

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._status = "running"
        given = {"path": self.path(path), "old_text": "a", "new_text": "b"}
        self._answer({"type": "tool_use", "id": self.next_id("call_"), "name": "editor", "input": given})

    def end(self) -> None:
        """See `Writer`."""
        folder = f".cline/data/sessions/{self.session_id}"
        self.document(
            f"{folder}/{self.session_id}.messages.json",
            {"version": 1, "sessionId": self.session_id, "agent": "lead", "messages": self._messages},
        )
        told = {
            "version": 1,
            "session_id": self.session_id,
            "source": "cli",
            "started_at": self.started.isoformat(),
            "status": self._status,
            "provider": "anthropic",
            "model": _MODEL,
            "cwd": self.cwd,
            "workspace_root": self.cwd,
            "prompt": self._prompt,
            "metadata": {"git": {"branch": self.branch}, "title": self._prompt[:80]},
        }
        self.document(f"{folder}/{self.session_id}.json", told)

    def _tool(self, name: str, given: dict[str, Any], answer: object) -> None:
        call = self.next_id("call_")
        self._answer({"type": "tool_use", "id": call, "name": name, "input": given})
        self._message("user", [{"type": "tool_result", "tool_use_id": call, "name": name, "content": answer}])

    def _answer(self, block: dict[str, Any]) -> None:
        spent = {"inputTokens": 5_666, "outputTokens": 15, "cacheReadTokens": 0, "cacheWriteTokens": 0}
        self._message("assistant", [block], modelInfo={"id": _MODEL, "provider": "anthropic"}, metrics=spent)

    def _message(self, role: str, content: list[dict[str, Any]], **more: Any) -> None:
        own = self.next_id("msg_")
        self._messages.append({"id": own, "role": role, "content": content, "ts": self.millis, **more})
