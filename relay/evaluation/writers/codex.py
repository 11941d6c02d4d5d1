"""As Codex 0.171 stores a thread (seen)."""

from __future__ import annotations

import json
from typing import Any

from relay.core.events import PlanItem
from relay.evaluation.scripts import EditedFile, RanCommand, ReadFile
from relay.evaluation.writers.base import STATUS_WORDS, Writer

_WINDOW = 258_400


class CodexWriter(Writer):
    """See the module."""

    store = "codex"

    def begin(self) -> None:
        """See `Writer`."""
        at = self.started
        self._spent = [0, 0, 0]
        self._ordinal = 0
        self.opened(f".codex/sessions/{at:%Y/%m/%d}/rollout-{at:%Y-%m-%dT%H-%M-%S}-{self.session_id}.jsonl")
        self._row(
            "session_meta",
            {
                "id": self.session_id,
                "timestamp": self.stamp,
                "cwd": self.cwd,
                "originator": "codex_exec",
                "cli_version": "0.171.0",
                "source": "exec",
                "git": {"branch": self.branch},
            },
        )

    def said(self, text: str) -> None:
        """See `Writer`."""
        turn = self.next_id("turn-")
        self._event({"type": "task_started", "turn_id": turn, "model_context_window": _WINDOW})
        self._row("turn_context", {"turn_id": turn, "cwd": self.cwd, "model": "gpt-5.5"})
        content = [{"type": "input_text", "text": text}]
        self._row("response_item", {"type": "message", "role": "user", "content": content})
        self._item({"type": "UserMessage", "content": [{"type": "text", "text": text}]})

    def told(self, text: str) -> None:
        """See `Writer`."""
        self._item({"type": "AgentMessage", "content": [{"type": "Text", "text": text}]})
        self._count()
        self._event({"type": "task_complete", "last_agent_message": text})

    def read(self, step: ReadFile) -> None:
        """See `Writer`."""
        parsed = [
            {"type": "read", "cmd": f"cat {step.path}", "name": step.path, "path": self.path(step.path)}
        ]
        self._ran(RanCommand(f"cat {step.path}", 0, step.text), parsed)

    def edited(self, step: EditedFile) -> None:
        """See `Writer`."""
        change = f"-{step.before}\n+{step.after}\n"
        call = self._patch(step.path, change)
        diff = f"@@ -1 +1 @@\n{change}"
        self._item(
            {
                "type": "FileChange",
                "id": call,
                "changes": {self.path(step.path): {"type": "update", "unified_diff": diff}},
                "status": "failed" if step.fails else "completed",
                "stdout": "" if step.fails else f"Success. Updated the following files:\nM {step.path}\n",
                "stderr": step.fails,
            }
        )

    def ran(self, step: RanCommand) -> None:
        """See `Writer`."""
        self._ran(step, [{"type": "unknown", "cmd": step.command}])

    def planned(self, items: tuple[PlanItem, ...]) -> None:
        """See `Writer`."""
        plan = [{"step": item.text, "status": STATUS_WORDS[item.status]} for item in items]
        given = json.dumps({"plan": plan}, ensure_ascii=False)
        call = self.next_id("call_")
        self._row(
            "response_item",
            {"type": "function_call", "name": "update_plan", "arguments": given, "call_id": call},
        )
        self._row(
            "response_item", {"type": "function_call_output", "call_id": call, "output": "Plan updated"}
        )

    def summarised(self, text: str) -> None:
        """See `Writer`."""
        self._row("compacted", {"message": text})

    def refused(self, text: str) -> None:
        """See `Writer`."""
        error = {"message": text, "codex_error_info": "usage_limit_exceeded"}
        self._event({"type": "task_complete", "last_agent_message": None, "error": error})

    def cut(self, path: str) -> None:
        """See `Writer`."""
        self._patch(path, "-a\n+b\n")

    def _patch(self, path: str, change: str) -> str:
        """The call that asks for an edit; its id."""
        call = self.next_id("call_")
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n{change}*** End Patch\n"
        asked = {"type": "custom_tool_call", "call_id": call, "name": "apply_patch", "input": patch}
        self._row("response_item", asked)
        return call

    def _ran(self, step: RanCommand, parsed: list[dict[str, str]]) -> None:
        call = self.next_id("call_")
        self._row(
            "response_item",
            {
                "type": "function_call",
                "name": "exec_command",
                "arguments": json.dumps({"cmd": step.command}, ensure_ascii=False),
                "call_id": call,
            },
        )
        self._item(
            {
                "type": "CommandExecution",
                "id": call,
                "command": ["/bin/bash", "-lc", step.command],
                "cwd": self.cwd,
                "parsed_cmd": parsed,
                "status": "failed" if step.code else "completed",
                "aggregated_output": step.output,
                "exit_code": step.code,
            }
        )
        self._row("response_item", {"type": "function_call_output", "call_id": call, "output": step.output})
        self._count()

    def _count(self) -> None:
        last = (7_100, 6_900, 68)
        self._spent = [total + more for total, more in zip(self._spent, last, strict=True)]
        self._event(
            {
                "type": "token_count",
                "info": {
                    "total_token_usage": _usage(self._spent),
                    "last_token_usage": _usage(list(last)),
                    "model_context_window": _WINDOW,
                },
            }
        )

    def _item(self, item: dict[str, Any]) -> None:
        item = {"type": item["type"], "id": item.get("id") or self.next_id("item-"), **item}
        self._event({"type": "item_completed", "item": item})

    def _event(self, payload: dict[str, Any]) -> None:
        self._row("event_msg", payload)

    def _row(self, kind: str, payload: dict[str, Any]) -> None:
        self.line({"timestamp": self.stamp, "ordinal": self._ordinal, "type": kind, "payload": payload})
        self._ordinal += 1


def _usage(spent: list[int]) -> dict[str, int]:
    return {
        "input_tokens": spent[0],
        "cached_input_tokens": spent[1],
        "output_tokens": spent[2],
        "reasoning_output_tokens": 0,
        "total_tokens": spent[0] + spent[2],
    }
