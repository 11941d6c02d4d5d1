"""Where OpenCode keeps its sessions: `opencode.db`, an SQLite database in its data folder.

Seen as OpenCode 1.18.33 writes it: tables session, message, part and todo, with JSON in `data`. Releases
before kept a file for each message and part below `storage/` (read in public sources, not seen). What
messages say is read by `relay.providers.opencode_messages`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from relay.core.intel import Depth
from relay.providers import shapes
from relay.providers.homes import data_home, unique
from relay.providers.opencode_rows import rows, table_columns
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, Machine, NoRegistry, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.opencode_messages import OpenCodeSession

_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
_NOT_SESSIONS = (
    "auth",
    "models",
    "upgrade",
    "uninstall",
    "stats",
    "export",
    "import",
    "session",
    "agent",
    "debug",
    "--version",
    "--help",
    "mcp",
)
_MOST_SESSIONS = 100_000


class OpenCodeStore(NoRegistry):
    """See the module."""

    name = "opencode"
    provider = ""
    display_name = "OpenCode"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """`opencode` in the data folder, and the accounts' own."""
        return unique(machine, f"{data_home(machine)}/opencode", *machine.accounts.get("opencode", ()))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each session that was touched; a session that was moved into the database is there."""
        known: set[str] = set()
        for entry in sorted(files.glob(home, "opencode*.db"), key=lambda each: each.path):
            yield from self._in_database(files, home, entry, since, known)
        for entry in files.glob(home, "storage/session/*/*.json"):
            name = PurePath(entry.path).stem
            if _NAME.fullmatch(name) and name not in known:
                found = self._in_files(files, home, entry, name)
                if found.touched >= since:
                    yield found

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> OpenCodeSession:
        """See `SessionStore`."""
        from relay.providers.opencode_messages import OpenCodeFiles, OpenCodeRows

        kind = OpenCodeRows if found.paths[0].endswith(".db") else OpenCodeFiles
        return kind(files, found, depth)

    def runs(self, process: RunningProcess) -> bool:
        """`opencode`."""
        words = process.argv
        if not any(PurePath(word).name in ("opencode", "opencode.exe") for word in words[:2]):
            return False
        return not any(word in _NOT_SESSIONS for word in words[1:3])

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """Anywhere."""
        return ("opencode", "--session", native_id)

    def _in_database(
        self, files: StoreFiles, home: str, entry: FileEntry, since: float, known: set[str]
    ) -> Iterator[Found]:
        written = [each for end in ("", "-wal") if (each := files.entry(entry.path + end))]
        with files.database(entry.path) as database:
            if database is None:
                return
            sessions = {str(row["id"]): row for row in _sessions(database) if row["id"]}
            known.update(sessions)
            if max((each.mtime for each in written), default=0.0) < since:
                return
            families, touches = _families(sessions), _touches(database)
            size, parts = sum(each.size for each in written), sum(counted for _, counted in touches.values())
            for name, row in sessions.items():
                own = [touches[each] for each in families[name] if each in touches]
                told = [(name, _number(row["time_updated"])), *(touch for these, _ in own for touch in these)]
                counted = sum(count for _, count in own)
                touched = max(when for _, when in told) / 1000
                if touched < since:
                    continue
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=name,
                    paths=(entry.path,),
                    key=name,
                    touched=touched,
                    stamp=f"{entry.identity}:{told}",
                    size=size * counted // parts if parts else 0,
                    hint={"cwd": str(row["directory"] or ""), "title": str(row["title"] or "")},
                )

    def _in_files(self, files: StoreFiles, home: str, entry: FileEntry, name: str) -> Found:
        messages = files.glob(home, f"storage/message/{name}/*.json")
        todo = files.entry(f"{home}/storage/todo/{name}.json")
        entries = [entry, *messages, *([todo] if todo else [])]
        newest = max(entries, key=lambda each: each.mtime)
        # The parts of a message are written after it, and the last message's may still come.
        last = PurePath(max((each.path for each in entries[1:]), default="")).stem
        parts = list(files.glob(home, f"storage/part/{last}/*.json")) if _NAME.fullmatch(last) else []
        return Found(
            store=self.name,
            home=home,
            native_id=name,
            paths=(entry.path,),
            touched=max(newest.mtime, *(each.mtime for each in parts), 0.0),
            stamp=stamp_of([*entries, *parts]),
            size=sum(each.size for each in entries),
        )


def _sessions(database: sqlite3.Connection) -> Iterator[Mapping[str, Any]]:
    wanted = ("id", "parent_id", "time_updated", "directory", "title")
    there = table_columns(database, "session")
    chosen = ", ".join(name if name in there else f"NULL AS {name}" for name in wanted)
    for row in rows(database, f"SELECT {chosen} FROM session LIMIT {_MOST_SESSIONS}"):
        yield dict(zip(wanted, row, strict=True))


def _families(sessions: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """By session its own id, and those of the sessions that its subagents ran in."""
    families: dict[str, tuple[str, ...]] = {name: (name,) for name in sessions}
    for name, row in sessions.items():
        parent = str(row["parent_id"] or "")
        if parent in families and parent != name:
            families[parent] = (*families[parent], name)
    return families


Touches = tuple[list[tuple[str, int | float]], int]
"""When messages and parts were last written, for a stamp; and how many they are."""


def _touches(database: sqlite3.Connection) -> dict[str, Touches]:
    """What was written to each session."""
    touches: dict[str, Touches] = {}
    for table in ("message", "part"):
        if {"session_id", "time_updated"} <= table_columns(database, table):
            query = f"SELECT session_id, max(time_updated), count(*) FROM {table} GROUP BY session_id"
            for name, when, count in rows(database, query):
                told, before = touches.get(str(name), ([], 0))
                told.append((f"{name}:{table}:{count}", _number(when)))
                touches[str(name)] = told, before + int(count)
    return touches


def _number(value: object) -> int | float:
    return shapes.number({"at": value}, "at") or 0
