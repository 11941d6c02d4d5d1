"""The continuation contract: the value, its canonical JSON, its signature.

Markdown is for the agent, JSON for the machine; the JSON covers the Markdown's hash, so that what is
injected is what was signed. A signature proves that Relay wrote it. Built by the session rules, signed
and verified by the store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import datetime
from itertools import chain, islice
from typing import Any

import attrs
import rfc8785
from attrs import evolve, frozen

from relay.core.facts import SessionFacts
from relay.core.handover import attempts, do_not_redo, half_written, next_action
from relay.core.quoting import clean, one_line, shorten
from relay.core.strict_json import load_object, not_normal
from relay.core.wire import from_wire
from relay.core.wire_names import camel
from relay.errors import ConfigError, IntegrityError, InternalError, NewerFormatError

VERSION = 2
MAX_BYTES = 8 * 1024 * 1024
GOAL_CHARS = 100_000
MOST_FILES = 2_000
"""Most files of each kind that a contract names."""
INTENT_BLOCK = (
    "initial_prompt",
    "plan",
    "tasks_remaining",
    "skills_loaded",
    "skills_in_use",
    "skills_to_use",
    "in_flight_code",
)
"""Version 2's session-intent block; version 1 has none of it and serialises as it always did."""

ADDED = (
    "created",
    "from_target",
    "reason",
    "failed_attempts",
    "commands_run",
    "files_changed",
    "last_message",
    "brief_sha256",
    "key_id",
    "diff_stat",
    "verify_commands",
    "left_out",
    "user_messages",
)
"""Fields that version 2 has beside the block."""


@frozen(kw_only=True)
class ManifestEntry:
    """A file's hash at the snapshot."""

    path: str
    sha256: str
    modified: bool = True


@frozen(kw_only=True)
class Snippet:
    """Code that was being worked on."""

    path: str
    snippet: str


@frozen(kw_only=True)
class RanCommand:
    """A command that was run, with its exit code where the agent told it."""

    command: str
    exit_code: int | None = None


@frozen(kw_only=True)
class Attempt:
    """What was tried and did not work."""

    what: str
    why: str


@frozen(kw_only=True)
class ChangedPath:
    """A file of the work: git's status letter, lines added and removed."""

    path: str
    status: str
    added: int = 0
    removed: int = 0


@frozen(kw_only=True)
class Contract:
    """Names are camelCase on the wire."""

    contract_id: str
    session_id: str
    task_id: str
    version: int
    task_goal: str
    next_action: str
    do_not_redo: tuple[str, ...] = ()
    initial_prompt: str = ""
    plan: tuple[str, ...] = ()
    tasks_remaining: tuple[str, ...] = ()
    skills_loaded: tuple[str, ...] = ()
    skills_in_use: tuple[str, ...] = ()
    skills_to_use: tuple[str, ...] = ()
    in_flight_code: tuple[Snippet, ...] = ()
    acceptance_assertions: tuple[str, ...] = ()
    file_manifest: tuple[ManifestEntry, ...] = ()
    decisions: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    snapshot_commit_sha: str = ""
    created: str = ""
    from_target: str = ""
    reason: str = ""
    failed_attempts: tuple[Attempt, ...] = ()
    commands_run: tuple[RanCommand, ...] = ()
    files_changed: tuple[ChangedPath, ...] = ()
    last_message: str = ""
    brief_sha256: str = ""
    key_id: str = ""
    diff_stat: str = ""
    verify_commands: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    user_messages: tuple[str, ...] = ()
    signature: str = ""


@frozen(kw_only=True)
class Circumstances:
    """What a contract takes from the session rather than from its events.

    Args:
        manifest: (path, sha256) of the changed files at the snapshot.
    """

    contract_id: str
    session_id: str
    task_id: str
    created: datetime
    from_target: str
    reason: str
    snapshot_commit: str
    files: tuple[ChangedPath, ...] = ()
    manifest: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    diff_stat: str = ""
    verify: tuple[str, ...] = ()


