"""The Anthropic Messages API, as far as Claude Code uses it. Called by `server` for each request."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.llm.script import HOUR, Failure, Step

Frame = tuple[str, Mapping[str, Any]]
_FOLDER = re.compile(r"working directory:\s*`?(/[^\s`\\\"<]+)", re.IGNORECASE)


def is_side(body: Mapping[str, Any]) -> bool:
    """A request beside the conversation (a title, a probe): it offers no tools."""
    return not body.get("tools")


def headers(used: float) -> dict[str, str]:
    """What a subscription's answer says of its windows; `used` is a fraction of the five-hour one."""
    now = int(time.time())
    status = "allowed" if used < 0.9 else "allowed_warning"
    said = {
        "status": status,
        "reset": str(now + 3 * HOUR),
        "representative-claim": "five_hour",
        "5h-status": status,
        "5h-reset": str(now + 3 * HOUR),
        "5h-utilization": str(used),
        "7d-status": "allowed",
        "7d-reset": str(now + 96 * HOUR),
        "7d-utilization": "0.2",
    }
    if used >= 0.9:
        said["5h-surpassed-threshold"] = "0.9"
    return {f"anthropic-ratelimit-unified-{name}": value for name, value in said.items()}


def failed(failure: Failure) -> tuple[int, dict[str, str], Mapping[str, Any]]:
    """Status, headers and body of an error."""
    if failure.kind == "overloaded":
        return 529, {"x-should-retry": "true"}, _error("overloaded_error", "Overloaded")
    if failure.kind == "unauthorized":
        return 401, {"x-should-retry": "false"}, _error("authentication_error", "invalid x-api-key")
    reset = str(int(time.time()) + failure.resets_in)
    spent = {
        "status": "rejected",
        "reset": reset,
        "5h-status": "rejected",
        "5h-reset": reset,
        "5h-utilization": "1.0",
        "overage-status": "rejected",
        "overage-disabled-reason": "org_level_disabled",
    }
    told = {f"anthropic-ratelimit-unified-{name}": value for name, value in spent.items()}
    told |= {"retry-after": str(failure.resets_in), "x-should-retry": "false"}
    words = "This request would exceed your account's rate limit. Please try again later."
    return 429, headers(1.0) | told, _error("rate_limit_error", words)


def _error(kind: str, message: str) -> Mapping[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def whole(text: str, model: str) -> Mapping[str, Any]:
    """An answer that is not streamed."""
    return {
        **_message("side", model),
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 2},
    }


def stream(step: Step, body: Mapping[str, Any], number: int) -> Iterator[Frame | None]:
    """The answer's events; a None where a step that holds stands still."""
    calls = _calls(step, body, number)
    yield "message_start", {"type": "message_start", "message": _message(str(number), str(body.get("model")))}
    blocks: list[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]] = []
    if step.said:
        words = [{"type": "text_delta", "text": piece} for piece in re.findall(r"\S+\s*", step.said)]
        blocks.append(({"type": "text", "text": ""}, words))
    for call in calls:
        spelt = json.dumps(call["input"])
        halves = [spelt[: len(spelt) // 2], spelt[len(spelt) // 2 :]]
        pieces = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        blocks.append(({**call, "input": {}}, pieces))
    for index, (opening, deltas) in enumerate(blocks):
        at = {"index": index}
        yield "content_block_start", {"type": "content_block_start", **at, "content_block": opening}
        for place, delta in enumerate(deltas):
            yield "content_block_delta", {"type": "content_block_delta", **at, "delta": delta}
            if index == 0 and place == 0:
                yield None
        yield "content_block_stop", {"type": "content_block_stop", **at}
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}}
    yield "message_stop", {"type": "message_stop"}


def _message(number: str, model: str) -> dict[str, Any]:
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 50}
    return {
        "id": f"msg_fake_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }


def _calls(step: Step, body: Mapping[str, Any], number: int) -> list[Mapping[str, Any]]:
    args = step.args
    found = _FOLDER.findall(json.dumps(body))
    folder = found[0].rstrip(".") if found else "/nowhere"
    match step.tool:
        case "":
            inputs = []
        case "write":
            path = os.path.join(folder, args["path"])  # noqa: PTH118
            inputs = [("Write", {"file_path": path, "content": args["content"]})]
        case "edit":
            path = os.path.join(folder, args["path"])  # noqa: PTH118
            change = {"old_string": args["old"], "new_string": args["new"]}
            inputs = [("Edit", {"file_path": path, **change})]
        case "read":
            inputs = [("Read", {"file_path": os.path.join(folder, args["path"])})]  # noqa: PTH118
        case "shell":
            inputs = [("Bash", {"command": args["command"], "description": "Run a command"})]
        case "plan":
            todos = [{"content": text, "status": state, "activeForm": text} for text, state in args["items"]]
            inputs = [("TodoWrite", {"todos": todos})]
        case other:
            raise AssertionError(f"the fake model has no tool {other!r}")
    return [
        {"type": "tool_use", "id": f"toolu_fake_{number}_{index}", "name": name, "input": value}
        for index, (name, value) in enumerate(inputs)
    ]
