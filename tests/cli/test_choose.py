from __future__ import annotations

import pytest

from relay.cli.choose import pick
from relay.errors import ConflictError, NotFoundError
from tests.fakes.api_server import session

RUNNING = session("s-abc123")
WAITING = session("s-abd456", "WAITING", taskGoal="write\x1b[31m docs")
DONE = session("s-zzz789", "COMPLETED")


@pytest.mark.parametrize(
    ("text", "want"),
    [("s-abc123", RUNNING), ("s-abc", RUNNING), ("abd", WAITING), ("s-z", DONE), ("zzz789", DONE)],
)
def test_an_id_or_its_beginning(text: str, want: object) -> None:
    assert pick([DONE, WAITING, RUNNING], text) == want


def test_nothing_named_means_the_only_one_under_way() -> None:
    assert pick([DONE, WAITING], "") == WAITING


def test_nothing_named_and_none_under_way_means_the_newest_where_one_that_ended_fits() -> None:
    older = session("s-older1", "FAILED")

    assert pick([DONE, older], "", ended=True) == DONE
    with pytest.raises(NotFoundError, match="no session is under way"):
        pick([DONE, older], "")


@pytest.mark.parametrize("text", ["", "s-ab", "ab"])
def test_several_are_named_in_the_error(text: str) -> None:
    with pytest.raises(ConflictError) as caught:
        pick([WAITING, RUNNING], text)

    assert caught.value.message.split("\n")[1:] == [
        "  s-abd456  write docs",
        "  s-abc123  mend the tests",
    ]


def test_an_unknown_one() -> None:
    with pytest.raises(NotFoundError, match="'nope'"):
        pick([RUNNING], "nope")


def test_a_whole_id_wins_over_longer_ones_that_begin_with_it() -> None:
    longer = session("s-abc1234")

    assert pick([longer, RUNNING], "s-abc123") == RUNNING
