"""What is cleared away and what never is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from relay.core.gc import GcPolicy, Kind, Piece, WorktreeFacts, plan, snapshots_kept, worktree_kept

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def piece(days_ago: float, kind: Kind = Kind.OUTPUT, **more: object) -> Piece:
    values = {"kind": kind, "path": "/x", "since": NOW - timedelta(days=days_ago), "repository": "/r", **more}
    return Piece(**values)  # type: ignore[arg-type]


def going(pieces: list[Piece], **policy: float) -> list[bool]:
    return [decision.remove for decision in plan(pieces, GcPolicy(**policy), NOW)]  # type: ignore[arg-type]


def test_what_is_old_goes_and_what_is_young_stays() -> None:
    assert going([piece(20), piece(13.9), piece(14.1, Kind.WORKTREE)]) == [True, False, True]


def test_what_speaks_for_it_keeps_it_at_any_age() -> None:
    [decision] = plan([piece(9999, Kind.WORKTREE, keep="not merged")], GcPolicy(), NOW)
    assert (decision.remove, decision.why) == (False, "not merged")


def test_above_the_bound_the_oldest_output_goes_first_and_only_so_much() -> None:
    pieces = [piece(1, bytes=40), piece(3, bytes=40), piece(2, bytes=40), piece(1, Kind.WORKTREE, bytes=999)]
    assert going(pieces, output_max_bytes=80) == [False, True, False, False]


def test_each_repository_has_a_bound_of_its_own() -> None:
    pieces = [piece(1, bytes=60), piece(2, bytes=60, repository="/other")]
    assert going(pieces, output_max_bytes=80) == [False, False]


PIECES = st.builds(
    Piece,
    kind=st.sampled_from(Kind),
    path=st.just("/x"),
    since=st.integers(0, 100).map(lambda days: NOW - timedelta(days=days)),
    repository=st.sampled_from(("/a", "/b")),
    bytes=st.integers(0, 1000),
    keep=st.sampled_from(("", "", "it is under way")),
)


@given(pieces=st.lists(PIECES, max_size=30), days=st.integers(0, 100), bound=st.integers(0, 2000))
def test_the_rules_hold_for_any_pieces(pieces: list[Piece], days: int, bound: int) -> None:
    decisions = plan(pieces, GcPolicy(keep_days=days, output_max_bytes=bound), NOW)

    assert [decision.piece for decision in decisions] == pieces
    for decision in decisions:
        young = decision.piece.since > NOW - timedelta(days=days)
        if decision.piece.keep:
            assert not decision.remove
        elif not young:
            assert decision.remove
        elif decision.piece.kind is not Kind.OUTPUT:
            assert not decision.remove
    for repository in ("/a", "/b"):
        left = [
            d.piece.bytes
            for d in decisions
            if not d.remove
            and not d.piece.keep
            and d.piece.kind is Kind.OUTPUT
            and d.piece.repository == repository
        ]
        assert sum(left) <= bound


WORDS = st.sampled_from(("", "x.txt"))
FACTS = st.builds(
    WorktreeFacts,
    over=st.booleans(),
    dirty=WORDS,
    hidden=WORDS,
    inside=WORDS,
    busy=WORDS,
    locked=st.booleans(),
    lock_reason=WORDS,
    merged=st.booleans(),
    ignored=WORDS,
)


@given(facts=FACTS, days=st.integers(0, 100), age=st.integers(0, 1000))
def test_nothing_live_unmerged_or_changed_is_ever_chosen(facts: WorktreeFacts, days: int, age: int) -> None:
    keep, hint = worktree_kept(facts, "s-1", "/tree")
    [decision] = plan([piece(age, Kind.WORKTREE, keep=keep, hint=hint)], GcPolicy(keep_days=days), NOW)

    assert bool(keep) == bool(hint)
    if decision.remove:
        assert facts.over
        assert facts.merged
        assert not facts.locked
        assert (facts.dirty, facts.hidden, facts.inside, facts.busy) == ("", "", "", "")
        assert age >= days


@given(lonely=st.lists(st.sampled_from(("1", "2", "base", "carried", "branch", "discarded")), unique=True))
def test_refs_go_only_when_none_is_the_only_one_to_its_work(lonely: list[str]) -> None:
    keep, hint = snapshots_kept("s-1", lonely)
    assert (keep == "", hint == "") == (not lonely, not lonely)


def test_what_goes_along_with_a_worktree_is_said() -> None:
    [decision] = plan([piece(20, Kind.WORKTREE, also="ignored files: .env")], GcPolicy(), NOW)
    assert decision.why == "over since 2026-05-12; with it go ignored files: .env"
