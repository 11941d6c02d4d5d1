"""A native session brought to another account or another working folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.effects import native_session
from relay.effects.native_session import _copy, _Copying, exchanger
from relay.providers.claude import Claude
from relay.providers.codex import Codex

SID = "0f9e1c00-0000-4000-8000-000000000000"


def line(**values: object) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"cwd": "/w/app"}, {"cwd": "/t/copy"}),
        ({"p": ["/w/app/src/a.py", {"q": "see /w/app."}]}, {"p": ["/t/copy/src/a.py", {"q": "see /w/app."}]}),
        ({"command": "cd /w/app && ls"}, {"command": "cd /t/copy && ls"}),
        ({"p": "/w/app2/a.py"}, {"p": "/w/app2/a.py"}),
        ({"p": "/w/app-old"}, {"p": "/w/app-old"}),
        ({"thinking": "in /w/app", "signature": "abc"}, {"thinking": "in /w/app", "signature": "abc"}),
        ({"n": 1, "p": None}, {"n": 1, "p": None}),
    ],
)
def test_a_folders_name_is_exchanged_where_it_is_a_path(before: dict, after: dict) -> None:  # type: ignore[type-arg]
    assert json.loads(exchanger("/w/app", "/t/copy")(line(**before))) == after


@pytest.mark.parametrize("text", [b"", b"\n", b"not json /w/app\n", b'{"cwd": "/w/app', b"\xff\xfe/w/app\n"])
def test_what_is_no_record_stays_as_it_is(text: bytes) -> None:
    assert exchanger("/w/app", "/t/copy")(text) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_nothing_but_the_folder_changes(value: object) -> None:
    record = line(value=value, cwd="/w/app")
    changed = json.loads(exchanger("/w/app", "/t/copy")(record))
    assert changed["cwd"] == "/t/copy"
    if "/w/app" not in json.dumps(value):
        assert changed["value"] == json.loads(record)["value"]


def claude_store(home: Path, cwd: str, text: bytes) -> None:
    slug = "".join(letter if letter.isalnum() else "-" for letter in cwd)
    project = home / "projects" / slug
    (project / SID / "subagents").mkdir(parents=True)
    (project / f"{SID}.jsonl").write_bytes(text)
    (project / SID / "subagents" / "agent-1.jsonl").write_bytes(line(cwd=cwd))
    (project / "other.jsonl").write_bytes(line(cwd=cwd))
    (home / ".credentials.json").write_text("secret")


def test_a_session_goes_on_in_another_folder_of_the_same_account(tmp_path: Path) -> None:
    home, before, after = tmp_path / "claude", "/w/app", "/w/app/.relay/worktrees/s-1"
    torn = line(cwd=before, file=f"{before}/a.py") + b'{"cwd": "/w/ap'
    claude_store(home, before, torn)
    files = Claude().resume_files(SID, before)
    assert files is not None

    count = _copy(Claude(), _Copying(old=home, new=home, files=files, before=before, after=after))

    copied = home / "projects" / "-w-app--relay-worktrees-s-1" / f"{SID}.jsonl"
    assert count == 2
    first, rest = copied.read_bytes().split(b"\n")
    assert json.loads(first) == {"cwd": after, "file": f"{after}/a.py"}
    assert rest == b'{"cwd": "/w/ap'
    assert (home / "projects" / "-w-app" / f"{SID}.jsonl").read_bytes() == torn
    assert copied.stat().st_mode & 0o077 == 0
    assert not list(home.rglob("*.relay-part"))


def test_keys_and_other_sessions_are_not_copied(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    claude_store(old, "/w/app", line(cwd="/w/app"))
    files = Claude().resume_files(SID, "/w/app")
    assert files is not None

    _copy(Claude(), _Copying(old=old, new=new, files=files, before="/w/app", after="/w/app"))

    names = {path.name for path in new.rglob("*") if path.is_file()}
    assert names == {f"{SID}.jsonl", "agent-1.jsonl"}


def test_codex_finds_a_thread_by_its_id_so_the_same_home_needs_no_copy(tmp_path: Path) -> None:
    home = tmp_path / "codex"
    rollout = home / "sessions/2026/12/02" / f"rollout-2026-12-02T05-00-00-{SID}.jsonl"
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes(line(cwd="/w/app"))
    files = Codex().resume_files(SID, "/w/app")
    assert files is not None

    count = _copy(Codex(), _Copying(old=home, new=home, files=files, before="/w/app", after="/t"))

    assert count == 1
    assert rollout.read_bytes() == line(cwd="/w/app")


def test_a_huge_transcript_is_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    claude_store(old, "/w/app", b"")
    path = old / "projects" / "-w-app" / f"{SID}.jsonl"
    with path.open("wb") as file:
        for number in range(2000):
            file.write(line(cwd="/w/app", n=number, text="x" * 5000))
    longest = 0
    inner = native_session.exchanger

    def watched(before: str, after: str):  # type: ignore[no-untyped-def]
        exchange = inner(before, after)

        def one(record: bytes) -> bytes:
            nonlocal longest
            longest = max(longest, len(record))
            return exchange(record)

        return one

    monkeypatch.setattr(native_session, "exchanger", watched)
    files = Claude().resume_files(SID, "/w/app")
    assert files is not None

    _copy(Claude(), _Copying(old=old, new=new, files=files, before="/w/app", after="/t"))

    assert longest < 6000
    copied = (new / "projects" / "-t" / f"{SID}.jsonl").read_bytes().split(b"\n")
    assert [json.loads(record)["n"] for record in copied if record] == list(range(2000))
