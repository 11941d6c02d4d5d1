"""One session of Cline's command line, or one task of its extension or of Roo Code's.

The command line as 3.0.65 writes it, the extension as read in public sources of 3.49. Opened by
`relay.providers.cline_store` and `relay.providers.roo_store`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

import orjson

from relay.core.events import PlanUpdated
from relay.core.lift import Lift
from relay.core.paths import normal
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.cline_messages import MessageLift, is_message, prompt_of
from relay.providers.cline_outcomes import Outcomes, may_deny
from relay.providers.cline_tasks import TaskLift, is_shown, lift_metadata
from relay.providers.documents import DocumentTranscript, checklist, records_in
from relay.providers.json_texts import Record, epoch_ms, object_in
from relay.providers.store_protocol import StoreFiles

_CWD = re.compile(rb"# Current (?:Working|Workspace) Directory \(((?:[^)\\]|\\.)+)\) Files")
_HEAD = 512 * 1024


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
            TaskLift(lift, self._outcomes(lift, history), alone=not history).take_all(messages)
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
