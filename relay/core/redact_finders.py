"""Finders for kinds that one expression at a fixed place cannot tell: they look at what stands around.

Each takes the text and the index of the rule's pivot, and returns the span to replace or None. Called by
`relay.core.redact_rules`. All are linear: what they scan backwards is bounded.
"""

from __future__ import annotations

import re

Span = tuple[int, int]

# The character before a secret may be a letter or digit only as the tail of an escape: \n in JSON,
# \u003d, an ANSI colour (ESC[0m), %3D in a URL. A lone backslash before it would make its first letter
# part of an escape, which must stay whole.
LEFT = (
    r"(?:(?<![A-Za-z0-9\\])|(?<=[^\\]\\\\)|(?<=^\\\\)|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})"
    r"|(?<=[0-9;\[]m)|(?<=%[0-9A-Fa-f]{2}))"
)

_RUN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_JWT_HEADER_MAX = 4096
_JWT_TAIL = re.compile(r"\.ey[A-Za-z0-9_-]{17,}+\.[A-Za-z0-9_-]{10,}+")
_JWT_HEAD = re.compile(LEFT + "ey")
_CURSOR_KEY = re.compile(r"key_[0-9a-f]{64}(?![A-Za-z0-9])")
_CURSOR_NAME = re.compile(r"cursor[\w.-]{0,20}[\"'`\\]{0,4}[ \t]{0,8}[:=][ \t]{0,8}[\"'`\\]{0,4}\Z")
_DISCORD = re.compile(r"(?i:webhooks)\\?/[0-9]{17,20}\\?/([A-Za-z0-9_-]{60,})")


def jwt(text: str, at: int) -> Span | None:
    """The token around the first dot of a JSON Web Token, at index `at`."""
    tail = _JWT_TAIL.match(text, at)
    if tail is None:
        return None
    start = at
    floor = max(0, at - _JWT_HEADER_MAX)
    while start > floor and text[start - 1] in _RUN:
        start -= 1
    head = _JWT_HEAD.search(text, start, at - 17)
    return None if head is None else (head.start(), tail.end())


def cursor_key(text: str, at: int) -> Span | None:
    """A Cursor key whose "key_" ends at index `at`; the name before it must say whose it is."""
    found = _CURSOR_KEY.match(text, max(0, at - 3))
    if found is None:
        return None
    start = found.start()
    before = text[max(0, start - 56) : start].lower()
    return found.span() if _CURSOR_NAME.search(before) else None


def discord_webhook(text: str, at: int) -> Span | None:
    """The secret part of a Discord webhook URL whose "webhooks" begins at index `at`."""
    found = _DISCORD.match(text, at)
    if found is None or "discord" not in text[max(0, at - 40) : at].lower():
        return None
    return found.span(1)
