"""Tool calls of CLIs that have no dialogue here: what a tool of a name does, and its trace in a lift.

Names as seen in the stores of Gemini CLI 0.61, Qwen Code 0.24, OpenCode 1.18, Copilot CLI 1.0, Cline 3.0,
and as read in public sources for the editors' agents. Used by the stores' modules.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from relay.core.events import PlanItem, PlanUpdated, TaskStatus, ToolCall, ToolKind, ToolResult
from relay.core.lift import Lift
from relay.providers import shapes

_KINDS = {
    ToolKind.EDIT: (
        "write_file write replace edit edit_file multiedit create create_file str_replace str_replace_editor "
        "apply_patch patch insert insert_edit_into_file insert_content apply_diff write_to_file "
        "replace_in_file "
        "search_and_replace delete_file search_replace editor builtin_edit_existing_file "
        "builtin_create_new_file copilot_replacestring copilot_createfile copilot_insertedit "
        "replace_string_in_file edit_notebook_file "
        "multi_replace_string_in_file edit_notebook notebook_edit edit_existing_file create_new_file "
        "edit_file_v2 reapply strreplace delete applypatch editnotebook newfilecreated editedexistingfile "
        "applieddiff filedeleted insertcontent searchandreplace single_find_and_replace multi_edit "
        "replace_file_content multi_replace_file_content"
    ),
    ToolKind.SHELL: (
        "run_shell_command bash shell execute_command run_commands run_command run_terminal_cmd "
        "run_in_terminal terminal powershell exec execute builtin_run_terminal_command run_terminal_command "
        "run_terminal_command_v2 copilot_runinterminal"
    ),
    ToolKind.READ: (
        "read_file read read_many_files view list_directory list ls list_files list_dir "
        "list_code_definition_names "
        "copilot_readfile builtin_read_file read_currently_open_file get_errors read_files read_file_v2 "
        "list_dir_v2 readfile listfilestoplevel listfilesrecursive read_file_range view_file"
    ),
    ToolKind.SEARCH: (
        "grep glob search_file_content grep_search search search_files file_search codebase_search rg "
        "semantic_search list_code_usages search_codebase glob_file_search ripgrep_raw_search searchfiles "
        "semantic_search_full file_glob_search view_repo_map view_subdirectory"
    ),
    ToolKind.WEB: (
        "web_fetch webfetch google_web_search web_search fetch browser_action fetch_webpage "
        "fetch_url_content fetch_web_content"
    ),
    ToolKind.PLAN: (
        "write_todos todo_write todowrite todoread todo_read update_todo_list update_todolist "
        "manage_todo_list "
        "todo focus_chain update_plan updatetodolist updatetodos"
    ),
    ToolKind.SUBAGENT: "task agent new_task newtask delegate_to_agent runsubagent spawn_agent task_v2",
    ToolKind.ASK: "ask_followup_question ask_user question ask_question ask_followup",
    ToolKind.MCP: "use_mcp_tool access_mcp_resource",
}
_BY_NAME = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_PATHS = (
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "target_file",
    "targetFile",
    "relative_workspace_path",
    "relativeWorkspacePath",
    "filepath",
    "notebook_path",
    "fileName",
)
_COMMANDS = ("command", "cmd", "commandLine")
_PATCHES = ("patchText", "patch_text", "patch", "input")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (\S.*?)\s*$", re.MULTILINE)
_LISTS = ("todos", "todoList", "plan")
_OTHERS = ("query", "pattern", "server_name")
_MOST_OPEN = 500
"""Most calls whose results are still waited for."""
_MOST_FILES = 200
_MOST_CHARS = 8_192
_WORDS = ("content", "description", "title", "text", "step", "subject")
_DONE = ("completed", "done", "complete", "finished", "x")
_DOING = ("in_progress", "in-progress", "inprogress", "doing", "active", "/", "-")


def kind_of(tool: str) -> ToolKind:
    """What a tool of that name does; OTHER for a name that is not known."""
    if tool.startswith("mcp__") or tool.startswith("mcp_"):
        return ToolKind.MCP
    return _BY_NAME.get(tool.lower(), ToolKind.OTHER)


def path_of(given: Mapping[str, Any]) -> str:
    """The file that a tool's input names, or ""."""
    return next((shapes.text(given, key) for key in _PATHS if shapes.text(given, key)), "")


def paths_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that a tool's input names, also in the headings of a patch; each once."""
    path = path_of(given)
    if path:
        return (path,)
    listed = tuple(name for name in shapes.items(given, "paths") if isinstance(name, str) and name)
    if listed:
        return tuple(dict.fromkeys(listed[:_MOST_FILES]))
    patch = next((shapes.text(given, key) for key in _PATCHES if shapes.text(given, key)), "")
    return tuple(dict.fromkeys(_PATCHED.findall(patch)[:_MOST_FILES]))


