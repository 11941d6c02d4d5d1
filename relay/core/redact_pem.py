"""Private key blocks: PEM and PGP armour, over many lines, or in one line with escaped line breaks.

Owns where a block ends, also when its end was cut off. Called by `relay.core.redact_rules`, and by
`relay.core.redact_stream`, which must know whether more text could change the answer. Pure and linear.
"""

from __future__ import annotations

import re

from attrs import frozen

BLOCK_MAX = 65_536
"""Characters of one block that are looked at; the largest keys in use have about 15 000."""

_JUNK_MAX = 200
_RUN_MIN = 16
_BODY_MIN = 40
_LABEL_MAX = 160
_DASHES = "-----"
_LABEL = r"(?:(?!-----)[ A-Z0-9_-]){0,100}?PRIVATE KEY(?: BLOCK)?-----"
_HEADER = re.compile("-----BEGIN" + _LABEL)
_FOOTER = re.compile("-----END" + _LABEL)
_STEP = re.compile(rf"[\s\S]{{0,{_JUNK_MAX}}}?([A-Za-z0-9+/]{{{_RUN_MIN},}}+)={{0,2}}")
# The short last line of a text that was cut off in the middle of a key.
_STUB = re.compile(r"(?:[\r\n]|\\{1,2}[nr])[^A-Za-z0-9+/\r\n]{0,12}[A-Za-z0-9+/]{1,15}={0,2}(?:\Z|(?=[\"']))")
_GAPS = re.compile(r"\s+|\\[nrt]")


@frozen(kw_only=True)
class Block:
    """What stands at a BEGIN line.

    Args:
        start: index of its first dash.
        end: index behind the block; equal to `start` when it is no private key.
        open: more text could still change `end`.
    """

    start: int
    end: int
    open: bool


def find_block(text: str, at: int) -> tuple[int, int] | None:
    """The span of the block whose BEGIN follows the dash at index `at`, or None when it holds no key.

    Without an END line the block goes as far as its base64 does.
    """
    block = read_block(text, at - len(_DASHES) + 1)
    return None if block is None or block.end == block.start else (block.start, block.end)


def read_block(text: str, start: int) -> Block | None:
    """Read the block whose BEGIN line starts at `start`. None: no BEGIN line of a private key, ever."""
    size = len(text)
    header = _HEADER.match(text, start)
    if header is None:
        unfinished = size - start < _LABEL_MAX and "\n" not in text[start:]
        return Block(start=start, end=start, open=True) if unfinished else None
    body = header.end()
    limit = min(size, body + BLOCK_MAX)
    dashes = text.find(_DASHES, body, limit)
    stop = limit if dashes < 0 else dashes
    reach, weight = body, 0
    while (step := _STEP.match(text, reach, stop)) is not None:
        reach = step.end()
        weight += len(step[1])
    end = reach if _is_key(text[body:reach], weight) else start
    if dashes < 0:
        stub = _STUB.match(text, end) if end > start else None
        end = end if stub is None else stub.end()
        return Block(
            start=start, end=end, open=size < body + BLOCK_MAX and size - reach <= _JUNK_MAX + _RUN_MIN
        )
    footer = _FOOTER.match(text, dashes) if dashes - reach <= _JUNK_MAX else None
    if footer is not None:
        return Block(start=start, end=footer.end() if end > start else start, open=False)
    unfinished = size - dashes < _LABEL_MAX and "\n" not in text[dashes:]
    return Block(start=start, end=end, open=unfinished)


def _is_key(body: str, weight: int) -> bool:
    """Base64 makes up most of a key; two labels in source code have something else between them."""
    return weight >= _BODY_MIN and 2 * weight >= len(_GAPS.sub("", body))
