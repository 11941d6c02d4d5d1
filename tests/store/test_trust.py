from __future__ import annotations

import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.errors import NewerFormatError, NotAllowedError, NotTrustedError, RelayError, StoreError, UserError
from relay.store.config_file import load_effective
from relay.store.trust import KEPT_PER_ROOT, TrustStore, in_force, require
from tests.fakes.fileops import FailingOps

AT = datetime(2025, 6, 1, 12, tzinfo=UTC)
HASH = "ab" * 32
OTHER = "cd" * 32


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "trust.json")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".relay").mkdir(parents=True)
    return tmp_path / "repo"


def say(repo: Path, text: str) -> None:
    (repo / ".relay" / "relay.toml").write_text(text, encoding="utf-8")


def check(repo: Path, store: TrustStore) -> None:
    require(load_effective(repo, repo / "none"), repo, store)


def trust(repo: Path, store: TrustStore) -> None:
    loaded = load_effective(repo, repo / "none").loaded_repo
    assert loaded is not None
    store.record(repo, loaded.sha256, "me", AT)


def test_trust_holds_for_one_content_in_one_place(store: TrustStore, tmp_path: Path) -> None:
    assert not store.is_trusted(tmp_path, HASH)
    store.record(tmp_path, HASH, "me", AT)
    assert store.is_trusted(tmp_path, HASH)
    assert not store.is_trusted(tmp_path, OTHER)
    assert not store.is_trusted(tmp_path / "other", HASH)
    (entry,) = store.entries()
    assert (entry.by, entry.at) == ("me", "2025-06-01T12:00:00+00:00")


