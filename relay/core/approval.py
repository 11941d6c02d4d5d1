"""What an agent may do unasked: the user's policy applied to a permission request.

Used by the session rules. Paths are judged by their names, strictly; links are followed by an effect.
git's and Relay's own folders are never written unasked.
"""

from __future__ import annotations

import fnmatch
import posixpath
from enum import StrEnum

from relay.core.events import PermissionAsked, ToolKind
from relay.core.policies import ApprovalPolicy

_OWN_FOLDERS = frozenset({".git", ".relay"})
_SHELL_SYNTAX = frozenset(";&|<>`$()\n\\")


class Judgement(StrEnum):
    """What happens with a permission request."""

    ALLOW = "allow"
    ASK = "ask"


def judge(asked: PermissionAsked, allow: str, policy: ApprovalPolicy, *, worktree: str) -> Judgement:
    """Allow unasked, or ask a person.

    Args:
        allow: "ask", "edits" or "all" (the session's level).
        worktree: the session's worktree, absolute.
    """
    if asked.tool_kind is ToolKind.ASK:
        return Judgement.ASK
    if allow == "all":
        return Judgement.ALLOW
    if allow == "edits" and asked.tool_kind in (ToolKind.EDIT, ToolKind.READ) and asked.paths:
        inside = all(is_inside(path, worktree) for path in asked.paths)
        return Judgement.ALLOW if inside else Judgement.ASK
    if asked.tool_kind is ToolKind.PLAN:
        return Judgement.ALLOW
    if asked.tool_kind is ToolKind.SHELL and _is_listed(asked.command, policy.commands):
        return Judgement.ALLOW
    return Judgement.ASK


def is_inside(path: str, worktree: str) -> bool:
    """The path lies in the worktree, and not in git's or Relay's own folders there."""
    full = posixpath.normpath(path if path.startswith("/") else posixpath.join(worktree, path))
    root = posixpath.normpath(worktree)
    if full == root or not full.startswith(root + "/"):
        return False
    parts = full[len(root) + 1 :].split("/")
    return not any(part.lower() in _OWN_FOLDERS for part in parts)


def _is_listed(command: str, patterns: tuple[str, ...]) -> bool:
    if not command.strip() or any(sign in command for sign in _SHELL_SYNTAX):
        return False
    return any(fnmatch.fnmatchcase(command.strip(), pattern) for pattern in patterns)
