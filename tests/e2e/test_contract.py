"""What is injected is what was signed, and no secret is in it."""

from __future__ import annotations

import json

import pytest

from tests.e2e.harness import Relay, Stage
from tests.fakes.llm.script import say, shell, usage_limit, write

TASKS = [
    {"name": "Write a.txt", "steps": [{"write": {"path": "a.txt", "content": "a\n"}}]},
    {"name": "Write b.txt", "steps": ["hang"]},
]


async def held(stage: Stage, relay: Relay) -> str:
    """A session that waits, paused, with its contract on disk."""
    sid = await relay.run("Write a.txt and b.txt", "scripted/one")
    await relay.appears(stage.worktree(sid) / "a.txt")
    await relay.act(sid, "pause")
    await relay.reach(sid, "WAITING")
    return sid


@pytest.mark.parametrize("name", ["envelope.md", "envelope.json"])
async def test_a_contract_that_was_tampered_with_is_refused(stage: Stage, name: str) -> None:
    stage.settings["relay"] = "pause_deadline_seconds = 0.2"
    stage.scripted("one", tasks=TASKS)
    async with stage.daemon() as relay:
        sid = await held(stage, relay)
        path = stage.repo / ".relay" / "sessions" / sid / name
        path.write_text(path.read_text().replace("b.txt", "c.txt"))
        await relay.act(sid, "resume")
        failed = await relay.reach(sid, "FAILED")
        assert "contract" in failed["endReason"]
        assert len(await relay.events(sid, "dispatched")) == 1
        answer = await relay.client.get("/api/contract", params={"session": sid})
        assert answer.status_code >= 400
        assert answer.json()["error"]["code"] == "integrity"
        assert stage.file(sid, "a.txt") == "a\n"


async def test_files_that_changed_since_the_contract_are_named(stage: Stage) -> None:
    stage.settings["relay"] = "pause_deadline_seconds = 0.2"
    both = [{"write": {"path": name, "content": "begun\n"}} for name in ("b.txt", "gone.txt", "a.txt")]
    stage.scripted("one", tasks=[{"name": "Write", "steps": [*both, "hang"]}])
    async with stage.daemon() as relay:
        sid = await held(stage, relay)
        (stage.worktree(sid) / "b.txt").write_text("changed by hand\n")
        (stage.worktree(sid) / "gone.txt").unlink()
        stage.scripted_plays("one", tasks=[{"name": "Write", "steps": [{"say": "I see."}]}])
        await relay.act(sid, "resume")
        await relay.reach(sid, "COMPLETED")
        dispatched = (await relay.events(sid, "dispatched"))[-1]
        assert sorted(dispatched["drift"]) == ["b.txt", "gone.txt"]
        assert stage.file(sid, "b.txt") == "changed by hand\n"


async def test_an_audit_log_that_was_tampered_with_names_its_first_bad_line(stage: Stage) -> None:
    stage.scripted("one", tasks=TASKS[:1])
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt", "scripted/one")
        await relay.reach(sid, "COMPLETED")
        path = stage.repo / ".relay" / "audit.jsonl"
        good = path.read_text()
        lines = good.split("\n")
        lines[3] = lines[3].replace(sid, "s-aaaaaaaa")
        path.write_text("\n".join(lines))
        verdict = await relay.get("/api/audit/verify", session=sid)
        assert verdict["ok"] is False
        assert verdict["firstBadLine"] == 4
        path.write_text(good)
        assert (await relay.get("/api/audit/verify", session=sid))["ok"]


@pytest.mark.real_cli
async def test_a_secret_that_an_agent_saw_goes_no_further(stage: Stage) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    stage.claude("main", write("n.txt", "n\n"), shell("cat ../../../../.token"), usage_limit())
    heir = stage.codex("main", say("Nothing is left to do."))
    (stage.root / ".token").write_text(f"GITHUB_TOKEN={secret}\n")
    async with stage.daemon() as relay:
        sid = await relay.run("Look for the token", "claude", "codex", allow="all")
        await relay.reach(sid, "COMPLETED")
        seen = await relay.event(sid, "agent_event", kind="tool_result", exitCode=0)
        assert "[REDACTED:" in seen["output"]
        assert secret not in json.dumps(await relay.events(sid))
        assert (await relay.get("/api/redactions", session=sid))["total"] > 0

        async def sealed() -> bool:
            try:
                everything = [p for p in (stage.repo / ".relay").rglob("*") if p.is_file()]
                return not [p for p in everything if secret.encode() in p.read_bytes()]
            except FileNotFoundError:
                return False  # a file is being replaced just now

        await relay.until("no file of Relay's holds the secret", sealed)
    assert secret not in stage.llm.requests(heir)[0].text
