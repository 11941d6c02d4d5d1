"""The small protocol that every provider implements.

A `Provider` is a stateless description of one agent CLI. A `Dialogue` is the pure state machine of one
run: bytes in, events and bytes out. It does no I/O and reads no clock, so that reading the same output
again from the start rebuilds the same state; every write carries a key by which a repeated one is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen

from relay.core.events import AgentEvent
from relay.core.wording import Wording


@frozen(kw_only=True)
class Account:
    """One login of a provider.

    Args:
        label: the account's name within its provider ("default", "work").
        config_dir: the CLI's own configuration folder for this account (CLAUDE_CONFIG_DIR,
            CODEX_HOME), absolute; None means the CLI's default.
        env: additional environment for the child.
    """

    label: str = "default"
    config_dir: str | None = None
    env: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class LaunchRequest:
    """What a run needs to be started.

    Args:
        session_id: Relay's session.
        run: number of the run within the session, from 1.
        cwd: the session's worktree, absolute.
        prompt: the first message: the task, or the verified brief of a contract.
        account: whose login.
        allow: "ask", "edits" or "all": what the user lets the agent do unasked.
        native_id: the provider's own session to resume, or None for a new one.
        model: model name, or "" for the CLI's default.
        command: the program, from configuration, or "" for the provider's own; may be a path.
        args: additional arguments from configuration.
        env: additional environment from configuration.
        base_url: API base URL override, or "".
    """

    session_id: str
    run: int
    cwd: str
    prompt: str
    account: Account = field(factory=Account)
    allow: str = "edits"
    native_id: str | None = None
    model: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict)
    base_url: str = ""


@frozen(kw_only=True)
class LaunchSpec:
    """How the child is started.

    Args:
        argv: the argument list; argv[0] is the program, resolved on PATH by the effect.
        env: variables set on top of the daemon's environment.
        unset: names, or prefixes ending in "*", removed from the daemon's environment first.
        two_way: the child reads messages on stdin; otherwise its stdin is /dev/null.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(factory=dict)
    unset: tuple[str, ...] = ()
    two_way: bool = True


@frozen(kw_only=True)
class Write:
    """One line for the child's stdin (without the newline), known by its key."""

    key: str
    line: str


@frozen(kw_only=True)
class Reading:
    """What one line of output meant: events, and lines to write back."""

    events: tuple[AgentEvent, ...] = ()
    writes: tuple[Write, ...] = ()


@frozen(kw_only=True)
class StopStep:
    """One step of ending a child: a signal ("INT", "TERM", "KILL") to the process or its group, then a wait.

    Args:
        signal: name without SIG.
        group: the whole process group rather than the CLI's own process.
        grace: seconds to wait for the end before the next step.
    """

    signal: str
    group: bool
    grace: float


@frozen(kw_only=True)
class ResumeFiles:
    """What must be copied so that another account can resume a native session.

    Args:
        globs: patterns relative to the account's config folder that match the session's own files.
        never: file names that must not be copied even if matched (keys, credentials).
    """

    globs: tuple[str, ...]
    never: tuple[str, ...] = ()


class Dialogue(Protocol):
    """The conversation with one child. Pure; one instance a run."""

    def open(self) -> tuple[Write, ...]:
        """Lines to write as soon as the child runs: the handshake or the first message."""

    def read(self, line: bytes, stream: str) -> Reading:
        """Take one whole line (without newline) of "out" or "err"."""

    def say(self, text: str, key: str) -> tuple[Write, ...] | None:
        """A message of the user, in mid-turn where the CLI takes it. None: it takes none (now)."""

    def interrupt(self, key: str) -> tuple[Write, ...]:
        """Ask the agent to stop its turn; empty where only signals can."""

    def answer(self, request_id: str, allowed: bool, note: str) -> tuple[Write, ...]:
        """Answer a PermissionAsked. For a question, `note` is the answer."""

    @property
    def turn_open(self) -> bool:
        """The agent is working on a message."""


class Provider(Protocol):
    """One agent CLI."""

    name: str
    display_name: str
    program: str
    """The default program, looked up on PATH."""
    config_dir_env: str
    """Environment variable that names the account's configuration folder, or ""."""
    default_config_dir: str
    """The CLI's own default folder, relative to the home folder."""
    wording: Wording
    """How this provider words its failures."""
    stop_steps: tuple[StopStep, ...]
    """How a child is ended once the polite interrupt has been tried."""
    announce_lag: float
    """Seconds by which the CLI's word of a tool call can come after the call itself began."""
    tested_version: str
    """The version that this module was written against; "" for a program of Relay's own."""
    login_args: tuple[str, ...]
    """Arguments by which the program tells whether it is logged in; empty where it can't tell."""

    def login_told(self, status: int, out: str, err: str) -> tuple[bool | None, str]:
        """What it told: logged in or not (None: it can't be known), and one line for people."""

    def launch(self, request: LaunchRequest) -> LaunchSpec:
        """The argument list and environment of a run."""

    def dialogue(self, request: LaunchRequest) -> Dialogue:
        """A new dialogue for a run."""

    def resume_files(self, native_id: str, cwd: str) -> ResumeFiles | None:
        """Files of a native session, or None when it cannot be resumed under another account."""

    def resume_place(self, path: str, cwd: str) -> str | None:
        """Where one of those files belongs for a session that goes on in another working folder.

        Args:
            path: relative to the account's configuration folder.
            cwd: the folder it goes on in, absolute.

        Returns:
            A path relative to the configuration folder; None when that cannot be told.
        """
