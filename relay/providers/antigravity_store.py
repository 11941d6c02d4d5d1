"""Where Google's Antigravity keeps what can be read of its conversations: ~/.gemini/antigravity.

Nothing here was seen: it is put together from public descriptions, and unverified. A conversation itself
(`conversations/<id>.pb` or `.db`) is not readable: it tells of presence and time. Beside it the agent writes,
in `brain/<id>/`, its task list (`task.md` with `- [ ]`, `- [x]` and `- [/]`), `implementation_plan.md` and
`walkthrough.md`; newer releases also `.system_generated/logs/transcript.jsonl`, one step a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.providers.homes import in_home, unique
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, InEditor, Machine, StoreFiles

if TYPE_CHECKING:
    from relay.providers.antigravity_conversation import AntigravityConversation

_NAME = re.compile(r"[0-9A-Za-z_-]{8,100}")
WRITTEN = ("implementation_plan.md", "task.md", "walkthrough.md")
"""In the order in which they come about."""
LOG = ".system_generated/logs/transcript.jsonl"


class AntigravityStore(InEditor):
    """See the module."""

    name = "antigravity"
    provider = ""
    display_name = "Antigravity"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """~/.gemini/antigravity, and the accounts' own."""
        return unique(
            machine, in_home(machine, ".gemini/antigravity"), *machine.accounts.get("antigravity", ())
        )

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each conversation, of which at least one file was touched."""
        written: dict[str, list[FileEntry]] = {}
        stored: dict[str, list[FileEntry]] = {}
        for name in (*WRITTEN, LOG):
            for entry in files.glob(home, f"brain/*/{name}"):
                folder = PurePath(entry.path).parents[len(PurePath(name).parts) - 1]
                written.setdefault(folder.name, []).append(entry)
        for pattern in ("conversations/*.pb", "conversations/*.db", "conversations/*.db-wal"):
            for entry in files.glob(home, pattern):
                stored.setdefault(PurePath(entry.path).name.partition(".")[0], []).append(entry)
        for name in sorted({*written, *stored}):
            entries = [*written.get(name, ()), *stored.get(name, ())]
            touched = max(entry.mtime for entry in entries)
            if touched >= since and _NAME.fullmatch(name):
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=name,
                    paths=tuple(entry.path for entry in entries),
                    touched=touched,
                    stamp=stamp_of(entries),
                    size=sum(entry.size for entry in entries),
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> AntigravityConversation:
        """See `SessionStore`."""
        from relay.providers.antigravity_conversation import AntigravityConversation

        return AntigravityConversation(files, found, depth)
