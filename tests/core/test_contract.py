"""The contract: the same work gives the same bytes, and no other bytes than Relay's are taken."""

from __future__ import annotations

import hashlib
import hmac
import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from relay.core.brief import render
from relay.core.contract import (
    MAX_BYTES,
    MOST_FILES,
    ChangedPath,
    Circumstances,
    Contract,
    ManifestEntry,
    build,
    canonical,
    document,
    dump,
    key_id,
    sign,
    verify,
)
from relay.core.events import ToolKind, TurnOutcome
from relay.core.facts import SessionFacts
from relay.errors import IntegrityError, NewerFormatError, RelayError
from tests.fakes.work import START, Work

KEY = bytes(range(32))
SID = "s-4k2m9x"
GOAL = "Convert the parser. Do not touch vendor/."


def here(**changes: Any) -> Circumstances:
    values: dict[str, Any] = {
        "contract_id": "c-0123456789ab",
        "session_id": SID,
        "task_id": "t-1",
        "created": START,
        "from_target": "claude/work",
        "reason": "usage limit of claude/work",
        "snapshot_commit": "a3f8c2d" + "0" * 33,
        "files": (ChangedPath(path="src/parse.py", status="M", added=12, removed=3),),
        "manifest": (("src/parse.py", "ab" * 32),),
        "left_out": ("model.bin",),
        "diff_stat": "1 file changed, 12 insertions(+), 3 deletions(-)",
        "verify": ("make test",),
    }
    return Circumstances(**{**values, **changes})


def work() -> Work:
    done = Work().plan("x read the grammar", "~ convert the parser", "  document it")
    done.edit("src/parse.py").edit("notes.txt").shell("pip install lark").shell("make test", exit_code=2)
    done.says("Decision: keep the old names.\nConstraint: Python 3.11 only.\nI will go on with the lexer.")
    done.call(ToolKind.EDIT, paths=("src/lex.py",))
    return done.ends(TurnOutcome.INTERRUPTED)


def facts() -> SessionFacts:
    known = work().facts(GOAL)
    known.replied("Never rename public functions.")
    return known


def signed(**changes: Any) -> tuple[bytes, bytes]:
    contract = evolve(build(facts(), here()), **changes)
    markdown = render(contract).encode()
    return dump(sign(contract, markdown, KEY)), markdown


JSON, MARKDOWN = signed()


def check(data: bytes = JSON, markdown: bytes = MARKDOWN, key: bytes = KEY, sid: str = SID) -> Contract:
    return verify(data, markdown, key, session_id=sid)


def refusal(data: bytes = JSON, markdown: bytes = MARKDOWN, key: bytes = KEY, sid: str = SID) -> str:
    with pytest.raises(IntegrityError) as caught:
        check(data, markdown, key, sid)
    assert caught.value.hint
    return caught.value.message


def resigned(change: Callable[[dict[str, Any]], None]) -> bytes:
    """Bytes as an agent that reads the key could sign them: any values, a right signature."""
    values = json.loads(JSON)
    change(values)
    unsigned = {name: value for name, value in values.items() if name != "signature"}
    values["signature"] = hmac.new(KEY, rfc8785.dumps(unsigned), hashlib.sha256).hexdigest()
    return json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def test_a_contract_carries_what_is_known() -> None:
    contract = build(facts(), here())

    assert contract.version == 2
    assert contract.task_goal == contract.initial_prompt == GOAL
    assert contract.next_action == "convert the parser"
    assert contract.plan == ("read the grammar", "convert the parser", "document it")
    assert contract.tasks_remaining == ("convert the parser", "document it")
    assert "read the grammar" in contract.do_not_redo
    assert "Ran pip install lark (exit code 0)" in contract.do_not_redo
    assert not any("make test" in line for line in contract.do_not_redo)
    assert [(ran.command, ran.exit_code) for ran in contract.commands_run] == [
        ("pip install lark", 0),
        ("make test", 2),
    ]
    assert [failed.what for failed in contract.failed_attempts] == ["run make test", "edit src/lex.py"]
    assert [cut.path for cut in contract.in_flight_code] == ["src/lex.py"]
    assert contract.decisions == ("keep the old names.",)
    assert contract.constraints == (
        "Do not touch vendor/.",
        "Never rename public functions.",
        "Python 3.11 only. (noted by an agent)",
    )
    assert contract.user_messages == ("Never rename public functions.",)
    assert contract.last_message.endswith("I will go on with the lexer.")
    assert contract.acceptance_assertions == ("`make test` exits with status 0",)
    assert [(file.path, file.status) for file in contract.files_changed] == [
        ("src/parse.py", "M"),
        ("notes.txt", "?"),
    ]
    assert contract.file_manifest == (ManifestEntry(path="src/parse.py", sha256="ab" * 32),)
    assert contract.left_out == ("model.bin",)
    assert contract.snapshot_commit_sha == "a3f8c2d" + "0" * 33


