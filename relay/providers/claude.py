"""The Claude Code provider: how the CLI is launched, ended and resumed under another account.

A stateless description, held in the providers' table and used by the adapter actor and the child
effects. Claude Code is spoken to over its two-way stream-json. Facts as seen with Claude Code 2.1.332.
"""

from __future__ import annotations

import re

from attrs import frozen

from relay.core.wording import Wording
from relay.providers import shapes
from relay.providers.claude_stream import ClaudeDialogue
from relay.providers.protocol import Dialogue, LaunchRequest, LaunchSpec, ResumeFiles, StopStep
from relay.providers.wordings import WORDINGS

_LEFTOVERS = (
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_*",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_*",
    "CLAUDE_CODE_SESSION_*",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
)
"""What Claude Code sets for the commands and hooks it runs: a daemon started inside Claude Code must not
hand it on to a second one. CLAUDE_CONFIG_DIR, CLAUDE_CODE_OAUTH_TOKEN, CLAUDE_CODE_USE_BEDROCK and the
other settings of that prefix stay: they are the user's."""

_LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
"""Each goes before the login in the configuration folder, so that with one of them in the daemon's
environment every account would be the same. An account may still set them in its own environment."""

_SETTINGS = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
"""Subagents would run in the background and outlast the turn that started them: its end would say nothing,
and a new turn begin by itself when they are done (seen). The configuration may set both otherwise."""

_ARGUMENTS = (
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--permission-mode",
    "default",
    "--disallowedTools",
    "EnterWorktree",
)
"""The mode is said so that the user's settings do not decide what goes unasked: Relay does, by answering.
The agent may not move to a worktree of its own: what it did there would be in no snapshot."""

_SLUG_LIMIT = 200
_SESSION_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


@frozen(kw_only=True)
class Claude:
    """Anthropic's Claude Code CLI; see `relay.providers.protocol.Provider`."""

    name: str = "claude"
    display_name: str = "Claude Code"
    program: str = "claude"
    config_dir_env: str = "CLAUDE_CONFIG_DIR"
    default_config_dir: str = ".claude"
    wording: Wording = WORDINGS["claude"]
    announce_lag: float = 0.0
    """Seen with 2.1.332: a call is announced, and its permission asked, before it begins."""
    tested_version: str = "2.1.332"
    login_args: tuple[str, ...] = ("auth", "status")
    stop_steps: tuple[StopStep, ...] = (
        StopStep(signal="INT", group=False, grace=3.0),
        StopStep(signal="TERM", group=True, grace=3.0),
    )
    """INT first: it ends the turn with a result, and the Bash tool's commands, which run in sessions of
    their own and outlive a KILL, are ended with it (seen, 1.6 s). TERM ends them too, without a result."""

    def launch(self, request: LaunchRequest) -> LaunchSpec:
        """The argument list and environment of a run. The prompt goes over stdin, at any length.

        Permissions are never skipped: with "all" the dialogue allows what it is asked, which works for
        root as well. A resumed session would keep the system prompt of its first run if its snapshot were
        not switched off.
        """
        model = ("--model", request.model) if request.model else ()
        resume: tuple[str, ...] = ()
        if request.native_id is not None:
            resume = ("--resume", request.native_id, "--system-prompt-snapshot", "off")
        account = request.account
        env = {**_SETTINGS, **request.env}
        if request.base_url:
            env["ANTHROPIC_BASE_URL"] = request.base_url
        env.update(account.env)
        if account.config_dir is not None:
            env[self.config_dir_env] = account.config_dir
        return LaunchSpec(
            argv=(request.command or self.program, *_ARGUMENTS, *model, *resume, *request.args),
            env=env,
            unset=_LEFTOVERS if account.config_dir is None else (*_LEFTOVERS, *_LOGINS),
        )

    def dialogue(self, request: LaunchRequest) -> Dialogue:
        """A new dialogue for a run."""
        return ClaudeDialogue(request)

    def login_told(self, status: int, out: str, err: str) -> tuple[bool | None, str]:
        """`claude auth status` prints JSON (2.1.332)."""
        told = shapes.record(out.encode()) or {}
        if "loggedIn" not in told:
            return None, shapes.one_line(err or out) or "it does not say"
        if told.get("loggedIn") is not True:
            return False, "not logged in"
        words = (shapes.text(told, name) for name in ("authMethod", "subscriptionType"))
        return True, "logged in: " + ", ".join(word for word in words if word)

    def resume_files(self, native_id: str, cwd: str) -> ResumeFiles | None:
        """The session's transcript, its subagents' and its tasks.

        The CLI looks the transcript up under the working folder it is started in, so that the session
        must go on in the same one. None when the id cannot be one of Claude Code's.
        """
        if not _SESSION_ID.fullmatch(native_id):
            return None
        project = f"projects/{slug_of(cwd)}"
        return ResumeFiles(
            globs=(f"{project}/{native_id}.jsonl", f"{project}/{native_id}/**/*", f"tasks/{native_id}/**/*"),
            never=(".credentials.json", ".claude.json", ".key", "*.key", ".lock"),
        )

    def resume_place(self, path: str, cwd: str) -> str | None:
        """Under the folder of the new working folder; None when its name holds a hash that we don't know."""
        parts = path.split("/")
        slug = slug_of(cwd)
        if parts[0] != "projects" or len(parts) < 3:
            return path
        return None if slug.endswith("*") else "/".join(("projects", slug, *parts[2:]))


def slug_of(cwd: str) -> str:
    """The pattern of the folder name that Claude Code gives a working folder; it cannot be turned back.

    Every UTF-16 unit but ASCII letters and digits becomes "-". A name over 200 is cut there, and a hash
    follows that is left to the pattern.
    """
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = (units[at] | units[at + 1] << 8 for at in range(0, len(units), 2))
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    return name if len(name) <= _SLUG_LIMIT else f"{name[:_SLUG_LIMIT]}-*"
