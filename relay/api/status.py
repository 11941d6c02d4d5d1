"""What runs and where it stands: health, status, events, contract, circuit, redactions, approvals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import trio

from relay.api import requests, views
from relay.api.context import ApiContext
from relay.api.routing import Call, Route, whole_number
from relay.api.sessions import entry_view
from relay.api.starting import folder
from relay.core.chain import parse_target
from relay.core.record import SessionRecord
from relay.core.wire import to_wire
from relay.errors import ConfigError, NotFoundError, UnknownProviderError
from relay.store import audit_read, audit_verify, contracts
from relay.store.places import RepoPlaces
from relay.store.repo_root import repository_root
from relay.version import VERSION

_MARKER = re.compile(r"\[REDACTED:([a-z0-9_]+)")
_SESSION = {"session": "id of the session; needed when more than one is under way"}


async def health(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/health, the one route without a token."""
    return {"ok": True, "port": context.gatekeeper.port, "version": VERSION}


async def status(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/status."""
    if call.query.get("tree"):
        return await context.facade.tree()
    try:
        record = await views.chosen(context, call.query.get("session", ""), ended=True)
    except NotFoundError:
        if call.query.get("session"):
            raise
        return {"sessionId": "", "fsmState": "", "taskGoal": "", "role": call.by, "version": VERSION}
    live = {r.sid: view for r, view in await views.records(context)}
    return {
        **views.view(record, live.get(record.sid)),
        "role": call.by,
        "graphNodes": 0,
        "version": VERSION,
    }


async def newest(context: ApiContext, call: Call) -> list[Any]:
    """GET /api/events."""
    since = whole_number(call.query, "since", 0)
    return [orjson.loads(event.wire) for event in context.stream.since(since)]


async def contract(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/contract: the newest contract of a session, verified."""
    record = await views.chosen(context, call.query.get("session", ""), ended=True)
    if not record.contract_id:
        raise NotFoundError(f"{record.sid} has no contract yet", hint="one is written at each handoff")
    folder = RepoPlaces(root=Path(record.repository)).session(record.sid)

    def load() -> Mapping[str, Any]:
        verified, markdown = contracts.load_verified(folder, context.signing_key, session_id=record.sid)
        return {
            "sessionId": record.sid,
            "path": str(folder / "envelope.md"),
            "verified": True,
            "contract": to_wire(verified),
            "markdown": markdown,
        }

    return await trio.to_thread.run_sync(load)


async def audit(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/audit/verify: a repository's audit log, checked."""
    record = await views.chosen(context, call.query.get("session", ""), ended=True)
    repo = RepoPlaces(root=Path(record.repository))

    def check() -> Mapping[str, Any]:
        verdict = audit_verify.verify(repo.audit, context.places.anchor(repo.root), context.signing_key)
        return {"path": str(repo.audit), **to_wire(verdict), "ok": verdict.ok}

    return await trio.to_thread.run_sync(check)


async def audit_tail(context: ApiContext, call: Call) -> list[Any]:
    """GET /api/audit: the newest entries."""
    record = await views.chosen(context, call.query.get("session", ""), ended=True)
    path = RepoPlaces(root=Path(record.repository)).audit
    found = await trio.to_thread.run_sync(lambda: audit_read.tail(path, 200))
    return [{**entry_view(entry), "hash": entry.hash} for entry in found]


async def redactions(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """GET /api/redactions: how many secrets of which kind were kept out of the log."""
    named = call.query.get("session", "")
    chosen = [await views.one(context, named)] if named else [r for r, _ in await views.records(context)]

    def count() -> dict[str, Any]:
        kinds: Counter[str] = Counter()
        for record in chosen:
            kinds.update(_redacted(record))
        return {"total": sum(kinds.values()), "kinds": dict(kinds)}

    return await trio.to_thread.run_sync(count)


def _redacted(record: SessionRecord) -> Counter[str]:
    kinds: Counter[str] = Counter()
    path = RepoPlaces(root=Path(record.repository)).audit
    for entry in audit_read.entries(path, session=record.sid):
        if entry.event == "agent_event":
            kinds.update(_MARKER.findall(orjson.dumps(entry.data).decode()))
    return kinds


async def circuit(context: ApiContext, call: Call) -> Any:
    """GET /api/circuit."""
    return (await context.facade.providers())["circuits"]


async def isolate(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/circuit."""
    # A name of the wrong shape is refused here: no actor should have to.
    provider, _ = parse_target(call.body.target)
    if provider not in context.provider_names:
        known = ", ".join(context.provider_names)
        raise UnknownProviderError(f"no provider {provider!r}", hint=f"known: {known}")
    return await context.facade.isolate(call.body.target, call.body.isolated)


async def providers(context: ApiContext, call: Call) -> list[Any]:
    """GET /api/providers: state and quota of every target that is known here."""
    cwd = call.query.get("cwd", "")
    found = await context.machine.providers(repository_root(folder(cwd)) if cwd else None)
    circuits = {view["target"]: view for view in await circuit(context, call)}
    listed: list[Any] = []
    for provider in found:
        for account in provider["accounts"]:
            name = provider["name"] if account == "default" else f"{provider['name']}/{account}"
            seen = circuits.get(name, {})
            windows = seen.get("windows", [])
            resets = [w["resetsAt"] for w in windows if w.get("resetsAt")]
            listed.append(
                {
                    **provider,
                    "name": name,
                    "provider": provider["name"],
                    "account": account,
                    "state": seen.get("state", "closed"),
                    "fractionUsed": seen.get("fractionUsed"),
                    "resetsAt": seen.get("openUntil") or min(resets, default=None),
                    "reason": seen.get("reason", ""),
                    "isNext": False,
                    "quotaSource": "provider" if windows else "",
                }
            )
    return listed


async def approvals(context: ApiContext, call: Call) -> Any:
    """GET /api/approvals."""
    return (await context.facade.approvals())["approvals"]


async def decide(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/approvals/{id}."""
    body: requests.DecisionRequest = call.body
    return await context.facade.decide(call.path["id"], body.approved, body.note, call.by)


async def ticket(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/ticket: a one-time link for a browser."""
    made = context.gatekeeper.make_ticket()
    return {"url": f"http://127.0.0.1:{context.gatekeeper.port}/enter?ticket={made}"}


async def clear_away(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/gc."""
    body: requests.GcRequest = call.body
    if body.keep_days is not None and not 0 <= body.keep_days <= 36_500:
        raise ConfigError(f"keepDays {body.keep_days} is not between 0 and 36500")
    return await context.facade.clear_away(dry_run=body.dry_run, keep_days=body.keep_days)


async def shutdown(context: ApiContext, call: Call) -> Mapping[str, Any]:
    """POST /api/daemon/stop: end the daemon; agents go on."""
    context.stop()
    return {"stopping": True}


ROUTES = (
    Route(
        method="GET",
        path="/api/health",
        handler=health,
        summary="Is the daemon up?",
        response="{ok, port, version}",
        token=False,
    ),
    Route(
        method="GET",
        path="/api/status",
        handler=status,
        summary="Where a session stands.",
        query={**_SESSION, "tree": "1: the live actor tree instead"},
    ),
    Route(
        method="GET",
        path="/api/events",
        handler=newest,
        summary="The newest events.",
        query={"since": "only those with a greater seq"},
    ),
    Route(
        method="GET", path="/api/contract", handler=contract, summary="The newest contract.", query=_SESSION
    ),
    Route(method="GET", path="/api/audit", handler=audit_tail, summary="The newest entries.", query=_SESSION),
    Route(method="GET", path="/api/audit/verify", handler=audit, summary="Check the chain.", query=_SESSION),
    Route(
        method="GET",
        path="/api/redactions",
        handler=redactions,
        summary="Secrets that were kept out of the log, by kind.",
        query=_SESSION,
    ),
    Route(method="GET", path="/api/circuit", handler=circuit, summary="The circuit breakers."),
    Route(
        method="POST",
        path="/api/circuit",
        handler=isolate,
        summary="Take a target out of service, or put it back.",
        request=requests.IsolateRequest,
    ),
    Route(
        method="GET",
        path="/api/providers",
        handler=providers,
        summary="Providers and accounts: state and quota.",
        query={"cwd": "a folder of the repository whose relay.toml counts"},
    ),
    Route(method="GET", path="/api/approvals", handler=approvals, summary="What waits for a person."),
    Route(
        method="POST",
        path="/api/approvals/{id}",
        handler=decide,
        summary="Answer a permission request.",
        request=requests.DecisionRequest,
    ),
    Route(
        method="POST",
        path="/api/ticket",
        handler=ticket,
        summary="A one-time link for a browser.",
        request=requests.Nothing,
    ),
    Route(
        method="POST",
        path="/api/gc",
        handler=clear_away,
        summary="Clear away what is left of ended sessions.",
        request=requests.GcRequest,
        response="{items, problems, dryRun, auditBytes}",
    ),
    Route(
        method="POST",
        path="/api/daemon/stop",
        handler=shutdown,
        summary="End the daemon; agents go on.",
        request=requests.Nothing,
    ),
)
