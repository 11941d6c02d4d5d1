"""A thread of Codex, lifted from its rollouts: who it is, what was said, tokens, limits, how turns ended.

Record shapes as codex-cli 0.171.0 writes them ("paginated" history: `item_completed`) and as older releases
did (`user_message`, `agent_message`, `patch_apply_end`, and records without an envelope). What tools did
stands in `relay.providers.codex_calls`, which of the lines matter in `relay.providers.codex_lines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from relay.core.events import (
    AgentText,
    Channel,
    ErrorSignal,
    QuotaReported,
    TokenUsage,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from relay.core.failures import as_failed, classify
from relay.core.prompts import typed
from relay.providers import shapes
from relay.providers.codex_calls import CodexCalls
from relay.providers.codex_facts import error_code, last_reset, less, status_in, usage_of, windows_of
from relay.providers.codex_lines import BARE, BEGINNING, HEAD, KNOWN, Matter, matter_of, stamp_in
from relay.providers.codex_places import PLACES
from relay.providers.codex_skim import CodexSkim, Take
from relay.providers.skimming import is_single, is_tidy
from relay.providers.transcript import LineTranscript
from relay.providers.wordings import wording_of

_WORDING = wording_of("codex")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FORKS = 8
"""How many forks of forks are followed."""
_COPYING = timedelta(seconds=1)
"""How long Codex takes at most to copy a conversation into the rollout of its fork."""
_EDITOR = re.compile(r"# Context from my IDE setup:.*?^## My request for Codex:\s*", re.DOTALL | re.MULTILINE)
_NOT_SAID = ("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<turn_aborted>")
_LIMITED = ("usage_limit_exceeded", "rate_limit_exceeded", "response_too_many_failed_attempts")


class CodexRollout(LineTranscript):
    """See the module."""

    def begin(self) -> None:
        """See `LineTranscript`."""
        self.calls = CodexCalls(self.lift)
        self._first = self._latest = b""
        self._lines: set[int] = set()
        self._last_words: dict[str, tuple[str, str] | None] = {}
        self._skim = CodexSkim(self.lift, self.calls, self._is_new, self._last_words)
        self._limits: Mapping[str, Any] = {}
        self._summaries = self._compactions = 0
        self._total = self._before = self._past = TokenUsage()
        self._named = self._is_subagent = self._has_copy = False
        self._born_at = b""
        self._born: datetime | None = None
        self._copied_by: datetime | None = None
        self._start = 0
        self._forks: list[str] = []

    def take_block(self, data: bytes) -> None:
        """See `LineTranscript`."""
        lines = data.split(b"\n")
        tidy = is_tidy(data, lines, BEGINNING)
        match, takes = HEAD.match, self._takes
        for line in lines:
            head = match(line)
            if head is None or line[-1:] != b"}" or not (tidy or is_single(line, BEGINNING)):
                self.take_line(line)
                takes = self._takes
                continue
            stamp, kind = head.groups()
            take = takes.get(kind)
            if take(line, head.end()) if take is not None else self._is_passed(line, head):
                if stamp > self._latest:
                    self._note_time(stamp)
            else:
                self._parse(line)
                takes = self._takes

    def take(self, line: bytes) -> None:
        """See `LineTranscript`."""
        head = HEAD.match(line)
        if head is not None and line[-1:] == b"}" and is_single(line, BEGINNING):
            take = self._takes.get(head[2])
            if take(line, head.end()) if take is not None else self._is_passed(line, head):
                self._note_time(head[1])
                return
        self._parse(line)

    @property
    def _takes(self) -> Mapping[bytes, Take]:
        """How lines are taken without parsing them: none where some may belong to another thread."""
        has_origin = self._forks or self.lift.forked_from or self._is_subagent
        return {} if self.lift.thorough or has_origin else self._skim.takes

    def _is_passed(self, line: bytes, head: re.Match[bytes]) -> bool:
        matter = matter_of(line, head, self.calls, thorough=self.lift.thorough)
        if matter is Matter.UNKNOWN:
            self.lift.skip("unknown")
        return matter is not Matter.PARSE

    def _parse(self, line: bytes) -> None:
        record = self.parsed(line)
        if record is None:
            return
        at = shapes.iso(record, "timestamp")
        stamp = shapes.text(record, "timestamp").encode() if at else b""
        kind, payload = shapes.text(record, "type"), shapes.mapping(record, "payload")
        if "payload" not in record and (kind in BARE or not kind):
            kind, payload = "bare" if kind else "session_meta", record
        if kind == "session_meta":
            self._meta(payload, at)
        inherited = bool(self._forks) or self._is_copied(record, at)
        if not inherited:
            self._note_time(stamp)
        elif self._is_subagent:
            return
        self._take(kind, payload, None if inherited else at, hash(line), inherited)

    def finish(self) -> None:
        """See `LineTranscript`."""
        self._settle_spent()
        self._settle_words()
        for stamp in (self._first, self._latest):
            self.lift.at(stamp_in(stamp))
        self.lift.named(title=self.found.hint.get("title", ""))

    def _settle_words(self) -> None:
        """Parse the last message that was only skimmed, before something is compared with it."""
        if line := self._skim.last_message():
            text = _joined(shapes.mapping(shapes.mapping(self.parsed(line), "payload"), "item"))
            self._last_words["agent"] = ("item", text)
            self.lift.last_message = text or self.lift.last_message

    def _settle_spent(self) -> None:
        """Parse the last count that was only skimmed, before something depends on it."""
        if line := self._skim.last_count():
            record = self.parsed(line)
            self._counted(shapes.mapping(record, "payload"), shapes.iso(record, "timestamp"), False)

    def _take(
        self, kind: str, payload: Mapping[str, Any], at: datetime | None, line: int, inherited: bool
    ) -> None:
        match kind:
            case "event_msg":
                self._event(payload, at, line, inherited)
            case "response_item" | "bare":
                self._response(payload, at, line, bare=kind == "bare")
            case "turn_context":
                self.calls.moved(shapes.text(payload, "cwd"))
                self.lift.named(model=shapes.text(payload, "model"), cwd=shapes.text(payload, "cwd"))
            case "compacted":
                if self._is_new(line):
                    self._summaries += 1
                    self._compacted(shapes.text(payload, "message"), at, self._summaries)
            case _ if kind not in KNOWN:
                self.lift.skip("unknown")
            case _:
                pass

    def _note_time(self, stamp: bytes) -> None:
        if not stamp or self._forks or (self._has_copy and stamp < self._born_at):
            return
        self._first = self._first or stamp
        self._latest = max(self._latest, stamp)

    def _is_copied(self, record: Mapping[str, Any], at: datetime | None) -> bool:
        """The record belongs to the thread that this one began as a copy of."""
        if not (self.lift.forked_from or self._is_subagent):
            return False
        ordinal = shapes.number(record, "ordinal")
        if ordinal is not None and ordinal < self._start:
            return True
        if not self._has_copy or at is None:
            return False
        return any(made is not None and at < made for made in (self._born, self._copied_by))

    def _meta(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        self._settle_spent()
        thread = shapes.text(payload, "id")
        if self._forks:
            self._follow(shapes.mapping(payload, "history_base"))
            return
        if self._named and thread != self.lift.native_id:
            # The copied conversation brings its own along.
            self._has_copy = True
            return
        self._named, self._has_copy = True, False
        self._born = shapes.iso(payload, "timestamp")
        self._born_at = shapes.text(payload, "timestamp").encode("ascii", "replace")
        self._copied_by = at + _COPYING if at else None
        self._start = shapes.integer(payload, "subagent_history_start_ordinal")
        parent = _parent(payload)
        self._is_subagent = bool(parent)
        cwd = shapes.text(payload, "cwd")
        self.calls.moved(cwd)
        self.lift.named(
            cwd=cwd,
            branch=shapes.text(shapes.mapping(payload, "git"), "branch"),
            version=shapes.text(payload, "cli_version"),
            forked_from=shapes.text(payload, "forked_from_id"),
            parent=parent,
        )
        if not parent:
            self._follow(shapes.mapping(payload, "history_base"))

    def _follow(self, base: Mapping[str, Any]) -> None:
        """Read what a fork shares with the thread that it came from, and keeps only there."""
        thread, end = shapes.text(base, "thread_id"), shapes.integer(base, "end_byte_offset")
        if not _ID.fullmatch(thread) or thread in self._forks or len(self._forks) >= _FORKS:
            return
        paths = (
            entry.path
            for each in PLACES
            for entry in self.files.glob(self.found.home, each.format(f"-{thread}"))
        )
        path = next(paths, None)
        if path is None:
            return
        self._forks.append(thread)
        for line in self.files.lines(path):
            if line.end > end:
                break
            if line.data:
                self.take(line.data)
        self._forks.pop()

    def _response(self, payload: Mapping[str, Any], at: datetime | None, line: int, *, bare: bool) -> None:
        kind = shapes.text(payload, "type")
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self.calls.asked(payload, at)
        elif kind.endswith("_output"):
            self.calls.answered(payload, at)
        elif kind == "message" and bare and self._is_new(line):
            role, words = shapes.text(payload, "role"), _joined(payload)
            if role == "user":
                self._said(words, "bare", at)
            elif role == "assistant":
                self._spoke(words, "bare", at)

    def _event(self, payload: Mapping[str, Any], at: datetime | None, line: int, inherited: bool) -> None:
        lift = self.lift
        match shapes.text(payload, "type"):
            case "item_completed":
                self._item(shapes.mapping(payload, "item"), at, line)
            case "user_message":
                if self._is_new(line):
                    self._said(shapes.text(payload, "message"), "event", at)
            case "agent_message":
                if self._is_new(line):
                    self._spoke(shapes.text(payload, "message"), "event", at)
            case "exec_command_end":
                self.calls.command_event(payload, at)
            case "patch_apply_begin" | "patch_apply_end":
                self.calls.patch_event(payload, at)
            case "mcp_tool_call_end":
                self.calls.tool_event(payload, at)
            case "sub_agent_activity":
                self.calls.activity(payload)
            case "context_compacted":
                if self._is_new(line):
                    self._compactions += 1
                    self._compacted("", at, self._compactions)
            case "token_count":
                self._counted(payload, at, inherited)
            case "task_started" | "turn_started":
                self._settle_spent()
                lift.context(0, shapes.integer(payload, "model_context_window"))
                lift.take(TurnStarted(turn_id=shapes.text(payload, "turn_id")), at)
            case "task_complete" | "turn_complete":
                error = shapes.mapping(payload, "error")
                if error and not inherited:
                    self._failed(error, at)
                else:
                    lift.take(TurnEnded(outcome=TurnOutcome.COMPLETED), at)
            case "turn_aborted":
                lift.take(TurnEnded(outcome=TurnOutcome.INTERRUPTED), at)
            case "error" if not inherited:
                self._failed(payload, at)
            case _:
                pass

    def _item(self, item: Mapping[str, Any], at: datetime | None, line: int) -> None:
        kind, item_id = shapes.text(item, "type"), shapes.text(item, "id")
        if kind not in ("UserMessage", "AgentMessage", "Plan", "ContextCompaction"):
            self.calls.item(item, at)
            return
        if not self._is_new(hash((kind, item_id)) if item_id else line):
            return
        if kind == "UserMessage":
            for piece in shapes.items(item, "content"):
                if shapes.text(piece, "type") == "skill":
                    self.lift.skill(shapes.text(piece, "name"))
            self._said(_joined(item), "item", at)
        elif kind == "ContextCompaction":
            self._compactions += 1
            self._compacted("", at, self._compactions)
        else:
            self._spoke(_joined(item), "item", at)

    def _is_new(self, record: int) -> bool:
        if record in self._lines:
            self.lift.skip("duplicate")
            return False
        self._lines.add(record)
        return True

    def _said(self, text: str, how: str, at: datetime | None) -> None:
        if self._is_told_twice("user", text, how) or text.startswith(_NOT_SAID):
            return
        self.lift.said(typed(_EDITOR.sub("", text, count=1)), at)

    def _spoke(self, text: str, how: str, at: datetime | None) -> None:
        self._settle_words()
        if text.strip() and not self._is_told_twice("agent", text, how):
            self.lift.take(AgentText(text=text), at)

    def _is_told_twice(self, who: str, text: str, how: str) -> bool:
        """A message comes as an event and again as an item, where a release writes both."""
        before = self._last_words.get(who)
        twice = before is not None and before[0] != how and before[1] == text
        self._last_words[who] = None if twice else (how, text)
        return twice

    def _compacted(self, summary: str, at: datetime | None, number: int) -> None:
        """One compaction is told by two records: one with the summary, and an event."""
        self._settle_words()
        if number > self.lift.compactions:
            self.lift.compacted(summary, at)
        elif summary.strip():
            self.lift.take(AgentText(text=summary), at)

    def _counted(self, payload: Mapping[str, Any], at: datetime | None, inherited: bool) -> None:
        self._settle_spent()
        info, limits = shapes.mapping(payload, "info"), shapes.mapping(payload, "rate_limits")
        if total := shapes.mapping(info, "total_token_usage"):
            self._sum_up(usage_of(total), inherited)
            last = usage_of(shapes.mapping(info, "last_token_usage"))
            self.lift.context(last.total, shapes.integer(info, "model_context_window"))
        if limits and not inherited:
            self._limits = _snapshot(limits, at)
            if any(_is_used_up(window) for window in self._limits.values()):
                self.lift.take(QuotaReported(windows=windows_of(self._limits)), at)

    def _sum_up(self, total: TokenUsage, inherited: bool) -> None:
        """Totals count from the thread's beginning, a fork's from that of the thread it came from."""
        if inherited:
            self._total = self._before = total
            self._skim.total = total.total
            return
        if total.total < self._total.total:
            self._past, self._before = _added(self._past, less(self._total, self._before)), TokenUsage()
        self._total = total
        self._skim.total = total.total
        self.lift.totals(_added(self._past, less(total, self._before)))

    def _failed(self, error: Mapping[str, Any], at: datetime | None) -> None:
        self._settle_spent()
        info = error.get("codex_error_info")
        code = error_code(info)
        words = shapes.text(error, "message")
        status = shapes.number(shapes.mapping(info, code or ""), "http_status_code")
        signal = ErrorSignal(
            channel=Channel.TRANSCRIPT,
            text=words,
            code=code,
            http_status=int(status) if status else status_in(words),
            resets_at=last_reset(windows_of(self._limits)) if code in _LIMITED else None,
        )
        now = at or datetime.fromtimestamp(0, UTC)
        verdict = as_failed(classify(signal, _WORDING, now=now, zone=UTC, printed_at=at))
        self.lift.failed(signal, verdict, at)


def _parent(payload: Mapping[str, Any]) -> str:
    """The thread whose subagent this is; "untold" for one of Codex's own that names none, "" for a user's."""
    source = payload.get("source")
    spawned = shapes.mapping(shapes.mapping(source, "subagent"), "thread_spawn")
    parent = shapes.text(payload, "parent_thread_id") or shapes.text(spawned, "parent_thread_id")
    own = isinstance(source, Mapping) and ("subagent" in source or "internal" in source)
    if not parent and (own or shapes.text(payload, "thread_source") in ("subagent", "memory_consolidation")):
        session = shapes.text(payload, "session_id")
        return session if session and session != shapes.text(payload, "id") else "untold"
    return parent


def _snapshot(limits: Mapping[str, Any], at: datetime | None) -> dict[str, Any]:
    """The rollout's snake_case of a rate limit snapshot, in the app-server's camelCase."""
    told: dict[str, Any] = {"limitId": shapes.text(limits, "limit_id")}
    for slot in ("primary", "secondary"):
        window = shapes.mapping(limits, slot)
        if not window:
            continue
        resets, wait = shapes.number(window, "resets_at"), shapes.number(window, "resets_in_seconds")
        if resets is None and wait is not None and at is not None:
            resets = at.timestamp() + wait
        told[slot] = {
            "usedPercent": window.get("used_percent"),
            "windowDurationMins": window.get("window_minutes"),
            "resetsAt": resets,
        }
    return told


def _is_used_up(window: object) -> bool:
    used = shapes.number(window, "usedPercent")
    return used is not None and used >= 100


def _joined(item: Mapping[str, Any]) -> str:
    pieces: Iterable[str] = (shapes.text(piece, "text") for piece in shapes.items(item, "content"))
    return "\n".join(filter(None, pieces)) or shapes.text(item, "text")


def _added(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    return TokenUsage(
        input=one.input + other.input,
        cached_input=one.cached_input + other.cached_input,
        output=one.output + other.output,
    )
