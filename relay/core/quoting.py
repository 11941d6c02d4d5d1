"""Texts of agents, tools and users, made safe to hand to another agent and to a terminal.

Owns the cleaning, the shortening and the fence of quoted material. Used by the contract (every text in
it is clean), by the brief, and by whoever shows such a text.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

# These are compiled when a text first needs them: almost every text is plain.
_ANSI = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)
"""Control sequences, strings (titles, hyperlinks) and single escapes of ECMA-48, bounded."""

_BREAKS = r"\r\n?|[\x0b\x0c\x85\u2028\u2029]"
_HIDDEN = (
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
)
"""Control characters, bidi controls, Unicode tags, and characters that show nothing but can hide text."""

_SURROGATE = "[\ud800-\udfff]"
_PLAIN = re.compile(r"[\t\n -~]*")


def clean(text: str) -> str:
    """`text` without anything that a reader cannot see: escapes, controls, bidi marks, hidden tags.

    Line breaks of every kind become newlines, halves of surrogate pairs U+FFFD; the result is in NFC.
    Cleaning twice changes nothing more.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = re.sub(_BREAKS, "\n", re.sub(_ANSI, "", text))
    text = re.sub(_SURROGATE, "\ufffd", re.sub(_HIDDEN, "", text))
    return unicodedata.normalize("NFC", text)


def valid(text: str) -> str:
    """`text` as UTF-8 can hold it: halves of surrogate pairs become U+FFFD."""
    return text if text.isascii() else re.sub(_SURROGATE, "\ufffd", text)


def one_line(text: str, limit: int = 300) -> str:
    """`text`, clean, on one line of at most `limit` characters; a cut is marked with an ellipsis."""
    line = " ".join(clean(text[: 4 * limit + 64]).split())
    cut = len(line) > limit or (len(text) > 4 * limit + 64 and len(line) > 0)
    return line[: limit - 1].rstrip() + "\u2026" if cut else line


def shorten(text: str, limit: int) -> str:
    """`text`, or its head and tail around a line that says how much is left out.

    Args:
        text: any text.
        limit: most characters of the result; at least 80.
    """
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text)} characters in all, the middle is left out ...]\n"
    room = max(limit - len(mark), 2)
    head = (room + 1) // 2
    return text[:head] + mark + text[len(text) - (room - head) :]


def code(text: str) -> str:
    """A one-line text as Markdown inline code which it cannot leave."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (max(len(run) for run in re.findall(r"`+", text)) + 1)
    return f"{ticks} {text} {ticks}"


def nonce(contract_id: str) -> str:
    """The word that marks the fences of a contract's brief: 16 hex digits, not to be guessed before
    the contract exists."""
    return hashlib.sha256(b"relay-fence\0" + contract_id.encode("utf-8", "replace")).hexdigest()[:16]


def fence(label: str, text: str, word: str, *, prefix: str = "| ") -> str:
    """`text` between two lines that hold `word`; nothing inside can look like the closing line.

    Args:
        label: what it is, in Relay's words.
        text: the material, possibly of many lines.
        word: the nonce of the contract.
        prefix: put before each line of the material.
    """
    body = clean(text)
    while word in body:
        body = body.replace(word, "")
    lines = "\n".join((prefix + line).rstrip() for line in body.split("\n")) if prefix else body
    return f"--- begin {label} {word} ---\n{lines}\n--- end {label} {word} ---"
