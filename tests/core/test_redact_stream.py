from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay.core.redact import DEFAULT
from relay.core.redact_stream import HOLD_MAX, StreamRedactor
from tests.fakes.secrets import BEGIN_KEY, BY_ID, END_KEY, LOOKALIKES, SECRETS, Shape, pem, random_token


def streamed(pieces: list[str]) -> tuple[str, dict[str, int]]:
    redactor = StreamRedactor()
    out = [redactor.feed(piece) for piece in pieces]
    out.append(redactor.close())
    return "".join(out), redactor.counts


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


PARTS = st.sampled_from(
    [shape.text for shape in (*SECRETS, *LOOKALIKES)]
    + [shape.core[: len(shape.core) // 2] for shape in SECRETS]
    + [
        pem(),
        pem("OPENSSH ", 12),
        pem().replace("\n", "\\n"),
        pem()[:200],
        pem()[40:],
        BEGIN_KEY,
    ]
    + [
        "-----BEGIN ",
        END_KEY,
        "token=",
        'password = "',
        "secret: ",
        "Authorization: Bearer ",
    ]
    + [" ", "\n", "\t", '",', '"', "-", ".", "a", "= ", "\r\n", "the key of it ", "x" * 230, "A1b2C3d4" * 9]
)
TEXTS = st.lists(PARTS | st.text(max_size=6), max_size=10).map("".join)


@given(TEXTS, st.lists(st.integers(0, 4000), max_size=12))
@example(f"a {pem()} b\n", [3, 30, 40, 41, 200, 480])
@example(f"{pem()}{pem('EC ', 3)}", list(range(0, 700, 9)))
@example(f"{pem()[:150]}{'b' * 40}{pem('OPENSSH ', 3)}", list(range(0, 600, 7)))
@example(f'key = "{BY_ID["groq"].text}" x\n', [2, 5, 7, 12, 30])
def test_any_chunking_gives_what_the_whole_gives(text: str, places: list[int]) -> None:
    whole = DEFAULT.redact(text)
    assert streamed(cut(text, places)) == (whole.text, dict(whole.counts))


@pytest.mark.parametrize("shape", SECRETS, ids=lambda shape: shape.id)
def test_each_secret_in_single_characters(shape: Shape) -> None:
    text = f"before {shape.text} after\nnext line\n"
    want = text.replace(shape.core, f"[REDACTED:{shape.id}]")
    assert streamed(list(text)) == (want, {shape.id: 1})


@pytest.mark.parametrize("shape", SECRETS, ids=lambda shape: shape.id)
def test_each_secret_cut_in_two_anywhere(shape: Shape) -> None:
    text = f'{{"a":"{shape.text}","b":1}}'.replace("\n", "\\n")
    want = DEFAULT.redact(text).text
    for at in range(len(text)):
        assert streamed([text[:at], text[at:]])[0] == want


def test_whole_lines_are_passed_on_at_once() -> None:
    redactor = StreamRedactor()
    assert redactor.feed("one\ntwo\n") == "one\ntwo\n"
    assert redactor.feed(f"{BY_ID['npm'].text}\nthr") == "[REDACTED:npm]\n"
    assert redactor.feed("ee\n") == "three\n"
    assert redactor.close() == ""


def test_only_what_could_become_a_secret_is_held_back() -> None:
    redactor = StreamRedactor()
    assert redactor.feed("What is the name? ") == "What is the name? "
    assert redactor.feed("The password") == "The "
    assert redactor.feed(" = ") == ""
    assert redactor.feed(random_token("", 20)) == ""
    assert redactor.feed("\n") == "password = [REDACTED:env_assign]\n"


def test_a_begin_line_without_a_key_is_passed_on_soon() -> None:
    redactor = StreamRedactor()
    out = redactor.feed(f"{BEGIN_KEY}\n")
    assert out == ""
    for _ in range(40):
        out += redactor.feed("is what such a key begins with.\n")
    assert out.count("\n") >= 32
    assert "[REDACTED" not in out + redactor.close()


def test_what_is_held_back_is_bounded() -> None:
    redactor = StreamRedactor()
    fed = given_out = 0
    for _ in range(40):
        fed += 10_000
        given_out += len(redactor.feed("x" * 10_000))
        assert fed - given_out <= HOLD_MAX + 10_000
    assert given_out + len(redactor.close()) == fed


def test_a_long_line_without_blanks_keeps_its_secret_covered() -> None:
    token = BY_ID["anthropic_api"].text
    filler = "eyeball/" * 40_000
    text = f"{filler}+{token}+{filler}"
    out, counts = streamed([text[at : at + 5000] for at in range(0, len(text), 5000)])
    assert out == f"{filler}+[REDACTED:anthropic_api]+{filler}"
    assert counts == {"anthropic_api": 1}


def test_a_closed_redactor_starts_anew() -> None:
    redactor = StreamRedactor()
    redactor.feed(f"{BEGIN_KEY}\n")
    redactor.close()
    assert redactor.feed("plain\n") == "plain\n"
