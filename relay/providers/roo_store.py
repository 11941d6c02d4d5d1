"""Where Roo Code keeps its tasks: `tasks/<id>/` in its extension's folder, shaped as Cline's are.

As read in public sources of 3.36, not seen written. `history_item.json` tells a task's folder and kin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.providers.cline_store import found_tasks
from relay.providers.store_protocol import Found, InEditor, Machine, StoreFiles
from relay.providers.vscode_places import user_folders

if TYPE_CHECKING:
    from relay.providers.cline_session import ClineTask

EXTENSION = "rooveterinaryinc.roo-cline"


class RooStore(InEditor):
    """See the module."""

    name = "roo"
    provider = ""
    display_name = "Roo Code"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """The extension's folder in every editor."""
        return tuple(f"{user}/globalStorage/{EXTENSION}" for user in user_folders(machine))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each task."""
        return found_tasks(files, home, since, self.name)

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> ClineTask:
        """See `SessionStore`."""
        from relay.providers.cline_session import ClineTask

        return ClineTask(files, found, depth)
