"""What is readable of one conversation of Antigravity.

Nothing here was seen: it is put together from public descriptions, and unverified. Opened by
`relay.providers.antigravity_store`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any

from relay.core.events import AgentText, PlanItem, PlanUpdated, ToolKind
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act, kind_of, status_of
from relay.providers.antigravity_store import LOG, WRITTEN
from relay.providers.store_protocol import Found, StoreFiles
from relay.providers.transcript import record_in

_ITEM = re.compile(r"^[ \t]*[-*] \[([ xX/])\] +(\S.*?)[ \t]*(?:<!--[^\n]*?-->)?[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^# +(\S.*?)\s*$", re.MULTILINE)
_REQUEST = re.compile(r"<USER_REQUEST>\s*(.*?)\s*</USER_REQUEST>", re.DOTALL)
_MARKED = re.compile(r"<([A-Z][A-Z_]{2,40})>.*?</\1>", re.DOTALL)
_MOST_BYTES = 1024 * 1024
_MOST_ITEMS = 500


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
            if path.endswith(LOG):
                self._log(lift, path)
        for name in WRITTEN:
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
