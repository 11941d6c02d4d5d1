"""Where GitHub Copilot CLI keeps its sessions: `session-state/<id>/events.jsonl` in ~/.copilot.

Seen as Copilot CLI 1.0.102 writes them; beside it `workspace.yaml` and, once the agent made a plan,
`session.db` with a table of todos. How events are read stands in `relay.providers.copilot_events`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.providers.homes import account_homes
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import Found, Machine, NoRegistry, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.copilot_events import CopilotTranscript

_NOT_SESSIONS = ("login", "logout", "help", "update", "version", "--version", "mcp", "plugin")


class CopilotStore(NoRegistry):
    """See the module."""

    name = "copilot"
    provider = ""
    display_name = "Copilot CLI"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """$COPILOT_HOME, ~/.copilot, and the accounts' own."""
        return account_homes(machine, "copilot", "COPILOT_HOME", (".copilot",))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each folder with events."""
        for entry in files.glob(home, "session-state/*/events.jsonl"):
            folder = PurePath(entry.path).parent
            beside = [files.entry(f"{folder}/{name}") for name in ("session.db", "session.db-wal")]
            entries = (entry, *(each for each in beside if each is not None))
            if entry.size and entry.mtime >= since:
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=folder.name,
                    paths=(entry.path,),
                    touched=entry.mtime,
                    stamp=stamp_of(entries),
                    size=entry.size,
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CopilotTranscript:
        """See `SessionStore`."""
        from relay.providers.copilot_events import CopilotTranscript

        return CopilotTranscript(files, found, depth)

    def runs(self, process: RunningProcess) -> bool:
        """Node running `copilot`, or its native program."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if (
            program.startswith("node")
            and rest
            and PurePath(rest[0]).name in ("copilot", "index.js", "npm-loader.js")
        ):
            return "copilot" in rest[0] and not (len(rest) > 1 and rest[1] in _NOT_SESSIONS)
        return program in ("copilot", "copilot.exe") and not (rest and rest[0] in _NOT_SESSIONS)

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Anywhere."""
        return ("copilot", "--resume", native_id)
