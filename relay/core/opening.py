"""What the next agent is told, and the contract it is told from.

Pure helpers of the session rules.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from relay.core.contract import ChangedPath, Circumstances, Contract, build
from relay.core.effects import Opening
from relay.core.facts import SessionFacts
from relay.core.record import SessionRecord
from relay.core.reports import SnapshotTaken


def contract_id_for(record: SessionRecord, commit: str) -> str:
    """The same id whenever the same handoff is redone."""
    run = record.run
    seed = f"{record.sid}:{run.number if run else 0}:{commit}"
    return "c-" + hashlib.sha256(seed.encode()).hexdigest()[:12]


def contract_for(
    record: SessionRecord, facts: SessionFacts, snapshot: SnapshotTaken, at: datetime
) -> Contract:
    """The continuation contract of the handoff under way."""
    run, adopted = record.run, record.options.adopted
    here = Circumstances(
        contract_id=contract_id_for(record, snapshot.commit),
        session_id=record.sid,
        task_id=record.options.task_id or record.sid,
        created=at,
        from_target=str(run.target) if run else adopted.store if adopted else "",
        reason=record.reason,
        snapshot_commit=snapshot.commit,
        files=tuple(
            ChangedPath(path=f.path, status=f.status, added=f.added, removed=f.removed)
            for f in snapshot.changed
        ),
        manifest=tuple((entry.path, entry.sha256) for entry in snapshot.manifest),
        left_out=snapshot.left_out,
        diff_stat=snapshot.diff_stat,
        verify=record.options.verify,
    )
    return build(facts, here)


def opening_for(record: SessionRecord) -> Opening:
    """What the current run's agent gets as its first message."""
    run = record.run
    before = record.runs[-2] if len(record.runs) > 1 else None
    native = run.native_id if run and run.native_resume else ""
    adopted = record.options.adopted if before is None and native else None
    return Opening(
        text=record.options.goal,
        contract_id=record.contract_id,
        resume_native=native,
        resume_from=before.target if before and native else adopted.target if adopted else None,
        resume_home=adopted.home if adopted else "",
        resume_cwd=adopted.cwd if adopted else "",
        postscript=record.replies[: run.told] if run else (),
    )
