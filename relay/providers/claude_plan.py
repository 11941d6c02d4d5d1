"""The plan of a Claude Code session, as its two families of plan tools leave it.

`TodoWrite` gives the whole list at every call; `TaskCreate`, `TaskUpdate` and `TaskList` change one that
only the CLI has whole, so it is kept here. Followed by the dialogue; shapes as of Claude Code 2.1.332.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from relay.core.events import PlanItem, PlanUpdated, TaskStatus
from relay.providers.shapes import items, mapping, text

_STATUS = {status.value: status for status in TaskStatus}


class Plan:
    """The list of one run. Calls are noted when they are opened and count once they have succeeded."""

    def __init__(self) -> None:
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._tasks: dict[str, PlanItem] = {}

    def opened(self, call_id: str, tool: str, given: Mapping[str, Any]) -> None:
        """Note a call of a plan tool; others are not its business."""
        if tool in ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList"):
            self._calls[call_id] = {"tool": tool, "input": given}

    def closed(self, call_id: str, ok: bool, result: Mapping[str, Any]) -> PlanUpdated | None:
        """The plan after that call, or None when the call did not change it.

        Args:
            call_id: the call.
            ok: it succeeded.
            result: its `tool_use_result`.
        """
        call = self._calls.pop(call_id, None)
        if call is None or not ok:
            return None
        tool, given = text(call, "tool"), mapping(call, "input")
        before = dict(self._tasks)
        if tool == "TodoWrite":
            todos = items(result, "newTodos") or items(given, "todos")
            self._tasks = {str(number): _item(todo, "content") for number, todo in enumerate(todos)}
        elif tool == "TaskList":
            self._tasks = {text(task, "id"): _item(task, "subject") for task in items(result, "tasks")}
        elif tool == "TaskCreate":
            task = mapping(result, "task")
            if text(task, "id"):
                self._tasks[text(task, "id")] = _item({**given, **task}, "subject")
        else:
            self._update(given)
        return PlanUpdated(items=tuple(self._tasks.values())) if self._tasks != before else None

    def _update(self, given: Mapping[str, Any]) -> None:
        task_id, status = text(given, "taskId"), text(given, "status")
        if task_id not in self._tasks:
            # Of a run before this one: its words are not known here.
            return
        if status == "deleted":
            del self._tasks[task_id]
            return
        item = self._tasks[task_id]
        self._tasks[task_id] = evolve(
            item, text=text(given, "subject") or item.text, status=_STATUS.get(status, item.status)
        )


def _item(data: object, key: str) -> PlanItem:
    return PlanItem(text=text(data, key), status=_STATUS.get(text(data, "status"), TaskStatus.PENDING))