NEXT = {
    "the task in progress": (Work().plan("  a", "~ b"), "b"),
    "the first open task": (Work().plan("x a", "  b", "  c"), "b"),
    "what the agent announced": (Work().says("Next: write the tests."), "write the tests."),
    "nothing is known": (Work(), "Inspect the working tree against the goal, then finish it"),
}


@pytest.mark.parametrize(("done", "want"), NEXT.values(), ids=NEXT.keys())
def test_there_is_always_a_next_action(done: Work, want: str) -> None:
    assert build(done.facts(), here()).next_action == want


def test_a_file_that_was_deleted_again_is_not_told_as_written() -> None:
    facts = Work().edit("kept.py", "gone.py").facts()
    gone = ChangedPath(path="gone.py", status="D", added=0, removed=4)

    contract = build(facts, here(files=(gone,)))

    assert contract.do_not_redo == ("Wrote kept.py",)
    assert gone in contract.files_changed


def test_the_same_work_gives_the_same_bytes() -> None:
    assert signed() == signed()


def test_what_was_signed_is_taken() -> None:
    contract = check()

    assert evolve(contract, signature="", key_id="", brief_sha256="") == build(facts(), here())
    assert contract.key_id == key_id(KEY)
    assert contract.signature == hmac.new(KEY, canonical(contract), hashlib.sha256).hexdigest()


@given(place=st.integers(0, len(JSON) - 1), byte=st.integers(0, 255))
def test_any_changed_byte_of_the_json_is_refused(place: int, byte: int) -> None:
    changed = JSON[:place] + bytes([byte]) + JSON[place + 1 :]
    if changed == JSON:
        check(changed)
        return

    # A digit of the version can make it a newer one.
    with pytest.raises((IntegrityError, NewerFormatError)):
        check(changed)


@given(place=st.integers(0, len(MARKDOWN) - 1), byte=st.integers(0, 255))
def test_any_changed_byte_of_the_markdown_is_refused(place: int, byte: int) -> None:
    changed = MARKDOWN[:place] + bytes([byte]) + MARKDOWN[place + 1 :]
    if changed != MARKDOWN:
        assert "envelope.md" in refusal(markdown=changed)


@given(data=st.data(), cut=st.binary(max_size=4))
def test_bytes_put_in_or_taken_out_are_refused(data: st.DataObject, cut: bytes) -> None:
    start = data.draw(st.integers(0, len(JSON)))
    end = data.draw(st.integers(start, min(start + 8, len(JSON))))
    changed = JSON[:start] + cut + JSON[end:]
    if changed != JSON:
        with pytest.raises((IntegrityError, NewerFormatError)):
            check(changed)


