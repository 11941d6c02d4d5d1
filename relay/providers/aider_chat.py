"""One chat of aider, lifted from the markdown that it writes.

As aider 0.86.2 prints; what aider itself says is told by its words. What the user typed is told from the
headings of an answer by the two spaces that end each of its lines, which 0.5, 0.20 and 0.86.2 write (read in
their sources). Opened by
`relay.providers.aider_store`.
"""

from __future__ import annotations

import re
from datetime import datetime

from relay.core.events import (
    TokenUsage,
    ToolCall,
    ToolKind,
    ToolResult,
    TurnEnded,
    TurnOutcome,
    UsageReported,
)
from relay.core.lift import Lift
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.documents import DocumentTranscript, error_of, refused, spoke
from relay.providers.wordings import wording_of

_WORDING = wording_of("openai")
_VERSION = re.compile(r"Aider v(\S+)")
_MODEL = re.compile(r"(?:Main m|M)odel: (\S+) with ")
_COMMIT = re.compile(r"Commit [0-9a-f]{7,40} ")
_APPLIED = re.compile(r"Applied edit to (.+)")
_READ = re.compile(r"Added (.+?) to the chat")
_RUNNING = re.compile(r"Running (.+)")
_NUMBER = r"([\d.,]+)([kM]?)"
_SENT = re.compile(rf"Tokens: {_NUMBER} sent")
_HIT = re.compile(rf"{_NUMBER} cache hit")
_RECEIVED = re.compile(rf"{_NUMBER} received")
_COST = re.compile(r"\$([\d.,]+) session")
_ERROR = re.compile(r"(?:litellm\.)?(\w+(?:Error|Exception)): (.+)")
_NOT_APPLIED = re.compile(r"(?:Failed to apply edit to|Skipping edits to)\s+(.+)")
_UNMATCHED = re.compile(r"# \d+ SEARCH/REPLACE blocks? failed to match!")
"""Begins a report, whose further lines follow without a mark."""
_UNMATCHED_IN = re.compile(
    r"## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in (.+)"
)
_REPORT_ENDS = "The SEARCH section must exactly match"
_ASIDES = ("# The other ", "Don't re-send them.", "Just reply with fixed versions of the ")
"""How the lines begin that stand behind it when other edits did fit."""
_FULL = "has hit a token limit!"
_SPOKEN = ("/ask", "/code", "/architect", "/context", "/chat-mode")
"""Commands whose arguments are a prompt."""
_RUN = ("/run", "/test", "!")
_ANSWERED = re.compile(r".+ \(Y\)es/\(N\)o.* \[\w+\]: ?\w+")
"""A question that an earlier answer, for all of its kind, answers too: aider writes it as the user's."""
_TYPED = re.compile(r"####(?: |\Z)")
_BREAK = "  "
"""Ends each line that aider marks, of a prompt and of what it prints: a line break, in markdown."""
_MOST_LINES = 4_000
"""Most lines of one message that are kept."""


