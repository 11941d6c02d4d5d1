"""As Cline's extension 3.49 stores a task (read in public sources): what its window showed, and messages.

How a command ended is told in neither. The plan has boxes for done and not done alone.
"""

from __future__ import annotations

from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand
from relay.evaluation.writers.base import checklist
from relay.evaluation.writers.extension import ExtensionWriter

_FOLDER = ".config/Code/User/globalStorage/saoudrizwan.claude-dev"


class ClineExtensionWriter(ExtensionWriter):
    """See the module."""

    store = "cline"

    def begin(self) -> None:
        """See `Writer`."""
        super().begin()
        self.session_id = str(self.millis)
        self._progress = ""

    def exchange(self, tool: str, given: dict[str, Any], answer: str) -> None:
        """See `ExtensionWriter`: the tool's name stands before its result."""
        what = given.get("path") or given.get("command")
        super().exchange(tool, given, f"[{tool} for '{what}'] Result:\n{answer}")

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        given = {"path": step.path, "diff": self.diff(step)}
        if step.fails:
            words = "The tool execution failed with the following error:"
            self.exchange("replace_in_file", given, f"{words}\n<error>\n{step.fails}\n</error>")
            self.say("diff_error", step.path)
            return
        self.exchange("replace_in_file", given, f"The content was successfully saved to {step.path}.")
        self.show({"tool": "editedExistingFile", "path": step.path, "content": self.diff(step)})

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        if step.code:
            self.cannot_tell("failed_attempts", f"run {step.command}")
        given = {"command": step.command, "requires_approval": False}
        self.exchange("execute_command", given, f"Command executed.\nOutput:\n{step.output}")
        self.ran_as_shown(step)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        self._progress = checklist(items)
        self.say("task_progress", self._progress)

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        self.show({"tool": "summarizeTask", "content": text})

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self.ask("tool", {"tool": "editedExistingFile", "path": path, "content": ""})

    def end(self) -> None:
        """See `Writer`."""
        folder = f"{_FOLDER}/tasks/{self.session_id}"
        self.end_in(folder)
        entry: dict[str, Any] = {"id": self.session_id, "ts": self.millis, "task": self.task}
        places = {"cwdOnTaskInitialization": self.cwd, "shadowGitConfigWorkTree": self.cwd}
        self.document(f"{_FOLDER}/state/taskHistory.json", [{**entry, **places, "modelId": self.model}])
        files = [{"path": path, "record_source": "cline_edited"} for path in self.changed]
        self.document(f"{folder}/task_metadata.json", {"files_in_context": files})
        if self._progress:
            path = self.home / f"{folder}/focus_chain_taskid_{self.session_id}.md"
            path.write_text(f"# Focus Chain List for Task {self.session_id}\n\n{self._progress}\n")
