"""How much of what was known a contract carries: the handoff fidelity score, 0 to 1.

Computed for every live handoff against the facts folded from the session's own events, and by the
evaluation suite against expected facts, in the same way.
"""

from __future__ import annotations

from attrs import frozen

from relay.core.contract import Contract, constraints_of
from relay.core.facts import SessionFacts
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
"""How much each kind counts; a kind with nothing to carry does not count."""


@frozen(kw_only=True)
class KindScore:
    """One kind: what should be there, what is, what is there and should not be."""

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


@frozen(kw_only=True)
class Fidelity:
    """The scores of all kinds, and the total."""

    kinds: tuple[KindScore, ...]

    @property
    def score(self) -> float:
        """Weighted harmonic mean of recall and precision over the kinds that count."""
        counted = [(WEIGHTS[k.kind], _f1(k)) for k in self.kinds if k.expected]
        weight = sum(w for w, _ in counted)
        return round(sum(w * value for w, value in counted) / weight, 4) if weight else 1.0


def _f1(kind: KindScore) -> float:
    recall, precision = kind.recall, kind.precision
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def score(contract: Contract, facts: SessionFacts, *, files: tuple[str, ...] = ()) -> Fidelity:
    """Score a contract.

    Args:
        files: paths that changed according to git, beside those the events tell of.
    """
    goal = shorten(clean(facts.goal), 20_000)
    redo = " \n".join(contract.do_not_redo)
    paths = dict.fromkeys((*facts.changed, *files))
    carried = {change.path for change in contract.files_changed}
    open_tasks = [one_line(text) for text in facts.remaining]
    failed = {(a.what, a.why) for a in contract.failed_attempts}
    expected_next = open_tasks[0] if open_tasks else facts.next_step
    return Fidelity(
        kinds=(
            KindScore(kind="goal", expected=1, found=int(contract.task_goal == goal)),
            _set("open_tasks", open_tasks, contract.tasks_remaining),
            KindScore(
                kind="done_tasks",
                expected=len(facts.done),
                found=sum(one_line(text) in redo for text in facts.done),
            ),
            _set("files", list(paths), tuple(carried)),
            _set("constraints", list(constraints_of(facts)), contract.constraints),
            _set("decisions", list(facts.decisions), contract.decisions),
            KindScore(
                kind="failed_attempts",
                expected=len(facts.failures),
                found=sum((f.what, f.why) in failed for f in facts.failures.values()),
            ),
            KindScore(
                kind="next_action",
                expected=int(bool(expected_next)),
                found=int(bool(expected_next) and contract.next_action == expected_next),
            ),
        )
    )


def _set(kind: str, expected: list[str], carried: tuple[str, ...]) -> KindScore:
    wanted, there = set(expected), set(carried)
    return KindScore(kind=kind, expected=len(wanted), found=len(wanted & there), surplus=len(there - wanted))
