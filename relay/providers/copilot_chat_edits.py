"""How edits of Copilot Chat ended, as the model was told: in the result of a request, beside what was shown.

What is shown of an edit that failed is what is shown of one that did not. `metadata.toolCallRounds` holds
each call with its input, `metadata.toolCallResults` its result by the call's id: a text, or a tree of texts.
Tools and wordings as read in public sources of Copilot Chat; shapes and ids as a published session of 0.31.5
has them, where the ids are others than those of what was shown. Used by `relay.providers.copilot_chat`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from attrs import frozen

from relay.core.events import ToolKind
from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.acts import kind_of, path_of, paths_of
from relay.providers.json_texts import Record, object_in

_FAILED = re.compile(
    r"^(?:ERROR\b|String replacement failed: |Applying patch failed with error: |The user cancelled the )",
    re.MULTILINE,
)
_LISTED = "The following files were successfully edited:"
"""Followed by the files, a line each; a call that edits several may tell of errors behind them."""
_EDITED = re.compile(r"^The edit to (.+) was applied successfully\.", re.MULTILINE)
_CREATED = "File created at "
_MOST = 8_192
"""Characters of a result that are looked at."""
_DEEPEST = 40
_MOST_CALLS = 20_000


@frozen
class ToldEdit:
    """An edit of one file.

    Args:
        call_id: of its own, also where a call edits several files.
        path: with forward slashes.
        output: what the model was told.
    """

    call_id: str
    tool: str
    path: str
    ok: bool
    output: str


def told_edits(metadata: Record) -> Iterator[ToldEdit]:
    """The edits of a request of which it is told how they ended, in their order."""
    results = shapes.mapping(metadata, "toolCallResults")
    for call in _calls(metadata):
        call_id = shapes.text(call, "id")
        output = _text_of(results.get(call_id))
        for number, path in enumerate(map(local, _paths(call))):
            ok = _worked(path, output)
            if ok is not None:
                yield ToldEdit(f"{call_id}:{number}", shapes.text(call, "name"), path, ok, output)


def slim_calls(metadata: Record) -> dict[str, Any]:
    """Of the calls and results, what `told_edits` looks at: without contents, and without other tools."""
    results = shapes.mapping(metadata, "toolCallResults")
    calls, told = [], {}
    for call in _calls(metadata):
        call_id = shapes.text(call, "id")
        given = orjson.dumps({"paths": _paths(call)}).decode()
        calls.append({"id": call_id, "name": shapes.text(call, "name"), "arguments": given})
        told[call_id] = {"content": [{"value": _text_of(results.get(call_id))}]}
    return {"toolCallRounds": [{"toolCalls": calls}], "toolCallResults": told} if calls else {}


def local(path: str) -> str:
    """A path with forward slashes; the letter of a drive small, as VS Code writes it and a model may not."""
    path = normal(path)
    return path[:1].lower() + path[1:] if path[1:2] == ":" else path


def _calls(metadata: Record) -> Iterable[Record]:
    """The calls that edit, without those in subagents, which a request does not hold."""
    count = 0
    for each in shapes.items(metadata, "toolCallRounds"):
        for call in shapes.items(each, "toolCalls"):
            if kind_of(shapes.text(call, "name")) is ToolKind.EDIT and count < _MOST_CALLS:
                count += 1
                yield call


def _paths(call: Record) -> tuple[str, ...]:
    given = object_in(shapes.text(call, "arguments"))
    several = (path_of(each) for each in shapes.items(given, "replacements") if isinstance(each, dict))
    return tuple(dict.fromkeys(filter(None, several))) or paths_of(given)


def _worked(path: str, output: str) -> bool | None:
    """Whether the file was edited; None where the words are not known."""
    failed = _FAILED.search(output)
    start = output.find(_LISTED)
    if start < 0 and not output.startswith(_CREATED) and not _EDITED.search(output):
        return False if failed else None
    if failed is None:
        return True
    listed = output[start + len(_LISTED) : failed.start()].split("\n") if start >= 0 else []
    return path in {local(name.strip()) for name in (*listed, *_EDITED.findall(output))}


def _text_of(result: object) -> str:
    parts: list[str] = []
    for each in shapes.items(result, "content"):
        told = each.get("value") if isinstance(each, dict) else None
        if isinstance(told, str):
            parts.append(told)
        else:
            parts += ("\n", *_words_in(shapes.mapping(told, "node"), _DEEPEST))
    return "".join(parts).strip()[:_MOST]


def _words_in(node: Record, depth: int) -> Iterator[str]:
    """The texts of a rendered prompt, as `@vscode/prompt-tsx` writes it, with its line breaks."""
    if node.get("lineBreakBefore"):
        yield "\n"
    yield shapes.text(node, "text")
    for child in shapes.items(node, "children") if depth else ():
        if isinstance(child, dict):
            yield from _words_in(child, depth - 1)