def build(facts: SessionFacts, here: Circumstances) -> Contract:
    """The contract of a handoff, unsigned. Every text in it is clean; paths stand as they are."""
    goal = shorten(clean(facts.goal), GOAL_CHARS)
    known = {change.path for change in here.files}
    told = (ChangedPath(path=path, status="?") for path in facts.changed if path not in known)
    changed = islice(chain(here.files, told), MOST_FILES)
    items = dict.fromkeys((*facts.finished, *(item.text for item in facts.plan)))
    return Contract(
        contract_id=here.contract_id,
        session_id=here.session_id,
        task_id=here.task_id,
        version=VERSION,
        task_goal=goal,
        next_action=next_action(facts),
        do_not_redo=do_not_redo(facts, {change.path for change in here.files if change.status == "D"}),
        initial_prompt=goal,
        plan=tuple(one_line(text) for text in items),
        tasks_remaining=tuple(one_line(text) for text in facts.remaining),
        in_flight_code=tuple(Snippet(path=_path(path), snippet=what) for path, what in half_written(facts)),
        acceptance_assertions=tuple(f"`{one_line(command)}` exits with status 0" for command in here.verify),
        file_manifest=tuple(
            ManifestEntry(path=_path(path), sha256=sha) for path, sha in here.manifest[:MOST_FILES]
        ),
        decisions=tuple(one_line(text) for text in facts.decisions),
        constraints=constraints_of(facts),
        snapshot_commit_sha=here.snapshot_commit,
        created=here.created.isoformat(timespec="seconds"),
        from_target=one_line(here.from_target),
        reason=one_line(here.reason),
        failed_attempts=tuple(Attempt(what=one_line(a.what), why=one_line(a.why)) for a in attempts(facts)),
        commands_run=tuple(
            RanCommand(command=one_line(ran.command), exit_code=ran.exit_code)
            for ran in facts.commands.values()
        ),
        files_changed=tuple(evolve(change, path=_path(change.path)) for change in changed),
        last_message=clean(facts.last_message),
        diff_stat=one_line(here.diff_stat),
        verify_commands=tuple(clean(command) for command in here.verify),
        left_out=tuple(_path(path) for path in here.left_out[:MOST_FILES]),
        user_messages=tuple(shorten(clean(text), 2_000) for text in facts.replies[-10:]),
    )


NOTED = " (noted by an agent)"
"""Ends a constraint that an agent stated, so that none passes for the user's own."""


def constraints_of(facts: SessionFacts) -> tuple[str, ...]:
    """The user's rules, then what agents noted, marked as such."""
    stated = (one_line(rule) for rule in facts.rules)
    noted = (one_line(text) + NOTED for text in facts.constraints if text not in facts.rules)
    return tuple(dict.fromkeys((*stated, *noted)))


def _path(path: str) -> str:
    """A path as text that JSON can hold; an agent may have written anything."""
    return path.encode("utf-8", "replace").decode()


def canonical(contract: Contract) -> bytes:
    """The bytes that are signed: RFC 8785 without the signature; version 1 without version 2's fields."""
    values = document(contract)
    del values["signature"]
    return rfc8785.dumps(values)


def document(contract: Contract) -> dict[str, Any]:
    """The contract as a JSON object with every field of its version."""
    return {_wire_name(name): _plain(getattr(contract, name)) for name in _names(contract.version)}


def _wire_name(name: str) -> str:
    return _SHA if name == "snapshot_commit_sha" else camel(name)


def _names(version: int) -> tuple[str, ...]:
    left_out = {*INTENT_BLOCK, *ADDED} if version == 1 else set()
    return tuple(a.name for a in attrs.fields(Contract) if a.name not in left_out)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if attrs.has(type(value)):
        return {camel(a.name): _plain(getattr(value, a.name)) for a in attrs.fields(type(value))}
    return value


def key_id(key: bytes) -> str:
    """Names the key without telling it: 16 hex digits."""
    return hashlib.sha256(b"relay-key-id" + key).hexdigest()[:16]


def sign(contract: Contract, markdown: bytes, key: bytes) -> Contract:
    """The contract, bound to its Markdown and signed.

    Args:
        key: the secret, 32 bytes.

    Raises:
        InternalError: a text in it is one that `verify` would refuse.
    """
    bound = evolve(
        contract, brief_sha256=hashlib.sha256(markdown).hexdigest(), key_id=key_id(key), signature=""
    )
    try:
        fault = not_normal(document(bound), _AS_ON_DISK)
        mac = _mac(bound, key)
    except rfc8785.CanonicalizationError as error:
        raise InternalError(f"contract {contract.contract_id} cannot be written: {error}") from error
    if fault:
        raise InternalError(f"contract {contract.contract_id} cannot be signed: {fault}")
    return evolve(bound, signature=mac)


