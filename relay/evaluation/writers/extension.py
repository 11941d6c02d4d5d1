"""What the writers of Cline's and Roo Code's extensions share: what was shown, and what was told."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import Writer


class ExtensionWriter(Writer):
    """A task in a folder of the extension."""

    model: ClassVar[str] = "claude-sonnet-4.5"

    def begin(self) -> None:
        """See `Writer`."""
        self.task = ""
        self.changed: dict[str, None] = {}
        self._shown: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []

    def said(self, text: str) -> None:
        """See `Writer`."""
        where = (
            f"<environment_details>\n# Current Working Directory ({self.cwd}) Files\n</environment_details>"
        )
        tag = "feedback" if self.task else "task"
        blocks = [{"type": "text", "text": f"<{tag}>\n{text}\n</{tag}>"}, {"type": "text", "text": where}]
        self._messages.append({"role": "user", "content": blocks, "ts": self.millis})
        self.say("user_feedback" if self.task else "text", text)
        self.task = self.task or text
        self._requested()

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._messages.append(
            {"role": "assistant", "content": [{"type": "text", "text": text}], "ts": self.millis}
        )
        self.say("text", text)

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self.exchange("read_file", {"path": step.path}, step.text)
        self.show({"tool": "readFile", "path": step.path, "content": self.path(step.path)})

    def refused(self, text: str) -> None:
        """See `Writer`."""
        error = {"type": "error", "error": {"type": "rate_limit_error", "message": text}}
        self.ask("api_req_failed", f"429 {json.dumps(error, ensure_ascii=False)}")

    def exchange(self, tool: str, given: dict[str, Any], answer: str) -> None:
        """A tool call and its result, as the model saw them."""
        call = self.next_id("toolu_")
        asked = {"type": "tool_use", "id": call, "name": tool, "input": given}
        told = {"type": "tool_result", "tool_use_id": call, "content": answer}
        self._messages.append({"role": "assistant", "content": [asked], "ts": self.millis})
        self._messages.append({"role": "user", "content": [told], "ts": self.millis})

    def show(self, given: dict[str, Any]) -> None:
        """A tool call that was run, as the window shows it; another request follows."""
        self.say("tool", given)
        if given["tool"] in ("editedExistingFile", "appliedDiff"):
            self.changed[given["path"]] = None
        self._requested()

    def ran_as_shown(self, step: RanCommand) -> None:
        """A command and its output, as the window shows them."""
        self.ask("command", step.command)
        self.say("command_output", step.output)
        self._requested()

    def say(self, kind: str, told: str | dict[str, Any], **more: Any) -> None:
        """A message of the window."""
        self._show("say", kind, told, more)

    def ask(self, kind: str, told: str | dict[str, Any], **more: Any) -> None:
        """A question of the window."""
        self._show("ask", kind, told, more)

    def diff(self, step: EditedFile) -> str:
        """The edit as the model gives it."""
        return f"------- SEARCH\n{step.before}\n=======\n{step.after}\n+++++++ REPLACE"

    def end_in(self, folder: str) -> None:
        """Write both documents."""
        self.document(f"{folder}/ui_messages.json", self._shown)
        self.document(f"{folder}/api_conversation_history.json", self._messages)

    def _requested(self) -> None:
        spent = {"tokensIn": 12_011, "tokensOut": 411, "cacheWrites": 900, "cacheReads": 3_000, "cost": 0.04}
        info = {"providerId": "anthropic", "modelId": self.model, "mode": "act"}
        self.say("api_req_started", {"request": "...", **spent}, modelInfo=info)

    def _show(self, way: str, kind: str, told: str | dict[str, Any], more: dict[str, Any]) -> None:
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        ts = self.millis * 1000 + len(self._shown) % 1000
        self._shown.append({"ts": ts // 1000, "type": way, way: kind, "text": text, **more})
