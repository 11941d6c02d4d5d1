"""The bodies of POST requests. Names are camelCase on the wire; unknown keys are refused."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class RunRequest:
    """Begin a session.

    Args:
        task: what is to be done.
        cwd: a folder of the repository, absolute.
        providers: the chain, in order; empty: what relay.toml says, of those found here.
        verify: acceptance commands; null: what relay.toml says.
        allow: "ask", "edits" or "all"; "" for what relay.toml says.
        threshold: fraction of a quota at which to hand off.
        max_handoffs: how often the agent may change.
        clean: leave uncommitted changes out.
        in_place: work in the folder itself.
        model: model name for every provider.
        task_id: the caller's name for the task.
        profile: a profile of relay.toml whose chain is used.
    """

    task: str
    cwd: str
    providers: tuple[str, ...] = ()
    verify: tuple[str, ...] | None = None
    allow: str = ""
    threshold: float | None = None
    max_handoffs: int | None = None
    clean: bool = False
    in_place: bool = False
    model: str = ""
    task_id: str = ""
    profile: str = ""


@frozen(kw_only=True)
class HandOffRequest:
    """Hand over; `to` is "provider" or "provider/account", or "" for the chain's next."""

    to: str = ""
    session: str = ""


@frozen(kw_only=True)
class SessionRequest:
    """Names a session; "" when there is only one under way."""

    session: str = ""


@frozen(kw_only=True)
class PauseRequest:
    """Pause, or with `pause` false resume."""

    pause: bool = True
    session: str = ""


@frozen(kw_only=True)
class ReplyRequest:
    """Say something to the agent."""

    reply: str
    session: str = ""


@frozen(kw_only=True)
class DiscardRequest:
    """Discard; `force` also when the worktree holds what is not committed."""

    session: str = ""
    force: bool = False


@frozen(kw_only=True)
class DecisionRequest:
    """Answer a permission request; for a question, `note` is the answer."""

    approved: bool
    note: str = ""


@frozen(kw_only=True)
class IsolateRequest:
    """Take a target out of service, or put it back."""

    target: str
    isolated: bool = True


@frozen(kw_only=True)
class AdoptRequest:
    """Take over the work of a detected agent.

    Args:
        id: an id, an unambiguous beginning of it, a transcript's path, or "latest".
        target: who goes on, "provider" or "provider/account"; "" for the agent's own login, or the next one
            of the chain when that is used up.
        start: begin a session on it; else only brief and contract are written.
        mode: "continue", "brief" (take note and wait) or "ask" (ask first).
        preset: "short", "normal" or "full": how long the brief may be.
        pause: end the agent first, if it runs.
        dry_run: write nothing, end nothing, begin nothing.
        folder: where the work lies now, absolute; left out: where the agent worked.
        since_hours: how far back it is looked for.
        cwd: the folder of who asks, absolute: looked at too, with its repository and that one's relay.toml.
        env: with `cwd`, "NAME=value" of the variables that say where stores lie, as they are set there.
        verify, allow, model: as in `RunRequest`.
    """

    id: str
    target: str = ""
    start: bool = False
    mode: str = "continue"
    preset: str = "normal"
    pause: bool = False
    dry_run: bool = False
    folder: str = ""
    since_hours: int = 24
    cwd: str = ""
    env: tuple[str, ...] = ()
    verify: tuple[str, ...] | None = None
    allow: str = ""
    model: str = ""


@frozen(kw_only=True)
class GcRequest:
    """Clear away what is left of ended sessions.

    Args:
        dry_run: only tell what would go.
        keep_days: what ended within so many days is kept; null for the configured number.
    """

    dry_run: bool = False
    keep_days: float | None = None


@frozen(kw_only=True)
class Nothing:
    """An empty body."""