SPELLINGS = {
    "no newline at the end": JSON[:-1],
    "one more newline": JSON + b"\n",
    "a byte order mark": b"\xef\xbb\xbf" + JSON,
    "without spaces": json.dumps(json.loads(JSON)).encode(),
    "escaped letters": JSON.replace(b"parser", b"p\\u0061rser"),
    "a field twice": JSON.replace(b'{\n  "', b'{\n  "version": 2,\n  "', 1),
    "not a number": JSON.replace(b'"version": 2', b'"version": NaN'),
    "another kind of number": JSON.replace(b'"version": 2', b'"version": 2.0'),
    "an array": b"[" + JSON + b"]",
    "nothing": b"",
    "zeros, as after a power cut": bytes(100),
    "no UTF-8": JSON.replace(b"parser", b"p\xffrser"),
    "half a surrogate pair": JSON.replace(b"parser", b"\\ud800"),
    "deeply nested": b'{"a":' * 100_000,
    "too large": JSON + b" " * MAX_BYTES,
    "a huge number": JSON.replace(b'"added": 12', b'"added": 1' + b"0" * 5000),
    "a number that JSON cannot hold": JSON.replace(b'"added": 12', b'"added": 9007199254740993'),
}


@pytest.mark.parametrize("data", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_another_spelling_is_refused(data: bytes) -> None:
    assert data != JSON

    message = refusal(data)
    assert len(message) < 500
    assert "\n" not in message


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda values: values.pop(name)


@pytest.mark.parametrize("name", sorted(json.loads(JSON)))
def test_a_missing_field_is_refused_by_name(name: str) -> None:
    data = resigned(without(name)) if name != "signature" else b""
    if name == "signature":
        values = json.loads(JSON)
        del values["signature"]
        data = json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"

    assert name in refusal(data)


FORGED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "an unknown field": (lambda values: values.update(launchArgs=["--yolo"]), "launchArgs"),
    "an unknown field inside": (lambda values: values["fileManifest"][0].update(mode="0777"), "unknown"),
    "a text for a list": (lambda values: values.update(decisions="abc"), "wrong types"),
    "a number for a text": (lambda values: values.update(taskGoal=5), "wrong types"),
    "null": (lambda values: values.update(plan=None), "wrong types"),
    "a truth value for the version": (lambda values: values.update(version=True), "version is True"),
    "version 0": (lambda values: values.update(version=0), "version is 0"),
    "a text for the version": (lambda values: values.update(version="2"), "version is '2'"),
    "text that is not composed": (
        lambda values: values.update(taskGoal=unicodedata.normalize("NFD", "Café")),
        "normal form",
    ),
}


@pytest.mark.parametrize(("change", "want"), FORGED.values(), ids=FORGED.keys())
def test_what_relay_never_writes_is_refused_whoever_signed_it(
    change: Callable[[dict[str, Any]], None], want: str
) -> None:
    assert want in refusal(resigned(change))


def test_a_newer_version_asks_for_a_newer_relay() -> None:
    with pytest.raises(NewerFormatError, match="version 3"):
        check(resigned(lambda values: values.update(version=3)))


def test_another_users_key_is_told_apart_from_a_change() -> None:
    assert "key" in refusal(key=bytes(32))
    assert "signature" in refusal(JSON.replace(b"convert the parser", b"convert the lexers"))


def test_a_contract_of_another_session_is_refused() -> None:
    assert SID in refusal(sid="s-other1")


@pytest.mark.parametrize("signature", ["", "0" * 64, "\u00e9" * 64, "not hex"])
def test_any_other_signature_is_refused(signature: str) -> None:
    contract = evolve(check(), signature=signature)

    assert "signature" in refusal(dump(contract))


VERSION_1 = (
    '{"acceptanceAssertions":["idempotent"],"constraints":[],"contractId":"c-abc123","decisions":["caf\u00e9"],'
    '"doNotRedo":["migration 0042 applied"],"fileManifest":[{"modified":true,"path":"orders/refund.go",'
    '"sha256":"00"}],"nextAction":"Wire POST /orders/:id/refund","sessionId":"s-4k2m9x",'
    '"snapshotCommitSHA":"a3f8c2d","taskGoal":"add refund flow","taskId":"t-1","version":1}'
).encode()


