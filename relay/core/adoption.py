"""Work of an agent that Relay did not start, made a session's own: its facts, what the next agent is told.

Pure; used by the effects that adopt, by the session actor and when a session is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from relay.core.attempts import FailedAttempt
from relay.core.facts import SessionFacts
from relay.core.paths import normal
from relay.core.record import Adopted, AdoptMode

PRESETS = {"short": 12_000, "normal": 24_000, "full": 80_000}
"""Most characters of a brief; a token is about four."""

GONE = "the file is not in the folder now: removed, moved or undone since, or written elsewhere"
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


def without_gone(facts: SessionFacts, gone: Iterable[str]) -> SessionFacts:
    """The facts with nothing written that is not there: the next agent must not take it for done.

    Args:
        gone: of `facts.changed`, what is not in the folder and was not deleted there either.
    """
    lost = frozenset(gone)
    if not lost:
        return facts
    tried = {f"edit {path}": FailedAttempt(what=f"edit {path}", why=GONE) for path in sorted(lost)}
    return evolve(
        facts,
        changed={path: None for path in facts.changed if path not in lost},
        failures={**facts.failures, **tried},
    )


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
