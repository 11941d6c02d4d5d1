"""The common ground of stores whose sessions are JSON documents that are written anew as a whole.

Such a document is read anew whenever it changed. From one that is damaged, whatever is whole is taken.
Subclassed and used by the editors' stores in this package.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from attrs import evolve

from relay.core.events import AgentText, Channel, ErrorSignal, PlanItem
from relay.core.failures import as_failed, classify
from relay.core.intel import Depth
from relay.core.lift import Lift
from relay.core.wording import Wording
from relay.providers.acts import status_of
from relay.providers.json_texts import Record, json_of
from relay.providers.store_protocol import Found, StoreFiles

LARGEST = 64 * 1024 * 1024
"""Bytes of a document that is read; a larger one is counted as "oversize"."""
_TRIES = 4_000
"""At how many places of a damaged document a whole record is looked for in vain."""
_BRACE = re.compile(r"\{")
_DECODER = json.JSONDecoder(strict=False)
_BOX = re.compile(r"\s*(?:[-*+]\s+)?\[([^\]]?)\]\s+(.+)")


class DocumentTranscript(ABC):
    """A session in documents; each reading gives a new lift."""

    def __init__(self, files: StoreFiles, found: Found, depth: Depth) -> None:
        self.files = files
        self.found = found
        self.depth = depth

    def read(self) -> Lift:
        """See `Transcript`."""
        found = self.found
        lift = Lift(
            store=found.store,
            home=found.home,
            native_id=found.native_id,
            path=found.paths[0] if found.paths else "",
            depth=self.depth,
        )
        lift.named(cwd=found.hint.get("cwd", ""), title=found.hint.get("title", ""))
        self.fill(lift)
        return lift

    @abstractmethod
    def fill(self, lift: Lift) -> None:
        """Read all there is into the lift."""

    def document(self, lift: Lift, path: str) -> bytes:
        """The bytes of a document; none when it is absent or too large, which is counted."""
        data = self.files.read(path, LARGEST)
        if data is None:
            entry = self.files.entry(path)
            if entry is not None and entry.size > LARGEST:
                lift.skip("oversize")
            return b""
        lift.bytes_read += len(data)
        return data


def records_in(lift: Lift, data: bytes, is_record: Callable[[Record], bool], key: str = "") -> list[Record]:
    """The records of a document that is a list of them, or an object that holds the list at `key`.

    From a damaged document, those that are whole; the damage is counted as "torn" or "malformed".
    """
    if not data.strip():
        return []
    value = json_of(data)
    if key and isinstance(value, Mapping):
        value = value.get(key)
    if isinstance(value, list):
        records = [each for each in value if isinstance(each, Mapping) and is_record(each)]
        if len(records) < len(value):
            lift.skip("unknown", len(value) - len(records))
        return records
    if value is not None:
        lift.skip("malformed")
        return []
    if b"\0" in data:
        lift.skip("nul")
    lift.skip("torn" if data.rstrip()[-1:] not in (b"]", b"}") else "malformed")
    return list(_whole_ones(data.decode("utf-8", "replace"), is_record))


def _whole_ones(text: str, is_record: Callable[[Record], bool]) -> Iterable[Record]:
    at = tries = 0
    while tries < _TRIES:
        brace = _BRACE.search(text, at)
        if brace is None:
            return
        at = brace.end()
        try:
            value, end = _DECODER.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            tries += 1
            continue
        if is_record(value):
            at = end
            yield value


def checklist(text: str) -> tuple[PlanItem, ...]:
    """The items of a markdown list of check boxes: "- [x] done", "[-] doing", "- [ ] open"."""
    items = []
    for line in text.split("\n"):
        box = _BOX.match(line)
        if box is not None:
            items.append(PlanItem(text=box[2].strip(), status=status_of(box[1])))
    return tuple(items)


def refused(lift: Lift, error: ErrorSignal, wording: Wording, at: datetime | None) -> None:
    """The provider refused a request, or the connection broke."""
    now = at or lift.last_activity or datetime.fromtimestamp(0, UTC)
    verdict = as_failed(classify(error, wording, now=now, zone=UTC, printed_at=at))
    # However it was judged, it was read in a transcript.
    why = verdict.why.replace(f"{Channel.HTTP_BODY}: ", f"{Channel.TRANSCRIPT}: ", 1)
    lift.failed(error, evolve(verdict, why=why), at)


def error_of(text: str, *, code: str = "", status: int = 0) -> ErrorSignal:
    """An error as a transcript tells it, which says itself that it is one.

    Words that have neither a code nor a status beside them are heard as a provider's own answer is.
    """
    told = bool(code) or status > 0
    return ErrorSignal(
        channel=Channel.TRANSCRIPT if told else Channel.HTTP_BODY,
        text=text,
        code=code or None,
        http_status=status if status > 0 else None,
    )


def spoke(lift: Lift, text: str, at: datetime | None) -> None:
    """The agent said this; nothing when it is empty."""
    if text.strip():
        lift.take(AgentText(text=text), at)
    else:
        lift.at(at)
