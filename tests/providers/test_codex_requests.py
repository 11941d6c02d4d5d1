from __future__ import annotations

from typing import Any

import pytest

from relay.core.events import ToolKind
from relay.providers.codex_requests import answered, asked

QUESTION = {
    "itemId": "c",
    "questions": [
        {"id": "q1", "question": "Which one?", "options": [{"label": "SQLite"}, {"label": "Postgres"}]}
    ],
}
FORM = {
    "serverName": "db",
    "mode": "form",
    "message": "Which schema?",
    "requestedSchema": {"properties": {"schema": {"type": "string"}}},
}


@pytest.mark.parametrize(
    ("method", "params", "kind", "paths", "command", "question", "options"),
    [
        (
            "item/commandExecution/requestApproval",
            {"itemId": "c", "command": "/bin/bash -lc 'rm x'"},
            ToolKind.SHELL,
            (),
            "rm x",
            "",
            (),
        ),
        (
            "item/commandExecution/requestApproval",
            {"itemId": "c", "networkApprovalContext": {"host": "pypi.org"}},
            ToolKind.WEB,
            (),
            "",
            "",
            (),
        ),
        ("item/fileChange/requestApproval", {"itemId": "known"}, ToolKind.EDIT, ("/w/a.py",), "", "", ()),
        ("item/fileChange/requestApproval", {"itemId": "unseen"}, ToolKind.EDIT, (), "", "", ()),
        (
            "item/fileChange/requestApproval",
            {"itemId": "known", "grantRoot": "/etc"},
            ToolKind.EDIT,
            ("/w/a.py", "/etc"),
            "",
            "",
            (),
        ),
        ("item/tool/requestUserInput", QUESTION, ToolKind.ASK, (), "", "Which one?", ("SQLite", "Postgres")),
        ("mcpServer/elicitation/request", FORM, ToolKind.ASK, (), "", "Which schema?", ()),
        (
            "item/permissions/requestApproval",
            {"permissions": {"fileSystem": {"write": ["/x"]}}},
            ToolKind.OTHER,
            ("/x",),
            "",
            "",
            (),
        ),
        ("execCommandApproval", {"callId": "c", "command": ["rm", "x"]}, ToolKind.SHELL, (), "rm x", "", ()),
        (
            "applyPatchApproval",
            {"callId": "c", "fileChanges": {"/w/b.py": {}}},
            ToolKind.EDIT,
            ("/w/b.py",),
            "",
            "",
            (),
        ),
    ],
)
def test_questions(
    method: str,
    params: dict[str, Any],
    kind: ToolKind,
    paths: tuple[str, ...],
    command: str,
    question: str,
    options: tuple[str, ...],
) -> None:
    ask = asked("0", method, params, {"known": ("/w/a.py",)})
    assert ask is not None
    assert (ask.request_id, ask.tool_kind, ask.paths, ask.command) == ("0", kind, paths, command)
    assert (ask.question, ask.options) == (question, options)


def test_a_reason_is_told() -> None:
    params = {"command": "git commit", "reason": "May I\ncommit?"}
    ask = asked("0", "item/commandExecution/requestApproval", params, {})
    assert ask is not None
    assert ask.detail == "May I commit?"


def test_an_unknown_method_asks_nothing() -> None:
    assert asked("0", "item/tool/call", {}, {}) is None


@pytest.mark.parametrize(
    ("method", "params", "yes", "no"),
    [
        ("item/commandExecution/requestApproval", {}, {"decision": "accept"}, {"decision": "decline"}),
        ("item/fileChange/requestApproval", {}, {"decision": "accept"}, {"decision": "decline"}),
        ("execCommandApproval", {}, {"decision": "approved"}, {"decision": "denied"}),
        (
            "item/tool/requestUserInput",
            QUESTION,
            {"answers": {"q1": {"answers": ["SQLite"]}}},
            {"answers": {"q1": {"answers": []}}},
        ),
        (
            "mcpServer/elicitation/request",
            FORM,
            {"action": "accept", "content": {"schema": "SQLite"}},
            {"action": "decline", "content": None},
        ),
        (
            "mcpServer/elicitation/request",
            {"mode": "url"},
            {"action": "accept", "content": None},
            {"action": "decline", "content": None},
        ),
        (
            "item/permissions/requestApproval",
            {"permissions": {"network": {"enabled": True}}},
            {"permissions": {"network": {"enabled": True}}, "scope": "turn"},
            {"permissions": {}, "scope": "turn"},
        ),
    ],
)
def test_answers(method: str, params: dict[str, Any], yes: dict[str, Any], no: dict[str, Any]) -> None:
    assert answered(method, params, True, "SQLite") == yes
    assert answered(method, params, False, "SQLite") == no
