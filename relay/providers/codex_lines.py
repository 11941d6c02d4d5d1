"""Which lines of a rollout matter, told by their first bytes: most are never parsed.

Codex writes its records' keys in one order, so a line's kind stands in its first bytes. A line that begins
in another way, or that holds a second record behind a torn one, is parsed. For a list
`relay.providers.codex_skim` takes more of them. Used by `relay.providers.codex_rollout`.
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
_KNOWN = {kind.encode() for kind in KNOWN}

HEAD = re.compile(
    rb'\{"timestamp":"(\d[\dT:.+Z-]{9,39})",(?:"ordinal":\d+,)?"type":"(\w+","payload":\{(?:"type":"\w+")?)'
)
"""Of a line: its timestamp, and the kind that `matter_of` takes."""
_INNER = b'","payload":{"type":"'
_ITEM = re.compile(rb'(?:,"(?:thread_id|turn_id)":"[^"\\]*")*,"item":\{"type":"(\w+)"')
_CALL_ID = re.compile(rb'"call_id":"([^"\\]+)"')
BEGINNING = b'{"timestamp":"'
_ENDED_END = re.compile(
    rb'(?:[^\\]"|null)(?:,"(?:started_at|completed_at|duration_ms|time_to_first_token_ms)":(?:\d+|null))*\}\}$'
)
_TAIL = 240
_ALWAYS = (b"session_meta", b"turn_context", b"compacted")
_CALLS = (b"function_call", b"custom_tool_call", b"local_shell_call")
TELLING = {
    b"UserMessage",
    b"AgentMessage",
    b"Plan",
    b"FileChange",
    b"ContextCompaction",
    b"CollabAgentToolCall",
    b"SubAgentActivity",
}
DONE = {b"CommandExecution", b"McpToolCall", b"ImageView"}
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


def matter_of(line: bytes, head: re.Match[bytes], calls: CodexCalls, *, thorough: bool) -> Matter:
    """What becomes of a line that is tidy.

    Args:
        head: as `HEAD` matched it.
        calls: which calls wait for their output.
        thorough: commands and tools matter too.
    """
    if line[-1:] != b"}":
        return Matter.PARSE
    kind, _, inner = head[2].partition(_INNER)
    if kind == b"event_msg":
        return _event_matter(line, head.end(), inner[:-1], calls, thorough)
    if kind == b"response_item":
        return _response_matter(line, head.end(), inner[:-1], calls, thorough)
    kind = kind.partition(b'"')[0]
    if kind in _ALWAYS:
        return Matter.PARSE
    return Matter.PASS if kind in _KNOWN else Matter.UNKNOWN


def _event_matter(line: bytes, end: int, inner: bytes, calls: CodexCalls, thorough: bool) -> Matter:
    if inner == b"item_completed":
        return _item_matter(line, end, calls, thorough)
    return Matter.PARSE if inner in _EVENTS or (thorough and inner in _ENDS) else Matter.PASS


def _item_matter(line: bytes, end: int, calls: CodexCalls, thorough: bool) -> Matter:
    item = _ITEM.match(line, end)
    if item is None:
        return Matter.PARSE
    if item[1] in TELLING:
        return Matter.PARSE
    calls.has_items |= item[1] in DONE
    return Matter.PARSE if thorough and item[1] in DONE else Matter.PASS


def telling_call(line: bytes) -> bool:
    """What the model asks for tells more than that a command ran."""
    return b"update_plan" in line or b"*** Begin Patch" in line or b"spawn_agent" in line


def is_whole_end(line: bytes) -> bool:
    """A `task_complete` that is not cut short, as far as its end tells."""
    times = line.find(b',"started_at":', max(0, len(line) - _TAIL))
    start = times if times > 0 else len(line) - 2
    return _ENDED_END.match(line, start - (4 if line[start - 4 : start] == b"null" else 2)) is not None


def _response_matter(line: bytes, end: int, inner: bytes, calls: CodexCalls, thorough: bool) -> Matter:
    if inner in _CALLS:
        return Matter.PARSE if thorough or telling_call(line) else Matter.PASS
    if not inner.endswith(b"_output"):
        return Matter.PASS
    call = _CALL_ID.search(line, end)
    waits = call is None or calls.waits_for(call[1].decode("utf-8", "replace"))
    return Matter.PARSE if waits else Matter.PASS


def stamp_in(stamp: bytes) -> datetime | None:
    """A record's timestamp as an aware instant; None when it is none."""
    try:
        found = datetime.fromisoformat(stamp.decode("ascii", "replace"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
