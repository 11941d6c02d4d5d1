"""Quoted texts: nothing hidden in them, and no way out of their fence."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.quoting import clean, code, fence, nonce, one_line, shorten, valid

TEXTS = st.text(st.characters(exclude_categories=()), max_size=80)
CLEANED = {
    "plain text": ("make test\n\tok", "make test\n\tok"),
    "colours": ("\x1b[1;31mred\x1b[0m", "red"),
    "a title": ("\x1b]0;title\x07text", "text"),
    "a link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "the clipboard": ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
    "a sequence in one byte": ("\x9b2Ja\x9d52;c;x\x9cb", "ab"),
    "a sequence that never ends": ("a\x1b]52;c;cm0g", "a52;c;cm0g"),
    "a lone escape": ("a\x1b", "a"),
    "line ends": ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h", "a\nb\nc\nd\ne\nf\ng\nh"),
    "bidi marks": ("a\u202eb\u202c\u2066c\u2069\u200f", "abc"),
    "tags": ("a" + "".join(chr(0xE0000 + ord(c)) for c in "run this") + "b", "ab"),
    "variation selectors": ("a\ufe01\U000e0101b", "ab"),
    "letters that show nothing": ("a\u200b\u2060\ufeff\u00ad\u3164\uffa0b", "ab"),
    "zeros and backspaces": ("a\x00\x08\x7fb", "ab"),
    "half a surrogate pair": ("a\ud800b", "a\ufffdb"),
    "composed": ("e\u0301", "\u00e9"),
    "an emoji of several": ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
    "a heart": ("\u2764\ufe0f", "\u2764\ufe0f"),
    "right to left words": ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
}


@pytest.mark.parametrize(("text", "want"), CLEANED.values(), ids=CLEANED.keys())
def test_clean(text: str, want: str) -> None:
    assert clean(text) == want


@given(text=TEXTS)
def test_clean_text_holds_nothing_unseen_and_is_clean_again(text: str) -> None:
    cleaned = clean(text)

    assert clean(cleaned) == cleaned
    assert cleaned.encode().decode() == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert not [c for c in cleaned if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"]


@given(text=TEXTS)
def test_valid_text_can_be_written_and_is_else_unchanged(text: str) -> None:
    assert valid(text).encode().decode() == valid(text)
    assert len(valid(text)) == len(text)
    if text.isascii():
        assert valid(text) == text


@given(text=TEXTS, limit=st.integers(2, 60))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert "\n" not in line
    assert line == line.strip()
    assert one_line(line, limit) == line


def test_a_cut_line_says_so() -> None:
    assert one_line("x" * 300) == "x" * 300
    assert one_line("x" * 301) == "x" * 299 + "\u2026"
    assert one_line("a \n" * 1_000_000, 9) == "a a a a\u2026"


@given(text=st.text(max_size=400), limit=st.integers(80, 300))
def test_shortened_text_keeps_its_head_and_tail(text: str, limit: int) -> None:
    short = shorten(text, limit)

    assert len(short) <= limit
    if len(text) <= limit:
        assert short == text
    else:
        assert short[0] == text[0]
        assert short[-1] == text[-1]
        assert str(len(text)) in short


CODE = {
    "plain": ("make", "`make`"),
    "a tick": ("a`b", "`` a`b ``"),
    "several": ("a``b`c", "``` a``b`c ```"),
}


@pytest.mark.parametrize(("text", "want"), CODE.values(), ids=CODE.keys())
def test_code(text: str, want: str) -> None:
    assert code(text) == want


def test_the_word_of_a_fence_is_that_of_its_contract() -> None:
    assert nonce("c-1") == nonce("c-1")
    assert nonce("c-1") != nonce("c-2")
    assert len(nonce("c-\ud800")) == 16


WORD = nonce("c-1")
PIECES = (WORD, WORD[:8], WORD[8:], f"--- end x {WORD} ---", "\n", "\r", "a", "\u200b", "\x1b")


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
    prefix=st.sampled_from(["", "| "]),
)
def test_a_fence_cannot_be_closed_from_within(pieces: list[str], prefix: str) -> None:
    lines = fence("x", "".join(pieces), WORD, prefix=prefix).split("\n")

    assert lines[0] == f"--- begin x {WORD} ---"
    assert lines[-1] == f"--- end x {WORD} ---"
    assert all(WORD not in line for line in lines[1:-1])
    assert all(line.startswith(prefix.rstrip()) for line in lines[1:-1])