def test_a_place_is_the_same_by_whatever_link_it_is_reached(
    store: TrustStore, repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(repo)
    store.record(tmp_path / "link", HASH, "me", AT)
    assert store.is_trusted(repo, HASH)
    (tmp_path / "link").unlink()
    (tmp_path / "link").mkdir()
    assert not store.is_trusted(tmp_path / "link", HASH)


def test_going_back_to_a_trusted_content_asks_nothing(store: TrustStore, repo: Path) -> None:
    store.record(repo, HASH, "me", AT)
    store.record(repo, OTHER, "me", AT)
    store.record(repo, HASH, "me", AT)
    assert store.is_trusted(repo, HASH)
    assert store.is_trusted(repo, OTHER)
    assert len(store.entries()) == 2


def test_only_the_newest_contents_of_a_place_are_kept(store: TrustStore, repo: Path, tmp_path: Path) -> None:
    store.record(tmp_path, HASH, "me", AT)
    hashes = [f"{number:064x}" for number in range(KEPT_PER_ROOT + 2)]
    for sha256 in hashes:
        store.record(repo, sha256, "me", AT)
    assert [sha256 for sha256 in hashes if store.is_trusted(repo, sha256)] == hashes[2:]
    assert store.is_trusted(tmp_path, HASH)


def test_trust_can_be_taken_back(store: TrustStore, repo: Path, tmp_path: Path) -> None:
    for sha256 in (HASH, OTHER):
        store.record(repo, sha256, "me", AT)
    store.record(tmp_path, HASH, "me", AT)
    assert store.forget(repo) == 2
    assert store.forget(repo) == 0
    assert not store.is_trusted(repo, HASH)
    assert store.is_trusted(tmp_path, HASH)


def test_the_file_is_the_users_alone(store: TrustStore, repo: Path) -> None:
    store.record(repo, HASH, "me", AT)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_there_is_nothing_to_trust_without_a_file(store: TrustStore, repo: Path) -> None:
    with pytest.raises(UserError, match=r"no relay\.toml that could be trusted"):
        trust(repo, store)


DAMAGED: dict[str, tuple[bytes, type[RelayError]]] = {
    "cut": (b'{"version": 1, "trus', StoreError),
    "zeros": (b"\0" * 50, StoreError),
    "empty": (b"", StoreError),
    "no list": (b'{"version": 1, "trusted": {}}', StoreError),
    "none at all": (b'{"version": 1}', StoreError),
    "an entry that is none": (b'{"version": 1, "trusted": [{"root": "/x"}]}', StoreError),
    "a hash that is none": (
        b'{"version": 1, "trusted": [{"root": "/x", "sha256": "*", "by": "", "at": ""}]}',
        StoreError,
    ),
    "of a newer version": (b'{"version": 2, "trusted": []}', NewerFormatError),
}


@pytest.mark.parametrize(("data", "error"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_trusts_nothing_and_is_left_alone(
    store: TrustStore, repo: Path, data: bytes, error: type[RelayError]
) -> None:
    store.path.write_bytes(data)
    store.path.chmod(0o600)
    for act in (
        lambda: store.is_trusted(repo, HASH),
        lambda: store.record(repo, HASH, "me", AT),
        lambda: store.forget(repo),
    ):
        with pytest.raises(error) as caught:
            act()
        assert str(store.path) in caught.value.message
        assert caught.value.hint
    assert store.path.read_bytes() == data


def test_a_file_that_others_could_have_changed_trusts_nothing(store: TrustStore, repo: Path) -> None:
    store.record(repo, HASH, "me", AT)
    store.path.chmod(0o620)
    with pytest.raises(NotAllowedError, match="can be changed by others"):
        store.is_trusted(repo, HASH)


def test_a_link_in_the_files_place_is_refused(store: TrustStore, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.json").write_text('{"version": 1, "trusted": []}')
    store.path.symlink_to(tmp_path / "theirs.json")
    with pytest.raises(StoreError, match="symbolic link"):
        store.is_trusted(repo, HASH)
    with pytest.raises(StoreError, match="symbolic link"):
        store.record(repo, HASH, "me", AT)


def test_whatever_fails_while_it_is_written_the_old_trusts_stand(
    store: TrustStore, repo: Path, tmp_path: Path
) -> None:
    store.record(repo, HASH, "me", AT)
    before = store.path.read_bytes()
    steps = FailingOps()
    TrustStore(store.path, ops=steps).record(tmp_path, OTHER, "me", AT)
    store.path.write_bytes(before)
    for number in range(len(steps.calls)):
        failing = TrustStore(store.path, ops=FailingOps(number))
        with suppress(StoreError):
            failing.record(tmp_path, OTHER, "me", AT)
        assert store.is_trusted(repo, HASH)
        store.path.write_bytes(before)


class TestRequire:
    def test_a_file_that_runs_nothing_passes(self, store: TrustStore, repo: Path) -> None:
        say(repo, "[relay]\nmax_handoffs = 2\n")
        check(repo, store)

    def test_no_file_passes(self, store: TrustStore, repo: Path) -> None:
        check(repo, store)

    def test_a_file_that_names_a_command_is_refused_until_it_is_trusted(
        self, store: TrustStore, repo: Path
    ) -> None:
        say(repo, '[verify]\ncommands = ["make test", "./x"]\n')
        with pytest.raises(NotTrustedError) as caught:
            check(repo, store)
        assert "is not trusted" in caught.value.message
        assert '  [verify] commands = "make test"\n  [verify] commands = "./x"' in caught.value.message
        assert "relay trust" in caught.value.hint
        trust(repo, store)
        check(repo, store)

    def test_a_changed_file_is_refused_anew(self, store: TrustStore, repo: Path) -> None:
        say(repo, '[verify]\ncommands = ["make test"]\n')
        trust(repo, store)
        say(repo, '[verify]\ncommands = ["make test"]\n# \n')
        with pytest.raises(NotTrustedError, match="has changed since you trusted it"):
            check(repo, store)

    def test_a_copy_in_another_place_is_refused(self, store: TrustStore, repo: Path, tmp_path: Path) -> None:
        say(repo, '[verify]\ncommands = ["make test"]\n')
        trust(repo, store)
        repo.rename(tmp_path / "moved")
        with pytest.raises(NotTrustedError, match="is not trusted"):
            check(tmp_path / "moved", store)

    def test_where_nobody_can_be_asked_an_untrusted_file_has_no_effect_at_all(
        self, store: TrustStore, repo: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "relay.toml").write_text("[relay]\nmax_handoffs = 3\n")
        say(repo, '[relay]\nmax_handoffs = 5\n[approvals]\ncommands = ["*"]\n')
        effective = load_effective(repo, tmp_path)
        config = in_force(effective, repo, store)
        assert (config.relay.max_handoffs, config.approvals.commands) == (3, ())
        trust(repo, store)
        config = in_force(effective, repo, store)
        assert (config.relay.max_handoffs, config.approvals.commands) == (5, ("*",))
