"""Where Codex keeps its threads: `sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl` in its home folder.

As codex-cli 0.171.0 and older releases write them; what it compressed (`.jsonl.zst`, after a thread has lain
still for long) is passed over. The databases beside them are its own index, which can lag behind; the files
are the truth, but for the names that users give, which stand in `session_index.jsonl` alone. How a rollout
is read stands in `relay.providers.codex_rollout`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.providers import shapes
from relay.providers.codex_places import PLACES
from relay.providers.homes import account_homes
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.codex_rollout import CodexRollout

_NAME = re.compile(r"rollout-.*?-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl")
_PROGRAM = re.compile(r"codex(?:-(?:x86_64|aarch64|arm64)-[\w-]+)?(?:\.exe)?")
_RUNTIME = re.compile(r"(?:node|bun)(?:js)?(?:\.exe)?")
_SCRIPT = re.compile(r".*[\\/]bin[\\/]codex(?:\.c?js)?")
_VALUED = {
    *("-c", "--config", "--enable", "--disable", "--remote", "--remote-auth-token-env", "-i", "--image"),
    *("-m", "--model", "--local-provider", "-p", "--profile", "-s", "--sandbox", "-a", "--ask-for-approval"),
    *("-C", "--cd", "--add-dir"),
}
"""Options that take the next word."""
_NOT_SESSIONS = {
    *("login", "logout", "mcp", "plugin", "completion", "update", "doctor", "sandbox", "debug", "apply", "a"),
    *("queue", "archive", "unarchive", "delete", "migrate-rollouts", "migrate-nfs-db", "cloud", "execpolicy"),
    *("features", "help", "exec-server", "responses-api-proxy", "stdio-to-uds", "agents", "remote-control"),
}
"""Commands that end at once, or serve something else than a session."""
_TELLS = {"-h", "--help", "-V", "--version"}


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
        threads: dict[str, dict[str, FileEntry]] = {}
        for pattern in PLACES:
            for entry in files.glob(home, pattern.format("")):
                file_name = PurePath(entry.path).name
                name = _NAME.fullmatch(file_name)
                if name and entry.size:
                    # One that is being archived lies in two places for a moment.
                    threads.setdefault(name[1], {}).setdefault(file_name, entry)
        names = _names(files, home) if threads else {}
        for thread, rollouts in threads.items():
            entries = [rollouts[file_name] for file_name in sorted(rollouts)]
            touched = max(entry.mtime for entry in entries)
            if touched < since:
                continue
            title = names.get(thread, "")
            yield Found(
                store=self.name,
                home=home,
                native_id=thread,
                paths=tuple(entry.path for entry in entries),
                touched=touched,
                stamp=stamp_of(entries) + (f"-{zlib.crc32(title.encode()):x}" if title else ""),
                size=sum(entry.size for entry in entries),
                hint={"title": title} if title else {},
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> CodexRollout:
        """See `SessionStore`."""
        from relay.providers.codex_rollout import CodexRollout

        return CodexRollout(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """Nothing: `thread-writer-locks/<thread>.lock` tells that somebody writes, not who."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """`codex`, or Node running it: at work in a terminal, once (`exec`), or for another program.

        The launcher and the native program that it starts are both told of.
        """
        words = process.argv
        program = _program(words[0]) if words else ""
        rest = words[1:]
        if _RUNTIME.fullmatch(program) and rest and _SCRIPT.fullmatch(rest[0]):
            rest = rest[1:]
        elif not _PROGRAM.fullmatch(program):
            return False
        command = ""
        valued = False
        for word in rest:
            if word in _TELLS:
                return False
            if not valued and not word.startswith("-"):
                command = word
                break
            valued = not valued and word in _VALUED
        return command not in _NOT_SESSIONS

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Anywhere."""
        return ("codex", "resume", native_id)


def _names(files: StoreFiles, home: str) -> dict[str, str]:
    """What users called their threads; the last name counts."""
    names = {}
    for line in (files.read(f"{home}/session_index.jsonl") or b"").split(b"\n"):
        told = shapes.record(line) if line else None
        thread, name = shapes.text(told, "id"), shapes.text(told, "thread_name").strip()
        if thread and name:
            names[thread] = name
    return names


def _program(path: str) -> str:
    return re.split(r"[\\/]", path)[-1].lower()
