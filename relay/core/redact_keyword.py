"""The generic kind: a value beside a telling name (API_KEY=..., "password": "..."), whoever issued it.

Owns how such an assignment is written in shells, JSON, YAML and code; whether the value is a secret is
decided by `relay.core.redact_values`. Used by the table in `relay.core.redact_rules`.
"""

from __future__ import annotations

import re

from relay.core.redact_finders import Span
from relay.core.redact_rule import Rule
from relay.core.redact_values import likely_secret

# Between a keyword and its value: a closing quote (escaped or not), a sign, perhaps a type annotation.
GAP = r"[\"'`\\]{0,4}[ \t]{0,8}"
SIGN = r"(?:=>|:=|==|[:=])[ \t]{0,8}"
_NOTE = r"(?:(?<=[:\t ])[A-Za-z_][\w.\[\]|]{0,30}[ \t]{1,4}=[ \t]{1,4})?"
# Letters of any script and the signs that need no quotes in a shell, a query or code.
_BARE = r"[\w!#$%*+./:?@^~|\[{-]"
_ESCAPED = r"\\/|\\u00(?:26|2[bfBF]|3[cdeCDE])"
_KEY_OWNERS = ("api", "secret", "access", "private", "signing", "encryption", "auth")
KEY_END = rf"ey(?:{'|'.join(rf'(?<={w}key)|(?<={w}[_-]key)' for w in _KEY_OWNERS)}){GAP}[:=]"


def keyword(pivot: str, anchor: str) -> Rule:
    """The generic rule: a telling name, a sign, and a value that looks random.

    Args:
        pivot: a letter of the name, lower case.
        anchor: what follows it, up to the sign.
    """
    # Escapes apart, so that both loops are over one class, which is fast.
    quoted = rf"\\{{0,3}}[\"'`](?P<q>[^\s\"'`\\]{{0,512}}+(?:(?:{_ESCAPED})[^\s\"'`\\]{{0,512}}+){{0,16}}+)"
    plain = rf"(?P<p>{_BARE}{{1,512}}+(?:(?:{_ESCAPED}){_BARE}{{0,512}}+){{0,16}}+={{0,2}})"
    value = re.compile(rf"[A-Za-z]{{1,12}}{GAP}{SIGN}{_NOTE}(?:{quoted}|{plain})")
    called_name = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[\w$]+)*")
    # What a long value, or a password with unusual signs, holds beyond that.
    rests = {"q": re.compile(r"[^\s\"'`\\]*+"), "p": re.compile(r"[\w!#$%*+./:?@^~|{=(-]*+")}

    def find(text: str, at: int) -> Span | None:
        found = value.match(text, at)
        if found is None:
            return None
        name = found.lastgroup or "p"
        start, end = found.span(name)
        called = name == "p" and text[end : end + 1] == "(" and called_name.fullmatch(found[name])
        if called or not likely_secret(found[name]):
            # Quoted values lie apart. Plain ones may nest ("token:token:..."): looked at once.
            return (end, end) if name == "p" else None
        more = rests[name].match(text, end)
        return (start, end if more is None else more.end())

    return Rule(
        kind="env_assign", vendor="Keyword assignment", pivot=pivot, anchor=anchor, folded=True, find=find
    )
