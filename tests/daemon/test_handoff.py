"""A whole handoff through the daemon, seen as a client sees it; more than one session at a time."""

from __future__ import annotations

from tests.fakes.live import Event, Live, all_over, collect, texts


def types(events: list[Event]) -> list[str]:
    return [event["data"]["to"] if event["type"] == "fsm" else event["type"] for event in events]


async def test_the_second_agent_finishes_what_the_first_began(home: Live) -> None:
    home.account("first", {"SCRIPTED_SCENARIO": "demo-first"})
    home.account("second", {"SCRIPTED_SCENARIO": "demo-second"})
    repository = home.repository(files={"README.md": "# Converter\n"})
    before = home.git(repository, "rev-parse", "HEAD")
    await home.start()
    seen: list[Event] = []
    async with home.watching() as ws:
        sid = await home.run(
            repository, "scripted/first", "scripted/second", verify=["python3 -B -m unittest -q"], allow="all"
        )
        await collect(ws, seen, all_over(1))
    session = await home.reach(sid, "COMPLETED")
    assert [run["target"] for run in session["runs"]] == ["scripted/first", "scripted/second"]
    assert session["verified"] is True
    assert session["handoffsDone"] == 1

    steps = [step for step in types(seen) if step not in ("agent_event", "said", "quota", "circuit")]
    wanted = ["PAUSING", "child_gone", "SNAPSHOTTED", "ENVELOPE_BUILT", "DISPATCHED", "dispatched"]
    later = iter(steps[steps.index("PAUSING") :])
    assert all(step in later for step in wanted), steps

    contract = await home.get("/api/contract", session=sid)
    assert contract["verified"] is True
    assert "Do the task" in contract["markdown"]
    assert "Document it in README.md" in contract["markdown"]
    written = home.git(repository, "diff", "--name-only", f"{before.strip()}..relay/{sid}").split()
    assert {"converter.py", "test_converter.py", "README.md", "cli.py"} <= set(written)
    second = [event for event in seen if event["data"].get("target", "").endswith("second")]
    edited = [path for event in second for path in event["data"].get("paths", [])]
    assert not [path for path in edited if path.endswith("/converter.py")]
    assert (await home.get("/api/audit/verify", session=sid))["ok"]
    diff = await home.get("/api/session/diff")
    assert "cli.py" in str(diff["files"])

    merged = await home.post(f"/api/sessions/{sid}/merge")
    assert merged["sessionId"] == sid
    assert (repository / "cli.py").exists()
    await home.stop()
    assert home.processes() == []


async def test_commands_act_on_the_session_that_is_named(home: Live) -> None:
    home.plays("default", {"say": "I begin"}, "hang", on_reply=[{"say": "I heard it"}])
    one, two = home.repository("one"), home.repository("two")
    await home.start()
    first, second = await home.run(one), await home.run(two)
    for sid in (first, second):
        await home.reach(sid, "RUNNING")
    status, error = await home.refused("/api/session/stop")
    assert (status, error["code"]) == (409, "conflict")
    assert first in error["message"]
    assert second in error["message"]
    await home.post("/api/session/stop", session=first)
    await home.reach(first, "STOPPED")
    assert (await home.get(f"/api/sessions/{second}"))["fsmState"] == "RUNNING"
    await home.post("/api/session/stop")
    await home.reach(second, "STOPPED")
    status, error = await home.refused(f"/api/sessions/{second}/pause")
    assert status == 409
    assert home.processes() == []
    assert texts(home.audit(one), first) == ["I begin"]
    listed = await home.get("/api/sessions")
    assert [session["sessionId"] for session in listed] == [second, first]
    await home.stop()


async def test_a_session_waits_while_it_is_paused(home: Live) -> None:
    home.plays("default", {"write": {"path": "a.txt", "content": "A\n"}}, {"say": "Written"}, "hang")
    repository = home.repository()
    await home.start()
    sid = await home.run(repository)

    async def written() -> bool:
        return "Written" in await home.story(sid)

    await home.until("the agent has written", written)
    await home.post(f"/api/sessions/{sid}/pause")
    paused = await home.reach(sid, "WAITING")
    assert paused["hold"] is True
    assert home.processes() == []
    assert home.git(repository, "show", f"relay/{sid}:a.txt") == "A\n"
    home.plays("default", {"say": "I go on"})
    await home.post(f"/api/sessions/{sid}/resume")
    await home.reach(sid, "COMPLETED")
    assert texts(home.audit(repository), sid) == ["Written", "I go on"]
    await home.stop()


async def test_every_read_of_the_api_answers_for_a_session_that_is_over(home: Live) -> None:
    home.plays("first", {"write": {"path": "a.txt", "content": "A\n"}}, {"limit": "usage_limit"})
    home.plays("second", {"say": "I go on"})
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/first", "scripted/second", taskId="T-1")
    await home.reach(sid, "COMPLETED")
    await home.stop()
    await home.start()
    status = await home.get("/api/status")
    assert status["sessionId"] == sid
    assert status["taskId"] == "T-1"
    assert status["fsmState"] == "COMPLETED"
    assert (await home.get("/api/status", tree="1"))["tree"]["name"] == "root"
    events = await home.get(f"/api/sessions/{sid}/events")
    assert events == home.audit(repository)
    some = await home.get(f"/api/sessions/{sid}/events", after=events[3]["seq"], limit=5)
    assert some == events[4:9]
    assert [entry["seq"] for entry in await home.get("/api/audit")][-1] == events[-1]["seq"]
    assert (await home.get("/api/session/diff", session=sid))["files"]
    limited = next(p for p in await home.get("/api/providers") if p["name"] == "scripted/first")
    assert limited["installed"] is True
    assert limited["state"] == "open"
    assert limited["resetsAt"] or limited["reason"]
    assert await home.get("/api/approvals") == []
    assert await home.get("/api/redactions") == {"total": 0, "kinds": {}}
    described = await home.get("/api/openapi.json")
    for path, operations in described["paths"].items():
        if "get" in operations and "{id}" not in path and path != "/api/detect/transcript":
            answer = await home.client.get(path.replace("{sid}", sid))
            assert answer.status_code == 200, (path, answer.text)
    await home.stop()
