"""Edits that leave the worktree through a link are told from those that stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.effects.do_work import leading_out


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    root = tmp_path / "worktree"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "elsewhere").mkdir()
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "file").symlink_to(tmp_path / "elsewhere" / "secret")
    (root / "own").symlink_to(root / "src")
    (root / "hooks").symlink_to(root / ".git")
    return root


@pytest.mark.parametrize("path", ["src/a.py", "src/new.py", "new/deep/file", "own/a.py"])
def test_what_stays_inside(worktree: Path, path: str) -> None:
    assert leading_out(str(worktree), (path, str(worktree / path))) == ()


@pytest.mark.parametrize("path", ["out/new", "file", "../x", "hooks/pre-commit", "out/../../x"])
def test_what_leads_out(worktree: Path, path: str) -> None:
    assert leading_out(str(worktree), ("src/a.py", path)) == (path,)


def test_a_worktree_that_is_reached_by_a_link_itself(worktree: Path) -> None:
    alias = worktree.parent / "alias"
    alias.symlink_to(worktree)

    assert leading_out(str(alias), ("src/a.py", str(alias / "src" / "a.py"))) == ()
