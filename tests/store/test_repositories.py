"""The repositories that a restart looks for sessions in."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from relay.store.places import StatePlaces
from relay.store.repositories import gone_hint, known_repositories, remember_repository


def test_of_sessions_that_begin_side_by_side_no_repository_is_forgotten(tmp_path: Path) -> None:
    places = StatePlaces(root=tmp_path / "state").ensure()
    roots = [tmp_path / f"project-{number}" for number in range(8)]
    together = threading.Barrier(len(roots))

    def begin(root: Path) -> None:
        root.mkdir()
        together.wait()
        remember_repository(places, str(root))

    threads = [threading.Thread(target=begin, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(repo.root for repo in known_repositories(places)) == roots


def test_a_repository_is_remembered_once(tmp_path: Path) -> None:
    places = StatePlaces(root=tmp_path / "state").ensure()

    for _ in range(2):
        remember_repository(places, str(tmp_path))

    assert [repo.root for repo in known_repositories(places)] == [tmp_path]


def test_a_repository_that_cannot_be_looked_at_does_not_hide_the_others(tmp_path: Path) -> None:
    places = StatePlaces(root=tmp_path / "state").ensure()
    unreachable = str(tmp_path / ("x" * 300))
    for root in (unreachable, str(tmp_path)):
        remember_repository(places, root)

    assert [repo.root for repo in known_repositories(places)] == [tmp_path]
    assert unreachable in gone_hint(places)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_repository_behind_a_closed_folder_does_not_hide_the_others(tmp_path: Path) -> None:
    places = StatePlaces(root=tmp_path / "state").ensure()
    closed = tmp_path / "closed"
    (closed / "project").mkdir(parents=True)
    for root in (closed / "project", tmp_path):
        remember_repository(places, str(root))
    closed.chmod(0)

    try:
        assert [repo.root for repo in known_repositories(places)] == [tmp_path]
    finally:
        closed.chmod(0o700)
