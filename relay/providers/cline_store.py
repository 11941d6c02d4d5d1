"""Where Cline keeps its sessions: `sessions/<id>/` of its command line, `tasks/<id>/` of its extension.

The command line, as 3.0.65 writes it: `<id>.json` tells the session, `<id>.messages.json` what was said. The
extension, as read in public sources of 3.49: what its window showed, the messages, and files beside them;
`state/taskHistory.json` lists the tasks, but not all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from relay.core.intel import Depth
from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.homes import in_home, unique
from relay.providers.json_texts import object_in
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.vscode_places import user_folders

if TYPE_CHECKING:
    from relay.providers.cline_session import ClineSession, ClineTask

EXTENSION = "saoudrizwan.claude-dev"
_TASK_FILES = (
    "ui_messages.json",
    "claude_messages.json",
    "api_conversation_history.json",
    "task_metadata.json",
    "history_item.json",
)
"""In the order in which the first of them stands for the task."""
_NOT_SESSIONS = (
    *("auth", "config", "version", "update", "doctor", "mcp", "hub", "history"),
    *("--version", "--help", "-h", "-V"),
)
_HEAD = 512 * 1024
_INDEX = 32 * 1024 * 1024
_NEWEST = 24
"""How many of the newest sessions are asked whether their process still runs."""


class ClineStore:
    """See the module."""

    name = "cline"
    provider = ""
    display_name = "Cline"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """`data` in $CLINE_DIR or ~/.cline, the extension's folder in every editor, and the accounts' own."""
        own = machine.env.get("CLINE_DIR", "").rstrip("/")
        return unique(
            machine,
            f"{own}/data" if own else "",
            in_home(machine, ".cline/data"),
            *(f"{user}/globalStorage/{EXTENSION}" for user in user_folders(machine)),
            *machine.accounts.get("cline", ()),
        )

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each session of the command line, and for each task of the extension."""
        yield from self._sessions(files, home, since)
        yield from found_tasks(files, home, since, self.name)

    def _sessions(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        sessions: dict[str, list[FileEntry]] = {}
        for entry in files.glob(home, "sessions/*/*.json"):
            path = PurePath(entry.path)
            name = path.name.removesuffix(".json").removesuffix(".messages")
            sessions.setdefault(str(path.parent / name), []).append(entry)
        for place, entries in sessions.items():
            touched = max(entry.mtime for entry in entries)
            if touched < since:
                continue
            # What was said stands first; the other file tells of the session.
            entries.sort(key=lambda entry: not entry.path.endswith(".messages.json"))
            path = PurePath(place)
            yield Found(
                store=self.name,
                home=home,
                native_id=path.name,
                paths=tuple(entry.path for entry in entries),
                touched=touched,
                stamp=stamp_of(entries),
                size=sum(entry.size for entry in entries),
                hint={"parent": path.parent.name} if path.parent.name != path.name else {},
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> ClineSession | ClineTask:
        """See `SessionStore`."""
        from relay.providers.cline_session import ClineSession, ClineTask

        if PurePath(found.paths[0]).name in _TASK_FILES:
            return ClineTask(files, found, depth)
        return ClineSession(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """`<id>.json` names the process; one that was killed leaves its session open."""
        entries = [e for e in files.glob(home, "sessions/*/*.json") if not e.path.endswith(".messages.json")]
        for entry in sorted(entries, key=lambda each: each.mtime, reverse=True)[:_NEWEST]:
            told = object_in(files.read(entry.path, _HEAD) or b"")
            pid, status = shapes.integer(told, "pid"), shapes.text(told, "status")
            if pid > 0 and not shapes.text(told, "ended_at") and status not in ("completed", "failed"):
                yield Live(
                    pid=pid,
                    native_id=shapes.text(told, "session_id"),
                    cwd=shapes.text(told, "cwd"),
                    busy=status == "running" if status else None,
                )

    def runs(self, process: RunningProcess) -> bool:
        """`cline`; not its hub, which outlives it, nor its commands that end at once."""
        words = process.argv
        programs = [PurePath(word).name for word in words[:2]]
        if "--cline-hub-daemon" in words or not any(each in ("cline", "cline.exe") for each in programs):
            return False
        rest = words[1 + programs.index(next(each for each in programs if each in ("cline", "cline.exe"))) :]
        return not rest or rest[0] not in _NOT_SESSIONS

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the session's own folder; a task of the extension is resumed in its editor only."""
        return () if native_id.isdigit() else ("cline", "--id", native_id)


def found_tasks(files: StoreFiles, home: str, since: float, store: str) -> Iterable[Found]:
    """The tasks of an extension's folder, those too that its index does not list."""
    tasks: dict[str, list[FileEntry]] = {}
    for entry in files.glob(home, "tasks/*/*"):
        name = PurePath(entry.path).name
        if name in _TASK_FILES or (name.startswith("focus_chain") and name.endswith(".md")):
            tasks.setdefault(str(PurePath(entry.path).parent), []).append(entry)
    tasks = {place: entries for place, entries in tasks.items() if max(e.mtime for e in entries) >= since}
    index = _index(files, home) if tasks else {}
    for place, entries in tasks.items():
        entries.sort(key=lambda entry: _order(PurePath(entry.path).name))
        told = index.get(PurePath(place).name, {})
        cwd = shapes.text(told, "cwdOnTaskInitialization") or shapes.text(told, "shadowGitConfigWorkTree")
        yield Found(
            store=store,
            home=home,
            native_id=PurePath(place).name,
            paths=tuple(entry.path for entry in entries),
            touched=max(entry.mtime for entry in entries),
            stamp=stamp_of(entries),
            size=sum(entry.size for entry in entries),
            hint={
                "cwd": normal(cwd),
                "model": shapes.text(told, "modelId"),
                "task": shapes.text(told, "task")[:_HEAD],
            },
        )


def _order(name: str) -> int:
    return _TASK_FILES.index(name) if name in _TASK_FILES else len(_TASK_FILES)


def _index(files: StoreFiles, home: str) -> dict[str, Mapping[str, object]]:
    data = files.read(f"{home}/state/taskHistory.json", _INDEX) or b""
    from relay.core.lift import Lift
    from relay.providers.documents import records_in

    scratch = Lift(store="", home="", native_id="", path="")
    records = records_in(scratch, data, lambda value: shapes.text(value, "id") != "")
    return {shapes.text(each, "id"): each for each in records}
