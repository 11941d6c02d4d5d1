"""As Gemini CLI 0.61 stores a session (seen): every message once before and once with its tool calls."""

from __future__ import annotations

from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import STATUS_WORDS, Writer


class GeminiWriter(Writer):
    """See the module."""

    store = "gemini"

    def begin(self) -> None:
        """See `Writer`."""
        folder = f".gemini/tmp/{self.name}"
        at = self.started
        self.opened(f"{folder}/chats/session-{at:%Y-%m-%dT%H-%M}-{self.session_id[:8]}.jsonl")
        (self.home / folder / ".project_root").write_text(self.cwd)
        self.line(
            {"sessionId": self.session_id, "startTime": self.stamp, "lastUpdated": self.stamp, "kind": "main"}
        )

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._message({"type": "user", "content": [{"text": text}]})

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._message(self._answer(text))

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._tool("read_file", {"file_path": self.path(step.path)}, {"output": step.text})

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        answer = {"error": step.fails} if step.fails else {"output": "Successfully modified file"}
        given = {"file_path": self.path(step.path), "old_string": step.before, "new_string": step.after}
        self._tool("replace", given, answer, "error" if step.fails else "success")

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        words = f"<untrusted_context>\nOutput: {step.output}"
        words += f"\nExit Code: {step.code}" if step.code else ""
        self._tool(
            "run_shell_command", {"command": step.command}, {"output": f"{words}\n</untrusted_context>"}
        )

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [{"description": item.text, "status": STATUS_WORDS[item.status]} for item in items]
        self._tool("write_todos", {"todos": entries}, {"output": "Updated the todo list"})

    def summarised(self, text: str) -> None:
        """See `Writer`: the history is replaced by the summary, told to the model as the user's words."""
        self.told(text)

    def cut(self, path: str) -> None:
        """See `Writer`: calls are stored with their results, when they have ended."""
        self.cannot_tell("failed_attempts", f"edit {path}")

    def _tool(
        self, name: str, given: dict[str, Any], answer: dict[str, str], status: str = "success"
    ) -> None:
        call = self.next_id(f"{name}_")
        before = self._answer("")
        message_id = self._message(before)
        result = [{"functionResponse": {"id": call, "name": name, "response": answer}}]
        done = {
            "id": call,
            "name": name,
            "args": given,
            "result": result,
            "status": status,
            "timestamp": self.stamp,
        }
        self._message({**before, "toolCalls": [done]}, message_id)
        self._message({"type": "user", "content": result})

    def _answer(self, text: str) -> dict[str, Any]:
        spent = {"input": 12_131, "output": 12, "cached": 9_000, "thoughts": 0, "tool": 0, "total": 12_143}
        return {
            "type": "gemini",
            "content": text,
            "thoughts": [],
            "tokens": spent,
            "model": "gemini-3.8-flash",
        }

    def _message(self, message: dict[str, Any], message_id: str = "") -> str:
        message_id = message_id or self.next_id()
        self.line({"id": message_id, "timestamp": self.stamp, **message})
        self.line({"$set": {"lastUpdated": self.stamp}})
        return message_id
