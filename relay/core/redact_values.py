"""Whether a value beside a telling name ("token = ...") looks like a secret.

Owns the false-positive rules of the generic kind; called by `relay.core.redact_rules`. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from math import log2

MIN_LENGTH = 12
MIN_BITS = 3.0
"""Shannon entropy per character below which a value is no secret (random hex has about 3.6)."""

_TEMPLATE = re.compile(r"\$\{|\$\(|\{\{|\}\}|#\{|<[A-Za-z_]|%[A-Z_]{2,}%|^\$[A-Za-z_]\w*$|^[@{%]|\[REDACTED:")
_STOP = re.compile(
    r"(?i)example|placeholder|change[_-]?me|your[_-]|[_-]here$|dummy|sample|x{4}|\*{3}|\.{3}|redacted|insert"
)
_CALL = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[\w$]+)*!?[(\[]")
_LABELLED = re.compile(r"(?i)(?:sha\d{1,3}|md5|h1|blake\w{1,4})[:-]")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PIECE = re.compile(r"[A-Za-z0-9]+")
_PLAIN_WORD = re.compile(r"\d{1,6}|[a-z]+\d{0,4}|[A-Z][a-z]+\d{0,4}|[A-Z]+\d{0,4}")
_MIXED_WORD = re.compile(r"[A-Za-z]+\d{0,4}")
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SEQUENCES = ("abcdefghijklmnopqrstuvwxyz" * 2, "0123456789" * 20, "0123456789abcdef" * 8)


def unwritten(value: str) -> bool:
    """False for a template, a placeholder or a marker, where a person or a program will put a secret."""
    return not _TEMPLATE.search(value) and not _STOP.search(value)


def likely_secret(value: str) -> bool:
    """True when `value`, taken from beside a telling name, looks like random text rather than code or prose.

    Args:
        value: the text without its quotes; JSON escapes may still be in it.
    """
    value = value.replace("\\/", "/")
    if len(value) < MIN_LENGTH or not unwritten(value):
        return False
    if "://" in value or _CALL.match(value) or _LABELLED.match(value) or _UUID.fullmatch(value):
        return False
    lowered = value.lower()
    if any(lowered in sequence for sequence in _SEQUENCES):
        return False
    return entropy(value) >= MIN_BITS and not _wordlike(value)


def entropy(value: str) -> float:
    """Shannon entropy of the characters of `value`, in bits per character."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def _wordlike(value: str) -> bool:
    """True when every piece is a word, a number or an identifier: names, paths, dotted references."""
    return all(_is_word(piece) for piece in _PIECE.findall(value))


def _is_word(piece: str) -> bool:
    if _PLAIN_WORD.fullmatch(piece):
        return True
    if not _MIXED_WORD.fullmatch(piece):
        return False
    # Random letters change case about every second character; camelCase words are longer than that.
    return len(piece) >= 3.5 * len(_CAMEL.findall(piece))
