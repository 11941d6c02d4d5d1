"""What agents say and which tools they call in a Gemini CLI chat, taken for a list without parsing it.

Used by `relay.providers.gemini_chat` for a list; a line that is refused here is parsed there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from relay.core.events import ToolKind
from relay.providers.skimming import PLAIN, QUIET, STAMP, STRING, kind_in, string_in

HEAD = re.compile(
    rb'\{"id":"([^"\\]{1,100})","timestamp":"('
    + STAMP
    + rb')","type":"gemini","content":"('
    + PLAIN
    + rb'|")'
)
_TOKENS = b',"tokens":{"input":'
_SPENT = re.compile(
    rb',"tokens":\{"input":(\d+),"output":(\d+),"cached":(\d+),"thoughts":(\d+),"tool":\d+,"total":(\d+)\},'
    rb'"model":"([^"\\]*)"(?:\}$|,"toolCalls":\[)'
)
_CALL = re.compile(rb'\{"id":"([^"\\]{1,200})","name":"(\w+)","args":\{')
_EDITED = re.compile(rb'"file_path":(' + STRING + rb")")
_ENDED = re.compile(rb'\}\],"status":"(\w+)","timestamp":"(' + STAMP + rb')"[,}]')
_TAIL = 400


class Skimmed(NamedTuple):
    """What such a message tells.

    Args:
        speaks: with words that are not empty.
        path: of the file that its call edits; "" for any other call.
        status: of the edit.
    """

    name: str
    stamp: bytes
    speaks: bool
    spent: tuple[int, int, int]
    context: int
    model: str
    called: bool = False
    call_id: str = ""
    tool: str = ""
    path: str = ""
    status: str = ""
    ended: bytes = b""


def skimmed(line: bytes) -> Skimmed | None:
    """What the line tells; None when it has to be parsed."""
    head = HEAD.match(line)
    # Another type is that of a whole record behind a torn one.
    if head is None or line.find(b'","type":"', head.end()) >= 0 or line.find(b'{"$', head.end()) >= 0:
        return None
    calls = line.find(b',"toolCalls":[', head.end())
    end = len(line) if calls < 0 else calls
    start = line.rfind(_TOKENS, max(0, end - _TAIL), end)
    found = _SPENT.match(line, start) if start > 0 else None
    if found is None or (calls >= 0) != (found.end() == calls + 14):
        return None
    fresh, said, cached, thought, total = map(int, found.groups()[:5])
    told = Skimmed(
        name=head[1].decode("utf-8", "replace"),
        stamp=head[2],
        speaks=head[3] != b'"',
        spent=(max(0, fresh - cached), cached, said + thought),
        context=total,
        model=found[6].decode("utf-8", "replace"),
    )
    return told if calls < 0 else _with_call(told, line, found.end())


def _with_call(told: Skimmed, line: bytes, start: int) -> Skimmed | None:
    call = _CALL.match(line, start)
    if call is None or line[-3:] != b"}]}":
        return None
    if line.count(b'"functionResponse":{', start) != 1 or line.count(b',"args":{', start) != 1:
        return None
    kind = kind_in(call[2])
    edited = _EDITED.match(line, call.end()) if kind is ToolKind.EDIT else None
    end = line.find(b'}],"status":"', start)
    ended = _ENDED.match(line, end) if end > 0 else None
    if ended is None or (kind not in QUIET and edited is None):
        return None
    path = string_in(edited[1]) if edited is not None else ""
    if path is None:
        return None
    return told._replace(
        called=True,
        call_id=call[1].decode("utf-8", "replace"),
        tool=call[2].decode(),
        path=path,
        status=ended[1].decode(),
        ended=ended[2],
    )
