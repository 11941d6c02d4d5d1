"""What every writer of a CLI's sessions has: a folder, a clock, ids that are the same each time."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, ClassVar

from relay.core.events import PlanItem, TaskStatus
from relay.evaluation.scripts import (
    CutOff,
    EditedFile,
    Planned,
    RanCommand,
    ReadFile,
    Refused,
    Said,
    Step,
    Summarised,
    Told,
)

STARTED = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_NAMESPACE = uuid.UUID("6f0f4c9e-6f0b-4f0a-9c39-1f6d5f6b7a11")
FOLDER = "work/shop"
"""Where a session ran whose CLI stores it in that folder, relative to the home folder."""
STATUS_WORDS = {
    TaskStatus.PENDING: "pending",
    TaskStatus.IN_PROGRESS: "in_progress",
    TaskStatus.COMPLETED: "completed",
}


class Writer:
    """Writes one session below a home folder.

    Args:
        home: the user's home folder.
        cwd: the agent's folder, absolute.
        name: of the session; the same name gives the same ids.

    Attributes:
        untold: (kind, text) of each fact that was to be written and that the CLI stores nowhere: what no
            reader can know. Kinds as in `relay.core.fidelity.WEIGHTS`.
    """

    store: ClassVar[str] = ""
    branch = "feature/refund"

    def __init__(self, home: Path, cwd: str, name: str, *, started: datetime = STARTED) -> None:
        self.home, self.cwd, self.name, self.started = home, cwd, name, started
        self.session_id = str(uuid.uuid5(_NAMESPACE, f"{self.store} {name}"))
        self.now = started
        self.count = 0
        self.written = 0
        self.untold: list[tuple[str, str]] = []
        self._file: IO[str] | None = None
        self.begin()

    def write(self, steps: Iterable[Step]) -> None:
        """The steps, one after the other, and the end of the session."""
        for step in steps:
            self.take(step)
        self.end()
        self.close()

    def take(self, step: Step) -> None:
        """One step."""
        self.now += timedelta(milliseconds=700)
        match step:
            case Said():
                self.said(step.text)
            case Told():
                self.told(step.text)
            case ReadFile():
                self.read(step)
            case EditedFile():
                self.edited(step)
            case RanCommand():
                self.ran(step)
            case Planned():
                self.planned(step.items)
            case Summarised():
                self.summarised(step.text)
            case Refused():
                self.refused(step.text)
            case CutOff():
                self.cut(step.path)

    def begin(self) -> None:
        """What stands before the first prompt."""

    def said(self, text: str) -> None:
        """See `Said`."""

    def told(self, text: str) -> None:
        """See `Told`."""

    def read(self, step: ReadFile) -> None:
        """See `ReadFile`."""

    def edited(self, step: EditedFile) -> None:
        """See `EditedFile`."""

    def ran(self, step: RanCommand) -> None:
        """See `RanCommand`."""

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Planned`."""

    def summarised(self, text: str) -> None:
        """See `Summarised`."""

    def refused(self, text: str) -> None:
        """See `Refused`."""

    def cut(self, path: str) -> None:
        """See `CutOff`."""

    def end(self) -> None:
        """What stands behind the last step."""

    def close(self) -> None:
        """Close what was opened."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def opened(self, relative: str) -> None:
        """Lines go to this file, relative to the home folder."""
        path = self.home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")

    def line(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        if self._file is None:
            raise ValueError("no file is open")
        self.written += self._file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")

    def document(self, relative: str, value: object) -> None:
        """Write a whole JSON document, relative to the home folder."""
        path = self.home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written += path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")

    def cannot_tell(self, kind: str, *texts: str) -> None:
        """These facts are stored nowhere."""
        self.untold += ((kind, text) for text in texts)

    def cannot_plan(self, items: tuple[PlanItem, ...]) -> None:
        """No plan is stored, so that neither what is open nor what is done is told."""
        for item in items:
            done = item.status is TaskStatus.COMPLETED
            self.cannot_tell("done_tasks" if done else "open_tasks", item.text)

    def next_id(self, prefix: str = "") -> str:
        """An id that no other record of the session has."""
        self.count += 1
        return f"{prefix}{uuid.uuid5(_NAMESPACE, f'{self.session_id} {self.count}').hex[:24]}"

    def path(self, relative: str) -> str:
        """A file of the agent's folder, absolute."""
        return relative if relative.startswith("/") else f"{self.cwd}/{relative}"

    @property
    def stamp(self) -> str:
        """The instant, as in JSON."""
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def millis(self) -> int:
        """The instant, in milliseconds since 1970."""
        return int(self.now.timestamp() * 1000)


def checklist(items: tuple[PlanItem, ...], doing: str = " ") -> str:
    """A plan as a markdown list of check boxes.

    Args:
        doing: what stands in the box of an item in progress.
    """
    marks = {TaskStatus.COMPLETED: "x", TaskStatus.IN_PROGRESS: doing, TaskStatus.PENDING: " "}
    return "\n".join(f"- [{marks[item.status]}] {item.text}" for item in items)


def todos(items: tuple[PlanItem, ...]) -> list[dict[str, str]]:
    """A plan as most CLIs write it."""
    return [{"content": item.text, "status": STATUS_WORDS[item.status]} for item in items]
