"""Where Cline keeps its sessions: `sessions/<id>/` of its command line, `tasks/<id>/` of its extension.

The command line, as 3.0.65 writes it: `<id>.json` tells the session, `<id>.messages.json` what was said. The
extension, as read in public sources of 3.49: what its window showed, the messages, and files beside them;
`state/taskHistory.json` lists the tasks, but not all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath

import orjson

from relay.core.events import PlanUpdated
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.paths import normal
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.cline_messages import MessageLift, is_message, prompt_of
from relay.providers.cline_outcomes import Outcomes, may_deny
from relay.providers.cline_tasks import TaskLift, is_shown, lift_metadata
from relay.providers.documents import DocumentTranscript, Record, checklist, epoch_ms, object_in, records_in
from relay.providers.homes import in_home, unique
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import stamp_of
from relay.providers.vscode_places import user_folders

EXTENSION = "saoudrizwan.claude-dev"
_TASK_FILES = (
    "ui_messages.json",
    "claude_messages.json",
    "api_conversation_history.json",
    "task_metadata.json",
    "history_item.json",
)
"""In the order in which the first of them stands for the task."""
_CWD = re.compile(rb"# Current (?:Working|Workspace) Directory \(((?:[^)\\]|\\.)+)\) Files")
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

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> DocumentTranscript:
        """See `SessionStore`."""
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


class ClineSession(DocumentTranscript):
    """A session of the command line; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        told: Mapping[str, object] = {}
        for path in self.found.paths:
            if not path.endswith(".messages.json"):
                told = object_in(self.document(lift, path))
        meta = shapes.mapping(told, "metadata")
        cwd = shapes.text(told, "cwd") or shapes.text(told, "workspace_root")
        lift.named(
            cwd=normal(cwd),
            branch=shapes.text(shapes.mapping(meta, "git"), "branch"),
            model=shapes.text(told, "model"),
            version=shapes.text(shapes.mapping(meta, "sessionHistoryOrigin"), "version"),
            title=typed(shapes.text(meta, "title")),
            parent=shapes.text(told, "parent_session_id") or self.found.hint.get("parent", ""),
        )
        lift.at(shapes.iso(told, "started_at"))
        messages: list[Record] = []
        for path in self.found.paths:
            if path.endswith(".messages.json"):
                messages += records_in(lift, self.document(lift, path), is_message, "messages")
        prompt = typed(shapes.text(told, "prompt"))
        if prompt not in map(prompt_of, messages):
            # The message that holds it is damaged, or not written yet.
            lift.said(prompt, shapes.iso(told, "started_at"))
        MessageLift(lift).take_all(messages)
        cost = shapes.number(meta, "totalCost")
        lift.cost_usd = float(cost) if cost else lift.cost_usd
        lift.at(shapes.iso(told, "ended_at"))


class ClineTask(DocumentTranscript):
    """A task of the extension; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        named = {PurePath(path).name: path for path in self.found.paths}
        item = (
            object_in(self.document(lift, named["history_item.json"])) if "history_item.json" in named else {}
        )
        workspace = shapes.text(item, "workspace")
        history = named.get("api_conversation_history.json", "")
        lift.named(
            cwd=lift.cwd or normal(workspace) or _cwd_in(self.files, history),
            model=self.found.hint.get("model", ""),
            parent=shapes.text(item, "parentTaskId"),
        )
        shown = named.get("ui_messages.json") or named.get("claude_messages.json", "")
        messages = records_in(lift, self.document(lift, shown), is_shown) if shown else []
        if messages:
            TaskLift(lift, self._outcomes(lift, history)).take_all(messages)
        elif history:
            MessageLift(lift).take_all(records_in(lift, self.document(lift, history), is_message))
        if not lift.facts.goal:
            lift.said(typed(shapes.text(item, "task") or self.found.hint.get("task", "")))
        lift_metadata(lift, self._told(lift, named.get("task_metadata.json", "")))
        lift.subagents = max(lift.subagents, len(shapes.items(item, "childIds")))
        lift.at(epoch_ms(item, "ts"))
        for path in self.found.paths:
            if path.endswith(".md") and not lift.facts.plan:
                items = checklist(self.document(lift, path).decode("utf-8", "replace"))
                if items:
                    lift.take(PlanUpdated(items=items))

    def _outcomes(self, lift: Lift, history: str) -> Outcomes:
        """How its tools ended; for a list, which does not say, only where an edit may have been denied."""
        data = self.document(lift, history) if history else b""
        if not data or not (lift.thorough or may_deny(data)):
            return Outcomes()
        scratch = Lift(store="", home="", native_id="", path="")
        return Outcomes.of(records_in(scratch, data, is_message), lift.cwd)

    def _told(self, lift: Lift, path: str) -> Mapping[str, object]:
        return object_in(self.document(lift, path)) if path else {}


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
    scratch = Lift(store="", home="", native_id="", path="")
    records = records_in(scratch, data, lambda value: shapes.text(value, "id") != "")
    return {shapes.text(each, "id"): each for each in records}


def _cwd_in(files: StoreFiles, path: str) -> str:
    """The folder that the first message to the model names."""
    for line in files.lines(path) if path else ():
        found = _CWD.search(line.data, 0, _HEAD)
        if found is not None:
            try:
                return normal(str(orjson.loads(b'"' + found[1] + b'"')))
            except orjson.JSONDecodeError:
                return ""
        if line.end > _HEAD:
            break
    return ""
