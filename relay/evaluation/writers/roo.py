"""As Roo Code 3.36 stores a task (read in public sources).

Its window does not show how a command ended, nor an edit that failed once: the messages to the model do.
"""

from __future__ import annotations

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand
from relay.evaluation.writers.base import todos
from relay.evaluation.writers.extension import ExtensionWriter

_TASKS = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"


class RooWriter(ExtensionWriter):
    """See the module."""

    store = "roo"

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        given = {"path": step.path, "diff": self.diff(step)}
        shown = {"tool": "appliedDiff", "path": step.path, "diff": self.diff(step)}
        if step.fails:
            self.exchange("apply_diff", given, f"<error_details>\n{step.fails}\n</error_details>")
            self.ask("tool", shown, partial=True)
            return
        self.exchange(
            "apply_diff", given, f"<file_write_result>\n<path>{step.path}</path>\n</file_write_result>"
        )
        self.show(shown)

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        advice = "Command execution was not successful, inspect the cause and adjust as needed.\n"
        ended = f"{advice if step.code else ''}Exit code: {step.code}"
        where = f"Command executed in terminal within working directory '{self.cwd}'."
        self.exchange(
            "execute_command", {"command": step.command}, f"{where} {ended}\nOutput:\n{step.output}"
        )
        self.ran_as_shown(step)

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        entries = [{**entry, "id": str(number)} for number, entry in enumerate(todos(items))]
        self.ask("tool", {"tool": "updateTodoList", "todos": entries})

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        told = {"summary": text, "prevContextTokens": 150_000, "newContextTokens": 9_000, "cost": 0.1}
        self.say("condense_context", "", contextCondense=told)

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self.ask("tool", {"tool": "appliedDiff", "path": path, "diff": ""})

    def end(self) -> None:
        """See `Writer`."""
        folder = f"{_TASKS}/{self.session_id}"
        self.end_in(folder)
        item = {"id": self.session_id, "number": 1, "ts": self.millis, "task": self.task}
        self.document(f"{folder}/history_item.json", {**item, "workspace": self.cwd, "mode": "code"})
        files = [{"path": path, "record_source": "roo_edited"} for path in self.changed]
        self.document(f"{folder}/task_metadata.json", {"files_in_context": files})
