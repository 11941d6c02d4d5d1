"""Which lines of a rollout matter, told by their first bytes: most are never parsed.

Codex writes its records' keys in one order, so a line's kind stands in its first bytes. A line that begins
in another way, or that holds a second record behind a torn one, is parsed. Used by
`relay.providers.codex_rollout`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum

from relay.providers.codex_calls import CodexCalls


class Matter(Enum):
    """What becomes of a line."""

    PARSE = 0
    PASS = 1
    UNKNOWN = 2


BARE = ("message", "function_call", "function_call_output", "local_shell_call", "local_shell_call_output")
"""Records of the first releases, which had no envelope."""
KNOWN = {
    "session_meta",
    "turn_context",
    "response_item",
    "event_msg",
    "compacted",
    "world_state",
    "token_usage_record",
    "inter_agent_communication",
    "reasoning",
    "bare",
}
"""Types of records, as of codex-cli 0.171.0 and before."""

_HEAD = re.compile(
    rb'\{"timestamp":"(\d[\dT:.+Z-]{9,39})",(?:"ordinal":\d+,)?"type":"(\w+)","payload":\{(?:"type":"(\w+)")?'
)
_ITEM = re.compile(rb'(?:,"(?:thread_id|turn_id)":"[^"\\]*")*,"item":\{"type":"(\w+)"')
_CALL_ID = re.compile(rb'"call_id":"([^"\\]+)"')
_SECOND = b'{"timestamp":"'
_ALWAYS = (b"session_meta", b"turn_context", b"compacted")
_CALLS = (b"function_call", b"custom_tool_call", b"local_shell_call")
_LISTED_CALLS = (b"update_plan", b"*** Begin Patch", b"spawn_agent")
_SAID = {
    b"UserMessage",
    b"AgentMessage",
    b"Plan",
    b"FileChange",
    b"ContextCompaction",
    b"CollabAgentToolCall",
    b"SubAgentActivity",
}
_DONE = {b"CommandExecution", b"McpToolCall", b"ImageView"}
_EVENTS = {
    b"user_message",
    b"agent_message",
    b"patch_apply_begin",
    b"patch_apply_end",
    b"sub_agent_activity",
    b"context_compacted",
    b"token_count",
    b"task_started",
    b"turn_started",
    b"task_complete",
    b"turn_complete",
    b"turn_aborted",
    b"error",
}
_ENDS = {b"exec_command_end", b"mcp_tool_call_end"}


def matter_of(line: bytes, calls: CodexCalls, *, thorough: bool) -> tuple[Matter, bytes]:
    """Whether a line is to be parsed, and its timestamp if it is not ("" when it is unknown).

    Args:
        calls: which calls wait for their output.
        thorough: commands and tools matter too.
    """
    head = _HEAD.match(line)
    if head is None or line[-1:] != b"}" or _matters(line, head, calls, thorough):
        return Matter.PARSE, b""
    if b"\0" in line or line.find(_SECOND, head.end()) >= 0:
        return Matter.PARSE, b""
    return Matter.PASS if head[2].decode() in KNOWN else Matter.UNKNOWN, head[1]


def _matters(line: bytes, head: re.Match[bytes], calls: CodexCalls, thorough: bool) -> bool:
    kind, inner = head[2], head[3]
    if kind == b"event_msg":
        if inner != b"item_completed":
            return inner in _EVENTS or (thorough and inner in _ENDS)
        item = _ITEM.match(line, head.end())
        if item is None or item[1] in _SAID:
            return True
        calls.has_items |= item[1] in _DONE
        return thorough and item[1] in _DONE
    if kind != b"response_item":
        return kind in _ALWAYS
    if inner in _CALLS:
        return thorough or any(mark in line for mark in _LISTED_CALLS)
    if inner is None or not inner.endswith(b"_output"):
        return False
    call = _CALL_ID.search(line, head.end())
    return call is None or calls.waits_for(call[1].decode("utf-8", "replace"))


def stamp_in(stamp: bytes) -> datetime | None:
    """A record's timestamp as an aware instant; None when it is none."""
    try:
        found = datetime.fromisoformat(stamp.decode("ascii", "replace"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
