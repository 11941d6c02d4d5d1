"""What of a session's facts the next agent is told: what not to redo, what is next, what failed.

Pure; used by the contract's builder.
"""

from __future__ import annotations

import re
from collections.abc import Set

from relay.core.attempts import CUT_OFF, FailedAttempt, what_of
from relay.core.events import ToolKind
from relay.core.facts import SessionFacts
from relay.core.quoting import one_line

NO_PLAN = "Inspect the working tree against the goal, then finish it"
"""The next action where no agent named one."""

_WRITTEN_FILES = 40
_LINE = 240

_LASTING = re.compile(
    r"migrat|\b(?:alembic|flyway|liquibase|goose|dbmate)\s+(?:up|down|upgrade|downgrade|update)\b|"
    r"\b(?:npm|pnpm|yarn|bun|pip3?|uv|poetry|cargo|go|gem|bundle|brew|apt|apt-get|dnf|apk|composer|conda|dotnet)"
    r"\s+(?:-\S+\s+|pip\s+|mod\s+|tool\s+)*(?:i|ci|install|add|remove|uninstall|sync|get|require|restore|update|"
    r"upgrade|tidy|init|create|new|publish)\b|^\s*yarn\s*$|"
    r"\bgit\s+(?:-[cC]\s+\S+\s+|--\S+\s+)*(?:commit|push|merge|rebase|tag|mv|rm|apply|am|cherry-pick|revert|"
    r"reset|checkout|switch|init|submodule\s+add)\b|\bgh\s+\S+\s+(?:create|merge|edit|close)\b|"
    r"(?:^|[;&|]\s*|\bsudo\s+)(?:mkdir|mv|cp|rm|ln|touch|chmod|patch|tee|createdb|dropdb|make\s+install)\b|"
    r"\bsed\s+(?:-\S+\s+)*-i|\bperl\s+-\S*i|(?<![<>=2&-])>>?\s*(?!&|=|/dev/)\S|"
    r"\b(?:docker|podman)\s+(?:compose\s+)?(?:build|push|run|up|tag)\b|\bansible-playbook\b|"
    r"\b(?:kubectl|terraform|helm|pulumi)\s+(?:-\S+\s+)*(?:apply|create|delete|destroy|install|upgrade|up)\b|"
    r"\b(?:deploy|publish|seed|codegen|scaffold|generate)\b|"
    r"\bcurl\b.*(?:-X\s*|--request[ =])(?:POST|PUT|PATCH|DELETE)\b|"
    r"\b(?:psql|mysql|sqlite3)\b.*\b(?:insert|update|delete|create|alter|drop)\b",
    re.IGNORECASE,
)
"""Commands whose effect stays: migrations, installs, commits, moved files, deployments."""

_DRY = re.compile(
    r"--dry-run\b|--check\b|--help\b|\bmigrations?\s+(?:status|list)\b|showmigrations", re.IGNORECASE
)


def lasts(command: str) -> bool:
    """Running the command once more may do harm or waste: it changed something that stays."""
    return bool(_LASTING.search(command)) and not _DRY.search(command)


def next_action(facts: SessionFacts) -> str:
    """The item in progress, else the first open one, else what an agent said comes next."""
    remaining = facts.remaining
    return one_line(remaining[0]) if remaining else one_line(facts.next_step) or NO_PLAN


def do_not_redo(facts: SessionFacts, deleted: Set[str] = frozenset()) -> tuple[str, ...]:
    """The plan's completed items, the commands whose effect stays, and the files written, a line each.

    Args:
        deleted: files that are not there any more.
    """
    ran = (
        f"Ran {command.command}" + ("" if command.exit_code is None else f" (exit code {command.exit_code})")
        for command in facts.commands.values()
        if command.ok and lasts(command.command)
    )
    return tuple(dict.fromkeys((*(one_line(text) for text in facts.done), *ran, *_written(facts, deleted))))


def attempts(facts: SessionFacts) -> tuple[FailedAttempt, ...]:
    """What did not work, the latest last, and what was cut off."""
    cut = tuple(FailedAttempt(what=what_of(call), why=CUT_OFF) for call in facts.under_way)
    named = {attempt.what for attempt in cut}
    return (*(failed for failed in facts.failures.values() if failed.what not in named), *cut)


def half_written(facts: SessionFacts) -> tuple[tuple[str, str], ...]:
    """(path, what was being done) of the files that an edit under way may have left half written."""
    edits = (call for call in facts.under_way if call.tool_kind is ToolKind.EDIT)
    return tuple(dict.fromkeys((path, one_line(call.detail)) for call in edits for path in call.paths))


def _written(facts: SessionFacts, deleted: Set[str]) -> tuple[str, ...]:
    lines: list[str] = []
    paths = [one_line(path) for path in facts.changed if path not in deleted]
    for path in paths[-_WRITTEN_FILES:]:
        if lines and len(lines[-1]) + len(path) < _LINE:
            lines[-1] += f", {path}"
        else:
            lines.append(f"Wrote {path}")
    if lines and len(paths) > _WRITTEN_FILES:
        lines.append(f"Wrote {len(paths) - _WRITTEN_FILES} more files, see the files changed")
    return tuple(lines)
