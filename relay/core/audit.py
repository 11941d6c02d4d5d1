"""The form of an audit line: its canonical bytes, its hash, and how a line is read back strictly.

Called by `relay.store.audit` to write lines and by the verifier to judge them. The hash of a line is

    SHA-256(prevHash + canonical({"data": ..., "event": ..., "ts": ...}))

with prevHash as its 64 hexadecimal digits and canonical as RFC 8785 (JSON Canonicalization Scheme), so
the time is covered as well. A line is written in one fixed form, so each single byte of it is covered.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import orjson
import rfc8785
from attrs import frozen

NO_HASH = "0" * 64
"""prevHash of the first line."""

_MAX_INT = 2**53 - 1
_MAX_DEPTH = 100
_FAST = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_LINE = re.compile(
    rb'\{"ts":("\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),"prevHash":"([0-9a-f]{64})","hash":"([0-9a-f]{64})",'
    rb'"event":("(?:[^"\\\x00-\x1f]|\\.)*"),"data":(\{.*\})\}',
    re.DOTALL,
)


@frozen(kw_only=True)
class AuditLine:
    """One entry as it stands in the log.

    Args:
        ts: UTC, "2026-06-03T15:41:03.123Z".
        prev_hash: hash of the line before, 64 hexadecimal digits.
        hash: the line's own.
        event: what happened.
        data: JSON object.
    """

    ts: str
    prev_hash: str
    hash: str
    event: str
    data: dict[str, Any]


@frozen(kw_only=True)
class BadLine:
    """Why a line is no entry.

    Args:
        reason: for people, following on "line 7 ".
        torn: it does not even have the form of a line, as after a crash in mid-write; an edited line has.
    """

    reason: str
    torn: bool


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value.

    Raises:
        ValueError: it has none: NaN, an integer beyond 2**53 - 1, a lone surrogate, a key that is not
            text, a type JSON does not know, or too deep a nesting.
    """
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=_FAST)
        except orjson.JSONEncodeError:
            pass
    try:
        return rfc8785.dumps(value)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def storable(value: Any, depth: int = 0) -> Any:
    """The nearest value that has a canonical form, for one that has none; never fails.

    Lone surrogates become U+FFFD, numbers out of range and NaN become text, what is nested more than 100
    deep is left out.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return storable(value.value, depth)
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, int):
        return int(value) if abs(value) <= _MAX_INT else _digits(value)
    if isinstance(value, float):
        return float(value) if abs(value) < float("inf") else str(float(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if depth >= _MAX_DEPTH:
        return "[nested too deep]"
    if isinstance(value, Mapping):
        return {storable(str(key)): storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, Set)):
        return [storable(item, depth + 1) for item in value]
    return storable(value.isoformat() if isinstance(value, datetime) else str(value))


def stamp(at: datetime) -> str:
    """An aware instant as the `ts` of a line: UTC, cut to milliseconds.

    Raises:
        ValueError: the instant has no zone.
    """
    if at.tzinfo is None:
        raise ValueError(f"an instant without a zone: {at}")
    return at.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def seal(prev_hash: str, event: str, data: Mapping[str, Any], ts: str) -> tuple[str, bytes]:
    """Make a line.

    Args:
        prev_hash: hash of the line before, or NO_HASH.
        ts: of `stamp`.

    Returns:
        The line's hash, and its bytes with the newline.
    """
    try:
        body, name = canonical(data), canonical(event)
    except ValueError:
        body, name = canonical(storable(data)), canonical(storable(event))
    time = b'"%b"' % ts.encode()
    digest = _hash(prev_hash, body, name, time)
    line = b'{"ts":%b,"prevHash":"%b","hash":"%b","event":%b,"data":%b}\n' % (
        time,
        prev_hash.encode(),
        digest.encode(),
        name,
        body,
    )
    return digest, line


def read_line(line: bytes) -> AuditLine | BadLine:
    """Read a line (without its newline) and check all that can be checked without its neighbours."""
    match = _LINE.fullmatch(line)
    if match is None:
        return _misshapen(line)
    time, prev_hash, digest, name, body = match.groups()
    content = _content(body, name, time)
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return BadLine(reason="is not JSON", torn=True)
    if hashlib.sha256(prev_hash + content).hexdigest().encode() != digest:
        return BadLine(reason="was edited: its content does not match its hash", torn=False)
    if not _is_canonical(value, content):
        return _misshapen(line)
    return AuditLine(
        ts=value["ts"],
        prev_hash=prev_hash.decode(),
        hash=digest.decode(),
        event=value["event"],
        data=value["data"],
    )


def _hash(prev_hash: str, body: bytes, name: bytes, time: bytes) -> str:
    return hashlib.sha256(prev_hash.encode() + _content(body, name, time)).hexdigest()


def _content(body: bytes, name: bytes, time: bytes) -> bytes:
    return b'{"data":%b,"event":%b,"ts":%b}' % (body, name, time)


def _is_plain(value: Any) -> bool:
    # What orjson writes byte for byte as RFC 8785 does. Of floats only those that neither writes with an
    # exponent and that are no whole numbers; keys in ASCII, since the two sort others differently.
    todo = [value]
    while todo:
        item = todo.pop()
        kind = type(item)
        if kind is str or kind is int or item is None or kind is bool:
            continue
        if kind is dict:
            for key in item:
                if type(key) is not str or not key.isascii():
                    return False
            todo.extend(item.values())
        elif kind is list or kind is tuple:
            todo.extend(item)
        elif kind is not float or not 1e-4 <= abs(item) < 1e15 or item.is_integer():
            return False
    return True


def _is_canonical(value: Any, content: bytes) -> bool:
    try:
        return canonical(value) == content
    except ValueError:
        pass
    try:
        return canonical(_doubles(value)) == content
    except ValueError:
        return False


def _doubles(value: Any) -> Any:
    # RFC 8785 writes 1e17 as an integer's digits, which are read back as an integer out of its range.
    if isinstance(value, dict):
        return {key: _doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    return float(value) if type(value) is int and abs(value) > _MAX_INT else value


def _misshapen(line: bytes) -> BadLine:
    try:
        value = json.loads(line, object_pairs_hook=_unique)
    except _DuplicateKeyError as error:
        return BadLine(reason=f"holds the key {error.args[0]!r:.60} twice", torn=False)
    except (ValueError, RecursionError):
        return BadLine(reason="is not JSON", torn=True)
    if not isinstance(value, dict):
        return BadLine(reason="is no JSON object", torn=True)
    return BadLine(reason="is not in the form that Relay writes", torn=False)


class _DuplicateKeyError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(key)
        found[key] = value
    return found


def _digits(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:
        return hex(value)
