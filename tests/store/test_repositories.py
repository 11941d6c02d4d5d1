"""The repositories that a restart looks for sessions in."""

from __future__ import annotations

import threading
from pathlib import Path

from relay.store.places import StatePlaces
from relay.store.repositories import known_repositories, remember_repository


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
