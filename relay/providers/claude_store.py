"""Where Claude Code keeps its sessions: `projects/<folder>/<session id>.jsonl` in its configuration folder.

Read as Claude Code 2.1.332 and 2.1.197 write them. Used by detection and adoption through
`relay.providers.stores`; how a transcript is read stands in `relay.providers.claude_transcript`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.providers import shapes
from relay.providers.homes import account_homes
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.claude_transcript import ClaudeTranscript

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOT_SESSIONS = ("mcp", "auth", "doctor", "update", "config", "install", "plugin", "setup-token", "--version")


class ClaudeStore:
    """See the module."""

    name = "claude"
    provider = "claude"
    display_name = "Claude Code"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """$CLAUDE_CONFIG_DIR, ~/.claude, ~/.config/claude, and the accounts' own."""
        return account_homes(machine, "claude", "CLAUDE_CONFIG_DIR", (".claude", ".config/claude"))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each transcript; those of subagents belong to their session's."""
        of_subagents: dict[str, list[FileEntry]] = {}
        for entry in files.glob(home, "projects/*/*/subagents/*.jsonl"):
            of_subagents.setdefault(PurePath(entry.path).parts[-3], []).append(entry)
        mains = []
        for entry in files.glob(home, "projects/*/*.jsonl"):
            name = PurePath(entry.path).stem
            if not name.startswith("agent-"):
                mains.append(entry)
            elif entry.mtime >= since and (parent := _session_of(files, entry.path)):
                of_subagents.setdefault(parent, []).append(entry)
        for entry in mains:
            native_id = PurePath(entry.path).stem
            entries = [entry, *sorted(of_subagents.get(native_id, ()), key=lambda each: each.path)]
            touched = max(each.mtime for each in entries)
            if touched < since or not entry.size:
                continue
            tasks = files.glob(home, f"tasks/{native_id}/*.json") if _ID.fullmatch(native_id) else ()
            yield Found(
                store=self.name,
                home=home,
                native_id=native_id,
                paths=tuple(each.path for each in entries),
                touched=touched,
                stamp=stamp_of((*entries, *tasks)),
                size=sum(each.size for each in entries),
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> ClaudeTranscript:
        """See `SessionStore`."""
        from relay.providers.claude_transcript import ClaudeTranscript

        return ClaudeTranscript(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """`sessions/<pid>.json`; a process killed outright leaves its own behind."""
        for entry in files.glob(home, "sessions/*.json"):
            told = shapes.record(files.read(entry.path, 64 * 1024) or b"")
            if told is None or not shapes.integer(told, "pid"):
                continue
            status, start = shapes.text(told, "status"), shapes.text(told, "procStart")
            yield Live(
                pid=shapes.integer(told, "pid"),
                native_id=shapes.text(told, "sessionId"),
                cwd=shapes.text(told, "cwd"),
                started=int(start) if start.isascii() and start.isdigit() else 0,
                busy=status == "busy" if status else None,
            )

    def runs(self, process: RunningProcess) -> bool:
        """`claude`, or Node running it; not its commands that end at once or serve others."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if program.startswith("node") and rest and _is_script(rest[0]):
            rest = rest[1:]
        elif program not in ("claude", "claude.exe") and process.name != "claude":
            return False
        return not rest or rest[0] not in _NOT_SESSIONS

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the session's own folder."""
        return ("claude", "--resume", native_id)


def _is_script(path: str) -> bool:
    return path.endswith(("/bin/claude", "/claude-code/cli.js"))


def _session_of(files: StoreFiles, path: str) -> str:
    """Which session a subagent's own transcript belongs to: its first record says."""
    for line in files.lines(path):
        return shapes.text(shapes.record(line.data), "sessionId")
    return ""