def _mac(contract: Contract, key: bytes) -> str:
    return hmac.new(key, canonical(contract), hashlib.sha256).hexdigest()


def verify(data: bytes, markdown: bytes | None, key: bytes, *, session_id: str | None) -> Contract:
    """The contract, if both files are what Relay wrote for this session.

    Args:
        data: envelope.json, to the byte.
        markdown: envelope.md, to the byte; None when the JSON alone is looked at, never to inject.
        key: this user's signing key.
        session_id: whose contract it must be; None when any will do.

    Raises:
        NewerFormatError: a newer Relay wrote it.
        BriefMismatchError: the JSON is right, but the Markdown is not the one that it covers.
        IntegrityError: it says which check failed.
    """
    contract = _read(data)
    if contract.version != 1 and contract.key_id != key_id(key):
        raise _broken(f"it was signed with key {contract.key_id[:16]!r}, and this user's is {key_id(key)}")
    try:
        expected = _mac(contract, key)
    except rfc8785.CanonicalizationError as error:
        raise _broken(f"its values cannot be signed ({error})") from error
    if not hmac.compare_digest(expected.encode(), contract.signature.encode("utf-8", "replace")):
        raise _broken("its signature does not match")
    if data != dump(contract):
        raise _broken("it is spelled otherwise than Relay writes it")
    if fault := not_normal(document(contract), _AS_ON_DISK):
        raise _broken(fault)
    if markdown is not None and contract.version == 1:
        raise _broken("version 1 does not cover the Markdown, so envelope.md cannot be trusted")
    if markdown is not None and not hmac.compare_digest(
        hashlib.sha256(markdown).hexdigest().encode(), contract.brief_sha256.encode()
    ):
        raise BriefMismatchError(contract)
    if session_id is not None and contract.session_id != session_id:
        raise _broken(f"it belongs to session {contract.session_id}, not {session_id}")
    return contract


class BriefMismatchError(IntegrityError):
    """envelope.md is not the text that envelope.json, which is in order, was signed for."""

    code = "brief_mismatch"

    def __init__(self, contract: Contract) -> None:
        super().__init__(
            f"the contract is refused: envelope.md is not the text signed for {contract.contract_id}",
            hint=_HINT,
        )
        self.contract = contract


def dump(contract: Contract) -> bytes:
    """The bytes of envelope.json: one spelling only, indented for people."""
    return json.dumps(document(contract), indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _read(data: bytes) -> Contract:
    """The JSON as a value, its shape checked and nothing else."""
    if len(data) > MAX_BYTES:
        raise _broken(f"it has {len(data)} bytes, and {MAX_BYTES} are the most")
    try:
        values = load_object(data)
    except ValueError as error:
        raise _broken(str(error)) from error
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise NewerFormatError(
            f"the contract has version {version}; this Relay knows up to {VERSION}", hint="update this Relay"
        )
    if type(version) is not int or version < 1:
        raise _broken("it lacks version" if version is None else f"its version is {version!r:.40}")
    wanted = {_wire_name(name) for name in _names(version)}
    if missing := wanted - set(values):
        raise _broken(f"it lacks {', '.join(sorted(missing))}")
    if extra := set(values) - wanted:
        raise _broken(f"it has unknown fields: {', '.join(sorted(extra))[:200]!r}")
    try:
        contract = from_wire({**values, camel("snapshot_commit_sha"): values[_SHA]}, Contract)
        spelled = document(contract) == values
    except (ConfigError, RecursionError) as error:
        raise _broken(f"its fields have the wrong types: {str(error)[:300]}") from error
    if not spelled:
        raise _broken("its fields have the wrong types, or an entry has an unknown field")
    return contract


_SHA = "snapshotCommitSHA"
_AS_ON_DISK = ("path", "leftOut")
_HINT = "it was changed after Relay signed it; hand over again to have a new one written"


def _broken(what: str) -> IntegrityError:
    return IntegrityError(f"the contract is refused: {what}", hint=_HINT)
