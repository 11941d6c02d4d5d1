"""What a brief says is left to do, found in its Markdown as an agent would find it.

The player calls this with its first message. Nothing of Relay's own rendering is imported: the agent has
the text alone, as any agent has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEADING = re.compile(r" {0,3}#{1,6}\s+(?P<title>.+?)\s*#*\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BOX = re.compile(r"\s*(?:[-*+]|[0-9]+[.)])\s+\[(?P<mark>.)\]")
_DECORATION = re.compile(r"[`*]|\\(?=[!-/:-@\[-`{-~])")

_SECTIONS = (
    ("done", re.compile(r"redo|\bnot (?:be )?repeat", re.IGNORECASE)),
    ("left", re.compile(r"remain|to ?do\b|\bnext\b|\bopen\b|\bpending\b|\bin progress\b", re.IGNORECASE)),
    ("done", re.compile(r"\bdone\b|\bcompleted\b|\bfinished\b|\balready\b", re.IGNORECASE)),
)
"""What a heading announces; the first that fits counts ("What remains to be done" is what is left)."""


def tasks_left(text: str, names: Sequence[str]) -> tuple[str, ...] | None:
    """The tasks that a brief leaves to do, in the order of `names`.

    A task under a heading of what is left, or with an empty box, is left, also when it is named among
    what was done: it was begun. Where no task is named as left, all are that are not named as done.

    Args:
        text: the first message.
        names: the tasks that the agent knows.

    Returns:
        Names; None when the text is no brief: it has no heading of what is done or left.
    """
    lines = tuple(_sections(text))
    if not any(section for section, _ in lines):
        return None
    patterns = {name: re.compile(rf"(?<![\w./-]){re.escape(_plain(name))}(?![\w/-]|\.\w)") for name in names}
    done: set[str] = set()
    left: set[str] = set()
    for section, line in lines:
        box = _BOX.match(line)
        if box:
            section = "done" if box["mark"] in "xX" else "left"
        if not section:
            continue
        named = {name for name, pattern in patterns.items() if pattern.search(_plain(line))}
        (done if section == "done" else left).update(named)
    if left:
        return tuple(name for name in names if name in left)
    return tuple(name for name in names if name not in done)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Every line that is no heading, with what its section announces: "done", "left" or ""."""
    section, fenced = "", False
    for line in text.replace("\r\n", "\n").split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading:
            section = next((name for name, words in _SECTIONS if words.search(heading["title"])), "")
        # The heading itself is a line too: a brief may have nothing below it.
        yield section, "" if heading else line


def _plain(text: str) -> str:
    return " ".join(_DECORATION.sub("", text).split()).casefold()