class AiderChat(DocumentTranscript):
    """One chat: a part of the file; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        start, _, end = self.found.key.partition(":")
        last = int(end) if end else None
        begun = float(self.found.hint.get("begun") or 0)
        lift.at(shapes.instant({"at": begun}, "at"))
        chat = ChatLift(lift, shapes.instant({"at": self.found.touched}, "at"))
        for line in self.files.lines(self.found.paths[0], int(start)):
            if line.cut:
                lift.skip("oversize")
            elif b"\0" in line.data:
                lift.skip("nul")
                chat.take(line.data.replace(b"\0", b"").decode("utf-8", "replace"))
            else:
                chat.take(line.data.decode("utf-8", "replace"))
            lift.bytes_read = line.end - int(start)
            if last is not None and line.end >= last:
                break
        chat.finish()
        lift.at(shapes.instant({"at": self.found.touched}, "at"))


class ChatLift:
    """Takes over the lines of one chat, in order.

    Args:
        written: when the chat was last written to, if known; its lines have no times.
    """

    def __init__(self, lift: Lift, written: datetime | None = None) -> None:
        self._lift = lift
        self._written = written
        self._committed = False
        self._reporting = False
        self._breaks = False
        self._parted = True
        self._prompt: list[str] = []
        self._answer: list[str] = []
        self._own = ""
        self._calls = 0

    def take(self, line: str) -> None:
        """One line, without its end."""
        ends = line.rstrip("\r\n").endswith(_BREAK)
        line = line.rstrip()
        typed_here = self._is_typed(line, ends)
        self._parted = typed_here or not line or line.startswith(">")
        if typed_here:
            self._committed = self._reporting = False
            self._prompt.append(line)
        elif self._reporting and line:
            self._reported(line)
        elif line.startswith("> ") or line == ">":
            self._breaks = self._breaks or ends
            self.finish()
            self._printed(line[2:].strip())
        elif not self._committed and not line.startswith(_ASIDES):
            if self._prompt and line:
                # Behind a prompt aider leaves a line empty, or prints: this was a heading.
                self._answer += self._prompt
                self._prompt.clear()
            self._prompted()
            if len(self._answer) < _MOST_LINES:
                self._answer.append(line)

    def _is_typed(self, line: str, ends: bool) -> bool:
        """The user typed the line.

        Where not even aider's own lines end as it writes them, an editor has trimmed them all: there, a
        heading cannot be told, and every line of that form counts.
        """
        return _TYPED.match(line) is not None and ((ends and self._parted) or not self._breaks)

    def finish(self) -> None:
        """Nothing more belongs to what came last."""
        self._prompted()
        self._answered()

    def _prompted(self) -> None:
        said = "\n".join(line[5:] for line in self._prompt).strip()
        if self._prompt:
            self._answered()
        self._prompt.clear()
        if not said or said == self._own or _ANSWERED.fullmatch(said):
            return
        word, _, rest = said.partition(" ")
        if said.startswith("!") or word in _RUN:
            self._ran(said[1:].strip() if said.startswith("!") else rest.strip())
        elif word in _SPOKEN:
            # What follows the command is written once more, as a prompt of its own.
            self._own = rest.strip()
            self._lift.said(typed(rest))
        elif not re.fullmatch(r"/[a-z-]+", word):
            self._lift.said(typed(said))

    def _answered(self) -> None:
        said = "\n".join(self._answer).strip()
        self._answer.clear()
        if said and not said.startswith("# aider chat started at"):
            # An architect's answer is written once more, as the prompt of the editor.
            self._own = said
            spoke(self._lift, said, None)

    def _printed(self, said: str) -> None:
        lift = self._lift
        # The rest of a commit's message follows without a mark.
        self._committed = _COMMIT.match(said) is not None
        self._reporting = _UNMATCHED.match(said) is not None
        if found := _VERSION.match(said):
            lift.named(version=found[1])
        elif found := _MODEL.match(said):
            lift.named(model=found[1])
        elif found := _APPLIED.match(said):
            lift.changed(found[1].strip())
            self._noted(ToolKind.EDIT, path=found[1].strip())
        elif found := _READ.match(said):
            lift.read(found[1].strip())
        elif found := _RUNNING.fullmatch(said):
            self._ran(found[1])
        elif said.startswith("Tokens: "):
            self._spent(said)
        elif found := _ERROR.match(said):
            refused(lift, error_of(found[2]), _WORDING, self._written)
        elif said.endswith(_FULL):
            refused(lift, error_of(said, code="context_length_exceeded"), _WORDING, self._written)
        elif said.startswith("^C") or said == "KeyboardInterrupt":
            lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED))
        elif found := _NOT_APPLIED.match(said):
            self._noted(ToolKind.EDIT, path=found[1].strip(), ok=False, output=said)

    def _reported(self, line: str) -> None:
        """A line of aider's report on edits that did not fit; it quotes them."""
        if found := _UNMATCHED_IN.match(line):
            self._noted(ToolKind.EDIT, path=found[1].strip(), ok=False, output=line.lstrip("# "))
        elif line.startswith(_REPORT_ENDS):
            self._reporting = False

    def _ran(self, command: str) -> None:
        """A command was run; aider does not write down how it ended."""
        if command:
            self._noted(ToolKind.SHELL, command=command)

    def _noted(
        self, kind: ToolKind, *, path: str = "", command: str = "", ok: bool = True, output: str = ""
    ) -> None:
        if not self._lift.thorough:
            return
        self._calls += 1
        name = str(self._calls)
        paths = (path,) if path else ()
        call = ToolCall(call_id=name, tool="aider", tool_kind=kind, paths=paths, command=command, detail=path)
        self._lift.take(call)
        self._lift.take(ToolResult(call_id=name, ok=ok, output=output))

    def _spent(self, said: str) -> None:
        """What a message cost; it also means that it was answered to the end."""
        sent, hit, received = (_count(pattern, said) for pattern in (_SENT, _HIT, _RECEIVED))
        usage = TokenUsage(input=max(0, sent - hit), cached_input=hit, output=received)
        self._lift.take(UsageReported(usage=usage))
        self._lift.context(sent + received)
        if cost := _COST.search(said):
            self._lift.cost_usd = _float(cost[1])
        self._lift.turn_open = False


def _count(pattern: re.Pattern[str], said: str) -> int:
    found = pattern.search(said)
    if found is None:
        return 0
    value = _float(found[1]) * {"k": 1_000, "M": 1_000_000}.get(found[2], 1)
    return round(value) if value < 1e12 else 0


def _float(digits: str) -> float:
    try:
        return float(digits.replace(",", "")[:20])
    except ValueError:
        return 0.0
