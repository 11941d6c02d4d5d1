"""Where Continue keeps its sessions: `sessions/<id>.json` in ~/.continue, with an index `sessions.json`.

As read in public sources of Continue 1.x, not seen written. A message has no time of its own: the index tells
when the session began, and its file when it last changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from relay.core.intel import Depth
from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.homes import in_home, unique
from relay.providers.json_texts import Record
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import Found, InEditor, Machine, StoreFiles
from relay.providers.vscode_places import path_of

if TYPE_CHECKING:
    from relay.providers.continue_session import ContinueSession

_INDEX = "sessions.json"
_INDEX_SIZE = 32 * 1024 * 1024


class ContinueStore(InEditor):
    """See the module."""

    name = "continue"
    provider = ""
    display_name = "Continue"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """$CONTINUE_GLOBAL_DIR or ~/.continue."""
        return unique(machine, machine.env.get("CONTINUE_GLOBAL_DIR", ""), in_home(machine, ".continue"))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each file; the index may lack some, and may list some that are gone."""
        entries = [
            entry
            for entry in files.glob(home, "sessions/*.json")
            if entry.mtime >= since and entry.size and PurePath(entry.path).name != _INDEX
        ]
        index = _index(files, f"{home}/sessions/{_INDEX}") if entries else {}
        for entry in entries:
            told = index.get(PurePath(entry.path).stem, {})
            yield Found(
                store=self.name,
                home=home,
                native_id=PurePath(entry.path).stem,
                paths=(entry.path,),
                touched=entry.mtime,
                stamp=stamp_of((entry,)),
                size=entry.size,
                hint={
                    "cwd": folder_of(told),
                    "title": shapes.text(told, "title"),
                    "created": str(told.get("dateCreated") or ""),
                },
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> ContinueSession:
        """See `SessionStore`."""
        from relay.providers.continue_session import ContinueSession

        return ContinueSession(files, found, depth)


def folder_of(told: Mapping[str, Any]) -> str:
    """The folder that a session, or its entry in the index, names; or ""."""
    folder = shapes.text(told, "workspaceDirectory")
    return path_of(folder) if folder.startswith("file:") else normal(folder)


def _index(files: StoreFiles, path: str) -> dict[str, Record]:
    """Session -> its entry; entries of an old format name theirs `session_id` and are passed over."""
    from relay.core.lift import Lift
    from relay.providers.documents import records_in

    scratch = Lift(store="", home="", native_id="", path="")
    data = files.read(path, _INDEX_SIZE) or b""
    records = records_in(scratch, data, lambda value: shapes.text(value, "sessionId") != "")
    return {shapes.text(each, "sessionId"): each for each in records}
