"""How much of what was known a contract carries: the handoff fidelity score, 0 to 1.

Computed for every live handoff against the facts folded from the session's own events, and by the
evaluation suite against expected facts (`Expected`), in the same way. Each kind has a recall (share of
the expected that is carried) and a precision (share of the carried that was expected); the score of a
kind is their harmonic mean, the total the mean of the kinds by `WEIGHTS`. What the bounds of the facts
left out counts as not carried, so that a session too long to be remembered in full does not score 1.
"""

from __future__ import annotations

from attrs import frozen

from relay.core.contract import GOAL_CHARS, Contract, constraints_of
from relay.core.facts import SessionFacts
from relay.core.handover import attempts
from relay.core.quoting import clean, one_line, shorten

WEIGHTS = {
    "goal": 3.0,
    "open_tasks": 3.0,
    "done_tasks": 2.0,
    "files": 2.0,
    "constraints": 2.0,
    "decisions": 1.0,
    "failed_attempts": 1.0,
    "next_action": 1.0,
}
"""How much each kind counts; a kind with nothing expected and nothing carried does not count."""

_KIND_OF_DROPPED = {
    "plan": "open_tasks",
    "finished": "done_tasks",
    "changed": "files",
    "rules": "constraints",
    "constraints": "constraints",
    "decisions": "decisions",
    "failures": "failed_attempts",
}


@frozen(kw_only=True)
class Expected:
    """What a continuation must carry.

    Args:
        next_action: "" when nothing says what comes next: then any will do.
        lost: how many more of each kind there were, beyond what could be remembered.
    """

    goal: str
    open_tasks: tuple[str, ...] = ()
    done_tasks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    failed_attempts: tuple[str, ...] = ()
    next_action: str = ""
    lost: tuple[tuple[str, int], ...] = ()


@frozen(kw_only=True)
class KindScore:
    """One kind: how many should be there, how many are, how many are there and should not be."""

    kind: str
    expected: int
    found: int
    surplus: int = 0

    @property
    def recall(self) -> float:
        """Share of the expected that is there."""
        return self.found / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        """Share of what is there that was expected."""
        total = self.found + self.surplus
        return self.found / total if total else 1.0

    @property
    def score(self) -> float:
        """Harmonic mean of both."""
        total = self.recall + self.precision
        return 2 * self.recall * self.precision / total if total else 0.0


@frozen(kw_only=True)
class Fidelity:
    """The scores of all kinds, and the total."""

    kinds: tuple[KindScore, ...]

    @property
    def score(self) -> float:
        """The weighted mean over the kinds that count, to four places; 1 only when nothing is amiss."""
        counted = [kind for kind in self.kinds if kind.expected or kind.surplus]
        weight = sum(WEIGHTS[kind.kind] for kind in counted)
        if not weight:
            return 1.0
        total = sum(WEIGHTS[kind.kind] * kind.score for kind in counted) / weight
        return min(round(total, 4), 0.9999) if total < 1 - 1e-12 else 1.0


def expected_of(facts: SessionFacts, *, files: tuple[str, ...] = ()) -> Expected:
    """What the facts of a session ask of its contract.

    Args:
        files: paths that changed according to git, beside those the events tell of.
    """
    remaining = tuple(one_line(text) for text in facts.remaining)
    lost: dict[str, int] = {}
    for dropped, count in facts.dropped.items():
        if kind := _KIND_OF_DROPPED.get(dropped):
            lost[kind] = lost.get(kind, 0) + count
    return Expected(
        goal=shorten(clean(facts.goal), GOAL_CHARS),
        open_tasks=remaining,
        done_tasks=tuple(one_line(text) for text in facts.done),
        files=(*facts.changed, *files),
        constraints=constraints_of(facts),
        decisions=tuple(one_line(text) for text in facts.decisions),
        failed_attempts=tuple(one_line(failed.what) for failed in attempts(facts)),
        next_action=remaining[0] if remaining else one_line(facts.next_step),
        lost=tuple(sorted(lost.items())),
    )


def compare(contract: Contract, expected: Expected) -> Fidelity:
    """Score a contract against what it must carry. Texts are compared without case and spacing."""
    lost = dict(expected.lost)
    carried = carried_by(contract)
    done = _count("done_tasks", expected.done_tasks, carried["done_tasks"], lost)
    wanted_next = expected.next_action or contract.next_action
    return Fidelity(
        kinds=(
            _count("goal", (expected.goal,), carried["goal"], lost),
            _count("open_tasks", expected.open_tasks, carried["open_tasks"], lost),
            # What was run and written is not to be redone either: no surplus.
            KindScore(kind=done.kind, expected=done.expected, found=done.found),
            _count("files", expected.files, carried["files"], lost),
            _count("constraints", expected.constraints, carried["constraints"], lost),
            _count("decisions", expected.decisions, carried["decisions"], lost),
            _count("failed_attempts", expected.failed_attempts, carried["failed_attempts"], lost),
            _count("next_action", (wanted_next,), carried["next_action"], lost),
        )
    )


def carried_by(contract: Contract) -> dict[str, tuple[str, ...]]:
    """What a contract carries, by the kinds of `WEIGHTS`."""
    return {
        "goal": (contract.task_goal,),
        "open_tasks": contract.tasks_remaining,
        "done_tasks": contract.do_not_redo,
        "files": tuple(change.path for change in contract.files_changed),
        "constraints": contract.constraints,
        "decisions": contract.decisions,
        "failed_attempts": tuple(attempt.what for attempt in contract.failed_attempts),
        "next_action": (contract.next_action,),
    }


def same(one: str, other: str) -> bool:
    """Both say the same, but for case and spacing."""
    return _key(one) == _key(other)


def score(contract: Contract, facts: SessionFacts, *, files: tuple[str, ...] = ()) -> Fidelity:
    """Score a contract against the facts of its session; `files` as for `expected_of`."""
    return compare(contract, expected_of(facts, files=files))


def _count(kind: str, expected: tuple[str, ...], carried: tuple[str, ...], lost: dict[str, int]) -> KindScore:
    wanted = {_key(text) for text in expected}
    there = {_key(text) for text in carried if text.strip()}
    return KindScore(
        kind=kind,
        expected=len(wanted) + lost.get(kind, 0),
        found=len(wanted & there),
        surplus=len(there - wanted),
    )


def _key(text: str) -> str:
    return " ".join(clean(text).split()).casefold()
