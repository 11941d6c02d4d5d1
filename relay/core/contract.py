"""The continuation contract: the value, its canonical JSON, its signature.

Markdown is for the agent, JSON for the machine; the JSON covers the Markdown's hash, so that what is
injected is what was signed. A signature proves that Relay wrote it. Built by the session rules, signed
and verified by the store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs
import rfc8785
from attrs import evolve, frozen

from relay.core.facts import SessionFacts
from relay.core.quoting import clean, one_line, shorten
from relay.core.wire import camel, from_wire, to_wire
from relay.errors import ConfigError, IntegrityError, NewerFormatError

VERSION = 2
MAX_BYTES = 8 * 1024 * 1024
GOAL_CHARS = 20_000
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
    """The contract of a handoff, unsigned."""
    remaining = tuple(one_line(text) for text in facts.remaining)
    done = tuple(f"{one_line(text)} (done)" for text in facts.done)
    known = {change.path for change in here.files}
    files = (
        *here.files,
        *(ChangedPath(path=path, status="?") for path in facts.changed if path not in known),
    )
    ran = tuple(RanCommand(command=c.command, exit_code=c.exit_code) for c in facts.commands.values() if c.ok)
    redo = (*done, *(f"ran {c.command}" + _code(c.exit_code) for c in ran))
    return Contract(
        contract_id=here.contract_id,
        session_id=here.session_id,
        task_id=here.task_id,
        version=VERSION,
        task_goal=shorten(clean(facts.goal), GOAL_CHARS),
        next_action=_next_action(facts, remaining),
        do_not_redo=redo,
        initial_prompt=shorten(clean(facts.goal), GOAL_CHARS),
        plan=tuple(f"[{_box(item.status.value)}] {one_line(item.text)}" for item in facts.plan),
        tasks_remaining=remaining,
        acceptance_assertions=tuple(f"`{one_line(command)}` exits with status 0" for command in here.verify),
        file_manifest=tuple(ManifestEntry(path=path, sha256=sha) for path, sha in here.manifest),
        decisions=tuple(facts.decisions),
        constraints=tuple(facts.constraints),
        snapshot_commit_sha=here.snapshot_commit,
        created=here.created.isoformat(timespec="seconds"),
        from_target=here.from_target,
        reason=one_line(here.reason),
        failed_attempts=tuple(Attempt(what=f.what, why=f.why) for f in facts.failures.values()),
        commands_run=tuple(
            RanCommand(command=c.command, exit_code=c.exit_code) for c in facts.commands.values()
        ),
        files_changed=files,
        last_message=clean(facts.last_message),
        diff_stat=here.diff_stat,
        verify_commands=here.verify,
        left_out=here.left_out,
        user_messages=tuple(shorten(clean(text), 2_000) for text in facts.replies[-10:]),
    )


def _next_action(facts: SessionFacts, remaining: tuple[str, ...]) -> str:
    if remaining:
        return remaining[0]
    if facts.next_step:
        return facts.next_step
    return "Inspect the working tree against the goal, then finish it"


def _box(status: str) -> str:
    return {"completed": "x", "in_progress": "~"}.get(status, " ")


def _code(exit_code: int | None) -> str:
    return "" if exit_code is None else f" (exit code {exit_code})"


def canonical(contract: Contract) -> bytes:
    """The bytes that are signed: RFC 8785 without the signature; version 1 without version 2's fields."""
    values = document(contract)
    del values["signature"]
    return rfc8785.dumps(values)


def document(contract: Contract) -> dict[str, Any]:
    """The contract as a JSON object with every field of its version."""
    left_out = {*INTENT_BLOCK, *ADDED} if contract.version == 1 else set()
    return {
        camel(a.name): _plain(getattr(contract, a.name))
        for a in attrs.fields(Contract)
        if a.name not in left_out
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if attrs.has(type(value)):
        return {camel(a.name): _plain(getattr(value, a.name)) for a in attrs.fields(type(value))}
    return to_wire(value)


def key_id(key: bytes) -> str:
    """Names the key without telling it."""
    return hashlib.sha256(b"relay-key-id" + key).hexdigest()[:16]


def sign(contract: Contract, markdown: bytes, key: bytes) -> Contract:
    """The contract, bound to its Markdown and signed."""
    bound = evolve(
        contract, brief_sha256=hashlib.sha256(markdown).hexdigest(), key_id=key_id(key), signature=""
    )
    return evolve(bound, signature=_mac(bound, key))


def _mac(contract: Contract, key: bytes) -> str:
    return hmac.new(key, canonical(contract), hashlib.sha256).hexdigest()


def verify(data: bytes, markdown: bytes, key: bytes, *, session_id: str) -> Contract:
    """The contract, if both files are what Relay wrote for this session.

    Raises:
        NewerFormatError: a newer Relay wrote it.
        IntegrityError: it says which check failed.
    """
    values = _parse(data)
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise NewerFormatError(
            f"the contract has version {version}; this Relay knows up to {VERSION}", hint="update this Relay"
        )
    if version not in (1, VERSION):
        raise _broken(f"its version is {version!r:.40}")
    left_out = {*INTENT_BLOCK, *ADDED} if version == 1 else set()
    wanted = {camel(a.name) for a in attrs.fields(Contract) if a.name not in left_out}
    if missing := wanted - set(values):
        raise _broken(f"it lacks {', '.join(sorted(missing))}")
    if extra := set(values) - wanted:
        raise _broken(f"it has unknown fields: {', '.join(sorted(extra))[:200]}")
    try:
        contract = from_wire(values, Contract)
    except ConfigError as error:
        raise _broken(f"its fields have the wrong types: {error.message}") from error
    if not hmac.compare_digest(_mac(contract, key), contract.signature) or _loose(data, contract):
        raise _broken("its signature does not match")
    if version != 1 and hashlib.sha256(markdown).hexdigest() != contract.brief_sha256:
        raise _broken("envelope.md is not the text that was signed")
    if contract.session_id != session_id:
        raise _broken(f"it belongs to session {contract.session_id}")
    return contract


def dump(contract: Contract) -> bytes:
    """The bytes of envelope.json."""
    return json.dumps(document(contract), indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _loose(data: bytes, contract: Contract) -> bool:
    """The bytes are another spelling of the same values: Relay writes one spelling only."""
    return data != dump(contract)


def _parse(data: bytes) -> Mapping[str, Any]:
    if len(data) > MAX_BYTES:
        raise _broken(f"it has {len(data)} bytes")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in items]
        if len(set(names)) != len(names):
            raise ValueError("a key stands twice")
        return dict(items)

    def constant(text: str) -> Any:
        raise ValueError(f"{text} is no JSON number")

    try:
        values = json.loads(data.decode(), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise _broken(f"it is not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise _broken("it is not a JSON object")
    return values


def _broken(what: str) -> IntegrityError:
    return IntegrityError(
        f"the contract is refused: {what}",
        hint="somebody changed it after Relay signed it; hand over again to have a new one written",
    )
