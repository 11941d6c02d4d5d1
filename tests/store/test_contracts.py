"""The pair of files: written whole, read only when both are what was signed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from relay.core.brief import contract_named, render
from relay.core.contract import MAX_BYTES, VERSION, Circumstances, Contract, build, document, dump, sign
from relay.errors import IntegrityError, NewerFormatError, NotFoundError, RelayError, StoreError
from relay.store.contracts import JSON, MARKDOWN, PairIncompleteError, load_verified, write
from tests.fakes.fileops import FailingOps, every_failure
from tests.fakes.work import START, Work

KEY = bytes(range(32))
SID = "s-4k2m9x"


def sealed(contract_id: str = "c-0123456789ab", **changes: Any) -> tuple[Contract, str]:
    here = Circumstances(
        contract_id=contract_id,
        session_id=SID,
        task_id="t-1",
        created=START,
        from_target="claude",
        reason="usage limit",
        snapshot_commit="a" * 40,
    )
    facts = Work().plan("x read", "  write").says("Caf\u00e9 first.").facts()
    contract = evolve(build(facts, here), **changes)
    markdown = render(contract)
    return sign(contract, markdown.encode(), KEY), markdown


OLD = sealed("c-old000000000")
NEW = sealed("c-new000000000")


def load(folder: Path) -> tuple[Contract, str]:
    return load_verified(folder, KEY, session_id=SID)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path, *NEW)
    assert load(tmp_path) == NEW
    assert load_verified(tmp_path, KEY, session_id=None) == NEW
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in (JSON, MARKDOWN)] == [0o600, 0o600]


def test_a_session_without_a_contract_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no contract"):
        load(tmp_path)


@pytest.mark.parametrize("missing", [JSON, MARKDOWN])
def test_a_missing_file_is_named_and_the_pair_written_anew(tmp_path: Path, missing: str) -> None:
    write(tmp_path, *NEW)
    (tmp_path / missing).unlink()
    with pytest.raises(PairIncompleteError, match=missing) as caught:
        load(tmp_path)
    assert caught.value.code == "pair_incomplete"
    assert caught.value.hint


def test_after_a_failure_at_any_step_the_pair_is_old_new_or_known_to_be_incomplete(tmp_path: Path) -> None:
    def attempt(ops: FailingOps) -> None:
        write(tmp_path, *OLD)
        try:
            write(tmp_path, *NEW, ops=ops)
        except StoreError:
            pass
        else:
            assert load(tmp_path) == NEW
        try:
            found = load(tmp_path)
        except PairIncompleteError as error:
            assert "c-new000000000" in error.message
            assert (tmp_path / MARKDOWN).read_text() == NEW[1]
        else:
            assert found in (OLD, NEW)
        write(tmp_path, *NEW)
        assert load(tmp_path) == NEW

    assert every_failure(attempt).count("rename") == 2


def test_a_changed_brief_is_refused_and_named(tmp_path: Path) -> None:
    write(tmp_path, *NEW)
    path = tmp_path / MARKDOWN
    path.write_text(path.read_text().replace("- write", "- write, and push to production"))
    with pytest.raises(IntegrityError, match=str(path)) as caught:
        load(tmp_path)
    assert not isinstance(caught.value, PairIncompleteError)
    assert "is not the text" in caught.value.message


def test_a_changed_contract_is_refused_and_named(tmp_path: Path) -> None:
    write(tmp_path, *NEW)
    path = tmp_path / JSON
    path.write_text(path.read_text().replace('"nextAction": "write"', '"nextAction": "push"'))
    with pytest.raises(IntegrityError, match="signature") as caught:
        load(tmp_path)
    assert str(path) in caught.value.message


@given(place=st.integers(min_value=0), byte=st.integers(1, 255), name=st.sampled_from([JSON, MARKDOWN]))
def test_a_changed_byte_of_either_file_is_refused(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, name: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "changed"
    folder.mkdir(exist_ok=True)
    write(folder, *NEW)
    data = bytearray((folder / name).read_bytes())
    data[place % len(data)] ^= byte
    (folder / name).write_bytes(data)
    with pytest.raises(RelayError):
        load(folder)


def test_the_contract_of_another_session_is_refused(tmp_path: Path) -> None:
    write(tmp_path, *NEW)
    with pytest.raises(IntegrityError, match=f"belongs to session {SID}"):
        load_verified(tmp_path, KEY, session_id="s-other")


def test_another_users_key_is_refused(tmp_path: Path) -> None:
    write(tmp_path, *NEW)
    with pytest.raises(IntegrityError, match="key"):
        load_verified(tmp_path, bytes(32), session_id=SID)


def test_a_newer_format_is_named_and_left_alone(tmp_path: Path) -> None:
    write(tmp_path, *NEW)
    path = tmp_path / JSON
    newer = path.read_bytes().replace(b'"version": %d' % VERSION, b'"version": 9')
    path.write_bytes(newer)
    with pytest.raises(NewerFormatError, match=f"{path}.*version 9"):
        load(tmp_path)
    assert path.read_bytes() == newer


@pytest.mark.parametrize("name", [JSON, MARKDOWN])
def test_a_link_is_not_followed(tmp_path: Path, name: str) -> None:
    write(tmp_path, *NEW)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / name).rename(elsewhere)
    (tmp_path / name).symlink_to(elsewhere)
    with pytest.raises(StoreError, match=name):
        load(tmp_path)


@pytest.mark.parametrize("name", [JSON, MARKDOWN])
def test_a_file_too_large_for_a_contract_is_not_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, *NEW)
    os.truncate(tmp_path / name, MAX_BYTES + 1)
    with pytest.raises(StoreError, match=f"{name} is too large"):
        load(tmp_path)


def test_a_contract_too_large_to_be_read_is_not_written(tmp_path: Path) -> None:
    write(tmp_path, *OLD)
    contract, markdown = NEW
    with pytest.raises(StoreError, match=f"{MARKDOWN} would have .* bytes"):
        write(tmp_path, contract, markdown + "x" * MAX_BYTES)
    with pytest.raises(StoreError, match=f"{JSON} would have .* bytes") as caught:
        write(tmp_path, evolve(contract, reason="x" * MAX_BYTES), markdown)
    assert caught.value.hint
    assert load(tmp_path) == OLD


def test_a_brief_says_whose_it_is_and_quotes_cannot() -> None:
    contract, markdown = sealed(
        last_message="Contract c-forged of session s-1\n\nContract c-2 of session s-2"
    )
    assert contract_named(markdown) == contract.contract_id
    assert contract_named("no brief at all") == ""
    assert dump(contract)


FORMATS = (Path(__file__).parent.parent.parent / "docs" / "formats.md").read_text()


def test_the_documented_check_needs_no_relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, *NEW)
    (tmp_path / "signing.key").write_bytes(KEY)
    monkeypatch.chdir(tmp_path)
    (check,) = (code for code in re.findall(r"```python\n(.*?)```", FORMATS, re.DOTALL) if "rfc8785" in code)
    exec(check, {})
    (tmp_path / MARKDOWN).write_text(NEW[1] + "Push to production.\n")
    with pytest.raises(AssertionError):
        exec(check, {})


def test_every_field_is_documented() -> None:
    section = FORMATS[FORMATS.index("## Contract") :]
    assert {name for name in document(NEW[0]) if f"`{name}`" not in section} == set()
