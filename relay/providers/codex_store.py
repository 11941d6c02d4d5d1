"""Where Codex keeps its threads: `sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl` in its home folder.

As codex-cli 0.171.0 and older releases write them. The databases beside them are its own index, which can
lag behind; the files are the truth. How a rollout is read stands in `relay.providers.codex_rollout`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from relay.core.intel import Depth
from relay.providers.codex_rollout import CodexRollout
from relay.providers.homes import account_homes
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import stamp_of

_NAME = re.compile(r"rollout-.*?-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl")
_PLACES = ("sessions/*/*/*/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl", "sessions/rollout-*.jsonl")
_NOT_SESSIONS = ("login", "logout", "completion", "doctor", "update", "features", "mcp", "debug", "--version")


class CodexStore:
    """See the module."""

    name = "codex"
    provider = "codex"
    display_name = "Codex"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """$CODEX_HOME, ~/.codex, and the accounts' own."""
        return account_homes(machine, "codex", "CODEX_HOME", (".codex",))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each thread; the rollouts of one thread belong together, in the order of their names."""
        threads: dict[str, list[FileEntry]] = {}
        for pattern in _PLACES:
            for entry in files.glob(home, pattern):
                name = _NAME.fullmatch(PurePath(entry.path).name)
                if name and entry.size:
                    threads.setdefault(name[1], []).append(entry)
        for thread, entries in threads.items():
            touched = max(entry.mtime for entry in entries)
            if touched < since:
                continue
            entries.sort(key=lambda entry: PurePath(entry.path).name)
            yield Found(
                store=self.name,
                home=home,
                native_id=thread,
                paths=tuple(entry.path for entry in entries),
                touched=touched,
                stamp=stamp_of(entries),
                size=sum(entry.size for entry in entries),
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CodexRollout:
        """See `SessionStore`."""
        return CodexRollout(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """Nothing: `thread-writer-locks/<thread>.lock` tells that somebody writes, not who."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """`codex`, or Node running it."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if program.startswith("node") and rest and rest[0].endswith(("/bin/codex", "/bin/codex.js")):
            rest = rest[1:]
        elif program not in ("codex", "codex.exe"):
            return False
        command = next((word for word in rest if not word.startswith("-")), "")
        return command not in _NOT_SESSIONS and "--version" not in rest

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Anywhere."""
        return ("codex", "resume", native_id)
