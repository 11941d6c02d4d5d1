"""As aider 0.86.2 writes a chat (seen): markdown in the folder that it works in.

It has no plan, does not write down how a command ended, and knows no call that could be cut off: an edit
stands in an answer, and is applied when that has come in whole. Its summaries are not written.
"""

from __future__ import annotations

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import FOLDER, Writer

_MATCH = "The SEARCH section must exactly match an existing block of lines"
_UNMATCHED = "## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in"
_WAIT = "The API provider has rate limited you. Try again later or check your quotas."


class AiderWriter(Writer):
    """See the module."""

    store = "aider"

    def begin(self) -> None:
        """See `Writer`."""
        self._asked = False
        self.opened(f"{FOLDER}/.aider.chat.history.md")
        self._put(f"\n# aider chat started at {self.started:%Y-%m-%d %H:%M:%S}\n\n")
        self._print("Aider v0.86.2", "Model: anthropic/claude-sonnet-4-5 with diff edit format")

    def said(self, text: str) -> None:
        """See `Writer`."""
        self._asked = True
        # As aider itself does, at every line break that Python knows.
        self._put("\n#### " + "  \n#### ".join(text.splitlines()) + "  \n")

    def told(self, text: str) -> None:
        """See `Writer`."""
        if not self._asked:
            self._print("Attempt to fix test errors? (Y)es/(N)o [Yes]: y")
        self._asked = False
        self._put(f"\n{text.strip()}\n\n")
        self._print("Tokens: 2.8k sent, 26 received. Cost: $0.01 message, $0.02 session.")

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        self._print(f"Added {step.path} to the chat")

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        block = f"<<<<<<< SEARCH\n{step.before}\n=======\n{step.after}\n>>>>>>> REPLACE"
        self.told(f"{step.path}\n```\n{block}\n```")
        if step.fails:
            self._print(
                "The LLM did not conform to the edit format.",
                "https://aider.chat/docs/troubleshooting/edit-errors.html",
                "",
                f"# 1 SEARCH/REPLACE block failed to match!\n\n{_UNMATCHED} {step.path}\n{block}\n\n{_MATCH}",
            )
            return
        self._print(f"Applied edit to {step.path}", f"Commit cd9b97f feat: Change {step.path}")

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        if step.code:
            self.cannot_tell("failed_attempts", f"run {step.command}")
        self._print(f"{step.command}", "Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]: y")
        self._print(f"Running {step.command}")

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        self.cannot_plan(items)

    def refused(self, text: str) -> None:
        """See `Writer`."""
        self._print(f"litellm.RateLimitError: RateLimitError: {text}", _WAIT)

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self.cannot_tell("failed_attempts", f"edit {path}")
        self._put(f"\n{path}\n```\n<<<<<<< SEARCH\na\n\n")
        self._print("^C KeyboardInterrupt")

    def _print(self, *lines: str) -> None:
        for line in lines:
            self._put(f"> {line.strip()}  \n")

    def _put(self, text: str) -> None:
        if self._file is None:
            raise ValueError("no file is open")
        self.written += self._file.write(text)
