"""What the records of a Codex tool call say: its command line, its output, how it ended.

Pure; used by `relay.providers.codex_calls`. Output texts as of codex-cli 0.171.0 and, in JSON, of older
releases.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from relay.providers import shapes
from relay.providers.codex_items import unwrap

HEAD = 1_000
"""Where in an output Codex tells of it first."""
_ENDED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})\s*$", re.MULTILINE)
_LOOKS = re.compile(
    r"(?:cat|nl|bat|head|tail|sed\s+-n\s+['\"]?[\d,$]+p['\"]?)\s+(?:-\S+\s+(?:\d+\s+)?)*"
    r"(?P<path>[^\s|;&<>'\"*?$`-][^\s|;&<>'\"*?$`]*)\s*(?:$|\|)"
)


def command_in(given: Mapping[str, Any], key: str) -> str:
    """A command line as it was meant, without the shell that runs it."""
    words = [word for word in shapes.items(given, key) if isinstance(word, str)]
    if not words:
        return unwrap(shapes.text(given, key))
    if len(words) == 3 and words[1] in ("-lc", "-c", "-Command"):
        return words[2]
    return "\n".join(words) if words[0] == "apply_patch" else shlex.join(words)


def read_by(command: str, known: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The files that a command shows: as Codex took it apart, else by its first word."""
    if known:
        told = (shapes.text(each, "path") for each in known if shapes.text(each, "type") == "read")
        return tuple(filter(None, told))
    found = _LOOKS.match(command)
    return (found["path"],) if found else ()


def answer_in(payload: Mapping[str, Any]) -> str:
    """A call's output in one text, however it is wrapped."""
    output = shapes.text(payload, "output") or shapes.text(shapes.mapping(payload, "output"), "content")
    return output or "\n".join(shapes.text(piece, "text") for piece in shapes.items(payload, "output"))


def code_in(output: str) -> int | None:
    """The exit code that an output tells; None when it tells none."""
    if output.startswith("{"):
        told = shapes.record(output.encode("utf-8", "replace")) or {}
        code = shapes.number(shapes.mapping(told, "metadata"), "exit_code")
        code = shapes.number(told, "exit_code") if code is None else code
        return None if code is None else int(code)
    found = _ENDED.search(output, 0, HEAD)
    return int(found[1]) if found else None


def body_of(output: str) -> str:
    """The output without what Codex tells of it first."""
    if output.startswith("{"):
        return shapes.text(shapes.record(output.encode("utf-8", "replace")), "output") or output
    _, found, rest = output[:HEAD].partition("\nOutput:\n")
    return rest + output[HEAD:] if found else output


def streams_of(told: Mapping[str, Any]) -> str:
    """What went to stdout and to stderr."""
    return "\n".join(filter(None, (shapes.text(told, "stdout"), shapes.text(told, "stderr"))))


def local_path(path: str) -> str:
    """A path that may be told as a file URL."""
    return path.removeprefix("file://")
