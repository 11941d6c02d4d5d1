"""Where Gemini CLI keeps its sessions: `tmp/<project>/chats/session-<time>-<id>.jsonl` in ~/.gemini.

As Gemini CLI 0.61 writes them: a log of operations, in which a message that is written again replaces the
earlier one and `$set` replaces all of them. Older releases kept one JSON object a session and named the
project's folder by the SHA-256 of its path (read in public sources, not seen).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from relay.core.events import AgentText, TokenUsage
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.acts import act
from relay.providers.homes import in_home, unique
from relay.providers.store_protocol import FileEntry, Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import LineTranscript, stamp_of

_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,100})"')
_EXIT = re.compile(r"Exit Code: (\d+)")
_MOST_BYTES = 256 * 1024 * 1024


class GeminiStore:
    """See the module."""

    name = "gemini"
    provider = ""
    display_name = "Gemini CLI"

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """`.gemini` in $GEMINI_CLI_HOME or the home folder, and the accounts' own."""
        moved = machine.env.get("GEMINI_CLI_HOME", "")
        folders = (f"{moved.rstrip('/')}/.gemini" if moved else "", in_home(machine, ".gemini"))
        return unique(machine, *folders, *machine.accounts.get("gemini", ()))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each session id; a resumed session goes on in a second file."""
        sessions: dict[tuple[str, str], list[FileEntry]] = {}
        for pattern in ("tmp/*/chats/session-*.jsonl", "tmp/*/chats/session-*.json"):
            for entry in files.glob(home, pattern):
                if entry.size:
                    folder = str(PurePath(entry.path).parent)
                    short = PurePath(entry.path).stem.rpartition("-")[2]
                    sessions.setdefault((folder, short), []).append(entry)
        for (folder, short), entries in sessions.items():
            touched = max(entry.mtime for entry in entries)
            if touched < since:
                continue
            entries.sort(key=lambda entry: PurePath(entry.path).name)
            root = files.read(f"{PurePath(folder).parent}/.project_root", 64 * 1024)
            cwd = (root or b"").decode("utf-8", "replace").strip()
            yield Found(
                store=self.name,
                home=home,
                native_id=_full_id(files, entries[0].path) or short,
                paths=tuple(entry.path for entry in entries),
                touched=touched,
                stamp=stamp_of(entries),
                size=sum(entry.size for entry in entries),
                hint={"cwd": cwd},
            )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> GeminiTranscript:
        """See `SessionStore`."""
        return GeminiTranscript(files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        """It keeps no registry."""
        return ()

    def runs(self, process: RunningProcess) -> bool:
        """Node running `gemini`."""
        words = process.argv
        return any(PurePath(word).name in ("gemini", "gemini.js") for word in words[:3] if "/" in word) or (
            bool(words) and PurePath(words[0]).name == "gemini"
        )

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the session's own folder."""
        return ("gemini", "--resume", native_id)


def _full_id(files: StoreFiles, path: str) -> str:
    for line in files.lines(path):
        found = _ID.search(line.data, 0, 4096)
        return found[1].decode("utf-8", "replace") if found else ""
    return ""


class GeminiTranscript(LineTranscript):
    """The messages by id, the last version of each; the lift is made anew from them."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self._messages: dict[str, Mapping[str, Any]] = {}
        self._held = 0

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        record = self.parsed(line)
        if record is None:
            return
        change = shapes.mapping(record, "$set")
        if shapes.items(change, "messages"):
            self._messages.clear()
        for message in (*shapes.items(change, "messages"), *shapes.items(record, "messages"), record):
            name = shapes.text(message, "id")
            if name and shapes.text(message, "type"):
                self._held += len(line)
                if self._held > _MOST_BYTES:
                    self.lift.skip("oversize")
                    return
                self._messages.pop(name, None)
                self._messages[name] = message

    def finish(self) -> None:
        """See `LineTranscript`."""
        before = self.lift
        lift = Lift(
            store=before.store,
            home=before.home,
            native_id=before.native_id,
            path=before.path,
            depth=before.depth,
            bytes_read=before.bytes_read,
        )
        lift.torn = before.torn
        lift.skipped_as(before)
        lift.named(cwd=self.found.hint.get("cwd", ""))
        fresh = cached = output = 0
        for message in self._messages.values():
            spent = shapes.mapping(message, "tokens")
            kept = shapes.integer(spent, "cached")
            fresh += max(0, shapes.integer(spent, "input") - kept)
            cached += kept
            output += shapes.integer(spent, "output") + shapes.integer(spent, "thoughts")
            _message(lift, message)
        lift.totals(TokenUsage(input=fresh, cached_input=cached, output=output))
        self.lift = lift


def _message(lift: Lift, message: Mapping[str, Any]) -> None:
    at = shapes.iso(message, "timestamp")
    if shapes.text(message, "type") == "user":
        lift.at(at)
        lift.said(typed(_text(message)), at)
        return
    if shapes.text(message, "type") not in ("gemini", "model", "assistant"):
        lift.at(at)
        return
    lift.named(model=shapes.text(message, "model"))
    said = _text(message)
    if said.strip():
        lift.take(AgentText(text=said), at)
    spent = shapes.mapping(message, "tokens")
    lift.context(shapes.integer(spent, "total"))
    calls = shapes.items(message, "toolCalls")
    for call in calls:
        status = shapes.text(call, "status")
        output = _response(call)
        found = _EXIT.search(output)
        act(
            lift,
            tool=shapes.text(call, "name"),
            call_id=shapes.text(call, "id"),
            given=shapes.mapping(call, "args"),
            at=shapes.iso(call, "timestamp") or at,
            ok=None if status in ("executing", "scheduled", "validating") else status == "success",
            output=output,
            exit_code=int(found[1]) if found else None,
            denied=status == "cancelled",
        )
    lift.turn_open = bool(calls) or not said.strip()


def _text(message: Mapping[str, Any]) -> str:
    pieces = [shapes.text(piece, "text") for piece in shapes.items(message, "content")]
    return shapes.text(message, "content") or "\n".join(piece for piece in pieces if piece)


def _response(call: Mapping[str, Any]) -> str:
    answers = [
        shapes.mapping(shapes.mapping(piece, "functionResponse"), "response")
        for piece in shapes.items(call, "result")
    ]
    said = "\n".join(shapes.text(answer, "output") or shapes.text(answer, "error") for answer in answers)
    return said.replace("<untrusted_context>", "").replace("</untrusted_context>", "").strip()