def kept(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a tool's input what `act` looks at, so that the content of a written file is not held."""
    small: dict[str, Any] = {"paths": paths_of(given)}
    for key in (*_PATHS, *_COMMANDS, *_OTHERS):
        if words := shapes.text(given, key):
            small[key] = words[:_MOST_CHARS]
    for key in _LISTS:
        if entries := shapes.items(given, key):
            small[key] = entries[:_MOST_OPEN]
    return small


def status_of(word: str) -> TaskStatus:
    """The status that a CLI's word for it means."""
    plain = word.strip().lower()
    if plain in _DONE:
        return TaskStatus.COMPLETED
    return TaskStatus.IN_PROGRESS if plain in _DOING else TaskStatus.PENDING


def plan_in(entries: tuple[Any, ...]) -> PlanUpdated:
    """The plan that a list of todo objects is."""
    items = []
    for entry in entries:
        words = next((shapes.text(entry, key) for key in _WORDS if shapes.text(entry, key)), "")
        if words:
            items.append(PlanItem(text=words, status=status_of(shapes.text(entry, "status"))))
    return PlanUpdated(items=tuple(items))


def act(
    lift: Lift,
    *,
    tool: str,
    call_id: str,
    given: Mapping[str, Any],
    at: datetime | None,
    ok: bool | None = None,
    output: str = "",
    exit_code: int | None = None,
    denied: bool = False,
    side: bool = False,
    noted: bool = False,
) -> None:
    """Note a tool call and, if it has ended, its result.

    Args:
        given: the tool's input.
        ok: None while it has not ended.
        exit_code: of a command, where it is told.
        noted: the call itself was noted before; only its result is new.
    """
    kind = kind_of(tool)
    if kind is ToolKind.PLAN:
        if noted:
            lift.at(at)
            return
        entries = (
            shapes.items(given, "todos") or shapes.items(given, "todoList") or shapes.items(given, "plan")
        )
        if entries and ok is not False and not side:
            lift.take(plan_in(entries), at)
        return
    paths = paths_of(given)
    path = paths[0] if paths else ""
    if kind is ToolKind.SUBAGENT and not side and not noted:
        lift.subagents += 1
    if not lift.thorough:
        lift.at(at)
        if kind is ToolKind.EDIT and ok:
            for each in paths:
                lift.changed(each)
        return
    if kind is ToolKind.MCP:
        parts = tool.split("__")
        lift.server(parts[1] if len(parts) > 2 else shapes.text(given, "server_name"))
    command = next((shapes.text(given, key) for key in _COMMANDS if shapes.text(given, key)), "")
    shell = command if kind is ToolKind.SHELL else ""
    detail = shapes.one_line(shell or path or shapes.text(given, "query") or shapes.text(given, "pattern"))
    call = ToolCall(
        call_id=call_id,
        tool=tool,
        tool_kind=kind,
        paths=paths,
        command=shell,
        detail=detail,
    )
    if not noted:
        lift.take(call, at, side=side)
    if ok is None:
        return
    result = ToolResult(
        call_id=call_id,
        ok=ok and not exit_code,
        exit_code=exit_code,
        output=shapes.clip(output),
        denied=denied,
    )
    lift.take(result, at, side=side)


class OpenCalls:
    """Tool calls of a transcript whose results stand in later records."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[str, Mapping[str, Any], bool]] = OrderedDict()

    def begin(
        self,
        lift: Lift,
        *,
        tool: str,
        call_id: str,
        given: Mapping[str, Any],
        at: datetime | None,
        side: bool = False,
    ) -> None:
        """Note a call; arguments as for `act`. The same call again says nothing new."""
        if call_id in self._open:
            return
        self._open[call_id] = (tool, kept(given), side)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        act(lift, tool=tool, call_id=call_id, given=given, at=at, side=side)

    def end(
        self,
        lift: Lift,
        *,
        call_id: str,
        at: datetime | None,
        ok: bool,
        tool: str = "",
        output: str = "",
        exit_code: int | None = None,
        denied: bool = False,
    ) -> str:
        """Note a result; the name of its tool. `tool` is asked where the call was not seen."""
        known = self._open.pop(call_id, None)
        name, given, side = known or (tool, {}, False)
        act(
            lift,
            tool=name,
            call_id=call_id,
            given=given,
            at=at,
            ok=ok,
            output=output,
            exit_code=exit_code,
            denied=denied,
            side=side,
            noted=known is not None,
        )
        return name
