"""Where Qwen Code keeps its sessions: `projects/<folder>/chats/<session id>.jsonl` in ~/.qwen.

Seen as Qwen Code 0.24.4 writes them; beside them `todos/<session id>.json`. How a chat is read stands in
`relay.providers.qwen_chat`.
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
    from relay.providers.qwen_chat import QwenTranscript

_NOT_SESSIONS = (
    "mcp",
    "extensions",
    "extension",
    "auth",
    "hooks",
    "channel",
    "--version",
    "-v",
    "--help",
    "-h",
)


class QwenStore(NoRegistry):
    """See the module."""

    name = "qwen"
    provider = ""
    display_name = "Qwen Code"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """$QWEN_HOME (read in public sources, not seen), ~/.qwen, and the accounts' own."""
        return account_homes(machine, "qwen", "QWEN_HOME", (".qwen",))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each chat file."""
        for entry in files.glob(home, "projects/*/chats/*.jsonl"):
            native_id = PurePath(entry.path).stem
            todos = files.entry(f"{home}/todos/{native_id}.json")
            if entry.size and entry.mtime >= since:
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=native_id,
                    paths=(entry.path,),
                    touched=entry.mtime,
                    stamp=stamp_of((entry, todos) if todos else (entry,)),
                    size=entry.size,
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> QwenTranscript:
        """See `SessionStore`."""
        from relay.providers.qwen_chat import QwenTranscript

        return QwenTranscript(files, found, depth)

    def runs(self, process: RunningProcess) -> bool:
        """Node running `qwen`; it starts itself once more with more memory."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if program.startswith("node"):
            rest = tuple(word for word in rest if not word.startswith("--"))
            if not rest or not (PurePath(rest[0]).name == "qwen" or "/qwen-code/" in rest[0]):
                return False
            rest = rest[1:]
        elif program != "qwen":
            return False
        return not rest or rest[0] not in _NOT_SESSIONS

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the session's own folder."""
        return ("qwen", "--resume", native_id)
