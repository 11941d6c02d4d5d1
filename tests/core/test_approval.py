"""What an agent may do unasked."""

from __future__ import annotations

import pytest

from relay.core.approval import Judgement, is_inside, judge
from relay.core.events import PermissionAsked, ToolKind
from relay.core.policies import ApprovalPolicy

ROOT = "/repo/.relay/worktrees/s-abcdef"
POLICY = ApprovalPolicy(commands=("make test", "git status*"))


def asked(kind: ToolKind, *paths: str, command: str = "") -> PermissionAsked:
    return PermissionAsked(request_id="1", tool="T", tool_kind=kind, paths=paths, command=command)


CASES = {
    "edit inside": (asked(ToolKind.EDIT, f"{ROOT}/a.py"), "edits", Judgement.ALLOW),
    "edit by relative path": (asked(ToolKind.EDIT, "src/a.py"), "edits", Judgement.ALLOW),
    "edit outside": (asked(ToolKind.EDIT, "/etc/hosts"), "edits", Judgement.ASK),
    "edit that climbs out": (asked(ToolKind.EDIT, f"{ROOT}/../x"), "edits", Judgement.ASK),
    "edit of a sibling with the same prefix": (asked(ToolKind.EDIT, ROOT + "x/a"), "edits", Judgement.ASK),
    "edit of git's own folder": (asked(ToolKind.EDIT, ".git/hooks/pre-commit"), "edits", Judgement.ASK),
    "edit of a nested .git": (asked(ToolKind.EDIT, "sub/.GIT/config"), "edits", Judgement.ASK),
    "one of two outside": (asked(ToolKind.EDIT, "a.py", "/tmp/b"), "edits", Judgement.ASK),
    "edit of unknown paths": (asked(ToolKind.EDIT), "edits", Judgement.ASK),
    "edit at level ask": (asked(ToolKind.EDIT, "a.py"), "ask", Judgement.ASK),
    "shell": (asked(ToolKind.SHELL, command="rm -rf x"), "edits", Judgement.ASK),
    "listed shell": (asked(ToolKind.SHELL, command="git status -s"), "edits", Judgement.ALLOW),
    "listed shell with more behind": (
        asked(ToolKind.SHELL, command="git status; rm -rf x"),
        "edits",
        Judgement.ASK,
    ),
    "listed shell with substitution": (
        asked(ToolKind.SHELL, command="git status $(x)"),
        "edits",
        Judgement.ASK,
    ),
    "everything at level all": (asked(ToolKind.SHELL, command="rm -rf x"), "all", Judgement.ALLOW),
    "a question is the user's also at level all": (asked(ToolKind.ASK), "all", Judgement.ASK),
    "web": (asked(ToolKind.WEB), "edits", Judgement.ASK),
}


@pytest.mark.parametrize(("request_", "allow", "want"), CASES.values(), ids=CASES.keys())
def test_judge(request_: PermissionAsked, allow: str, want: Judgement) -> None:
    assert judge(request_, allow, POLICY, worktree=ROOT) is want


def test_the_worktree_itself_is_no_file_in_it() -> None:
    assert not is_inside(ROOT, ROOT)
