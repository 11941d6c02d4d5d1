from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from relay.errors import ConfigError, StoreError, UserError
from relay.store.places import RepoPlaces, StatePlaces, any_id, name, private_folder, session_id

SID = "s-4k2m9x7q"
HOSTILE = [
    "", "s-", "s-12345", "s-" + "x" * 41, "S-abcdefgh", "t-abcdefgh", "s-../../x", "s-abc/def", "s-abcdefg\n",
    "s-abcdef\0", "..", "/etc/passwd", "s-äöüäöü", "--output=x", " s-abcdefgh", "s-abc_defg", "s-٣٣٣٣٣٣٣",
]  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> RepoPlaces:
    (tmp_path / "repo").mkdir()
    return RepoPlaces(root=tmp_path / "repo")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_session_id_names_no_path(repo: RepoPlaces, text: str) -> None:
    for place in (repo.session, repo.fsm, repo.envelope_md, repo.envelope_json, repo.worktree, session_id):
        with pytest.raises(UserError, match="is no session id"):
            place(text)
    with pytest.raises(UserError):
        repo.run(text, 1)


def test_ids_and_names_of_other_kinds(repo: RepoPlaces) -> None:
    assert session_id(SID) == SID
    assert any_id("t-abc123") == "t-abc123"
    assert name("claude") == "claude"
    for text in ("..", ".", "", "a/b", "-x", "a\n", "x" * 65):
        with pytest.raises(UserError):
            name(text)
        with pytest.raises(UserError):
            any_id(text)
    for number in (0, -1, True, "1", 1.0):
        with pytest.raises(UserError, match="run number"):
            repo.run(SID, number)  # type: ignore[arg-type]


def test_where_things_lie_in_a_repository(repo: RepoPlaces) -> None:
    places = [repo.config, repo.pipelines, repo.graph, repo.audit, repo.fsm(SID), repo.envelope_md(SID),
              repo.envelope_json(SID), repo.run(SID, 2), repo.worktree(SID), repo.adopted]  # fmt: skip
    assert [str(path.relative_to(repo.root)) for path in places] == [
        ".relay/relay.toml",
        ".relay/pipelines.json",
        ".relay/graph.db",
        ".relay/audit.jsonl",
        f".relay/sessions/{SID}/fsm.json",
        f".relay/sessions/{SID}/envelope.md",
        f".relay/sessions/{SID}/envelope.json",
        f".relay/sessions/{SID}/run-2",
        f".relay/worktrees/{SID}",
        ".relay/adopted",
    ]


def test_a_repository_gets_private_folders(repo: RepoPlaces) -> None:
    old = os.umask(0)
    try:
        repo.ensure_session(SID)
    finally:
        os.umask(old)
    for folder in (repo.folder, repo.sessions, repo.worktrees, repo.session(SID)):
        assert mode(folder) == 0o700
    assert repo.session_ids() == (SID,)
    repo.ensure_session(SID)


def test_a_folder_that_a_clone_brought_is_made_private(repo: RepoPlaces) -> None:
    repo.folder.mkdir(mode=0o755)
    repo.config.write_text("[relay]\n")
    repo.ensure()
    assert mode(repo.folder) == 0o700
    assert repo.config.read_text() == "[relay]\n"


@pytest.mark.parametrize("present", [None, "", "!secrets\n", "*\n!mine.md\n"])
def test_git_sees_only_what_may_be_shared(repo: RepoPlaces, present: str | None) -> None:
    git = ("git", "-C", str(repo.root), "-c", "core.excludesFile=/dev/null")
    subprocess.run([*git, "init", "-q"], check=True)
    if present is not None:
        private_folder(repo.folder)
        repo.gitignore.write_text(present)
    repo.ensure()
    repo.ensure()
    for path in (repo.config, repo.pipelines, repo.audit, repo.graph, repo.folder / "mine.md"):
        path.write_text("x")
    (repo.ensure_session(SID) / "fsm.json").write_text("x")
    status = [*git, "status", "--porcelain", "-uall"]
    seen = subprocess.run(status, check=True, capture_output=True, text=True).stdout
    want = (
        {"?? .relay/relay.toml", "?? .relay/pipelines.json"}
        if present != "*\n!mine.md\n"
        else {"?? .relay/mine.md"}
    )
    assert set(seen.strip().split("\n")) == want


