"""Where aider keeps its chats: `.aider.chat.history.md` in the folder that it works in.

As aider 0.86.2 writes it: markdown that grows, in which `# aider chat started at <time>` begins a chat,
`#### ` marks what the user typed and `> ` what aider printed. A chat has no id: one is made from the time it
began. Only folders that Relay knows are looked at. Times are in the machine's own zone, and only
beginnings have any.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from attrs import frozen

from relay.core.intel import Depth
from relay.providers.homes import unique
from relay.providers.stamps import stamp_of
from relay.providers.store_protocol import FileEntry, Found, Machine, NoRegistry, RunningProcess, StoreFiles

if TYPE_CHECKING:
    from relay.providers.aider_chat import AiderChat

_FILE = ".aider.chat.history.md"
_STARTED = re.compile(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_ENDED = ("--version", "--help", "-h", "--models", "--list-models", "--just-check-update", "--upgrade")


@frozen
class _Chat:
    """A chat in a file.

    Args:
        name: the id that is made for it.
        begun: seconds since 1970; 0.0 when it is not told.
        start, end: byte offsets of it.
    """

    name: str
    begun: float
    start: int
    end: int


class AiderStore(NoRegistry):
    """See the module. Where the chats of a file begin is remembered for as long as it does not change."""

    name = "aider"
    provider = ""
    display_name = "aider"

    def __init__(self) -> None:
        self._chats: dict[str, tuple[str, tuple[_Chat, ...]]] = {}

    def homes(self, machine: Machine) -> tuple[str, ...]:
        """The folders that Relay knows."""
        return unique(machine, *machine.folders)

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        """One for each chat in the folder's history."""
        entry = files.entry(f"{home}/{_FILE}")
        if entry is None or entry.mtime < since:
            return
        stamp = stamp_of((entry,))
        chats = self._listed(files, home, entry, stamp)
        for number, chat in enumerate(chats):
            newest = number == len(chats) - 1
            touched = entry.mtime if newest else chat.begun
            if touched >= since:
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=chat.name,
                    paths=(entry.path,),
                    key=f"{chat.start}:{'' if newest else chat.end}",
                    touched=touched,
                    stamp=stamp if newest else f"{chat.start}:{chat.end}:{entry.identity}",
                    size=chat.end - chat.start,
                    hint={"cwd": home, "begun": str(chat.begun)},
                )

    def _listed(self, files: StoreFiles, home: str, entry: FileEntry, stamp: str) -> tuple[_Chat, ...]:
        known = self._chats.get(entry.path)
        if known is None or known[0] != stamp:
            known = (stamp, tuple(_chats(files, home, entry.path)))
            self._chats[entry.path] = known
        return known[1]

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> AiderChat:
        """See `SessionStore`."""
        from relay.providers.aider_chat import AiderChat

        return AiderChat(files, found, depth)

    def runs(self, process: RunningProcess) -> bool:
        """`aider`, or Python running it."""
        words = process.argv
        if any(word in _ENDED for word in words):
            return False
        programs = [PurePath(word).name for word in words[:2]]
        if "aider" in programs or "aider.exe" in programs:
            return programs[0].startswith(("aider", "python"))
        return words[1:3] in (("-m", "aider"), ("-m", "aider.main"))

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        """In the chat's own folder; it takes up the newest chat there."""
        return ("aider", "--restore-chat-history")


def _chats(files: StoreFiles, home: str, path: str) -> Iterable[_Chat]:
    place = hashlib.blake2b(home.encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()
    begun: list[tuple[str, float, int]] = []
    offset = 0
    names: dict[str, int] = {}
    for line in files.lines(path):
        found = _STARTED.match(line.data) if line.data[:7] == b"# aider" else None
        if found is not None:
            told = found[1].decode("ascii")
            name = re.sub(r"\D", "", told[:10]) + "-" + re.sub(r"\D", "", told[10:]) + "-" + place
            names[name] = names.get(name, 0) + 1
            if names[name] > 1:
                name = f"{name}-{names[name]}"
            begun.append((name, _seconds(told), offset))
        offset = line.end
    ends = [start for _, _, start in begun[1:]] + [offset]
    return [_Chat(name, at, start, end) for (name, at, start), end in zip(begun, ends, strict=True)]


def _seconds(told: str) -> float:
    try:
        return datetime.fromisoformat(told).astimezone(UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
