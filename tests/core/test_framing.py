from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.framing import Line, LineFramer


def frame(chunks: list[bytes], *, limit: int = 100, base: int = 0) -> list[Line]:
    framer = LineFramer(limit=limit, base=base)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    last = framer.close()
    return [*lines, last] if last else lines


@pytest.mark.parametrize(
    ("stream", "want"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"\n", [Line(data=b"", end=1)], id="an empty line"),
        pytest.param(b"a\nb\n", [Line(data=b"a", end=2), Line(data=b"b", end=4)], id="two lines"),
        pytest.param(b"a\nb", [Line(data=b"a", end=2), Line(data=b"b", end=3)], id="no newline at the end"),
        pytest.param(b"a\r\nb\r\n", [Line(data=b"a", end=3), Line(data=b"b", end=6)], id="CRLF"),
        pytest.param(b"a\rb\n", [Line(data=b"a\rb", end=4)], id="a carriage return inside"),
        pytest.param("x\u2028y\x0b\x0c\n".encode(), [Line(data="x\u2028y\x0b\x0c".encode(), end=8)],
                     id="other line separators do not cut"),
        pytest.param(b"\x00\xff\n", [Line(data=b"\x00\xff", end=3)], id="NUL and invalid UTF-8 stay"),
        pytest.param(b"12345678\n", [Line(data=b"12345678", end=9)], id="just at the limit"),
        pytest.param(b"123456789\nx\n", [Line(data=b"12345678", end=10, cut=True), Line(data=b"x", end=12)],
                     id="over the limit"),
        pytest.param(b"123456789", [Line(data=b"12345678", end=9, cut=True)], id="over the limit and no end"),
    ],
)  # fmt: skip
def test_a_stream_is_cut_into_lines(stream: bytes, want: list[Line]) -> None:
    assert frame([stream], limit=8) == want


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bcd", b"\xe2\x80\xa8", "ä".encode()])).map(
        b"".join
    ),
    st.lists(st.integers(0, 60)),
    st.integers(1, 6),
    st.integers(0, 1000),
)
def test_any_chunking_gives_the_same_lines(stream: bytes, cuts: list[int], limit: int, base: int) -> None:
    edges = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert frame(chunks, limit=limit, base=base) == frame([stream], limit=limit, base=base)


@given(st.lists(st.binary(max_size=5).map(lambda data: data.replace(b"\n", b"")), max_size=8), st.data())
def test_following_on_from_the_end_of_a_line_gives_the_remaining_lines(
    parts: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(part + b"\n" for part in parts)
    lines = frame([stream])
    seen = data.draw(st.integers(0, len(lines)))
    offset = lines[seen - 1].end if seen else 0
    assert frame([stream[offset:]], base=offset) == lines[seen:]


def test_a_character_split_over_two_reads_is_whole() -> None:
    text = '{"text":"naïve – 日本"}\n'.encode()
    for cut in range(len(text)):
        (line,) = frame([text[:cut], text[cut:]])
        assert line.data.decode() == '{"text":"naïve – 日本"}'


def test_an_endless_line_does_not_take_memory() -> None:
    framer = LineFramer(limit=10_000)
    chunk = b"x" * 1000
    tracemalloc.start()
    for _ in range(20_000):
        framer.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert framer.pending == 10_000
    assert peak < 200_000
    (line,) = framer.feed(b"\n")
    assert (len(line.data), line.cut, line.end) == (10_000, True, 20_000_001)
