"""Work of an agent that Relay did not start, made a session's own: its facts, what the next agent is told.

Pure; used by the effects that adopt, by the session actor and when a session is loaded.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from attrs import evolve

from relay.core.attempts import FailedAttempt
from relay.core.facts import SessionFacts
from relay.core.paths import inside, normal
from relay.core.record import Adopted, AdoptMode

PRESETS = {"short": 12_000, "normal": 24_000, "full": 80_000}
"""Most characters of a brief; a token is about four."""

_BRIEF = (
    "Do not change anything yet. Say in a few lines what the task is, what is done and what remains, "
    "then wait for my word."
)
_ASK = (
    "Before you change anything, ask me what is unclear or has to be decided; if nothing is, say so and "
    "what you would do first. Then wait for my word."
)


def known_before(adopted: SessionFacts | None, goal: str, worktree: str) -> SessionFacts:
    """The facts that a session begins with.

    Args:
        adopted: of work that is adopted; its paths are relative to the repository's root already.
        goal: the task, redacted.
        worktree: where the agents will work, absolute.
    """
    if adopted is None:
        return SessionFacts.for_goal(goal, worktree=worktree)
    return evolve(adopted, worktree=normal(worktree))


def words_for(adopted: Adopted | None, worktree: str) -> tuple[str, ...]:
    """What the user has the first agent told beside the brief."""
    if adopted is None:
        return ()
    words = []
    if normal(adopted.cwd) != normal(worktree):
        words.append(
            f"The agent before worked in {adopted.cwd}. You work in {worktree}, a copy of its repository "
            "with all that was not committed there. Read and change files here alone."
        )
    if adopted.mode is not AdoptMode.CONTINUE:
        words.append(_BRIEF if adopted.mode is AdoptMode.BRIEF else _ASK)
    return tuple(words)


def rooted(facts: SessionFacts, root: str) -> SessionFacts:
    """The facts with every path relative to the repository's root instead of the folder of the agent.

    Args:
        facts: `worktree` is the folder that the agent worked in, absolute.
        root: of the repository, absolute.
    """
    folder = facts.worktree
    if not folder or normal(root) == folder:
        return facts
    prefix = inside(folder, normal(root))
    if prefix is None:
        return facts

    def moved(path: str) -> str:
        return posixpath.normpath(posixpath.join(prefix, path))

    changed = {moved(path): None for path in facts.changed}
    outside: dict[str, None] = {}
    for path in facts.outside:
        within = inside(path if path.startswith("/") else posixpath.join(folder, path), normal(root))
        if within is None:
            outside[path] = None
        else:
            changed[within] = None
    return evolve(
        facts,
        worktree=normal(root),
        changed=changed,
        outside=outside,
        read={moved(path): None for path in facts.read},
        failures={_edit(what, moved): _attempt(tried, moved) for what, tried in facts.failures.items()},
    )


def _edit(what: str, moved: Callable[[str], str]) -> str:
    head, _, path = what.partition("edit ")
    return what if head or not path or path.startswith("/") else f"edit {moved(path)}"


def _attempt(tried: FailedAttempt, moved: Callable[[str], str]) -> FailedAttempt:
    return evolve(tried, what=_edit(tried.what, moved))
