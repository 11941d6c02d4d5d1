"""The OpenAI Responses API, as far as Codex uses it. Called by `server` for each request."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.llm.script import HOUR, Failure, Step

Frame = tuple[str, Mapping[str, Any]]


def headers(used: float) -> dict[str, str]:
    """What a plan's answer says of its windows; `used` is a fraction of the five-hour one."""
    now = int(time.time())
    return {
        "x-codex-plan-type": "plus",
        "x-codex-primary-used-percent": str(round(used * 100, 1)),
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(now + 3 * HOUR),
        "x-codex-secondary-used-percent": "20.0",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": str(now + 96 * HOUR),
    }


def failed(failure: Failure) -> tuple[int, dict[str, str], Mapping[str, Any]]:
    """Status, headers and body of an error."""
    if failure.kind == "overloaded":
        words = "Our servers are currently overloaded. Please try again later."
        return 503, {}, _error("service_unavailable_error", words, code="server_is_overloaded")
    if failure.kind == "unauthorized":
        words = "Incorrect API key provided: sk-fake."
        return 401, {}, _error("invalid_request_error", words, code="invalid_api_key")
    reset = int(time.time()) + failure.resets_in
    told = headers(1.0) | {"x-codex-primary-reset-at": str(reset)}
    facts = {"plan_type": "plus", "resets_at": reset, "resets_in_seconds": failure.resets_in}
    return 429, told, _error("usage_limit_reached", "The usage limit has been reached", **facts)


def _error(kind: str, message: str, **more: Any) -> Mapping[str, Any]:
    return {"error": {"type": kind, "message": message, **more}}


def stream(step: Step, body: Mapping[str, Any], number: int) -> Iterator[Frame | None]:
    """The answer's events; a None where a step that holds stands still."""
    response: dict[str, Any] = {
        "id": f"resp_fake_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": body.get("model"),
        "output": [],
    }
    yield "response.created", {"response": response}
    output: list[Mapping[str, Any]] = []
    if step.said:
        message = {"type": "message", "id": f"msg_fake_{number}", "role": "assistant"}
        part = {"type": "output_text", "text": "", "annotations": []}
        place = {"item_id": message["id"], "output_index": 0}
        begun = {**message, "status": "in_progress", "content": []}
        yield "response.output_item.added", {"output_index": 0, "item": begun}
        yield "response.content_part.added", {**place, "content_index": 0, "part": part}
        for index, piece in enumerate(re.findall(r"\S+\s*", step.said)):
            yield "response.output_text.delta", {**place, "content_index": 0, "delta": piece}
            if index == 0:
                yield None
        done = {**message, "status": "completed", "content": [{**part, "text": step.said}]}
        yield "response.output_item.done", {"output_index": 0, "item": done}
        output.append(done)
    call = _call(step, body, number)
    if call is not None:
        index = len(output)
        yield "response.output_item.added", {"output_index": index, "item": call}
        yield "response.output_item.done", {"output_index": index, "item": call}
        output.append(call)
    usage = {
        "input_tokens": 150,
        "input_tokens_details": {"cached_tokens": 50},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 170,
    }
    yield (
        "response.completed",
        {"response": {**response, "status": "completed", "output": output, "usage": usage}},
    )


def _call(step: Step, body: Mapping[str, Any], number: int) -> Mapping[str, Any] | None:
    args, known = step.args, {"call_id": f"call_fake_{number}", "status": "completed"}

    def function(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        spelt = json.dumps(value)
        return {"type": "function_call", "id": f"fc_fake_{number}", "name": name, "arguments": spelt, **known}

    match step.tool:
        case "":
            return None
        case "write":
            lines = "".join(f"+{line}\n" for line in args["content"].removesuffix("\n").split("\n"))
            return _patch(f"*** Add File: {args['path']}\n{lines}", number, known)
        case "edit":
            change = f"*** Update File: {args['path']}\n@@\n-{args['old']}\n+{args['new']}\n"
            return _patch(change, number, known)
        case "read":
            return function("exec_command", {"cmd": f"cat {args['path']}"})
        case "shell":
            # Codex looks again at a command that outlasts this; a conversation would need more steps.
            return function("exec_command", {"cmd": args["command"], "yield_time_ms": 30_000})
        case "plan":
            steps = [{"step": text, "status": state} for text, state in args["items"]]
            return function("update_plan", {"plan": steps})
    raise AssertionError(f"the fake model has no tool {step.tool!r}")


def _patch(change: str, number: int, known: Mapping[str, Any]) -> Mapping[str, Any]:
    patch = f"*** Begin Patch\n{change}*** End Patch\n"
    return {
        "type": "custom_tool_call",
        "id": f"ctc_fake_{number}",
        "name": "apply_patch",
        "input": patch,
        **known,
    }
