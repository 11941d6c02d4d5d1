"""Every event reaches the audit log and each client exactly once, in order: many sessions, and a crash."""

from __future__ import annotations

from itertools import pairwise

import trio

from tests.fakes.live import Event, Live, all_over, collect, texts

SESSIONS = 20
EVENTS = 800
PER_SECOND = 200


def numbered(count: int) -> list[str]:
    return [f"event {number} " for number in range(1, count + 1)]


def flood_of(events: list[Event], sid: str) -> list[str]:
    return [text.rstrip(".") for text in texts(events, sid) if text.startswith("event ")]


def check_order(events: list[Event]) -> None:
    assert all(first["seq"] < second["seq"] for first, second in pairwise(events))


async def test_a_session_runs_and_its_events_are_the_logs(home: Live) -> None:
    home.plays("default", {"say": "Hello"}, {"write": {"path": "a.txt", "content": "A\n"}}, {"say": "Done"})
    repository = home.repository()
    await home.start()
    seen: list[Event] = []
    async with home.watching() as ws:
        sid = await home.run(repository, verify=["test -f a.txt"])
        await collect(ws, seen, all_over(1))
    session = await home.reach(sid, "COMPLETED")
    assert session["verified"] is True
    assert home.git(repository, "show", f"relay/{sid}:a.txt") == "A\n"
    assert not (repository / "a.txt").exists()
    await home.stop()
    logged = home.audit(repository)
    assert [event for event in logged if event["seq"] <= seen[-1]["seq"]] == [
        event for event in seen if event["session"] == sid
    ]
    check_order(seen)
    assert home.processes() == []


async def test_twenty_sessions_at_once_lose_and_double_nothing(home: Live) -> None:
    home.plays("default", {"flood": {"events": EVENTS, "per_second": PER_SECOND}})
    repositories = [home.repository(f"project-{number}") for number in range(4)]
    await home.start()
    first: list[Event] = []
    late: list[Event] = []
    middle = trio.Event()
    sids: dict[str, int] = {}

    async def begin(number: int) -> None:
        sids[await home.run(repositories[number % 4])] = number % 4

    async def watch_from_the_start() -> None:
        over = all_over(SESSIONS)

        def enough(event: Event) -> bool:
            if event["seq"] >= first[0]["seq"] + SESSIONS * EVENTS // 3:
                middle.set()
            return over(event)

        async with home.watching() as ws:
            nursery.start_soon(begin_all)
            await collect(ws, first, enough)

    async def begin_all() -> None:
        async with trio.open_nursery() as starts:
            for number in range(SESSIONS):
                starts.start_soon(begin, number)

    async def watch_later() -> None:
        await middle.wait()
        over = all_over(SESSIONS)
        async with home.watching(f"?after={first[0]['seq'] + 100}") as ws:
            await collect(ws, late, over)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_from_the_start)
        nursery.start_soon(watch_later)
    for sid in sids:
        await home.reach(sid, "COMPLETED")
        assert (await home.get("/api/audit/verify", session=sid))["ok"]
    await home.stop()

    check_order(first)
    check_order(late)
    logs = [home.audit(repository) for repository in repositories]
    for log in logs:
        check_order(log)
    last = first[-1]["seq"]
    everything = sorted((event for log in logs for event in log), key=lambda event: event["seq"])
    in_repositories = [event for event in first if event["session"]]
    assert [event for event in everything if event["seq"] <= last] == in_repositories
    assert late == [event for event in first if event["seq"] > first[0]["seq"] + 100]
    for sid, number in sids.items():
        assert flood_of(first, sid) == numbered(EVENTS)
        assert flood_of(logs[number], sid) == numbered(EVENTS)


async def test_a_daemon_killed_in_mid_flood_loses_and_doubles_nothing(home: Live) -> None:
    home.plays("default", {"flood": {"events": EVENTS, "per_second": PER_SECOND}})
    repositories = [home.repository("one"), home.repository("two")]
    await home.start()
    seen: list[Event] = []
    async with home.watching() as ws:
        sids = [await home.run(repositories[number % 2]) for number in range(6)]
        most = 6 * EVENTS // 4
        await collect(ws, seen, lambda event: event["seq"] >= seen[0]["seq"] + most)
    await home.kill()
    assert home.processes() != [], "it is not in mid flood any more"
    await home.start()
    after = seen[-1]["seq"]
    ended = {
        event["session"] for event in seen if event["type"] == "fsm" and event["data"]["to"] == "COMPLETED"
    }
    async with home.watching(f"?after={after}") as ws:
        await collect(ws, seen, all_over(6 - len(ended)))
    for sid in sids:
        session = await home.reach(sid, "COMPLETED")
        assert len(session["runs"]) == 1
        assert (await home.get("/api/audit/verify", session=sid))["ok"]
    await home.stop()
    check_order(seen)
    logs = [home.audit(repository) for repository in repositories]
    for number, sid in enumerate(sids):
        assert flood_of(seen, sid) == numbered(EVENTS)
        assert flood_of(logs[number % 2], sid) == numbered(EVENTS)
    everything = sorted((event for log in logs for event in log), key=lambda event: event["seq"])
    assert [e for e in everything if e["seq"] <= seen[-1]["seq"]] == [e for e in seen if e["session"]]
    assert home.processes() == []
