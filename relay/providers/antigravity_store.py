"""Where Google's Antigravity keeps what can be read of its conversations: ~/.gemini/antigravity.

Nothing here was seen: it is put together from public descriptions, and unverified. A conversation itself
(`conversations/<id>.pb` or `.db`) is not readable: it tells of presence and time. Beside it the agent writes,
in `brain/<id>/`, its task list (`task.md` with `- [ ]`, `- [x]` and `- [/]`), `implementation_plan.md` and
`walkthrough.md`; newer releases also `.system_generated/logs/transcript.jsonl`, one step a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any

from relay.core.events import AgentText, PlanItem, PlanUpdated, ToolKind
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of, status_of
from relay.providers.homes import in_home, unique
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import record_in, stamp_of

_NAME = re.compile(r"[0-9A-Za-z_-]{8,100}")
_WRITTEN = ("implementation_plan.md", "task.md", "walkthrough.md")
"""In the order in which they come about."""
_LOG = ".system_generated/logs/transcript.jsonl"
_ITEM = re.compile(r"^[ \t]*[-*] \[([ xX/])\] +(\S.*?)[ \t]*(?:<!--[^\n]*?-->)?[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^# +(\S.*?)\s*$", re.MULTILINE)
_REQUEST = re.compile(r"<USER_REQUEST>\s*(.*?)\s*</USER_REQUEST>", re.DOTALL)
_MARKED = re.compile(r"<([A-Z][A-Z_]{2,40})>.*?</\1>", re.DOTALL)
_MOST_BYTES = 1024 * 1024
_MOST_ITEMS = 500


class AntigravityStore:
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
        for name in (*_WRITTEN, _LOG):
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
        return AntigravityConversation(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry that is known."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """Never: an editor is open whether an agent works in it or not."""
        return False

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Conversations are opened in the editor."""
        return ()


class AntigravityConversation:
    """What is readable of a conversation; read anew each time, for it is small."""

    def __init__(self, files: StoreFiles, found: Found, depth: Depth) -> None:
        self._files, self._found, self._depth = files, found, depth

    def read(self) -> Lift:
        """See `Transcript`."""
        found = self._found
        lift = Lift(
            store=found.store,
            home=found.home,
            native_id=found.native_id,
            path=found.paths[0],
            depth=self._depth,
        )
        for path in found.paths:
            entry = self._files.entry(path)
            if entry is not None:
                lift.at(shapes.instant({"at": entry.mtime}, "at"))
        for path in found.paths:
            if path.endswith(_LOG):
                self._log(lift, path)
        for name in _WRITTEN:
            for path in found.paths:
                if PurePath(path).name == name:
                    self._written(lift, path)
        return lift

    def _log(self, lift: Lift, path: str) -> None:
        for line in self._files.lines(path):
            if line.cut:
                lift.skip("oversize")
            elif line.data and not line.ended and shapes.record(line.data) is None:
                lift.torn = 1
            elif line.data and (record := record_in(lift, line.data)) is not None:
                lift.bytes_read = line.end
                _step(lift, record)

    def _written(self, lift: Lift, path: str) -> None:
        data = self._files.read(path, _MOST_BYTES)
        if data is None:
            lift.skip("oversize")
            return
        words = data.replace(b"\0", b"").decode("utf-8", "replace")
        lift.bytes_read += len(data)
        if words.strip():
            lift.take(AgentText(text=words))
        if PurePath(path).name != "task.md":
            return
        heading = _HEADING.search(words)
        lift.named(title=heading[1] if heading else "")
        items = tuple(
            PlanItem(text=found[2], status=status_of(found[1]))
            for found, _ in zip(_ITEM.finditer(words), range(_MOST_ITEMS), strict=False)
        )
        if items:
            lift.take(PlanUpdated(items=items))


def _step(lift: Lift, record: Mapping[str, Any]) -> None:
    at = shapes.iso(record, "created_at") or shapes.iso(record, "timestamp")
    words = shapes.text(record, "content")
    lift.at(at)
    match shapes.text(record, "type"):
        case "USER_INPUT":
            asked = _REQUEST.search(words)
            lift.said(typed(asked[1] if asked else _MARKED.sub("", words)), at)
        case "PLANNER_RESPONSE":
            if words.strip():
                lift.take(AgentText(text=words), at)
            calls = shapes.items(record, "tool_calls")
            for number, call in enumerate(calls):
                _call(lift, f"{shapes.integer(record, 'step_index')}:{number}", call, at)
            lift.turn_open = bool(calls) or not words.strip()
        case _:
            pass


def _call(lift: Lift, call_id: str, call: object, at: datetime | None) -> None:
    """How a call ended is not told in a way that is known, so only what is edited or read is taken."""
    name, given = shapes.text(call, "name"), shapes.mapping(call, "args")
    lift.named(cwd=_plain(given, "Cwd") if not lift.cwd else "")
    path = _plain(given, "TargetFile") or _plain(given, "AbsolutePath")
    if path and kind_of(name) in (ToolKind.EDIT, ToolKind.READ):
        act(lift, tool=name, call_id=call_id, given={"file_path": path}, at=at, ok=True)


def _plain(given: Mapping[str, Any], key: str) -> str:
    # Some releases write arguments as JSON inside of strings.
    return shapes.text(given, key).strip().strip('"').removeprefix("file://")
