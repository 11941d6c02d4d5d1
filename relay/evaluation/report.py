"""What an evaluation says in sum: by kind, by store, and as JSON. Called by `relay eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from relay.core.fidelity import WEIGHTS, KindScore
from relay.evaluation.run import FidelityResult, RoutingResult, mean


@frozen(kw_only=True)
class Report:
    """The results of a suite.

    Args:
        floor: the least that both scores have to be, 0 to 1.
    """

    routing: tuple[RoutingResult, ...]
    fidelity: tuple[FidelityResult, ...]
    floor: float

    @property
    def accuracy(self) -> float:
        """Share of the tasks of which the right thing was said."""
        return mean(0.0 if result.wrong else 1.0 for result in self.routing)

    @property
    def score(self) -> float:
        """The handoff fidelity score, over all cases."""
        return mean(result.score for result in self.fidelity)

    @property
    def passed(self) -> bool:
        """Neither score is below the floor."""
        return min(self.accuracy, self.score) >= self.floor

    @property
    def kinds(self) -> tuple[KindScore, ...]:
        """Recall and precision of each kind, over the facts of all cases."""
        totals = {kind: [0, 0, 0] for kind in WEIGHTS}
        for result in self.fidelity:
            for kind in result.fidelity.kinds if result.fidelity else ():
                total = totals[kind.kind]
                total[0] += kind.expected
                total[1] += kind.found
                total[2] += kind.surplus
        return tuple(
            KindScore(kind=kind, expected=expected, found=found, surplus=surplus)
            for kind, (expected, found, surplus) in totals.items()
        )

    @property
    def stores(self) -> tuple[tuple[str, int, float], ...]:
        """Of each store: its name, how many cases, and their score."""
        names = dict.fromkeys(result.case.store for result in self.fidelity)
        scores = {name: [r.score for r in self.fidelity if r.case.store == name] for name in names}
        return tuple((name, len(all_scores), mean(all_scores)) for name, all_scores in scores.items())

    @property
    def view(self) -> dict[str, Any]:
        """As JSON; `version` changes when a key changes its meaning."""
        return {
            "version": 1,
            "passed": self.passed,
            "floor": self.floor,
            "routingAccuracy": self.accuracy,
            "hfsScore": self.score,
            "kinds": [
                {
                    "kind": kind.kind,
                    "expected": kind.expected,
                    "found": kind.found,
                    "surplus": kind.surplus,
                    "recall": round(kind.recall, 4),
                    "precision": round(kind.precision, 4),
                }
                for kind in self.kinds
            ],
            "stores": [
                {"store": name, "cases": count, "hfsScore": score} for name, count, score in self.stores
            ],
            "routing": [
                {
                    "name": result.case.name,
                    "task": result.case.task,
                    "ok": not result.wrong,
                    "kind": result.kind,
                    "expectedKind": result.case.kind,
                    "profile": result.profile,
                    "expectedProfile": result.case.profile,
                }
                for result in self.routing
            ],
            "fidelity": [
                {
                    "name": result.case.name,
                    "store": result.case.store,
                    "hfsScore": result.score,
                    "missing": _texts(result.missing),
                    "surplus": _texts(result.surplus),
                    "notInBrief": _texts(result.not_in_brief),
                    "untold": _texts(result.untold),
                    "error": result.error,
                }
                for result in self.fidelity
            ],
        }


def _texts(found: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"kind": kind, "text": text} for kind, text in found]
