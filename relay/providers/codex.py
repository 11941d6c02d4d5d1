"""The Codex provider: how the CLI is launched, ended and resumed under another account.

A stateless description, held in the providers' table and used by the adapter actor and the child
effects. Codex is spoken to through `codex app-server`; arguments that begin with "exec" choose the
one-way `codex exec --json` instead. Facts as seen with codex-cli 0.171.0.
"""

from __future__ import annotations

import re

import orjson
from attrs import frozen

from relay.core.wording import Wording
from relay.providers import shapes
from relay.providers.codex_app_server import AppServerDialogue
from relay.providers.codex_exec import ExecDialogue
from relay.providers.protocol import Dialogue, LaunchRequest, LaunchSpec, ResumeFiles, StopStep
from relay.providers.wordings import WORDINGS

_LEFTOVERS = (
    "CODEX_CI",
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    "CODEX_MANAGED_*",
    "CODEX_NETWORK_*",
    "CODEX_PERMISSION_PROFILE",
    "CODEX_SANDBOX*",
    "CODEX_SESSION_ID",
    "CODEX_SHELL_SNAPSHOT_*",
    "CODEX_SNAPSHOT_*",
    "CODEX_STARTING_DIFF",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_*",
)
"""What Codex sets for the commands it runs: a daemon started inside Codex must not hand it on to a
second one. CODEX_HOME and the keys stay: they are the user's."""

_EXEC_SANDBOX = {"ask": "read-only", "edits": "workspace-write", "all": "danger-full-access"}
"""`codex exec` cannot ask, so "ask" may only read."""

_THREAD_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


@frozen(kw_only=True)
class Codex:
    """OpenAI's Codex CLI; see `relay.providers.protocol.Provider`."""

    name: str = "codex"
    display_name: str = "Codex"
    program: str = "codex"
    config_dir_env: str = "CODEX_HOME"
    default_config_dir: str = ".codex"
    wording: Wording = WORDINGS["codex"]
    announce_lag: float = 0.3
    """Seen with 0.171.0: item/started came about 0.2 s after the command had begun."""
    tested_version: str = "0.171.0"
    login_args: tuple[str, ...] = ("login", "status")
    stop_steps: tuple[StopStep, ...] = (
        StopStep(signal="TERM", group=False, grace=2.0),
        StopStep(signal="TERM", group=True, grace=2.0),
    )
    """TERM before INT: the app-server answers TERM by ending its commands and closing the turn in the
    rollout (seen, 0.1 s), while INT ends it at once and leaves its commands running. `codex exec` is the
    other way round, but what it leaves is ended as a survivor of the run."""

    def launch(self, request: LaunchRequest) -> LaunchSpec:
        """The argument list and environment of a run.

        In one-way mode the prompt is an argument, so that on Linux it may hold at most 128 KiB.
        """
        one_way = _is_exec(request)
        env = {**request.env, **request.account.env}
        if request.account.config_dir is not None:
            env[self.config_dir_env] = request.account.config_dir
        arguments = _exec_arguments(request) if one_way else _server_arguments(request)
        return LaunchSpec(
            argv=(request.command or self.program, *arguments),
            env=env,
            unset=_LEFTOVERS,
            two_way=not one_way,
        )

    def dialogue(self, request: LaunchRequest) -> Dialogue:
        """A new dialogue for a run, of the transport that `launch` chose."""
        return ExecDialogue(request) if _is_exec(request) else AppServerDialogue(request)

    def login_told(self, status: int, out: str, err: str) -> tuple[bool | None, str]:
        """`codex login status` prints words on stderr, and ends with 0 when logged in (0.171.0)."""
        lines = [line.strip() for line in (err or out).split("\n") if line.strip()]
        said = shapes.one_line(lines[-1]) if lines else "it does not say"
        if status == 0:
            return True, said
        return (False, said) if "not logged in" in said.lower() else (None, said)

    def resume_files(self, native_id: str, cwd: str) -> ResumeFiles | None:
        """The thread's rollout: that file alone, in another CODEX_HOME, is enough to resume it there.

        The id and the day are in the file's name, the working folder is not. None when the id cannot be
        one of Codex's.
        """
        if not _THREAD_ID.fullmatch(native_id):
            return None
        return ResumeFiles(
            globs=(f"sessions/*/*/*/rollout-*-{native_id}.jsonl",),
            never=("auth.json", "config.toml", ".credentials.json"),
        )

    def resume_place(self, path: str, cwd: str) -> str | None:
        """Where it was: a rollout's place does not tell the working folder, which goes with the resume."""
        return path


def _is_exec(request: LaunchRequest) -> bool:
    return request.args[:1] == ("exec",)


def _server_arguments(request: LaunchRequest) -> tuple[str, ...]:
    # The model goes with thread/start, so that a resumed thread takes it too.
    return ("app-server", *_base_url(request), *request.args)


def _exec_arguments(request: LaunchRequest) -> tuple[str, ...]:
    # `exec resume` takes no --sandbox, but both take the setting.
    sandbox = _EXEC_SANDBOX.get(request.allow, "read-only")
    resume = ("resume",) if request.native_id is not None else ()
    model = ("--model", request.model) if request.model else ()
    settings = ("-c", f'sandbox_mode="{sandbox}"', "-c", 'approval_policy="never"', *_base_url(request))
    last = (request.native_id,) if request.native_id is not None else ()
    words = (*last, request.prompt)
    options = ("--json", "--skip-git-repo-check", *settings, *model, *request.args[1:])
    return ("exec", *resume, *options, "--", *words)


def _base_url(request: LaunchRequest) -> tuple[str, ...]:
    if not request.base_url:
        return ()
    # The value is read as TOML; a JSON string is one.
    return ("-c", f"openai_base_url={orjson.dumps(request.base_url).decode()}")
