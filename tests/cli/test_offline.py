"""The commands that need no daemon: init, trust, audit, contract verify."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.core.brief import render
from relay.core.contract import Circumstances, build, sign
from relay.core.facts import SessionFacts
from relay.store import contracts
from relay.store.audit import AuditLog
from relay.store.keys import load_or_make_signing_key
from relay.store.places import RepoPlaces, StatePlaces

NOW = datetime(2026, 6, 3, 12, 0, 0, tzinfo=UTC)
SID = "s-aaaaaa"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "app"
    (root / "deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root / "deep")
    return root


def test_init_writes_once_and_says_what_is_next(relay, repository: Path) -> None:
    first, again = relay("init"), relay("init")

    assert "wrote .relay/relay.toml\n" in first.out
    assert "relay run" in first.out
    assert again.out.startswith("everything is there already\n")
    assert (repository / ".relay" / "relay.toml").exists()


def test_init_outside_of_a_repository(relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    ran = relay("init")

    assert ran.code == 2
    assert "git init" in ran.err


def commands(repository: Path) -> None:
    (repository / ".relay").mkdir(mode=0o700, exist_ok=True)
    (repository / ".relay" / "relay.toml").write_text('[verify]\ncommands = ["make test"]\n')


def test_trust_shows_what_would_run_and_needs_a_yes(relay, repository: Path) -> None:
    commands(repository)

    refused, trusted, again = relay("trust"), relay("trust", "--yes"), relay("trust")

    assert refused.code == 4
    assert '[verify] commands = "make test"' in refused.out
    assert trusted.code == 0
    assert "is trusted already" in again.out
    (repository / ".relay" / "relay.toml").write_text('[verify]\ncommands = ["make evil"]\n')
    assert relay("trust").code == 4


def test_trust_can_be_taken_back(relay, repository: Path) -> None:
    commands(repository)
    relay("trust", "--yes")

    assert relay("trust", "--forget").out == "forgot 1\n"
    assert relay("trust").code == 4


@pytest.mark.parametrize("content", [None, "[relay]\nmax_handoffs = 3\n"])
def test_what_runs_nothing_needs_no_trust(content: str | None, relay, repository: Path) -> None:
    if content is not None:
        commands(repository)
        (repository / ".relay" / "relay.toml").write_text(content)

    ran = relay("trust")

    assert ran.code == 0
    assert "nothing" in ran.out


def test_a_broken_configuration_is_told_with_its_place(relay, repository: Path) -> None:
    commands(repository)
    (repository / ".relay" / "relay.toml").write_text("[relay]\nmax_handoff = 3\n")

    ran = relay("trust")

    assert ran.code == 2
    assert "relay.toml:2" in ran.err
    assert "max_handoffs" in ran.err


@pytest.fixture
def log(repository: Path, state: Path) -> Path:
    places = StatePlaces(root=state.resolve()).ensure()
    key = load_or_make_signing_key(places.signing_key)
    repo = RepoPlaces(root=repository).ensure()
    with AuditLog.open(repo.audit, places.anchor(repo.root), key=key, now=NOW) as audit:
        entries = [("fsm", {"seq": n, "session": SID, "to": f"state {n}"}) for n in range(1, 6)]
        audit.append(entries, ts=NOW, sync=True)
        audit.seal_anchor()
    return repo.audit


def test_audit_verify_of_a_sound_log(relay, log: Path) -> None:
    assert relay("audit", "verify").out.startswith("ok: 6 entries, head ")
    assert relay("audit", "verify", "--path", str(log)).code == 0
    assert relay("audit", "verify", "--path", str(log.parent.parent)).code == 0
    assert json.loads(relay("audit", "verify", "--json").out)["ok"] is True


def test_audit_verify_names_the_first_bad_line(relay, log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b"state 3", b"state X"))

    ran = relay("audit", "verify")

    assert ran.code == 1
    assert "line 4" in ran.err
    found = relay("audit", "verify", "--json")
    assert (found.code, json.loads(found.out)["firstBadLine"]) == (1, 4)


def test_audit_verify_finds_a_cut_end(relay, log: Path) -> None:
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join(lines[:-3]) + b"\n")

    ran = relay("audit", "verify")

    assert ran.code == 1
    assert "cut off" in ran.err


def test_a_copy_without_its_anchor_is_verified_and_said_to_be_one(relay, log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(log.read_bytes())

    ran = relay("audit", "verify", "--path", str(copy))

    assert ran.code == 0
    assert "note: no anchor" in ran.out


def test_audit_show(relay, log: Path) -> None:
    lines = relay("audit", "show", "-n", "2").out.strip().split("\n")

    assert len(lines) == 3
    assert '{"to": "state 5"}' in lines[-1]
    shown = [json.loads(line) for line in relay("audit", "show", "-n", "2", "--json").out.strip().split("\n")]
    assert [entry["data"]["to"] for entry in shown] == ["state 4", "state 5"]
    assert relay("audit", "show", "--session", "s-bbbbbb").out == "no entries\n"


def test_no_log_yet(relay, repository: Path) -> None:
    assert relay("audit", "show").code == 5
    assert relay("audit", "verify").code == 0
    assert relay("audit", "verify", "--path", "nowhere.jsonl").code == 5


@pytest.mark.parametrize("name", ["envelope.json", "envelope.md", ""])
def test_a_contract_that_is_missing_or_not_ours(name: str, relay, state: Path, tmp_path: Path) -> None:
    places = StatePlaces(root=state.resolve()).ensure()
    load_or_make_signing_key(places.signing_key)
    folder = tmp_path / SID
    folder.mkdir()
    if name:
        (folder / name).write_text("{}")

    ran = relay("contract", "verify", str(folder / name if name else folder))

    assert ran.code == (1 if name else 5)
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("folder", [SID, "copied"])
def test_a_contract_is_verified_wherever_it_lies(folder: str, relay, state: Path, tmp_path: Path) -> None:
    places = StatePlaces(root=state.resolve()).ensure()
    key = load_or_make_signing_key(places.signing_key)
    here = Circumstances(
        contract_id="c-0123456789ab",
        session_id=SID,
        task_id="t-1",
        created=NOW,
        from_target="one",
        reason="usage limit",
        snapshot_commit="a" * 40,
    )
    contract = build(SessionFacts.for_goal("mend the tests", worktree="/w"), here)
    markdown = render(contract)
    (tmp_path / folder).mkdir()
    contracts.write(tmp_path / folder, sign(contract, markdown.encode(), key), markdown)
    envelope = tmp_path / folder / "envelope.md"

    good = relay("contract", "verify", str(tmp_path / folder / "envelope.json"))
    envelope.write_text(markdown.replace("mend", "break"))
    bad = relay("contract", "verify", str(envelope))

    assert (good.code, good.out.split("\n")[0]) == (0, "the signature is right")
    assert bad.code == 1
    assert "envelope" in bad.err


def test_a_file_that_is_no_contract(relay, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")

    refused = relay("contract", "verify", str(tmp_path / "notes.txt"))

    assert refused.code == 2
    assert "notes.txt is no contract" in refused.err
    assert ".relay/adopted" in refused.err