@pytest.mark.parametrize("part", [".relay", ".relay/sessions", ".relay/worktrees", f".relay/sessions/{SID}"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_a_planted_link_or_file_is_refused(repo: RepoPlaces, part: str, kind: str) -> None:
    outside = repo.root.parent / "outside"
    if kind != "dangling link":
        outside.mkdir(mode=0o755)
    path = repo.root / part
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        path.write_text("x")
    else:
        path.symlink_to(outside)
    with pytest.raises(StoreError, match="symbolic link" if "link" in kind else "not a folder") as caught:
        repo.ensure_session(SID)
    assert str(path) in caught.value.message
    assert caught.value.hint
    if kind == "link":
        assert list(outside.iterdir()) == []
        assert mode(outside) == 0o755


def test_a_planted_gitignore_link_is_not_followed(repo: RepoPlaces) -> None:
    private_folder(repo.folder)
    outside = repo.root.parent / "outside"
    outside.write_text("precious")
    repo.gitignore.symlink_to(outside)
    with pytest.raises(StoreError, match="does not follow"):
        repo.ensure()
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    ("link", "path"),
    [
        (".relay", ".relay/audit.jsonl"),
        (".relay/audit.jsonl", ".relay/audit.jsonl"),
        (".relay/sessions", f".relay/sessions/{SID}/fsm.json"),
        (f".relay/sessions/{SID}", f".relay/sessions/{SID}/fsm.json"),
        (f".relay/sessions/{SID}/fsm.json", f".relay/sessions/{SID}/fsm.json"),
    ],
)
def test_a_path_through_a_link_is_refused(repo: RepoPlaces, link: str, path: str) -> None:
    (repo.root / link).parent.mkdir(parents=True, exist_ok=True)
    (repo.root / link).symlink_to(repo.root.parent)
    with pytest.raises(StoreError, match=f"{link} is a symbolic link"):
        repo.check(repo.root / path)


def test_a_path_that_is_in_order_is_given_back(repo: RepoPlaces) -> None:
    assert repo.check(repo.fsm(SID)) == repo.fsm(SID)
    repo.ensure_session(SID)
    repo.fsm(SID).write_text("{}")
    assert repo.check(repo.fsm(SID)) == repo.fsm(SID)
    assert repo.check(repo.folder) == repo.folder


def test_a_path_out_of_the_folder_or_through_a_file_is_refused(repo: RepoPlaces) -> None:
    repo.ensure()
    repo.audit.write_text("x")
    for path in (repo.root / "x", repo.folder / ".." / "x", repo.sessions / ".." / ".." / "x"):
        with pytest.raises(UserError):
            repo.check(path)
    with pytest.raises(StoreError, match="not a folder"):
        repo.check(repo.audit / "x")


def test_only_folders_that_sessions_could_have_are_listed(repo: RepoPlaces) -> None:
    assert repo.session_ids() == ()
    repo.ensure_session(SID)
    repo.ensure_session("s-abcdefgh")
    (repo.sessions / "s-notafolder").write_text("x")
    (repo.sessions / "s-linklink").symlink_to(repo.root)
    (repo.sessions / ".DS_Store").mkdir()
    assert repo.session_ids() == (SID, "s-abcdefgh")


def test_the_state_folder_is_where_the_variable_says(tmp_path: Path) -> None:
    state = StatePlaces.locate({"RELAY_STATE_DIR": str(tmp_path / "a" / "state")}).ensure()
    assert state.root == tmp_path / "a" / "state"
    for folder in (state.root, state.log, state.fifos, state.anchors, state.accounts):
        assert mode(folder) == 0o700
    assert state.signing_key == state.root / "signing.key"
    state.ensure()


def test_a_relative_state_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match="relative path"):
        StatePlaces.locate({"RELAY_STATE_DIR": "state"})


def test_without_the_variable_it_is_the_platforms_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = StatePlaces.locate({}).root
    assert root.name == "relay"
    assert root.is_relative_to(tmp_path)


def test_the_state_folder_may_lie_behind_a_link_but_not_be_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    state = StatePlaces.locate({"RELAY_STATE_DIR": str(tmp_path / "home" / "relay")}).ensure()
    assert state.root == tmp_path / "disk" / "relay"
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with pytest.raises(StoreError, match="symbolic link"):
        StatePlaces.locate({"RELAY_STATE_DIR": str(tmp_path / "link")}).ensure()


def test_a_repository_has_one_anchor_by_whatever_path_it_is_named(tmp_path: Path) -> None:
    state = StatePlaces(root=tmp_path / "state")
    (tmp_path / "repo").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    assert state.anchor(tmp_path / "link") == state.anchor(tmp_path / "repo")
    assert RepoPlaces(root=tmp_path / "link").audit == RepoPlaces(root=tmp_path / "repo").audit
    assert state.anchor(tmp_path / "repo") != state.anchor(tmp_path / "other")
    assert state.anchor(tmp_path / "repo").parent == state.anchors


def test_an_account_folder_stays_in_its_place(tmp_path: Path) -> None:
    state = StatePlaces(root=tmp_path)
    assert state.account("claude", "work@home".replace("@", "-")) == tmp_path / "accounts/claude/work-home"
    for provider, label in (("..", "x"), ("claude", "../../x"), ("claude", "")):
        with pytest.raises(UserError, match="is no name"):
            state.account(provider, label)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(repo: RepoPlaces) -> None:
    repo.folder.mkdir()
    os.chown(repo.folder, 12345, 12345)
    with pytest.raises(StoreError, match="belongs to another user"):
        repo.ensure()
