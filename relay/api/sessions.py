"""Sessions: begin, list, look, act."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from relay.api import requests, views
from relay.api.context import ApiContext
from relay.api.routing import Call, Route, whole_number
from relay.api.starting import session_settings
from relay.core import commands
from relay.core.chain import Target, parse_target
from relay.core.record import SessionRecord
from relay.errors import ConfigError, UnknownProviderError
from relay.store import audit_read
from relay.store.places import RepoPlaces

_ALPHABET = string.ascii_lowercase + string.digits
EVENTS_AT_ONCE = 5_000


def new_session_id() -> str:
    """A fresh id of a session."""
    return "s-" + "".join(secrets.choice(_ALPHABET) for _ in range(8))


async def begin(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/sessions and /api/run."""
    body: requests.RunRequest = call.body
    if not body.task.strip():
        raise ConfigError("task is empty", hint="say what is to be done")
    settings = await session_settings(context, body)
    sid = new_session_id()
    made = await context.facade.create(sid, body.cwd, settings.options, settings.policy)
    return {**made, "notes": [*made.get("notes", []), *settings.notes]}


async def listed(context: ApiContext, call: Call) -> list[dict[str, Any]]:
    """GET /api/sessions."""
    return [views.view(record, live) for record, live in await views.records(context)]


async def shown(context: ApiContext, call: Call) -> dict[str, Any]:
    """GET /api/sessions/{sid}."""
    wanted = await views.one(context, call.path["sid"])
    for record, live in await views.records(context):
        if record.sid == wanted.sid:
            return views.view(record, live)
    return views.view(wanted)


async def events(context: ApiContext, call: Call) -> list[dict[str, Any]]:
    """GET /api/sessions/{sid}/events."""
    record = await views.one(context, call.path["sid"])
    after = whole_number(call.query, "after", 0)
    limit = min(whole_number(call.query, "limit", EVENTS_AT_ONCE), EVENTS_AT_ONCE)

    def read() -> list[dict[str, Any]]:
        path = RepoPlaces(root=Path(record.repository)).audit
        found: list[dict[str, Any]] = []
        for entry in audit_read.entries(path, after=after, session=record.sid):
            found.append(entry_view(entry))
            if len(found) >= limit:
                break
        return found

    return await trio.to_thread.run_sync(read)


def entry_view(entry: audit_read.AuditEntry) -> dict[str, Any]:
    """An audit entry in the form of the stream's events."""
    data = {name: value for name, value in entry.data.items() if name not in ("seq", "session")}
    return {
        "seq": entry.seq,
        "ts": entry.ts,
        "session": entry.session,
        "type": entry.event,
        "data": data,
    }


async def _act(context: ApiContext, record: SessionRecord, command: commands.Command) -> Mapping[str, Any]:
    answer = await context.facade.command(record.sid, record.repository, command)
    return {"sessionId": record.sid, **answer}


async def _record(context: ApiContext, call: Call, *, ended: bool = False) -> SessionRecord:
    named = call.path.get("sid") or str(getattr(call.body, "session", ""))
    return await views.chosen(context, named, ended=ended)


async def hand_off(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../handoff."""
    record = await _record(context, call)
    to = known_target(context, record, call.body.to) if call.body.to else None
    return await _act(context, record, commands.HandOff(at=context.clock(), by=call.by, to=to))


def known_target(context: ApiContext, record: SessionRecord, text: str) -> Target:
    """A target by name; its account is the chain's when only the provider is named.

    Raises:
        ConfigError, UnknownProviderError: not a provider.
    """
    provider, account = parse_target(text)
    if provider not in context.provider_names:
        known = ", ".join(context.provider_names)
        raise UnknownProviderError(f"no provider {provider!r}", hint=f"known: {known}")
    if account is None:
        for target in record.options.chain:
            if target.provider == provider:
                return target
    return Target(provider=provider, account=account or "default")


async def pause(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../pause; the older route resumes with `pause` false."""
    record = await _record(context, call)
    if getattr(call.body, "pause", True):
        return await _act(context, record, commands.Pause(at=context.clock(), by=call.by))
    return await _act(context, record, commands.Resume(at=context.clock(), by=call.by))


async def resume(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../resume."""
    record = await _record(context, call)
    return await _act(context, record, commands.Resume(at=context.clock(), by=call.by))


async def stop(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../stop."""
    record = await _record(context, call)
    return await _act(context, record, commands.Stop(at=context.clock(), by=call.by))


async def reply(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../reply."""
    if not call.body.reply.strip():
        raise ConfigError("reply is empty")
    record = await _record(context, call)
    command = commands.Reply(at=context.clock(), by=call.by, text=call.body.reply)
    return await _act(context, record, command)


async def merge(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../merge."""
    record = await _record(context, call, ended=True)
    return await _act(context, record, commands.Merge(at=context.clock(), by=call.by))


async def discard(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST .../discard."""
    record = await _record(context, call, ended=True)
    command = commands.Discard(at=context.clock(), by=call.by, force=call.body.force)
    return await _act(context, record, command)


async def diff(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/sessions/{sid}/diff and /api/session/diff."""
    named = call.path.get("sid") or call.query.get("session", "")
    record = await views.chosen(context, named, ended=True)
    return {"sessionId": record.sid, **await context.work.diff(record)}


_ONE = "/api/sessions/{sid}"
_SESSION = {"session": "id of the session; needed when more than one is under way"}

ROUTES = (
    Route(method="GET", path="/api/sessions", handler=listed, summary="All sessions, newest first."),
    Route(
        method="POST",
        path="/api/sessions",
        handler=begin,
        summary="Begin a session.",
        request=requests.RunRequest,
        response="{sessionId, worktree, branch, notes}",
    ),
    Route(
        method="POST",
        path="/api/run",
        handler=begin,
        summary="Begin a session.",
        request=requests.RunRequest,
        response="{sessionId, worktree, branch, notes}",
    ),
    Route(method="GET", path=_ONE, handler=shown, summary="One session in full."),
    Route(
        method="GET",
        path=_ONE + "/events",
        handler=events,
        summary="A session's events from the audit log, in order.",
        query={"after": "only those with a greater seq", "limit": "how many at the most"},
    ),
    Route(method="GET", path=_ONE + "/diff", handler=diff, summary="A session's work since its base."),
    Route(
        method="GET",
        path="/api/session/diff",
        handler=diff,
        summary="A session's work since its base.",
        query=_SESSION,
    ),
    *(
        Route(method="POST", path=path, handler=handler, summary=summary, request=request)
        for name, handler, summary, request in (
            ("handoff", hand_off, "Hand the session over at a safe point.", requests.HandOffRequest),
            ("pause", pause, "Pause the session at a safe point.", requests.PauseRequest),
            ("resume", resume, "Go on after a pause or a wait.", requests.SessionRequest),
            ("stop", stop, "End the session; its work stays on its branch.", requests.SessionRequest),
            ("reply", reply, "Say something to the agent.", requests.ReplyRequest),
            ("merge", merge, "Merge the session's branch into the checkout.", requests.SessionRequest),
            ("discard", discard, "Remove the session's worktree and branch.", requests.DiscardRequest),
        )
        for path in (f"{_ONE}/{name}", f"/api/session/{name}")
    ),
    Route(
        method="POST",
        path="/api/handoff",
        handler=hand_off,
        summary="Hand the session over at a safe point.",
        request=requests.HandOffRequest,
    ),
)
