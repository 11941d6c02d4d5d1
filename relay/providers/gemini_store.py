"""Where Gemini CLI keeps its sessions: `tmp/<project>/chats/session-<time>-<id>.jsonl` in ~/.gemini.

Seen as Gemini CLI 0.61.0 writes them. Read in public sources, not seen: one JSON object a session and a
project's folder named by the SHA-256 of its path, as older releases have it; chats of subagents in
`chats/<id of their session>/`. How a chat is read stands in `relay.providers.gemini_chat`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.providers import shapes
from relay.providers.homes import in_home, unique
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, Machine, NoRegistry, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.gemini_chat import GeminiTranscript

_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,100})"')
_HEAD = 16 * 1024
_HEAD_LINES = 5
_SCRIPTS = ("gemini", "gemini.js")
_NOT_SESSIONS = ("mcp", "extensions", "extension", "skills", "hooks", "--version", "-v", "--help", "-h")


class GeminiStore(NoRegistry):
    """See the module."""

    name = "gemini"
    provider = ""
    display_name = "Gemini CLI"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """`.gemini` in $GEMINI_CLI_HOME or the home folder, and the accounts' own."""
        moved = machine.env.get("GEMINI_CLI_HOME", "").rstrip("/\\")
        folders = (f"{moved}/.gemini" if moved else "", in_home(machine, ".gemini"))
        return unique(machine, *folders, *machine.accounts.get("gemini", ()))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each session id; a session that was resumed goes on in a second file."""
        sessions: dict[tuple[str, str], list[FileEntry]] = {}
        for entry in files.glob(home, "tmp/*/chats/session-*.json*"):
            path = PurePath(entry.path)
            if entry.size and path.suffix in (".jsonl", ".json"):
                sessions.setdefault((str(path.parent), path.stem.rpartition("-")[2]), []).append(entry)
        if not sessions:
            return
        for entry in files.glob(home, "tmp/*/chats/*/*.jsonl"):
            folder = PurePath(entry.path).parent
            of = sessions.get((str(folder.parent), folder.name[:8]))
            if of is not None:
                of.append(entry)
        projects: Mapping[str, str] | None = None
        roots: dict[str, str] = {}
        for (folder_name, short), entries in sessions.items():
            touched = max(entry.mtime for entry in entries)
            if touched < since:
                continue
            projects = _projects(files, home) if projects is None else projects
            if folder_name not in roots:
                roots[folder_name] = _root(files, PurePath(folder_name).parent, projects)
            if len(entries) > 1:
                # The chats of subagents, one folder deeper, come last.
                entries.sort(key=lambda each: (len(PurePath(each.path).parts), PurePath(each.path).name))
            yield Found(
                store=self.name,
                home=home,
                native_id=_full_id(files, entries[0].path) or short,
                paths=tuple(entry.path for entry in entries),
                touched=touched,
                stamp=stamp_of(entries),
                size=sum(entry.size for entry in entries),
                hint={"cwd": roots[folder_name]},
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> GeminiTranscript:
        """See `SessionStore`."""
        from relay.providers.gemini_chat import GeminiTranscript

        return GeminiTranscript(files, found, depth)

    def runs(self, process: RunningProcess) -> bool:
        """Node running `gemini`."""
        words = process.argv
        program = PurePath(words[0]).name if words else ""
        rest = words[1:]
        if program.startswith("node"):
            rest = tuple(word for word in rest if not word.startswith("--"))
            if not rest or not (PurePath(rest[0]).name in _SCRIPTS or "/gemini-cli/" in rest[0]):
                return False
            rest = rest[1:]
        elif program != "gemini":
            return False
        return not rest or rest[0] not in _NOT_SESSIONS

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the session's own folder."""
        return ("gemini", "--resume", native_id)


def _projects(files: StoreFiles, home: str) -> Mapping[str, str]:
    """Folders of projects by the names and the hashes that stand for them below `tmp/`."""
    told = shapes.mapping(shapes.record(files.read(f"{home}/projects.json", 4 << 20) or b""), "projects")
    trusted = shapes.record(files.read(f"{home}/trustedFolders.json", 4 << 20) or b"") or {}
    names = {hashlib.sha256(path.encode("utf-8", "replace")).hexdigest(): path for path in (*told, *trusted)}
    return {**names, **{name: path for path, name in told.items() if isinstance(name, str)}}


def _root(files: StoreFiles, project: PurePath, projects: Mapping[str, str]) -> str:
    """The folder that a project's folder below `tmp/` is for, or ""."""
    said = (files.read(f"{project}/.project_root", 64 * 1024) or b"").decode("utf-8", "replace").strip()
    return said.partition("\n")[0].strip() or projects.get(project.name, "")


def _full_id(files: StoreFiles, path: str) -> str:
    """The session's id: the file's name has its beginning only."""
    for line in files.head(path, _HEAD).split(b"\n", _HEAD_LINES)[:_HEAD_LINES]:
        found = _ID.search(line, 0, 4096)
        if found:
            return found[1].decode("utf-8", "replace")
    return ""
