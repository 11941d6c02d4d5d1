"""Sessions as the API shows them, from the live actors where there is one, else from disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from relay.api.context import ApiContext
from relay.core.fsm import TERMINAL, State
from relay.core.record import SessionRecord
from relay.core.redact import DEFAULT
from relay.core.wire import from_wire
from relay.errors import ConflictError, NotFoundError
from relay.store.places import session_id
from relay.store.repositories import gone_hint
from relay.store.sessions import all_sessions, find_session


async def records(context: ApiContext) -> list[tuple[SessionRecord, Mapping[str, Any]]]:
    """Every session with its live view ({} when it has no actor), newest first."""
    answer = await context.facade.sessions()
    live: dict[str, tuple[SessionRecord, Mapping[str, Any]]] = {}
    for view in answer["sessions"]:
        fields = {name: value for name, value in view.items() if name != "live"}
        record = from_wire(fields, SessionRecord)
        live[record.sid] = (record, view["live"])
    stored = await trio.to_thread.run_sync(lambda: list(all_sessions(context.places)))
    for _, record in stored:
        live.setdefault(record.sid, (record, {}))
    return sorted(live.values(), key=lambda pair: pair[0].created_at, reverse=True)


async def one(context: ApiContext, sid: str) -> SessionRecord:
    """A session by id.

    Raises:
        UserError: not an id. NotFoundError: no such session.
    """
    wanted = session_id(sid)
    for record, _ in await records(context):
        if record.sid == wanted:
            return record
    _, record = await trio.to_thread.run_sync(find_session, context.places, wanted)
    return record


async def chosen(context: ApiContext, sid: str = "", *, ended: bool = False) -> SessionRecord:
    """The session that is named, or the only one that fits.

    Args:
        sid: its id, or "".
        ended: a session that is over fits too (the newest).

    Raises:
        ConflictError: more than one fits; names them. NotFoundError: none does.
    """
    if sid:
        return await one(context, sid)
    everything = [record for record, _ in await records(context)]
    fitting = [record for record in everything if record.state not in TERMINAL]
    if not fitting and ended:
        fitting = everything[:1]
    if not fitting:
        gone = await trio.to_thread.run_sync(gone_hint, context.places)
        raise NotFoundError("no session is under way", hint=gone or 'begin one: relay run "the task"')
    if len(fitting) > 1:
        names = ", ".join(f"{record.sid} ({record.options.goal[:30]})" for record in fitting)
        raise ConflictError(f"{len(fitting)} sessions are under way: {names}", hint="name one of them")
    return fitting[0]


def view(record: SessionRecord, live: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A session in full."""
    run = record.run
    return {
        "sessionId": record.sid,
        "taskId": record.options.task_id or record.sid,
        "taskGoal": DEFAULT.redact(record.options.goal).text,
        "repository": record.repository,
        "worktree": record.worktree,
        "branch": record.branch,
        "fsmState": record.state,
        "activeProvider": run.target.provider if run and not record.ended else "",
        "activeAccount": run.target.account if run and not record.ended else "",
        "chain": [str(target) for target in record.options.chain],
        "tokensUsed": record.tokens,
        "handoffsDone": record.handoffs,
        "hfsScore": record.fidelity[-1] if record.fidelity else None,
        "hfsHistory": list(record.fidelity),
        "reason": record.reason,
        "waitReason": record.wait_reason
        if record.state is State.WAITING
        else (live or {}).get("problem", ""),
        "wakeAt": record.wake_at.isoformat() if record.wake_at else None,
        "hold": record.hold,
        "blocked": record.blocked,
        "verify": list(record.options.verify),
        "verified": record.verified,
        "allow": record.options.allow,
        "endReason": record.end_reason,
        "baseCommit": record.base_commit,
        "snapshotCommit": record.snapshot_commit,
        "contractId": record.contract_id,
        "mergedInto": record.merged_into,
        "discarded": record.discarded,
        "notes": list(record.notes),
        "createdAt": record.created_at.isoformat(),
        "updatedAt": record.updated_at.isoformat(),
        "runs": [
            {
                "number": r.number,
                "target": str(r.target),
                "provider": r.target.provider,
                "account": r.target.account,
                "nativeId": r.native_id,
                "nativeResume": r.native_resume,
                "startedAt": r.started_at.isoformat() if r.started_at else None,
                "endedAt": r.ended_at.isoformat() if r.ended_at else None,
                "status": r.status,
                "tokens": r.tokens,
                "whyEnded": r.why_ended,
            }
            for r in record.runs
        ],
        "live": dict(live or {}),
    }


def repository_of(record: SessionRecord) -> Path:
    """Root of the session's repository."""
    return Path(record.repository)
