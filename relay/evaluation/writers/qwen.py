"""As Qwen Code 0.24 stores a session (seen)."""

from __future__ import annotations

import json
import re
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer, todos


class QwenWriter(Writer):
    """See the module."""

    store = "qwen"

    def begin(self) -> None:
        """See `Writer`."""
        self._parent: str | None = None
        folder = re.sub(r"[^A-Za-z0-9]", "-", self.cwd)
        self.opened(f".qwen/projects/{folder}/chats/{self.session_id}.jsonl")

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._row("user", "real_user", message={"role": "user", "parts": [{"text": text}]})

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._answer({"text": text})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool("read_file", {"file_path": self.path(step.path)}, {"output": step.text})

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        given = {"file_path": self.path(step.path), "old_string": step.before, "new_string": step.after}
        answer = {"error": step.fails} if step.fails else {"output": "Successfully modified file"}
        self._tool("edit", given, answer)

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        told = f"Command: {step.command}\nOutput: {step.output}\nError: (none)\nExit Code: {step.code}"
        display = {"type": "shell_result", "output": step.output, "exitCode": step.code}
        self._tool(
            "run_shell_command",
            {"command": step.command},
            {"error": told} if step.code else {"output": told},
            display,
        )

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [{**entry, "id": str(number)} for number, entry in enumerate(todos(items), 1)]
        self._tool("todo_write", {"todos": entries}, {"output": "Todos have been modified successfully."})
        path = self.home / f".qwen/todos/{self.session_id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"todos": entries, "sessionId": self.session_id}))

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        self._row("system", "system", subtype="chat_compression", systemPayload={"summary": text})

    def refused(self, text: str) -> None:
        """See `Writer`."""
        event = {"event.name": "qwen-code.api_error", "error_message": text, "error_type": "rate_limit"}
        payload = {"uiEvent": {**event, "status_code": 429}}
        self._row("system", "system", subtype="ui_telemetry", systemPayload=payload)

    def cut(self, path: str) -> None:
        """See `Writer`."""
        given = {"file_path": self.path(path), "old_string": "a", "new_string": "b"}
        self._answer({"functionCall": {"id": self.next_id("call_"), "name": "edit", "args": given}})

    def _tool(self, name: str, given: dict[str, Any], answer: dict[str, str], display: object = "") -> None:
        call = self.next_id("call_")
        self._answer({"functionCall": {"id": call, "name": name, "args": given}})
        response = {"functionResponse": {"id": call, "name": name, "response": answer}}
        self._row(
            "tool_result",
            "tool_result",
            message={"role": "user", "parts": [response]},
            toolCallResult={
                "callId": call,
                "status": "error" if "error" in answer else "success",
                "resultDisplay": display,
            },
        )

    def _answer(self, part: dict[str, Any]) -> None:
        spent = {
            "promptTokenCount": 21_545,
            "candidatesTokenCount": 10,
            "cachedContentTokenCount": 20_000,
            "totalTokenCount": 21_555,
        }
        message = {"role": "model", "parts": [part]}
        self._row(
            "assistant",
            "assistant_output",
            model="qwen3-coder-plus",
            message=message,
            usageMetadata=spent,
            contextWindowSize=1_000_000,
        )

    def _row(self, kind: str, provenance: str, **more: Any) -> None:
        own = self.next_id()
        record = {
            "uuid": own,
            "parentUuid": self._parent,
            "sessionId": self.session_id,
            "timestamp": self.stamp,
            "type": kind,
            "provenance": provenance,
            "cwd": self.cwd,
            "version": "0.24.4",
            "gitBranch": self.branch,
        }
        self._parent = own
        self.line({**record, **more})