def version_1() -> Contract:
    return Contract(
        contract_id="c-abc123",
        session_id=SID,
        task_id="t-1",
        version=1,
        task_goal="add refund flow",
        next_action="Wire POST /orders/:id/refund",
        do_not_redo=("migration 0042 applied",),
        acceptance_assertions=("idempotent",),
        file_manifest=(ManifestEntry(path="orders/refund.go", sha256="00"),),
        decisions=("caf\u00e9",),
        snapshot_commit_sha="a3f8c2d",
    )


def test_version_1_serialises_as_it_always_did() -> None:
    contract = evolve(version_1(), plan=("not in version 1",), reason="nor this")

    assert canonical(contract) == VERSION_1


def test_version_1_can_be_read_but_not_injected() -> None:
    data = dump(sign(version_1(), b"", KEY))

    assert verify(data, None, KEY, session_id=SID).task_goal == "add refund flow"
    assert "version 1" in refusal(data, b"")


TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)


@given(text=TEXTS, path=TEXTS, number=st.integers(0, 2**40))
def test_any_text_can_be_signed_and_read_again(text: str, path: str, number: int) -> None:
    work = Work().plan(f"~ {text}").says(text).edit(path).shell(text, exit_code=number % 256, output=text)
    known = work.facts(text)
    known.replied(text)
    around = here(
        reason=text,
        verify=(text,),
        task_id="t-1",
        left_out=(path,),
        files=(ChangedPath(path="a", status="M", added=number),),
        diff_stat=text,
    )
    contract = build(known, around)
    markdown = render(contract).encode()
    read = check(dump(sign(contract, markdown, KEY)), markdown)

    assert evolve(read, signature="", key_id="", brief_sha256="") == contract


@given(text=st.text(max_size=40))
def test_the_signed_bytes_are_those_of_rfc_8785(text: str) -> None:
    contract = evolve(build(facts(), here()), task_goal=unicodedata.normalize("NFC", text))
    values = document(contract)
    del values["signature"]

    assert canonical(contract) == rfc8785.dumps(values)
    assert json.loads(canonical(contract)) == values


@pytest.mark.parametrize("path", ["caf\udce9.txt", "cafe\u0301.txt", "a\nb", '"caf\\351.txt"'])
def test_a_file_name_of_any_kind_can_be_signed(path: str) -> None:
    around = here(
        files=(ChangedPath(path=path, status="A"),), manifest=((path, "ab" * 32),), left_out=(path,)
    )
    contract = build(Work().edit(path).facts(), around)
    markdown = render(contract).encode()

    read = check(dump(sign(contract, markdown, KEY)), markdown)
    assert read.file_manifest[0].path == path.encode("utf-8", "replace").decode()


def test_a_huge_change_still_fits() -> None:
    paths = [f"{'deep/' * 60}{number}.txt" for number in range(MOST_FILES + 500)]
    around = here(
        files=tuple(ChangedPath(path=path, status="A") for path in paths),
        manifest=tuple((path, "ab" * 32) for path in paths),
        left_out=tuple(paths),
    )
    contract = build(facts(), around)
    markdown = render(contract).encode()

    assert len(contract.files_changed) == MOST_FILES
    check(dump(sign(contract, markdown, KEY)), markdown)


@given(
    data=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(sorted(json.loads(JSON))), inner, max_size=5)
        ),
    ),
    name=st.sampled_from(sorted(json.loads(JSON))),
)
def test_whatever_stands_in_a_field_the_answer_is_a_refusal(data: Any, name: str) -> None:
    values = {**json.loads(JSON), name: data}
    if values == json.loads(JSON):
        return
    with pytest.raises(RelayError):
        check(
            json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
        )
