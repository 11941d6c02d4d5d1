"""Literals out of JavaScript that a model wrote: the calls `tools.name(<literal>)` of Codex's code mode.

Nothing is run. A value is read where it is a literal, or a variable that a literal was assigned to; what
needs more than that is no value. Used by `relay.providers.codex_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SCRIPT = 1_000_000
"""Most characters of a script that are looked at."""
_DEEP = 24
_STEPS = 50_000
"""Most values that are read of one script."""
_CALL = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*(?:`|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|"
    r"\btools\s*(?:\.\s*(?P<dotted>\w+)|\[\s*[\"'](?P<quoted>\w+)[\"']\s*\])\s*\(",
    re.DOTALL,
)
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_DECLARED = re.compile(r"\b(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=(?!=)")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_KEY = re.compile(r"[\w$]+")
_JOIN = re.compile(r"\.\s*join\s*\(")
_RAW = re.compile(r"String\s*\.\s*raw\s*(?=`)")
_QUOTED = {
    '"': re.compile(r'"((?:\\.|[^"\\\n])*)"', re.DOTALL),
    "'": re.compile(r"'((?:\\.|[^'\\\n])*)'", re.DOTALL),
    "`": re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "undefined": None}


class _NoLiteralError(ValueError):
    """What stands there is no literal."""


def tool_calls(script: str) -> Iterator[tuple[str, object]]:
    """Each `tools.name(...)` outside of strings and comments: its name and its first argument.

    The argument is of Python's types as `json` gives them; None where it is no literal. What a template
    puts in with `${...}` is left as it stands.
    """
    script = script[:_SCRIPT]
    reader = _Reader(script)
    for found in _CALL.finditer(script):
        name = found["dotted"] or found["quoted"]
        if not name:
            continue
        try:
            value = reader.argument(found.end())
        except _NoLiteralError:
            value = None
        yield name, value


class _Reader:
    def __init__(self, script: str) -> None:
        self.script = script
        self.depth = 0
        self.steps = 0
        self.declared: dict[str, int] | None = None

    def argument(self, at: int) -> object:
        self.depth = 0
        return self.value(at)[0]

    def value(self, at: int) -> tuple[object, int]:
        self.depth += 1
        self.steps += 1
        if self.depth > _DEEP or self.steps > _STEPS:
            raise _NoLiteralError
        found, at = self._one(self._skip(at))
        while isinstance(found, str):
            plus = self._skip(at)
            if not self._is(plus, "+"):
                break
            more, at = self._one(self._skip(plus + 1))
            if not isinstance(more, str):
                raise _NoLiteralError
            found += more
        self.depth -= 1
        return found, at

    def _one(self, at: int) -> tuple[object, int]:
        start = self.script[at : at + 1]
        if start == "{":
            return self._object(at + 1)
        if start == "[":
            return self._array(at + 1)
        if start in _QUOTED:
            return self._string(at)
        if raw := _RAW.match(self.script, at):
            text = self._match(_QUOTED["`"], raw.end())
            return text[1], text.end()
        if number := _NUMBER.match(self.script, at):
            return _number(number[0]), number.end()
        if name := _NAME.match(self.script, at):
            return self._named(name[0]), name.end()
        raise _NoLiteralError

    def _object(self, at: int) -> tuple[object, int]:
        found: dict[str, object] = {}
        at = self._skip(at)
        while not self._is(at, "}"):
            if self.script[at : at + 1] in ('"', "'"):
                key, at = self._string(at)
                name = str(key)
            else:
                word = self._match(_KEY, at)
                name, at = word[0], word.end()
            at = self._skip(at)
            if self._is(at, ":"):
                found[name], at = self.value(at + 1)
            else:
                found[name] = self._named(name)
            at = self._behind(at, "}")
        return found, at + 1

    def _array(self, at: int) -> tuple[object, int]:
        found: list[object] = []
        at = self._skip(at)
        while not self._is(at, "]"):
            entry, at = self.value(at)
            found.append(entry)
            at = self._behind(at, "]")
        if join := _JOIN.match(self.script, self._skip(at + 1)):
            glue, at = self.value(join.end())
            at = self._skip(at)
            if not isinstance(glue, str) or not self._is(at, ")"):
                raise _NoLiteralError
            return glue.join(entry for entry in found if isinstance(entry, str)), at + 1
        return found, at + 1

    def _string(self, at: int) -> tuple[object, int]:
        found = self._match(_QUOTED[self.script[at]], at)
        return _unescaped(found[1]), found.end()

    def _named(self, name: str) -> object:
        if name in _WORDS:
            return _WORDS[name]
        if self.declared is None:
            self.declared = {found[1]: found.end() for found in _DECLARED.finditer(self.script)}
        if name not in self.declared:
            raise _NoLiteralError
        return self.value(self.declared[name])[0]

    def _behind(self, at: int, end: str) -> int:
        at = self._skip(at)
        if self._is(at, ","):
            return self._skip(at + 1)
        if not self._is(at, end):
            raise _NoLiteralError
        return at

    def _skip(self, at: int) -> int:
        space = _SPACE.match(self.script, at)
        return space.end() if space else at

    def _is(self, at: int, mark: str) -> bool:
        return self.script[at : at + 1] == mark

    def _match(self, pattern: re.Pattern[str], at: int) -> re.Match[str]:
        found = pattern.match(self.script, at)
        if found is None:
            raise _NoLiteralError
        return found


def _number(text: str) -> object:
    digits = text.lower().lstrip("+")
    if "x" in digits:
        return int(digits, 16) if len(digits) < 40 else None
    return float(digits) if any(mark in digits for mark in ".e") else int(digits[:40])


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code is None:
            return _PLAIN.get(found[4], found[4])
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else "\ufffd"

    whole = _ESCAPE.sub(one, text)
    return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
