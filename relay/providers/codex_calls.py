"""The tool calls of a Codex thread in its rollout: commands, patches, MCP tools, subagents, the plan.

A call stands there in up to three ways, by release: what the model asked for and was answered
(`function_call`, `custom_tool_call` and their outputs; always), an event of older releases
(`exec_command_end`, `patch_apply_end`, `mcp_tool_call_end`; not all were kept), and an item since 0.171.0
(`CommandExecution`, `FileChange`, `McpToolCall`). Each is counted once. Used by
`relay.providers.codex_rollout`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson
from attrs import frozen

from relay.core.events import PlanItem, PlanUpdated, TaskStatus, ToolCall, ToolKind, ToolResult
from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.codex_answers import (
    HEAD,
    answer_in,
    body_of,
    code_in,
    command_in,
    local_path,
    read_by,
    streams_of,
)
from relay.providers.codex_patch import joined, patched_files
from relay.providers.js_literals import tool_calls
from relay.providers.transcript import record_in

SHELLS = ("exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec")
_WAITING = 200
"""Most calls whose outputs are waited for."""
_STATUS = {
    "in_progress": TaskStatus.IN_PROGRESS,
    "inProgress": TaskStatus.IN_PROGRESS,
    "completed": TaskStatus.COMPLETED,
}
_TOLD_CODE = re.compile(r"\"exit_code\":\s*(-?\d{1,9})")
_GOES_ON = re.compile(r"^Process running with session ID (\d+)", re.MULTILINE)
_REFUSED = re.compile(r"rejected by (?:the )?user|^patch rejected|denied by", re.IGNORECASE)
_ABORTED = re.compile(r"^aborted by user", re.MULTILINE)
_FAILED_SCRIPT = re.compile(r"Script (?:failed|error|aborted|timed out)")
_APPLIED = "Success. Updated the following files"


@frozen(kw_only=True)
class _Asked:
    """A call that the model made: a command, or the files of a patch, or a script with several of them."""

    call_id: str
    command: str = ""
    paths: tuple[str, ...] = ()
    folder: str = ""
    parts: tuple[_Asked, ...] = ()


class CodexCalls:
    """See the module. `folder` is where the turn's agent works."""

    def __init__(self, lift: Lift) -> None:
        self.lift = lift
        self.folder = ""
        self.has_items = False
        self._asked: dict[str, _Asked] = {}
        self._postponed: dict[str, bytes] = {}
        self._told: dict[int, str] = {}
        self._terminals: dict[str, str] = {}
        self._agents: dict[str, set[int]] = {}

    def waits_for(self, call_id: str) -> bool:
        """The output of this call tells something that nothing else did."""
        return call_id in self._asked or call_id in self._postponed

    def moved(self, folder: str) -> None:
        """The agent works there from now on; "" when nothing is said of it."""
        if folder and folder != self.folder:
            # Where a patch applies is where the agent was when it wrote it.
            for call_id in tuple(self._postponed):
                self._settle(call_id)
            self.folder = folder

    def postpone(self, call_id: str, line: bytes) -> None:
        """A `custom_tool_call` that is parsed only if its output turns out to tell how it ended."""
        if hash(call_id) not in self._told:
            self._postponed[call_id] = line
            if len(self._postponed) > _WAITING:
                del self._postponed[next(iter(self._postponed))]

    def changed(self, call_id: str, path: str) -> None:
        """A `FileChange` of one file that was made; for a list."""
        self.has_items = True
        if self._is_new(call_id, "item"):
            self._asked.pop(call_id, None)
            self._postponed.pop(call_id, None)
            paths = (joined(self.folder, local_path(path)),)
            self._part_told(paths=paths)
            self._patched(call_id, paths, True, "", False, None)

    def asked(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """The model made a call: a `function_call`, `custom_tool_call` or `local_shell_call`."""
        name, call_id = shapes.text(payload, "name"), shapes.text(payload, "call_id")
        if shapes.text(payload, "type") == "local_shell_call":
            given: Mapping[str, Any] = shapes.mapping(payload, "action")
            name, call_id = "local_shell", call_id or shapes.text(payload, "id")
        else:
            arguments = shapes.text(payload, "arguments").encode("utf-8", "replace")
            given = (shapes.record(arguments) or {}) if arguments else {}
        written = shapes.text(payload, "input")
        if name == "exec" and written:
            self._script(call_id, written, at)
        elif name == "write_stdin":
            waiting = self._terminals.get(str(given.get("session_id", "")))
            if waiting in self._asked:
                self._await(call_id, self._asked[waiting])
        else:
            self._begin(call_id, self._one(call_id, name, given, written, at), at)
        if self.lift.thorough:
            self._server(shapes.text(payload, "namespace") or name)

    def answered(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """The output of a call."""
        call_id = shapes.text(payload, "call_id")
        self._settle(call_id)
        asked = self._asked.pop(call_id, None)
        if asked is None:
            return
        output = answer_in(payload)
        going_on = _GOES_ON.search(output, 0, HEAD)
        if asked.parts:
            self._script_ended(asked, output, at)
        elif going_on and code_in(output) is None:
            self._terminals = {**dict(list(self._terminals.items())[-_WAITING:]), going_on[1]: asked.call_id}
            self._await(asked.call_id, asked)
        else:
            self._asked.pop(asked.call_id, None)
            code = code_in(output)
            if code is None and _ABORTED.search(body_of(output), 0, HEAD):
                # It stays under way: the end of its turn tells it as cut off, and an item of it nothing more.
                self._is_new(asked.call_id, "output")
                return
            self._ended(asked, output, code, at)

    def item(self, item: Mapping[str, Any], at: datetime | None) -> None:
        """A call that came to its end, as a thread item."""
        item_id = shapes.text(item, "id")
        match shapes.text(item, "type"):
            case "CommandExecution":
                self._command_told(item, item_id, "item", at)
            case "FileChange":
                self._patch_told(item, item_id, "item", at)
            case "McpToolCall":
                error = shapes.text(shapes.mapping(item, "error"), "message") or shapes.text(item, "error")
                ok = shapes.text(item, "status") in ("completed", "") and not item.get("error")
                self._tool_told(item, item_id, "item", ok, error, at)
            case "ImageView":
                if path := shapes.text(item, "path"):
                    self.lift.read(local_path(path))
            case "CollabAgentToolCall":
                if shapes.text(item, "tool").replace("_", "").lower() == "spawnagent":
                    self._agent("item", item_id)
            case "SubAgentActivity":
                self.activity(item)
            case _:
                pass

    def activity(self, told: Mapping[str, Any]) -> None:
        """What became of a subagent."""
        if shapes.text(told, "kind") in ("started", ""):
            self._agent("thread", shapes.text(told, "agent_thread_id") or shapes.text(told, "id"))

    def command_event(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """An `exec_command_end`."""
        self._command_told(payload, shapes.text(payload, "call_id"), "event", at)

    def patch_event(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """A `patch_apply_begin` or `patch_apply_end`."""
        call_id = shapes.text(payload, "call_id")
        if shapes.text(payload, "type").endswith("_begin"):
            self._begin(call_id, _Asked(call_id=call_id, paths=self._changes(payload)), at)
        else:
            self._patch_told(payload, call_id, "event", at)

    def tool_event(self, payload: Mapping[str, Any], at: datetime | None) -> None:
        """An `mcp_tool_call_end`."""
        result = shapes.mapping(payload, "result")
        inner = shapes.mapping(result, "Ok")
        error = shapes.text(result, "Err") or shapes.text(result, "err")
        ok = not error and not inner.get("isError") and not inner.get("is_error")
        told = shapes.mapping(payload, "invocation")
        self._tool_told(told, shapes.text(payload, "call_id"), "event", ok, error, at)

    def plan(self, given: object, at: datetime | None) -> None:
        """The arguments of `update_plan`."""
        steps = tuple(
            PlanItem(
                text=shapes.text(entry, "step"),
                status=_STATUS.get(shapes.text(entry, "status"), TaskStatus.PENDING),
            )
            for entry in shapes.items(given, "plan")
            if shapes.text(entry, "step")
        )
        if steps:
            self.lift.take(PlanUpdated(items=steps), at)

    def _settle(self, call_id: str) -> None:
        """Parse a call that was postponed."""
        if line := self._postponed.pop(call_id, b""):
            record = record_in(self.lift, line)
            self.asked(shapes.mapping(record, "payload"), shapes.iso(record, "timestamp"))

    def _one(
        self, call_id: str, name: str, given: Mapping[str, Any], written: str, at: datetime | None
    ) -> _Asked | None:
        if name == "update_plan":
            self.plan(given, at)
        elif name == "spawn_agent":
            self._agent("call", call_id)
        elif name == "apply_patch":
            patch = written or shapes.text(given, "input") or shapes.text(given, "patch")
            paths = patched_files(patch, self.folder)
            return _Asked(call_id=call_id, paths=paths) if paths else None
        elif name in SHELLS:
            folder = joined(
                self.folder, shapes.text(given, "workdir") or shapes.text(given, "working_directory")
            )
            command = command_in(given, "cmd") or command_in(given, "command")
            paths = patched_files(command, folder or self.folder) if "apply_patch" in command else ()
            if paths:
                return _Asked(call_id=call_id, paths=paths)
            return _Asked(call_id=call_id, command=command, folder=folder) if command else None
        return None

    def _script(self, call_id: str, script: str, at: datetime | None) -> None:
        """Code mode: calls inside of JavaScript."""
        parts = []
        for number, (name, value) in enumerate(tool_calls(script)):
            given = value if isinstance(value, Mapping) else {}
            written = value if isinstance(value, str) else ""
            part = self._one(f"{call_id}.{number}", name, given, written, at)
            if part is not None and (part.paths or self.lift.thorough):
                parts.append(part)
                self._under_way(part, at)
            if self.lift.thorough:
                self._server(name)
        if parts:
            self._await(call_id, _Asked(call_id=call_id, parts=tuple(parts[:_WAITING])))

    def _script_ended(self, script: _Asked, output: str, at: datetime | None) -> None:
        codes = _TOLD_CODE.findall(output)
        commands = [part for part in script.parts if part.command]
        failed = _FAILED_SCRIPT.match(output) is not None
        for part in script.parts:
            if self.has_items:
                # Whatever ran of it has been told of by an item of its own.
                self.lift.forget(part.call_id)
            elif part.paths:
                self._patched(part.call_id, part.paths, not failed, output, False, at)
            else:
                code = int(codes[-1]) if len(commands) == 1 and codes else None
                self._ran(part, code, not failed, output, False, at)

    def _begin(self, call_id: str, asked: _Asked | None, at: datetime | None) -> None:
        if asked is None or (asked.command and not self.lift.thorough):
            return
        if hash(call_id) in self._told:
            return
        self._await(call_id, asked)
        self._under_way(asked, at)

    def _under_way(self, asked: _Asked, at: datetime | None) -> None:
        if self.lift.thorough:
            self.lift.take(_call(asked), at)

    def _await(self, call_id: str, asked: _Asked) -> None:
        self._asked[call_id] = asked
        if len(self._asked) > _WAITING:
            del self._asked[next(iter(self._asked))]

    def _ended(self, asked: _Asked, output: str, code: int | None, at: datetime | None) -> None:
        if not self._is_new(asked.call_id, "output"):
            return
        denied = code is None and _REFUSED.search(output, 0, HEAD) is not None
        if asked.paths:
            ok = code == 0 if code is not None else _APPLIED in output
            self._patched(asked.call_id, asked.paths, ok, body_of(output), denied, at)
        elif asked.command:
            self._ran(asked, code, not denied, body_of(output), denied, at)

    def _command_told(self, told: Mapping[str, Any], call_id: str, how: str, at: datetime | None) -> None:
        self.has_items |= how == "item"
        if not self.lift.thorough or not self._is_new(call_id, how):
            return
        asked = self._asked.pop(call_id, None)
        command = command_in(told, "command") or (asked.command if asked else "")
        status, code = shapes.text(told, "status"), shapes.number(told, "exit_code")
        folder = local_path(shapes.text(told, "cwd"))
        ran = _Asked(call_id=call_id, command=command, folder=folder or self.folder)
        self._part_told(command=command)
        denied = status == "declined"
        ok = status not in ("failed", "declined")
        output = shapes.text(told, "aggregated_output") or streams_of(told)
        known = [each for each in shapes.items(told, "parsed_cmd") if isinstance(each, Mapping)]
        self._ran(ran, None if code is None else int(code), ok, output, denied, at, known)

    def _patch_told(self, told: Mapping[str, Any], call_id: str, how: str, at: datetime | None) -> None:
        self.has_items |= how == "item"
        self._settle(call_id)
        if not self._is_new(call_id, how):
            return
        asked = self._asked.pop(call_id, None)
        paths = self._changes(told) or (asked.paths if asked else ())
        self._part_told(paths=paths)
        status = shapes.text(told, "status")
        ok = status in ("completed", "") and told.get("success") is not False
        self._patched(call_id, paths, ok, streams_of(told), status == "declined", at)

    def _part_told(self, *, command: str = "", paths: tuple[str, ...] = ()) -> None:
        """Code mode: the part of a script that this was is told of."""
        for call_id, script in reversed(self._asked.items()):
            for part in script.parts:
                if (command and part.command == command) or (paths and set(paths) <= set(part.paths)):
                    self.lift.forget(part.call_id)
                    left = tuple(each for each in script.parts if each is not part)
                    if left:
                        self._asked[call_id] = _Asked(call_id=call_id, parts=left)
                    else:
                        del self._asked[call_id]
                    return

    def _tool_told(
        self, told: Mapping[str, Any], call_id: str, how: str, ok: bool, error: str, at: datetime | None
    ) -> None:
        if not self.lift.thorough or not self._is_new(call_id, how):
            return
        server, tool = shapes.text(told, "server"), shapes.text(told, "tool")
        self.lift.server(server)
        arguments = told.get("arguments")
        detail = shapes.one_line(orjson.dumps(arguments).decode()) if arguments is not None else ""
        name = ".".join(filter(None, (server, tool)))
        self.lift.take(ToolCall(call_id=call_id, tool=name, tool_kind=ToolKind.MCP, detail=detail), at)
        self.lift.take(ToolResult(call_id=call_id, ok=ok, output=shapes.clip(error)), at)

    def _patched(
        self, call_id: str, paths: tuple[str, ...], ok: bool, output: str, denied: bool, at: datetime | None
    ) -> None:
        if not self.lift.thorough:
            self.lift.at(at)
            for path in paths if ok else ():
                self.lift.changed(path)
            return
        self.lift.take(_call(_Asked(call_id=call_id, paths=paths)), at)
        self.lift.take(ToolResult(call_id=call_id, ok=ok, output=shapes.clip(output), denied=denied), at)

    def _ran(
        self,
        ran: _Asked,
        code: int | None,
        ok: bool,
        output: str,
        denied: bool,
        at: datetime | None,
        known: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        if not self.lift.thorough:
            return
        good = ok and not code
        self.lift.take(_call(ran), at)
        result = ToolResult(
            call_id=ran.call_id, ok=good, exit_code=code, output=shapes.clip(output), denied=denied
        )
        self.lift.take(result, at)
        if good:
            for path in read_by(ran.command, known):
                self.lift.read(joined(ran.folder or self.folder, path))

    def _changes(self, told: Mapping[str, Any]) -> tuple[str, ...]:
        paths: dict[str, None] = {}
        for path, change in shapes.mapping(told, "changes").items():
            moved = shapes.text(change, "move_path") or shapes.text(
                shapes.mapping(change, "update"), "move_path"
            )
            for each in (path, moved):
                if isinstance(each, str) and each:
                    paths[joined(self.folder, local_path(each))] = None
        return tuple(paths)

    def _server(self, name: str) -> None:
        parts = name.split("__")
        if len(parts) > 1 and parts[0] == "mcp":
            self.lift.server(parts[1])

    def _agent(self, how: str, name: str) -> None:
        self._agents.setdefault(how, set()).add(hash(name))
        self.lift.subagents = max(len(names) for names in self._agents.values())

    def _is_new(self, call_id: str, how: str) -> bool:
        """Whether this end of a call was not told before, in this way or in another."""
        if not call_id:
            return True
        before = self._told.setdefault(hash(call_id), how)
        if before != how:
            return False
        key = hash((call_id, how))
        if key in self._told:
            self.lift.skip("duplicate")
            return False
        self._told[key] = how
        return True


def _call(asked: _Asked) -> ToolCall:
    if asked.paths:
        detail = shapes.one_line(", ".join(asked.paths))
        return ToolCall(
            call_id=asked.call_id,
            tool="apply_patch",
            tool_kind=ToolKind.EDIT,
            paths=asked.paths,
            detail=detail,
        )
    return ToolCall(
        call_id=asked.call_id,
        tool="shell",
        tool_kind=ToolKind.SHELL,
        command=asked.command,
        detail=shapes.one_line(asked.command),
    )
